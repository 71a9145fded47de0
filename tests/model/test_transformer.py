"""The Transformer against torch's own, against the paper's formulas, and against itself."""

import math
import re
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from places import ROOT
from torch import Tensor, nn

from transformer_mt.config.experiment import load_config
from transformer_mt.config.model import ModelConfig
from transformer_mt.model.architectures import step_decoder
from transformer_mt.model.encoder_decoder import (
    AttentionWeights,
    Embedding,
    EncoderDecoder,
    resolve_tying,
    sinusoidal_positions,
)
from transformer_mt.model.transformer import Transformer

PAD, BOS, VOCAB = 0, 2, 30
SIZES = {"d_model": 16, "heads": 4, "ffn": 24, "encoder_layers": 2, "decoder_layers": 3}
KINDS = {
    "post": {"norm": "post"},
    "pre": {"norm": "pre"},
    "modern": {"architecture": "modern", "norm": "pre"},
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> dict[str, str]:
    return KINDS[request.param]


@pytest.fixture
def model(kind: dict[str, str]) -> Transformer:
    return make_model(**kind)


def make_model(*, seed: int = 1, src_vocab: int = VOCAB, **changes: Any) -> Transformer:
    """A small model in eval mode; every parameter is random, also biases and layer norms."""
    settings = {**SIZES, "dropout": 0.0, "tie_embeddings": "none", **changes}
    torch.manual_seed(seed)
    model = Transformer(ModelConfig.model_validate(settings), src_vocab, VOCAB, pad_id=PAD)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.3 * torch.randn_like(parameter))
            elif not parameter.any():  # see `Transformer._initialise`
                nn.init.xavier_uniform_(parameter)
    return model.eval()


def random_batch(src_lengths: list[int], tgt_lengths: list[int]) -> tuple[Tensor, Tensor]:
    """Padded source ids, and target ids that start with BOS."""
    return random_ids(*src_lengths, first=5), random_ids(*tgt_lengths)


def random_ids(*lengths: int, first: int = BOS) -> Tensor:
    """(B, longest) ids that start with `first`, padded."""
    generator = torch.Generator().manual_seed(sum(lengths) + first)
    ids = torch.randint(4, VOCAB, (len(lengths), max(lengths)), generator=generator)
    ids[:, 0] = first
    for row, length in enumerate(lengths):
        ids[row, length:] = PAD
    return ids


def assert_same(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def assert_beams_equal_rows(model: EncoderDecoder) -> None:
    """Logits of beams that are searched side by side are those of teacher forcing, row by row.

    One beam at first, then random orders of more, and sentences that leave.
    """
    src = random_ids(6, 3, 5)
    generator = torch.Generator().manual_seed(3)
    decoding = step_decoder(model).start(src)
    sentences = [0, 1, 2]
    prefixes = torch.full((len(sentences), 1, 1), BOS)
    for step in range(25):
        beam = prefixes.size(1)
        logits = decoding.step(prefixes[:, :, -1])
        memory_rows = src[sentences].repeat_interleave(beam, dim=0)
        expected = model.project(model(memory_rows, prefixes.flatten(0, 1))[:, -1])
        assert_same(logits.flatten(0, 1), expected)
        next_beam = {0: 2, 1: 3}.get(step, beam)
        parents = torch.randint(beam, (len(sentences), next_beam), generator=generator)
        decoding.select_beams(parents)
        prefixes = prefixes.gather(1, parents[:, :, None].expand(-1, -1, prefixes.size(2)))
        if (leaving := {7: 1, 18: 0}.get(step)) is not None:
            stay = torch.tensor([i for i in range(len(sentences)) if i != leaving])
            decoding.select_sentences(stay)
            sentences, prefixes = [sentences[i] for i in stay], prefixes[stay]
        tokens = torch.randint(4, VOCAB, (*prefixes.shape[:2], 1), generator=generator)
        prefixes = torch.cat([prefixes, tokens], dim=2)
    assert len(sentences) == 1


RENAMED = {
    r"_layers\.": ".layers.",
    r"_norm\.(weight|bias)$": r".norm.\1",
    r"self_attn_residual.layer.norm": "norm1",
    r"encoder_attn_residual.layer.norm": "norm2",
    r"^(encoder.*)ffn_residual.layer.norm": r"\1norm2",
    r"^(decoder.*)ffn_residual.layer.norm": r"\1norm3",
    r"self_attn.qkv_proj\.": "self_attn.in_proj_",
    r"encoder_attn.(q|kv)_proj\.": "multihead_attn.in_proj_",
    r"encoder_attn.out_proj": "multihead_attn.out_proj",
    r"ffn\.fc": "linear",
}


def torch_transformer(ours: Transformer) -> nn.Transformer:
    """torch's modules with our weights; embeddings and output layer are only ours."""
    cfg, pre = ours.cfg, ours.cfg.norm == "pre"
    theirs = nn.Transformer(
        cfg.d_model, cfg.heads, cfg.encoder_layers, cfg.decoder_layers, cfg.ffn,
        dropout=0.0, batch_first=True, norm_first=pre,
    ).eval()  # fmt: skip
    if not pre:  # the paper has no norm after the last layer's own
        theirs.encoder.norm = theirs.decoder.norm = None
    weights: dict[str, list[Tensor]] = {}
    for name, weight in ours.state_dict().items():
        if "embedding" in name or name == "output.weight":
            continue
        for our_name, their_name in RENAMED.items():
            name = re.sub(our_name, their_name, name)
        weights.setdefault(name, []).append(weight)  # q before k and v
    theirs.load_state_dict({name: torch.cat(parts) for name, parts in weights.items()})
    return theirs


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_equals_torchs_transformer_weight_for_weight(norm: str) -> None:
    ours = make_model(norm=norm)
    theirs = torch_transformer(ours)
    assert not [name for name in ours.state_dict() if "positions" in name]
    n_only_ours = 3 * VOCAB * ours.cfg.d_model
    n_ours, n_theirs = (sum(p.numel() for p in m.parameters()) for m in (ours, theirs))
    assert n_ours == n_theirs + n_only_ours

    src, tgt_in = random_batch([9, 4, 7], [3, 8, 6])
    hidden = ours(src, tgt_in)
    n_positions = tgt_in.size(1)
    expected = theirs(
        ours.encoder_embedding(src),
        ours.decoder_embedding(tgt_in),
        tgt_mask=torch.ones(n_positions, n_positions, dtype=torch.bool).triu(1),  # True = forbidden
        src_key_padding_mask=src == PAD,
        memory_key_padding_mask=src == PAD,
        tgt_key_padding_mask=tgt_in == PAD,
    )
    real = tgt_in != PAD
    assert_same(hidden[real], expected[real])


def test_rows_of_a_batch_are_independent_and_padding_changes_nothing(model: Transformer) -> None:
    src_lengths, tgt_lengths = [6, 2, 9], [4, 7, 1]
    src, tgt_in = random_batch(src_lengths, tgt_lengths)
    together = model(src, tgt_in)
    wider = model(F.pad(src, (0, 4)), F.pad(tgt_in, (0, 3)))
    assert_same(wider[:, : tgt_in.size(1)], together)
    for row, (n_src, n_tgt) in enumerate(zip(src_lengths, tgt_lengths, strict=True)):
        alone = model(src[row : row + 1, :n_src], tgt_in[row : row + 1, :n_tgt])
        assert_same(together[row : row + 1, :n_tgt], alone)
    order = torch.tensor([2, 0, 1])
    assert_same(model(src[order], tgt_in[order]), together[order])


def test_a_position_depends_on_no_later_one(model: Transformer) -> None:
    src, tgt_in = random_batch([5], [8])
    hidden = model(src, tgt_in)
    for changed in range(1, 8):
        other = tgt_in.clone()
        other[0, changed] = 4 + (other[0, changed] - 3) % (VOCAB - 4)
        found = model(src, other)
        assert_same(found[:, :changed], hidden[:, :changed])
        differences = (found - hidden)[0, changed:].abs().amax(dim=1)
        assert differences.min() > 1e-4, "it and all later positions must notice"
    for changed in range(5):
        other = src.clone()
        other[0, changed] = 4 + (other[0, changed] - 3) % (VOCAB - 4)
        differences = (model(other, tgt_in) - hidden)[0].abs().amax(dim=1)
        assert differences.min() > 1e-5, "every position depends on every source token"


def test_collected_weights(model: Transformer) -> None:
    """One map per layer; rows sum to 1; padding and the future get exactly 0."""
    src, tgt_in = random_batch([6, 3], [5, 4])
    weights = AttentionWeights()
    with_weights = model(src, tgt_in, weights)
    assert_same(with_weights, model(src, tgt_in))
    assert [len(maps) for maps in (weights.encoder, weights.decoder, weights.cross)] == [2, 3, 3]
    shapes = {"encoder": (2, 4, 6, 6), "decoder": (2, 4, 5, 5), "cross": (2, 4, 5, 6)}
    for kind, shape in shapes.items():
        for layer in getattr(weights, kind):
            assert layer.shape == shape
            torch.testing.assert_close(layer.sum(-1), torch.ones(shape[:-1]))
            if kind == "decoder":
                assert layer.triu(1).eq(0).all()
            else:
                assert layer[1, :, :, 3:].eq(0).all() and layer[1, :, :, :3].gt(0).all()


def test_without_positions_the_encoder_knows_no_order(model: Transformer) -> None:
    """Self-attention is a function of a set; only added or turned positions tell order."""
    src, tgt_in = random_batch([7], [4])
    order = torch.tensor([3, 0, 6, 2, 5, 1, 4])
    memory, _ = model.encode(src)
    assert (model.encode(src[:, order])[0] - memory[:, order]).abs().max() > 0.01
    if model.cfg.modern:
        for layer in model.encoder_layers:
            layer.self_attn.rotary = None
    else:
        model.encoder_embedding.positions.zero_()
    memory, _ = model.encode(src)
    assert_same(model.encode(src[:, order])[0], memory[:, order])
    assert_same(model(src[:, order], tgt_in), model(src, tgt_in))


def test_positions_are_the_papers_formula() -> None:
    width = 10
    table = sinusoidal_positions(700, width)
    assert table.shape == (700, width) and table.dtype == torch.float32
    for position in (0, 1, 2, 17, 511, 512, 699):
        for i in range(width // 2):
            angle = position / 10000 ** (2 * i / width)
            assert table[position, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[position, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


def test_embedding_is_scaled_token_plus_position() -> None:
    embedding = Embedding(VOCAB, 10, dropout=0.0)
    ids = torch.tensor([[5, 6, 5], [7, 7, 0]])
    x = embedding(ids)
    for row, position in ((0, 0), (0, 2), (1, 1)):
        token = embedding.tokens.weight[ids[row, position]]
        expected = token * math.sqrt(10) + sinusoidal_positions(3, 10)[position]
        torch.testing.assert_close(x[row, position], expected)
    torch.testing.assert_close(embedding(ids[:, 1:], 1), x[:, 1:])


@pytest.mark.parametrize(("start", "length"), [(0, 512), (0, 513), (0, 1500), (4000, 1)])
def test_positions_have_no_limit(start: int, length: int) -> None:
    embedding = Embedding(VOCAB, 10, dropout=0.0)
    x = embedding(torch.full((1, length), 5), start)
    positions = sinusoidal_positions(start + length, 10)[start:]
    torch.testing.assert_close(x[0], embedding.tokens.weight[5] * math.sqrt(10) + positions)


def test_training_goes_on_after_a_long_translation(kind: dict[str, str]) -> None:
    """The longer table is made in inference mode then, and must still serve autograd."""
    model = make_model(**kind, encoder_layers=1, decoder_layers=1)
    src, tgt_in = random_batch([600], [3])
    with torch.inference_mode():
        model(src, tgt_in)
    model.train()(src, tgt_in).sum().backward()
    assert model.encoder_layers[0].self_attn.qkv_proj.weight.grad.abs().max() > 0


def test_dropout_works_in_training_only_and_follows_the_seed() -> None:
    model = make_model(dropout=0.3)
    src, tgt_in = random_batch([6, 3], [5, 4])
    assert model(src, tgt_in).equal(model(src, tgt_in))
    model.train()
    torch.manual_seed(1)
    first, second = model(src, tgt_in), model(src, tgt_in)
    torch.manual_seed(1)
    assert model(src, tgt_in).equal(first) and not first.equal(second)


def test_bf16_is_close_to_fp32(kind: dict[str, str]) -> None:
    model = make_model(**kind, d_model=64, ffn=128)
    src, tgt_in = random_batch([6, 3], [5, 4])
    with torch.no_grad():
        expected = model(src, tgt_in)
        found = model.to(torch.bfloat16)(src, tgt_in)
    assert found.dtype == torch.bfloat16
    real = tgt_in != PAD
    relative = (found.float() - expected)[real].norm() / expected[real].norm()
    assert 0 < relative < 0.03


@pytest.mark.parametrize(("name", "least", "most"), [("base", 60e6, 66e6), ("big", 210e6, 216e6)])
def test_the_papers_models_have_the_papers_number_of_parameters(
    name: str, least: float, most: float
) -> None:
    """Table 3: 65 M and 213 M, with its joint vocabulary of about 37,000 pieces."""
    cfg = resolve_tying(load_config(ROOT / "configs" / f"{name}.yaml").model, joint=True)
    with torch.device("meta"):
        model = Transformer(cfg, 37000, 37000)
    assert least < sum(p.numel() for p in model.parameters()) < most


def test_initial_weights() -> None:
    """Xavier-uniform, embeddings N(0, 1 / D), zero biases, layer norms 1.

    Q, K and V have the range of one (D, 3·D) matrix, on the encoder's and the decoder's side.
    """
    torch.manual_seed(0)
    cfg = ModelConfig(d_model=128, heads=4, ffn=512, encoder_layers=1, decoder_layers=1)
    model = Transformer(resolve_tying(cfg, joint=False), 900, 700)
    layer = model.decoder_layers[0]
    square, wide, fused = (math.sqrt(6 / (128 + n)) for n in (128, 512, 3 * 128))
    bounds = [(part, fused) for part in layer.self_attn.qkv_proj.weight.split(128)]
    bounds += [(part, fused) for part in layer.encoder_attn.kv_proj.weight.split(128)]
    bounds += [(layer.encoder_attn.q_proj.weight, fused), (layer.ffn.fc1.weight, wide)]
    bounds += [(layer.self_attn.out_proj.weight, square), (layer.ffn.fc2.weight, wide)]
    for matrix, bound in bounds:
        assert 0.98 * bound < matrix.abs().max().item() <= bound
        assert matrix.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.02)
        assert abs(matrix.mean().item()) < 0.02 * bound
    for embedding in (model.encoder_embedding, model.decoder_embedding):
        assert embedding.tokens.weight.std().item() == pytest.approx(128**-0.5, rel=0.02)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert parameter.eq(0).all(), name
        elif "norm" in name:
            assert parameter.eq(1).all(), name


@pytest.mark.parametrize(
    ("tying", "uses"),
    [
        ("all", ["all", "all", "all"]),
        ("decoder", ["encoder", "shared", "shared"]),
        ("none", ["encoder", "decoder", "output"]),
    ],
)
def test_tied_matrices_are_one_and_learn_from_every_use(tying: str, uses: list[str]) -> None:
    model = make_model(tie_embeddings=tying)
    matrices = [
        model.encoder_embedding.tokens.weight,
        model.decoder_embedding.tokens.weight,
        model.output.weight,
    ]
    assert len({matrix.data_ptr() for matrix in matrices}) == len(set(uses))
    src, tgt_in = torch.tensor([[5, 6]]), torch.tensor([[BOS, 8]])
    model.project(model(src, tgt_in))[..., 20:25].sum().backward()
    rows = {"encoder": {5, 6}, "decoder": {BOS, 8}, "output": set(range(20, 25))}
    rows["shared"] = rows["decoder"] | rows["output"]
    rows["all"] = rows["encoder"] | rows["shared"]
    for matrix, use in zip(matrices, uses, strict=True):
        assert matrix.grad is not None
        assert {row for row in range(VOCAB) if matrix.grad[row].any()} == rows[use]


@pytest.mark.parametrize(
    ("setting", "joint", "resolved"),
    [("auto", True, "all"), ("auto", False, "decoder"), ("none", True, "none")],
)
def test_resolving_tie_embeddings(setting: str, joint: bool, resolved: str) -> None:
    cfg = ModelConfig.model_validate({"tie_embeddings": setting})
    assert resolve_tying(cfg, joint=joint).tie_embeddings == resolved


@pytest.mark.parametrize(
    ("tying", "message"),
    [("auto", "auto must be resolved"), ("all", "cannot tie vocabularies of 40 and 30 entries")],
)
def test_tying_that_cannot_be(tying: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_model(tie_embeddings=tying, src_vocab=40)
