"""The parts of the modern architecture against their formulas; see `test_transformer.py`, too."""

import cmath
import copy

import pytest
import torch
import torch.nn.functional as F
from test_transformer import BOS, KINDS, VOCAB, make_model, random_ids
from torch import Tensor

from transformer_mt.config.model import ModelConfig
from transformer_mt.model.modern import RotaryPositions, SwiGLU, gated_width, rotary_turns
from transformer_mt.model.transformer import Transformer

EOS = 3
MODERN = KINDS["modern"]


def random_heads(length: int, width: int) -> Tensor:
    """(2, 3, length, width)."""
    generator = torch.Generator().manual_seed(length + width)
    return torch.randn(2, 3, length, width, generator=generator)


@pytest.mark.parametrize("start", [0, 3])
def test_rotation_is_a_product_of_complex_numbers(start: int) -> None:
    """Features 2i and 2i + 1 are one number, turned by pos · 10000^(−2i / Dh), in plain Python."""
    x = random_heads(40, 6)
    turned = RotaryPositions(6)(x, start)
    assert turned.shape == x.shape
    for b, h, t in [(0, 0, 0), (0, 2, 1), (1, 1, 17), (1, 2, 39)]:
        for i in range(3):
            number = complex(*x[b, h, t, 2 * i : 2 * i + 2].tolist())
            expected = number * cmath.exp(1j * (start + t) * 10000 ** (-2 * i / 6))
            found = complex(*turned[b, h, t, 2 * i : 2 * i + 2].tolist())
            assert found == pytest.approx(expected, abs=1e-5)


def test_positions_have_no_limit_and_may_be_read_in_parts() -> None:
    x = random_heads(1300, 8)
    whole = RotaryPositions(8)(x)
    for start, end in [(0, 500), (500, 520), (1299, 1300)]:
        part = RotaryPositions(8)(x[:, :, start:end], start)
        torch.testing.assert_close(part, whole[:, :, start:end])
    assert rotary_turns(1300, 8)[-1].angle()[-1].item() == pytest.approx(1.299, rel=1e-5)


def test_angles_stay_exact_in_a_bf16_model() -> None:
    rotary = copy.deepcopy(RotaryPositions(8)).to(torch.bfloat16)
    x = random_heads(600, 8).to(torch.bfloat16)
    found = rotary(x)
    assert found.dtype == torch.bfloat16
    assert found.equal(RotaryPositions(8)(x.float()).to(torch.bfloat16))


def test_swiglu_is_its_formula_at_each_position_alone() -> None:
    torch.manual_seed(4)
    ffn = SwiGLU(16, 24)
    x = torch.randn(2, 3, 16)
    gate, up = x @ ffn.gate_proj.weight.T, x @ ffn.up_proj.weight.T
    expected = (gate / (1 + (-gate).exp()) * up) @ ffn.down_proj.weight.T
    torch.testing.assert_close(ffn(x), expected)


@pytest.mark.parametrize(
    ("ffn", "inner", "why"),
    [
        (256, 168, "170.7, down"),
        (2048, 1368, "1365.3, up"),
        (24, 16, "2/3 itself"),
        (4, 8, "never nothing"),
    ],
)
def test_inner_width_is_two_thirds_in_eights(ffn: int, inner: int, why: str) -> None:
    assert gated_width(ffn) == inner, why
    assert SwiGLU(16, ffn).up_proj.weight.shape == (inner, 16)


def test_the_frame_is_rms_norm_before_each_sublayer() -> None:
    """x / √(mean(x²) + ε) · weight; nothing is subtracted, nothing added."""
    residual = make_model(**MODERN).encoder_layers[0].ffn_residual
    generator = torch.Generator().manual_seed(5)
    x, y = (torch.randn(2, 3, 16, generator=generator) + 1 for _ in range(2))
    expected = x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * residual.layer_norm.weight
    torch.testing.assert_close(residual.before(x), expected)
    torch.testing.assert_close(residual.after(x, y), x + y)


def test_there_are_no_biases_and_norms_begin_at_1() -> None:
    torch.manual_seed(0)
    model = Transformer(make_model(**MODERN).cfg, VOCAB, VOCAB)
    assert not [name for name, _ in model.named_parameters() if "bias" in name]
    norms = [parameter for parameter in model.parameters() if parameter.dim() == 1]
    assert len(norms) == 2 * 2 + 3 * 3 + 2, "two per encoder layer, three per decoder layer, ends"
    assert all(parameter.eq(1).all() for parameter in norms)


def test_every_layer_begins_as_the_identity() -> None:
    """An untrained model sees only the token itself: logits of a position are its embedding's."""
    torch.manual_seed(0)
    model = Transformer(make_model(**MODERN).cfg, VOCAB, VOCAB).eval()
    src, tgt_in = random_ids(9, 4), random_ids(7, 7)
    assert model.encode(src)[0].equal(model.encoder_norm(model.encoder_embedding(src)))
    assert model(src, tgt_in).equal(model.decoder_norm(model.decoder_embedding(tgt_in)))
    assert make_model(**MODERN)(src, tgt_in).ne(model(src, tgt_in)).any(), "of other tests"


def test_nothing_is_added_to_the_scaled_embeddings() -> None:
    embedding = make_model(**MODERN).encoder_embedding
    ids = random_ids(9)
    assert embedding(ids).equal(4 * embedding.tokens.weight[ids])
    assert embedding(ids, start=7).equal(embedding(ids))


@pytest.mark.parametrize("sizes", [{"d_model": 128, "ffn": 256, "heads": 4}, {}], ids=str)
def test_parameters_are_about_the_papers(sizes: dict[str, int]) -> None:
    counts = {}
    for architecture in ("paper", "modern"):
        settings = {**sizes, "architecture": architecture, "tie_embeddings": "all"}
        with torch.device("meta"):
            model = Transformer(ModelConfig.model_validate(settings), 1000, 1000)
        counts[architecture] = sum(parameter.numel() for parameter in model.parameters())
    assert counts["modern"] == pytest.approx(counts["paper"], rel=0.02)


def test_copying_is_learned() -> None:
    """Six random ids of 16 and EOS: unlearned 6 · ln 16 / 7 = 2.4 nats.

    The source ends with EOS, as in training: rotary positions are distances, and without a place
    that looks like no other nothing tells a decoder which source position has its own number.
    """
    sizes = {"d_model": 32, "heads": 4, "ffn": 64, "encoder_layers": 1, "decoder_layers": 1}
    torch.manual_seed(6)
    settings = {**sizes, **MODERN, "dropout": 0.0, "tie_embeddings": "all"}
    model = Transformer(ModelConfig.model_validate(settings), 20, 20)
    adam = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(500):
        ids = torch.randint(4, 20, (32, 6))
        src = F.pad(ids, (0, 1), value=EOS)
        logits = model.project(model(src, F.pad(ids, (1, 0), value=BOS)))
        loss = F.cross_entropy(logits.flatten(0, 1), src.flatten())
        adam.zero_grad()
        loss.backward()
        adam.step()
    assert loss.item() < 0.2
