"""The recurrent model against its formulas in plain Python, and step by step."""

import math

import pytest
import torch
from test_transformer import PAD, SIZES, VOCAB, assert_beams_equal_rows, assert_same, random_ids
from torch import Tensor

from transformer_mt.config.model import ModelConfig
from transformer_mt.model.architectures import new_model
from transformer_mt.model.encoder_decoder import AttentionWeights, hidden_matrices
from transformer_mt.model.recurrent import AdditiveAttention, RecurrentModel


def make_model(n_layers: int = 2, dropout: float = 0.0) -> RecurrentModel:
    settings = {**SIZES, "dropout": dropout, "tie_embeddings": "none", "architecture": "rnn"}
    torch.manual_seed(3)
    cfg = ModelConfig.model_validate(
        {**settings, "encoder_layers": n_layers, "decoder_layers": n_layers}
    )
    model = new_model(cfg, VOCAB, VOCAB, pad_id=PAD)
    assert isinstance(model, RecurrentModel)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval()


@pytest.fixture(params=[1, 2, 3])
def model(request: pytest.FixtureRequest) -> RecurrentModel:
    return make_model(request.param)


@torch.no_grad()
def test_attention_is_its_formula() -> None:
    torch.manual_seed(1)
    attention = AdditiveAttention(6)
    memory, state = torch.randn(2, 5, 6), torch.randn(2, 3, 6)
    mask = torch.tensor([[True] * 5, [True, True, True, False, False]])[:, None, None]
    context, shares = attention(state, attention.read(memory, mask))
    for b in range(2):
        n_seen = int(mask[b].sum())
        for k in range(3):
            energies = [
                float(
                    attention.score.weight[0]
                    @ torch.tanh(attention.query(state[b, k]) + attention.key.weight @ memory[b, j])
                )
                for j in range(n_seen)
            ]
            total = sum(math.exp(energy) for energy in energies)
            expected = [math.exp(energy) / total for energy in energies] + [0.0] * (5 - n_seen)
            assert shares[b, k].tolist() == pytest.approx(expected, abs=1e-5)
            mean = sum(memory[b, j] * share for j, share in enumerate(expected))
            assert isinstance(mean, Tensor)
            torch.testing.assert_close(context[b, k], mean, atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_padding_changes_nothing(model: RecurrentModel) -> None:
    src, tgt_in = random_ids(6, 3, 5), random_ids(7, 7, 7)
    together = model(src, tgt_in)
    for row, length in enumerate((6, 3, 5)):
        assert_same(together[row], model(src[row : row + 1, :length], tgt_in[row : row + 1])[0])


@torch.no_grad()
def test_the_encoder_looks_both_ways_and_the_decoder_back(model: RecurrentModel) -> None:
    src, tgt_in = random_ids(6), random_ids(7)
    memory, _ = model.encode(src)
    for changed in (0, 5):
        other = src.clone()
        other[0, changed] = src[0, changed] % (VOCAB - 5) + 5
        assert (model.encode(other)[0] != memory).any(dim=-1).all(), "every state"
    later = tgt_in.clone()
    later[0, 4] = tgt_in[0, 4] % (VOCAB - 5) + 5
    differs = (model(src, later) != model(src, tgt_in)).any(dim=-1)[0]
    assert differs.tolist() == [False] * 4 + [True] * 3


@torch.inference_mode()
def test_beams_equal_rows_run_alone(model: RecurrentModel) -> None:
    assert_beams_equal_rows(model)


@torch.no_grad()
def test_all_that_is_attended_to_is_the_source(model: RecurrentModel) -> None:
    weights = AttentionWeights()
    src, tgt_in = random_ids(6, 3), random_ids(7, 7)
    model(src, tgt_in, weights)
    assert (weights.encoder, weights.decoder) == ([], [])
    (cross,) = weights.cross
    assert cross.shape == (2, 1, 7, 6)
    torch.testing.assert_close(cross.sum(-1), torch.ones(2, 1, 7))
    assert not cross[1, :, :, 3:].any()


def test_every_parameter_learns() -> None:
    model = make_model(dropout=0.2).train()
    model.project(model(random_ids(6, 3), random_ids(7, 7))).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.any(), name


def test_the_sizes_of_the_configuration_come_true(model: RecurrentModel) -> None:
    outside = {"encoder_embedding.tokens.weight", "decoder_embedding.tokens.weight"}
    found = sum(
        parameter.numel()
        for name, parameter in model.named_parameters()
        if parameter.dim() == 2 and name not in outside | {"output.weight"}
    )
    assert model.cfg.matrix_parameters == pytest.approx(found, rel=0.02)


def test_matrices_of_the_gates_are_apart() -> None:
    stacked = hidden_matrices(make_model())
    assert stacked["encoder_layers.0.weight_ih_l0_reverse"] == 3
    assert stacked["decoder_layers.1.weight_hh"] == 3
    assert not any("embedding" in name or "output" in name for name in stacked)
