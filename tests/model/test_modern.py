"""The modern architecture: its parts against their formulas, the whole against itself."""

import cmath
import copy
import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from transformer_mt.config.experiment import ModelConfig
from transformer_mt.model.attention import EXPLICIT_MAX_CELLS, SelfAttention, causal_mask
from transformer_mt.model.modern import RotaryPositions, SwiGLU, gated_width, rotary_turns
from transformer_mt.model.transformer import AttentionWeights, Transformer

PAD, BOS, EOS, VOCAB = 0, 2, 3, 30
SIZES = {"d_model": 16, "heads": 4, "ffn": 24, "encoder_layers": 3, "decoder_layers": 2}
CPU = torch.device("cpu")


def make_model(*, seed: int = 1, **changes: Any) -> Transformer:
    """A small modern model in eval mode; norm weights are random, too."""
    settings = {**SIZES, "architecture": "modern", "dropout": 0.0, "tie_embeddings": "none"}
    torch.manual_seed(seed)
    model = Transformer(ModelConfig.model_validate({**settings, **changes}), VOCAB, VOCAB)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval()


def random_ids(*lengths: int) -> Tensor:
    """(B, longest) ids that start with BOS, padded."""
    generator = torch.Generator().manual_seed(sum(lengths))
    ids = torch.randint(4, VOCAB, (len(lengths), max(lengths)), generator=generator)
    ids[:, 0] = BOS
    for row, length in enumerate(lengths):
        ids[row, length:] = PAD
    return ids


def random_heads(length: int, width: int) -> Tensor:
    """(2, 3, length, width)."""
    generator = torch.Generator().manual_seed(length + width)
    return torch.randn(2, 3, length, width, generator=generator)


def assert_same(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


# ---- rotary positions


def test_rotation_is_a_product_of_complex_numbers() -> None:
    """Features 2i and 2i + 1 are one number, turned by pos · 10000^(−2i / Dh), in plain Python."""
    x = random_heads(40, 6)
    turned = RotaryPositions(6)(x, start=3)
    assert turned.shape == x.shape
    for b, h, t in [(0, 0, 0), (0, 2, 1), (1, 1, 17), (1, 2, 39)]:
        for i in range(3):
            number = complex(*x[b, h, t, 2 * i : 2 * i + 2].tolist())
            expected = number * cmath.exp(1j * (3 + t) * 10000 ** (-2 * i / 6))
            found = complex(*turned[b, h, t, 2 * i : 2 * i + 2].tolist())
            assert found == pytest.approx(expected, abs=1e-5)


def test_scores_depend_on_the_distance_only() -> None:
    """q at m against k at n gives the score of q at m + shift against k at n + shift."""
    rotary = RotaryPositions(8)
    q, k = random_heads(9, 8), random_heads(7, 8)
    scores = rotary(q, 5) @ rotary(k, 2).transpose(-2, -1)
    for shift in (1, 30, 400, 1500):
        shifted = rotary(q, 5 + shift) @ rotary(k, 2 + shift).transpose(-2, -1)
        torch.testing.assert_close(shifted, scores, rtol=1e-4, atol=1e-4)
    elsewhere = rotary(q, 6) @ rotary(k, 2).transpose(-2, -1)
    assert (elsewhere - scores).abs().max() > 0.1, "another distance is another score"


def test_rotation_keeps_lengths_and_leaves_position_0_alone() -> None:
    x = random_heads(20, 8)
    turned = RotaryPositions(8)(x)
    torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1))
    assert turned[:, :, 0].equal(x[:, :, 0])
    assert (turned - x)[:, :, 1:].abs().amax(dim=-1).min() > 0.01


def test_positions_have_no_limit_and_may_be_read_in_parts() -> None:
    rotary = RotaryPositions(8)
    x = random_heads(1300, 8)
    whole = rotary(x)
    for start, end in [(0, 500), (500, 520), (1299, 1300)]:
        part = RotaryPositions(8)(x[:, :, start:end], start)
        torch.testing.assert_close(part, whole[:, :, start:end])
    assert rotary_turns(1300, 8)[-1].angle()[-1].item() == pytest.approx(1.299, rel=1e-5)


def test_gradient_of_the_rotation() -> None:
    """It is the turn back; float32 inside, so checked by the dot product that it must keep."""
    rotary = RotaryPositions(6)
    x, g = random_heads(5, 6).requires_grad_(), random_heads(5, 6) * 2
    rotary(x).backward(g)
    assert x.grad is not None
    torch.testing.assert_close(rotary(x.grad), g)


def test_angles_stay_exact_in_a_bf16_model() -> None:
    rotary = copy.deepcopy(RotaryPositions(8)).to(torch.bfloat16)
    x = random_heads(600, 8).to(torch.bfloat16)
    found = rotary(x)
    assert found.dtype == torch.bfloat16
    assert found.equal(RotaryPositions(8)(x.float()).to(torch.bfloat16))


def test_training_goes_on_after_a_long_translation() -> None:
    """The longer table is made in inference mode then, and must still serve autograd."""
    model = make_model(encoder_layers=1, decoder_layers=1)
    src, tgt_in = random_ids(600), random_ids(3)
    with torch.inference_mode():
        model(src, tgt_in)
    model.train()(src, tgt_in).sum().backward()
    assert model.encoder_layers[0].self_attn.qkv_proj.weight.grad.abs().max() > 0


def test_self_attention_turns_queries_and_keys_after_the_split_into_heads() -> None:
    torch.manual_seed(3)
    rotary = RotaryPositions(4)
    module = SelfAttention(12, 3, bias=False, rotary=rotary)
    x = torch.randn(2, 5, 12)
    collected: list[Tensor] = []
    outputs = module(x, causal_mask(5, CPU), weights=collected)
    heads = []
    for h in range(3):
        rows = slice(4 * h, 4 * h + 4)
        q, k, v = (x @ weight[rows].T for weight in module.qkv_proj.weight.split(12))
        scores = rotary(q) @ rotary(k).transpose(1, 2) / 2
        weights = scores.masked_fill(~causal_mask(5, CPU)[0], -math.inf).softmax(-1)
        torch.testing.assert_close(collected[0][:, h], weights)
        heads.append(weights @ v)
    torch.testing.assert_close(outputs, module.out_proj(torch.cat(heads, dim=-1)))


# ---- the other parts


def test_swiglu_is_its_formula_at_each_position_alone() -> None:
    torch.manual_seed(4)
    ffn = SwiGLU(16, 24)
    x = torch.randn(2, 3, 16)
    gate, up = x @ ffn.gate_proj.weight.T, x @ ffn.up_proj.weight.T
    expected = (gate / (1 + (-gate).exp()) * up) @ ffn.down_proj.weight.T
    torch.testing.assert_close(ffn(x), expected)
    torch.testing.assert_close(ffn(x[:, 1:2]), ffn(x)[:, 1:2])


@pytest.mark.parametrize(
    ("ffn", "inner", "why"),
    [
        (256, 168, "170.7, down"),
        (2048, 1368, "1365.3, up"),
        (4096, 2728, "2730.7, down"),
        (24, 16, "2/3 itself"),
        (4, 8, "never nothing"),
    ],
)
def test_inner_width_is_two_thirds_in_eights(ffn: int, inner: int, why: str) -> None:
    assert gated_width(ffn) == inner, why
    assert SwiGLU(16, ffn).up_proj.weight.shape == (inner, 16)


def test_the_frame_is_rms_norm_before_each_sublayer() -> None:
    """x / √(mean(x²) + ε) · weight; nothing is subtracted, nothing added."""
    residual = make_model().encoder_layers[0].ffn_residual
    generator = torch.Generator().manual_seed(5)
    x, y = (torch.randn(2, 3, 16, generator=generator) + 1 for _ in range(2))
    expected = x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * residual.layer_norm.weight
    torch.testing.assert_close(residual.before(x), expected)
    torch.testing.assert_close(residual.after(x, y), x + y)


def test_there_are_no_biases_and_norms_begin_at_1() -> None:
    torch.manual_seed(0)
    model = Transformer(make_model().cfg, VOCAB, VOCAB)
    assert not [name for name, _ in model.named_parameters() if "bias" in name]
    norms = [parameter for parameter in model.parameters() if parameter.dim() == 1]
    assert len(norms) == 3 * 2 + 2 * 3 + 2, "two per encoder layer, three per decoder layer, ends"
    assert all(parameter.eq(1).all() for parameter in norms)


def test_nothing_is_added_to_the_scaled_embeddings() -> None:
    embedding = make_model().encoder_embedding
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


# ---- the whole model


def test_padding_changes_nothing_at_real_positions() -> None:
    model = make_model()
    src, tgt_in = random_ids(6, 3), random_ids(5, 4)
    wider = model(F.pad(src, (0, 4)), F.pad(tgt_in, (0, 3)))
    assert_same(wider[:, : tgt_in.size(1)][tgt_in != PAD], model(src, tgt_in)[tgt_in != PAD])
    alone = model(src[1:, :3], tgt_in[1:, :4])
    assert_same(model(src, tgt_in)[1:, :4], alone)


def test_a_position_depends_on_no_later_one() -> None:
    model = make_model()
    src, tgt_in = random_ids(5), random_ids(8)
    hidden = model(src, tgt_in)
    for changed in range(1, 8):
        other = tgt_in.clone()
        other[0, changed] = 4 + (other[0, changed] - 3) % (VOCAB - 4)
        found = model(src, other)
        assert_same(found[:, :changed], hidden[:, :changed])
        differences = (found - hidden)[0, changed:].abs().amax(dim=1)
        assert differences.min() > 1e-4, "it and all later positions must notice"


def test_only_the_rotation_knows_the_order_of_the_source() -> None:
    model = make_model()
    src = random_ids(7)
    order = torch.tensor([3, 0, 6, 2, 5, 1, 4])
    memory, _ = model.encode(src)
    assert (model.encode(src[:, order])[0] - memory[:, order]).abs().max() > 0.01
    for layer in model.encoder_layers:
        layer.self_attn.rotary = None
    memory, _ = model.encode(src)
    assert_same(model.encode(src[:, order])[0], memory[:, order])


def test_collected_weights() -> None:
    """Three encoder and two decoder layers: one map each, shares that sum to 1."""
    model = make_model()
    src, tgt_in = random_ids(6, 3), random_ids(5, 4)
    weights = AttentionWeights()
    assert_same(model(src, tgt_in, weights), model(src, tgt_in))
    assert [len(maps) for maps in (weights.encoder, weights.decoder, weights.cross)] == [3, 2, 2]
    for layer in [*weights.encoder, *weights.decoder, *weights.cross]:
        torch.testing.assert_close(layer.sum(-1), torch.ones(layer.shape[:-1]))
    assert all(layer.triu(1).eq(0).all() for layer in weights.decoder)
    assert all(layer[1, :, :, 3:].eq(0).all() for layer in [*weights.encoder, *weights.cross])


def test_long_sentences_take_the_fused_kernel_and_stay_the_same() -> None:
    model = make_model(encoder_layers=1, decoder_layers=1)
    length = math.isqrt(EXPLICIT_MAX_CELLS) + 10
    src, tgt_in = random_ids(length, length - 60), random_ids(length, length - 30)
    with torch.no_grad():
        fused, explicit = model(src, tgt_in), model(src, tgt_in, AttentionWeights())
    assert_same(fused[tgt_in != PAD], explicit[tgt_in != PAD])


def test_bf16_is_close_to_fp32() -> None:
    model = make_model(d_model=64, ffn=128)
    src, tgt_in = random_ids(6, 3), random_ids(5, 4)
    with torch.no_grad():
        expected = model(src, tgt_in)
        found = model.to(torch.bfloat16)(src, tgt_in)
    assert found.dtype == torch.bfloat16
    real = tgt_in != PAD
    assert 0 < (found.float() - expected)[real].norm() / expected[real].norm() < 0.03


def copy_loss(architecture: str, n_updates: int) -> float:
    """Nats per token of copying random ids after some updates; every batch is a new one.

    The source ends with EOS, as in training: rotary positions are distances, and without a place
    that looks like no other nothing tells a decoder which source position has its own number.
    """
    settings = {"d_model": 32, "heads": 4, "ffn": 64, "encoder_layers": 1, "decoder_layers": 1,
                "dropout": 0.0, "norm": "pre", "tie_embeddings": "all"}  # fmt: skip
    torch.manual_seed(6)
    cfg = ModelConfig.model_validate({**settings, "architecture": architecture})
    model = Transformer(cfg, 20, 20)
    adam = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(n_updates):
        ids = torch.randint(4, 20, (32, 6))
        src = F.pad(ids, (0, 1), value=EOS)
        logits = model.project(model(src, F.pad(ids, (1, 0), value=BOS)))
        loss = F.cross_entropy(logits.flatten(0, 1), src.flatten())
        adam.zero_grad()
        loss.backward()
        adam.step()
    return loss.item()


@pytest.mark.parametrize("architecture", ["paper", "modern"])
def test_both_architectures_learn_to_copy(architecture: str) -> None:
    """Six random ids of 16 and EOS: unlearned 6 · ln 16 / 7 = 2.4 nats."""
    assert copy_loss(architecture, 300) < 0.2
