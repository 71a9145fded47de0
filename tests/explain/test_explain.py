"""Attention maps: labels and masks, the terminal, figures, the page, one head as numbers."""

import json
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from transformer_mt.config.experiment import ModelConfig
from transformer_mt.errors import ConfigError
from transformer_mt.explain.figures import write_png, write_pngs
from transformer_mt.explain.head_numbers import HeadNumbers, head_numbers, render_numbers
from transformer_mt.explain.page import UNIT, page_data, write_html
from transformer_mt.explain.terminal import (
    pad,
    render_matrix,
    render_terminal,
    render_top_words,
    text_width,
)
from transformer_mt.model.transformer import AttentionWeights, Transformer
from transformer_mt.rendering.html import escape_json
from transformer_mt.translation.attention_maps import (
    KINDS,
    AttentionMaps,
    Choice,
    Kind,
    parse_choice,
    parse_kind,
)

SRC = ["这", "只", "动物", "太", "累", "了", "。", "</s>"]
TGT = ["<s>", "▁The", "▁animal", "▁is", "▁tired", "."]


def softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (powers / powers.sum(axis=-1, keepdims=True)).astype(np.float32)


def make_maps(
    src: list[str] = SRC, tgt_in: list[str] = TGT, n_layers: int = 2, n_heads: int = 3
) -> AttentionMaps:
    generator = np.random.default_rng(7)
    tgt_out = [*tgt_in[1:], "</s>"]

    def scores(rows: int, columns: int) -> np.ndarray:
        return generator.normal(size=(n_layers, n_heads, rows, columns)) * 2

    n_src, n_tgt = len(src), len(tgt_in)
    seen = np.tril(np.ones((n_tgt, n_tgt), bool))
    return AttentionMaps(
        src_pieces=src,
        tgt_in_pieces=tgt_in,
        tgt_out_pieces=tgt_out,
        encoder=softmax(scores(n_src, n_src)),
        decoder=softmax(np.where(seen, scores(n_tgt, n_tgt), -np.inf)),
        cross=softmax(scores(n_tgt, n_src)),
        top_words=[[(piece, 0.75), ("▁other", 0.125)] for piece in tgt_out],
        translation="The animal is tired.",
        source="这只动物太累了。",
    )


# ---- picking one map


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("layer", "head"), [(1, 3), (2, "mean"), ("mean", 1), ("mean", "mean")])
def test_every_row_of_a_picked_map_sums_to_1(kind: Kind, layer: Choice, head: Choice) -> None:
    maps = make_maps()
    picked = maps.pick(kind, layer, head)
    assert picked.shape == (len(maps.row_pieces(kind)), len(maps.column_pieces(kind)))
    np.testing.assert_allclose(picked.sum(axis=-1), 1, atol=1e-6)


def test_layers_and_heads_are_counted_from_1() -> None:
    maps = make_maps()
    np.testing.assert_array_equal(maps.pick("cross", 1, 1), maps.cross[0, 0])
    np.testing.assert_array_equal(maps.pick("cross", 2, 3), maps.cross[1, 2])


def test_only_the_upper_triangle_of_the_decoder_is_masked() -> None:
    maps = make_maps()
    np.testing.assert_array_equal(maps.masked("decoder"), np.triu(np.ones((6, 6), bool), 1))
    assert not maps.masked("encoder").any()
    assert not maps.masked("cross").any()


@pytest.mark.parametrize(
    ("layer", "head", "message"),
    [
        (3, 1, "cross attention: layer 3: this model has 1 to 2; or ask for the mean"),
        (1, 0, "cross attention: head 0: this model has 1 to 3; or ask for the mean"),
    ],
)
def test_a_layer_or_head_that_does_not_exist(layer: int, head: int, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        make_maps().pick("cross", layer, head)
    assert str(error.value) == message


def test_options_are_parsed_or_explained() -> None:
    assert (parse_choice("2", "--layer"), parse_choice("mean", "--head")) == (2, "mean")
    assert parse_kind("decoder") == "decoder"
    with pytest.raises(ConfigError, match=r"^--layer two: expected a number, counted from 1, or"):
        parse_choice("two", "--layer")
    with pytest.raises(ConfigError, match="--head 0: expected"):
        parse_choice("0", "--head")
    with pytest.raises(ConfigError, match=r"^--kind self: allowed are encoder, decoder, cross$"):
        parse_kind("self")


def test_maps_whose_shapes_do_not_fit_the_pieces_are_refused() -> None:
    maps = make_maps()
    with pytest.raises(ValueError, match=r"cross weights are \(2, 3, 6, 8\), expected"):
        AttentionMaps(
            maps.src_pieces[1:], maps.tgt_in_pieces, maps.tgt_out_pieces,
            maps.encoder[:, :, 1:, 1:], maps.decoder, maps.cross, maps.top_words, "", "",
        )  # fmt: skip


# ---- terminal


@pytest.mark.parametrize(
    ("text", "width"), [("abc", 3), ("动物", 4), ("a动", 3), ("，", 2), ("é", 1), ("e\u0301", 1)]
)
def test_width_of_text_on_a_terminal(text: str, width: int) -> None:
    assert text_width(text) == width


@pytest.mark.parametrize("text", ["abc", "动物没有穿过街道", "a动b物", ""])
@pytest.mark.parametrize("width", [1, 4, 5, 20])
def test_padded_text_has_exactly_the_width_asked_for(text: str, width: int) -> None:
    assert text_width(pad(text, width)) == width


def map_lines(text: str) -> list[str]:
    """The lines of the map: after the explanation, before the legend."""
    return text.split("\n\n")[1].split("\n")


@pytest.mark.parametrize("kind", KINDS)
def test_cells_stand_below_one_another_whatever_the_labels_are(kind: Kind) -> None:
    maps = make_maps()
    rows = map_lines(render_terminal(maps, kind, 1, 1))[-len(maps.row_pieces(kind)) :]
    starts, strongest = set(), []
    n_cells = 2 * len(maps.column_pieces(kind))
    label_width = max(map(text_width, maps.row_pieces(kind)))
    if kind != "encoder":
        label_width += 3 + max(map(text_width, maps.tgt_out_pieces))
    for row, weights in zip(rows, maps.pick(kind, 1, 1), strict=True):
        # The cells end where the strongest column begins: find that from the right.
        best = maps.column_pieces(kind)[int(weights.argmax())]
        assert row.endswith(f"  {best} {weights.max():.2f}")
        cells_and_label = row.removesuffix(f"  {best} {weights.max():.2f}")
        starts.add(text_width(cells_and_label) - n_cells)
        strongest.append(best)
    assert starts == {label_width + 1}
    assert len(set(strongest)) > 1


def test_masked_weights_are_dots_and_only_they() -> None:
    text = render_terminal(make_maps(), "decoder", 2, "mean")
    rows = map_lines(text)[-len(TGT) :]
    assert [row.count("·") for row in rows] == [5, 4, 3, 2, 1, 0]
    assert "· masked, exactly 0" in text
    assert "·" not in render_terminal(make_maps(), "cross", 2, "mean")


def test_the_darkest_shade_is_the_largest_weight() -> None:
    maps = make_maps()
    weights = maps.pick("cross", 1, 2)
    darkest = int(weights.max(axis=1).argmax())
    rows = map_lines(render_terminal(maps, "cross", 1, 2))[-len(TGT) :]
    assert "██" in rows[darkest]
    assert "██" not in rows[int(weights.max(axis=1).argmin())]


def test_colour_has_a_cell_per_weight_and_plain_text_has_no_escapes() -> None:
    maps = make_maps()
    assert "\x1b" not in render_terminal(maps, "cross", 1, 1)
    rows = map_lines(render_terminal(maps, "cross", 1, 1, color=True))[-len(TGT) :]
    assert [row.count("\x1b[48;2;") for row in rows] == [len(SRC)] * len(TGT)
    assert all(row.count("\x1b[0m") == len(SRC) for row in rows)


def test_a_wide_map_is_drawn_in_parts_that_fit() -> None:
    maps = make_maps(src=[*SRC[:-1] * 8, "</s>"])
    text = render_terminal(maps, "cross", 1, 1, width=60)
    assert max(text_width(line) for line in text.split("\n")[:-1]) <= 60
    assert len(re.findall(r"^▁The +→ ▁animal", text, re.MULTILINE)) > 1


def test_pieces_cannot_move_the_cursor() -> None:
    maps = make_maps(src=["a\x1b[2Jb", "</s>"])
    assert "\x1b" not in render_terminal(maps, "cross", 1, 1) + render_terminal(
        maps, "encoder", 1, 1
    )


def test_top_words_name_each_step_and_at_most_k_pieces() -> None:
    lines = render_top_words(make_maps(), k=1).split("\n")
    assert len(lines) == 1 + len(TGT)
    assert re.split(r"\s{2,}", lines[1].strip()) == ["1", "<s>", "▁The", "▁The 0.75"]
    assert "▁other" not in "".join(lines)
    assert "▁other 0.12" in render_top_words(make_maps(), k=2)


def test_matrices_show_masks_and_wrap() -> None:
    values = np.array([[1.5, -np.inf, 2.0]])
    assert render_matrix(values, rows=["动"], digits=2) == "动  1.50    −∞  2.00"
    assert render_matrix(values, rows=["动"], digits=2, width=10).count("动") == 3
    assert render_matrix(np.eye(2)) == "  1  0\n  0  1"


# ---- figures


def test_figures_of_chinese_need_no_font_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.image import imread

    from transformer_mt.rendering import figures as plots

    own = plots.use_fonts()[:2]
    monkeypatch.setattr(plots, "use_fonts", lambda: own)
    maps = make_maps(tgt_in=["<s>", "▁$x_1$", "\\frac", "▁貓", "ö", "→"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a missing glyph is a warning
        paths = write_pngs(maps, tmp_path / "new")
    assert [path.name for path in paths] == ["encoder.png", "decoder.png", "cross.png"]
    for path in paths:
        image = imread(path)
        assert image.shape[0] > 500
        assert image.std() > 0.05
    assert sorted(tmp_path.rglob("*")) == sorted([tmp_path / "new", *paths])  # nothing temporary


def test_figures_of_other_sizes(tmp_path: Path) -> None:
    small = make_maps(src=["</s>"], tgt_in=["<s>"], n_layers=1, n_heads=1)
    write_png(small, tmp_path / "small.png", "encoder")
    write_png(make_maps(n_heads=16), tmp_path / "many.png", "cross", layer="mean", head=4)
    with pytest.raises(ConfigError, match="head 9"):
        write_png(small, tmp_path / "none.png", "cross", head=9)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["many.png", "small.png"]


# ---- page


def read_data(page: str) -> dict:
    found = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert len(found) == 1
    return json.loads(found[0])


def test_the_page_holds_all_weights_to_four_decimals(tmp_path: Path) -> None:
    maps = make_maps()
    write_html(maps, tmp_path / "page.html", d_model=64)
    data = read_data((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert data == page_data(maps, d_model=64)
    for kind in KINDS:
        weights = np.array(data["kinds"][kind]["weights"]) / data["unit"]
        np.testing.assert_allclose(weights, maps.weights(kind), atol=0.5 / UNIT + 1e-9)
        np.testing.assert_array_equal(data["kinds"][kind]["masked"], maps.masked(kind))
    assert (data["source"], data["translation"]) == (maps.source, maps.translation)
    assert data["steps"][0] == {
        "reads": "<s>",
        "writes": "▁The",
        "best": [["▁The", 0.75], ["▁other", 0.125]],
    }
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize(
    "evil", ["</script><script>alert(1)</script>", "<!--<script>", "{{data}}", "a\u2028&amp;"]
)
def test_pieces_and_titles_cannot_leave_their_place(tmp_path: Path, evil: str) -> None:
    maps = make_maps(src=[evil, "</s>"])
    write_html(make_maps(), tmp_path / "plain.html")
    write_html(maps, tmp_path / "evil.html", title=evil)
    plain = (tmp_path / "plain.html").read_text(encoding="utf-8")
    page = (tmp_path / "evil.html").read_text(encoding="utf-8")
    assert read_data(page)["kinds"]["cross"]["columns"][0] == evil
    assert page.count("<script") == plain.count("<script") == 2
    assert page.count("<!--") == plain.count("<!--") == 0


def test_escaped_json_is_the_same_json() -> None:
    value = ["</script>", "a & b", "\u2028\u2029", "动物"]
    escaped = escape_json(json.dumps(value, ensure_ascii=False))
    assert not set("<>&\u2028\u2029") & set(escaped)
    assert json.loads(escaped) == value


def test_the_page_asks_for_nothing_outside_itself(tmp_path: Path) -> None:
    write_html(make_maps(), tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    urls = set(re.findall(r"\bhttps?://[^\s\"']+", page))
    assert urls == {"http://www.w3.org/2000/svg"}  # a name, never fetched
    assert not re.search(r"\b(src|href)\s*=|@import|url\(", page)


# ---- one head as numbers


def make_model(norm: str = "post") -> Transformer:
    torch.manual_seed(5)
    cfg = ModelConfig.model_validate(
        {"d_model": 16, "heads": 4, "ffn": 32, "encoder_layers": 2, "decoder_layers": 2,
         "norm": norm, "tie_embeddings": "none"}
    )  # fmt: skip
    model = Transformer(cfg, 20, 20).eval()
    with torch.no_grad():  # biases are zero at the start and would hide a mistake
        for name, parameter in model.named_parameters():
            if name.endswith("proj.bias"):
                parameter.normal_()
    return model


SRC_IDS = torch.tensor([[5, 6, 7, 3, 0, 0]])  # two of padding
TGT_IDS = torch.tensor([[2, 8, 9, 10]])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_numbers_of_a_head_are_the_weights_that_the_model_reports(kind: Kind, norm: str) -> None:
    model = make_model(norm)
    reported = AttentionWeights()
    with torch.no_grad():
        model(SRC_IDS, TGT_IDS, reported)
    for layer in (1, 2):
        for head in (1, 2, 3, 4):
            numbers = head_numbers(model, SRC_IDS, TGT_IDS, kind, layer, head)
            expected = getattr(reported, kind)[layer - 1][0, head - 1]
            torch.testing.assert_close(numbers.weights, expected)
            assert bool((numbers.weights == 0).equal(numbers.scaled.isneginf()))
            torch.testing.assert_close(numbers.output, numbers.weights @ numbers.v)
    assert (numbers.weights == 0).any()  # padding, or the upper triangle


@pytest.mark.parametrize("kind", KINDS)
def test_heads_through_their_columns_of_the_output_matrix_sum_to_the_layers_output(
    kind: Kind,
) -> None:
    model = make_model()
    layers = model.encoder_layers if kind == "encoder" else model.decoder_layers
    attention = layers[1].encoder_attn if kind == "cross" else layers[1].self_attn
    outputs: list[torch.Tensor] = []
    handle = attention.register_forward_hook(lambda _m, _i, output: outputs.append(output))
    with torch.no_grad():
        model(SRC_IDS, TGT_IDS)
        handle.remove()
        total = attention.out_proj.bias
        for head, columns in enumerate(attention.out_proj.weight.split(4, dim=1), start=1):
            numbers = head_numbers(model, SRC_IDS, TGT_IDS, kind, 2, head)
            total = total + numbers.output @ columns.T
    torch.testing.assert_close(total, outputs[0][0])


def test_no_hook_stays_on_the_model_also_after_an_error() -> None:
    model = make_model()
    with pytest.raises(IndexError):
        head_numbers(model, torch.tensor([[999]]), TGT_IDS, "encoder", 1, 1)
    head_numbers(model, SRC_IDS, TGT_IDS, "cross", 1, 1)
    assert not any(module._forward_hooks for module in model.modules())
    with pytest.raises(ConfigError, match="decoder attention: layer 3: this model has 1 to 2"):
        head_numbers(model, SRC_IDS, TGT_IDS, "decoder", 3, 1)


def test_written_numbers_are_complete() -> None:
    numbers: HeadNumbers = head_numbers(make_model(), SRC_IDS, TGT_IDS, "decoder", 2, 3)
    text = render_numbers(numbers, TGT[:4], TGT[:4], n_features=2)
    blocks = text.split("\n\n")
    assert blocks[0] == "Decoder self-attention, layer 2, head 3"
    assert [block.split("\n")[0] for block in blocks[1:]] == [
        "Q, first 2 of 4 columns",
        "K, first 2 of 4 columns",
        "V, first 2 of 4 columns",
        "Scores = Q Kᵀ",
        "Scaled scores = Q Kᵀ / √4; −∞: masked",
        "Weights = softmax of each row",
        "Output = weights V, first 2 of 4 columns",
    ]
    assert blocks[6].split("\n")[2].split() == ["<s>", "1.000", "0.000", "0.000", "0.000"]
    assert f"{numbers.q[1, 0]:.3f}" in blocks[1].split("\n")[2]
