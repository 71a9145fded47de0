"""The page's engine in V8, a browser's JavaScript, against the model that it was written from."""

import base64
import copy
import json
import re
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from demo_page import DEMO, renew
from hostile_texts import hostile_texts
from parsed_page import HOSTILE

from transformer_mt.config.model import TokenizerConfig
from transformer_mt.corpus.readers.demo import build_demo
from transformer_mt.encoding.tokenizer import Tokenizer, train_tokenizer
from transformer_mt.export import html
from transformer_mt.export.proof import ExportTask, prove
from transformer_mt.model.transformer import Transformer
from transformer_mt.text.normalise import Normaliser
from transformer_mt.translation.translator import Translator

pytest.importorskip("py_mini_racer", reason="the extra export is not installed")
Pairs = list[tuple[str, str]]


def written(translator: Translator, folder: Path, kind: str = "float32") -> html.PageModel:
    folder.mkdir(exist_ok=True)
    task = ExportTask(translator, kind, ["一只狗在草地上。"])
    html.write(task, folder)
    return html.load(task, folder)


@pytest.fixture(scope="module")
def page(
    translator_of: Callable[[str], Translator], tmp_path_factory: pytest.TempPathFactory
) -> Any:
    translator = translator_of("pre-norm")
    found: Any = written(translator, tmp_path_factory.mktemp("page"))
    found.translator = translator
    found.tokenizers = translator.src_tokenizer, translator.tgt_tokenizer
    return found


def test_every_architecture_is_computed_as_here(
    translator: Translator, toy_pairs: Pairs, tmp_path: Path
) -> None:
    srcs, refs = zip(*toy_pairs[:30], strict=True)
    task = ExportTask(translator, "float32", srcs, refs)
    proof = prove(task, written(translator, tmp_path))
    assert proof.identical == 1.0 and not proof.problems(exact=True), proof
    assert proof.worst_log_prob is not None and proof.worst_log_prob < 1e-4


def rounded(translator: Translator, kind: str) -> Translator:
    """The model with the weights that `pack` has left of its own."""
    model = copy.deepcopy(translator.model)
    for parameter in model.parameters():
        if parameter.dim() == 2:
            parameter.data = unpacked(html.pack(parameter.data, kind), parameter.data, kind)
    return Translator(model, (translator.src_tokenizer, translator.tgt_tokenizer), translator.cfg)


def unpacked(data: bytes, like: torch.Tensor, kind: str) -> torch.Tensor:
    if kind == "bfloat16":
        return like.bfloat16().float()
    rows, columns = like.shape
    n_blocks = -(-columns // html.BLOCK)
    scales = torch.frombuffer(bytearray(data[: 2 * rows * n_blocks]), dtype=torch.bfloat16)
    numbers = torch.frombuffer(bytearray(data[2 * rows * n_blocks :]), dtype=torch.int8)
    scale = scales.float().view(rows, n_blocks).repeat_interleave(html.BLOCK, dim=1)[:, :columns]
    found = numbers.float().view(rows, columns) * scale
    assert (found - like).abs().max() <= scale.max() * 0.75, "to the nearest, but for the scale"
    return found


@pytest.mark.parametrize("kind", ["bfloat16", "int8"])
def test_rounded_weights_are_read_exactly(
    translator: Translator, toy_pairs: Pairs, tmp_path: Path, kind: str
) -> None:
    found = written(translator, tmp_path, kind).log_probs(*zip(*toy_pairs[:10], strict=True))
    expected = rounded(translator, kind).score_pairs(*zip(*toy_pairs[:10], strict=True))
    assert found == pytest.approx([score.log_prob for score in expected], abs=1e-3)
    full = translator.score_pairs(*zip(*toy_pairs[:10], strict=True))
    assert found != pytest.approx([score.log_prob for score in full], abs=1e-3)


def test_the_file_is_hardly_larger_than_its_weights(page: Any, tmp_path: Path) -> None:
    model = Transformer(page.translator.model.cfg.model_copy(update={"d_model": 256}), 320, 320)
    large = Translator(model.eval(), page.tokenizers, page.translator.cfg)
    for kind, per_weight in (("bfloat16", 2), ("int8", 1 + 2 / html.BLOCK)):
        written(large, tmp_path, kind)
        size = (tmp_path / html.FILE).stat().st_size - 60_000  # the code and the vocabularies
        assert size < 1.3 * per_weight * sum(p.numel() for p in model.parameters())


def test_beams_end_where_they_do_here(page: Any, toy_pairs: Pairs) -> None:
    texts = [zh for zh, _ in toy_pairs[:20]]
    for beam in (1, 3, 5):
        expected = page.translator.translate_texts(texts, beam=beam)
        found = [
            page.run("(text, beam) => translator.translate(text, beam)", t, beam) for t in texts
        ]
        assert sum(a == b for a, b in zip(found, expected, strict=True)) >= 19


def test_a_forced_beginning(page: Any, toy_pairs: Pairs) -> None:
    js = """(text, prefix) => { const [[, ids]] = translator.segments(text);
        return translator.search(ids, { beam: 3, prefix }).hypotheses.map((one) => one.ids); }"""
    prefix = page.tokenizers[1].encode(["the red"])[0]
    found = page.run(js, toy_pairs[0][0], prefix)
    assert found and all(ids[: len(prefix)] == prefix for ids in found)


def test_what_decides(page: Any, toy_pairs: Pairs) -> None:
    js = """(text, groups) => { const [[, ids]] = translator.segments(text);
        const { source, hypotheses: [best] } = translator.search(ids, { beam: 1 });
        return [...best.ids.keys()].map((t) =>
            groups.map((g) => translator.moved(source, best.ids.slice(0, t), best.ids[t], g))); }"""
    (n,) = [len(page.tokenizers[0].encode([toy_pairs[0][0]])[0])]
    moved = page.run(js, toy_pairs[0][0], [[], *([i] for i in range(n)), list(range(n + 1))])
    for nothing, *each, _ in moved:
        assert nothing == 0 and max(each) > 0
    assert sum(row[-1] > max(row[1:-1]) for row in moved) > len(moved) / 2


HARD = [
    "", " ", "▁", " ▁ a▁▁b ", "体育 馆 里 a b", "&amp;lt; &#128; &#x80; &#xD800; &#00; &#11;",
    "a&nbsp;b", "ＡＢＣ１２３", "“quoted” ‘it’", "e\u0301\u0323 \ufeffx\u2028y\x1cz",
    "lone \ud800 half", "鬥爭 與 學習",
    *HOSTILE, *(one.text[:500] for one in hostile_texts(300, 7)),
]  # fmt: skip


@pytest.mark.parametrize("type_", ["bpe", "unigram"])
@pytest.mark.parametrize("bytes_", [True, False])
def test_text_becomes_the_same_ids(page: Any, tmp_path: Path, type_: Any, bytes_: bool) -> None:
    """Of normalised text, by every kind of tokenizer, for both languages; and text again."""
    pairs = build_demo().train[:3000]
    for side, code in enumerate(("zh", "en")):
        path = tmp_path / f"{code}.model"
        size = (1000, 700)[side] + 256 * bytes_
        cfg = TokenizerConfig(type=type_, vocab_size=size, byte_fallback=bytes_)
        train_tokenizer([pair[side] for pair in pairs], path, cfg, [code], seed=1)
        tokenizer = Tokenizer.load(path)
        settings = html.describe_tokenizer(tokenizer)
        page.run("(settings) => { globalThis.own = new Tokenizer(settings); }", settings)
        page.run("(settings) => { globalThis.rules = new TextRules(settings); }",
                 html.describe_rules(code, None))  # fmt: skip
        normalise = Normaliser(code, None)
        for text in HARD:
            normal = normalise(text)
            assert page.run("(text) => rules.normalise(text)", text) == normal, ascii(text)
            (ids,) = tokenizer.encode([normal])
            assert page.run("(text) => own.encode(text)", normal) == ids, ascii(text)
            assert page.run("(ids) => own.decode(ids)", ids) == tokenizer.decode([ids])[0]
        broken = [[i % tokenizer.vocab_size for i in range(k, 9 * k, k)] for k in range(1, 60)]
        for ids in broken:  # bytes that are no UTF-8 among them
            assert page.run("(ids) => own.decode(ids)", ids) == tokenizer.decode([ids])[0]


def test_long_text_is_taken_in_parts(page: Any, toy_pairs: Pairs) -> None:
    text = "".join(zh for zh, _ in toy_pairs[:40])
    parts = page.run("(text) => translator.segments(text)", text)
    assert len(parts) > 3 and "".join(part for part, _ in parts) == text
    limit = page.translator.cfg.data.max_length
    assert all(len(ids) <= limit for _, ids in parts)
    assert max(len(ids) for _, ids in parts) > limit // 2, "sentences share a part"
    for text in ("好" * 500, "a" * 500, "。" * 500):
        assert "".join(part for part, _ in page.run("(t) => translator.segments(t)", text)) == text


def test_traditional_is_read_as_simplified(page: Any) -> None:
    rules = {"language": "zh", "cjk": None, "simplified": [["貓", "猫"]]}
    page.run("(rules) => { translator.rules.src = new TextRules(rules); }", rules)
    try:
        assert page.run("(text) => translator.read(text)", "貓 x") == "猫 x"
    finally:
        own = html.describe_rules("zh", page.tokenizers[0])
        page.run("(rules) => { translator.rules.src = new TextRules(rules); }", own)


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("simplified", "我們沒有穿過街道，貓很乾淨。"),
        ("simplified", "乾隆没有穿过街道。"),
        ("traditional", "我们没有穿过街道。"),
        ("traditional", "皇后沒有穿過街道。"),
    ],
)
def test_a_text_is_read_in_the_script_of_all_training_text(
    page: Any, script: Any, text: str
) -> None:
    cfg = page.translator.cfg
    clean = cfg.data.clean.model_copy(update={"chinese_script": script})
    cfg = cfg.model_copy(update={"data": cfg.data.model_copy(update={"clean": clean})})
    translator = Translator(page.translator.model, page.tokenizers, cfg)
    described, _ = html.describe_model(translator, "float32")
    js = "(rules, text) => new TextRules(rules).normalise(text)"
    assert page.run(js, described["rules"]["src"], text) == Normaliser("zh", script)(text)


def test_traditional_of_the_demo_is_read_with_the_rules_of_its_page() -> None:
    page = html.PageModel(DEMO)
    texts = ["這隻動物沒有穿過街道，因為它太累了。", "这只动物没有穿过街道，因为它太累了。"]
    read, simplified = (page.run("(text) => translator.read(text)", text) for text in texts)
    assert read == simplified


def test_the_words_of_the_demo_are_the_pieces_of_its_chinese() -> None:
    """Of which one decides what 它 becomes."""
    model = json.loads(html.element(DEMO.read_text(encoding="utf-8"), "model"))
    assert model["rules"]["src"]["unspaced"] and not model["rules"]["tgt"]["unspaced"]


def test_the_page_in_docs_is_the_page_of_today(tmp_path: Path) -> None:
    renew(DEMO, tmp_path / "renewed.html")
    same = (tmp_path / "renewed.html").read_bytes() == DEMO.read_bytes()
    assert same, "python scripts/figures/demo_page.py"


def test_the_page_needs_nothing_and_runs_nothing_else(
    translator_of: Callable[[str], Translator], tmp_path: Path
) -> None:
    translator = translator_of("pre-norm")
    for example in HOSTILE:
        cfg = translator.cfg.model_copy(update={"name": "x"})
        named = Translator(
            translator.model, (translator.src_tokenizer, translator.tgt_tokenizer), cfg
        )
        html.write(replace(ExportTask(named, "int8", []), srcs=[example]), tmp_path)
        text = (tmp_path / html.FILE).read_text(encoding="utf-8")
        assert len(re.findall("<script", text)) == 4 and "onerror=alert(1)>" not in text
        assert not re.search(r'(?:src|href)\s*=\s*["\']?http', text) and "fetch(" not in text
    policy = re.search(r'script-src ([^"]+)"', text)
    assert policy is not None and policy[1].count("sha256-") == 2 and "unsafe" not in policy[1]
    numbers = zlib.decompress(base64.b64decode(html.element(text, "weights")))
    tensors = json.loads(html.element(text, "model"))["tensors"]
    vectors = sum(rows for _, rows, columns in tensors if not columns)
    assert len(numbers) > 4 * vectors


def test_two_directions_are_refused(translator_of: Callable[[str], Translator]) -> None:
    translator = translator_of("pre-norm")
    languages = translator.cfg.languages.model_copy(update={"bidirectional": True})
    cfg = translator.cfg.model_copy(update={"languages": languages})
    both = Translator(translator.model, (translator.src_tokenizer, translator.tgt_tokenizer), cfg)
    assert "two directions" in html.refusals(ExportTask(both, "int8", []))[0]
    assert html.refusals(ExportTask(translator, "int8", [])) == []
