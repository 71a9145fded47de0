"""Operations of a training step: counted by hand, counted by torch, and per second."""

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from transformer_mt.config.experiment import ModelConfig
from transformer_mt.model.transformer import Transformer
from transformer_mt.profiling import flops
from transformer_mt.profiling.flops import product_gflops, training_flops
from transformer_mt.training.loss import OutputLoss


def model_of(**changes: object) -> Transformer:
    sizes = {
        "d_model": 8, "heads": 2, "ffn": 12, "encoder_layers": 1, "decoder_layers": 2,
        "dropout": 0.0, "tie_embeddings": "none",
    }  # fmt: skip
    return Transformer(ModelConfig.model_validate({**sizes, **changes}), 20, 30)


def test_by_hand() -> None:
    """One sentence of 5 source and 7 target tokens: D 8, F 12, V 30, one and two layers."""
    encoder = 5 * (8 * 24 + 8 * 8 + 8 * 12 + 12 * 8)  # q k v, output, both of the FFN
    encoder += 2 * 5 * 5 * 8  # scores, and weights × values
    decoder = 7 * (8 * 24 + 8 * 8) + 2 * 7 * 7 * 8  # self-attention
    decoder += 7 * (8 * 8 + 8 * 8) + 5 * 8 * 16 + 2 * 7 * 5 * 8  # cross-attention
    decoder += 7 * (8 * 12 + 12 * 8)
    expected = 3 * 2 * (encoder + 2 * decoder + 7 * 8 * 30)
    assert training_flops(model_of(), np.array([5]), np.array([7])) == expected


@pytest.mark.parametrize(
    "changes",
    [{}, {"tie_embeddings": "decoder"}, {"norm": "pre", "encoder_layers": 3, "ffn": 40}],
)
def test_torch_counts_the_same_without_padding(changes: dict[str, object]) -> None:
    model = model_of(**changes)
    src, tgt = torch.randint(4, 20, (3, 5)), torch.randint(4, 30, (3, 7))
    with FlopCounterMode(display=False) as counter:
        OutputLoss(0.1, 0)(model(src, tgt), model.output.weight, tgt).loss.backward()
    lengths = np.full(3, 5), np.full(3, 7)
    assert training_flops(model, *lengths) == counter.get_total_flops()


def test_sentences_do_not_attend_to_each_other() -> None:
    model = model_of()
    together = training_flops(model, np.array([5, 9]), np.array([7, 2]))
    alone = [training_flops(model, np.array([s]), np.array([t])) for s, t in ((5, 7), (9, 2))]
    assert together == sum(alone)


def test_the_measured_speed_follows_from_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(1000))
    monkeypatch.setattr(flops.time, "perf_counter", lambda: next(ticks) * 0.05)
    # Each product seems to take 0.05 s; two of them and the set-up fill the budget.
    speed = product_gflops(torch.device("cpu"), torch.float32, 64)
    assert speed == pytest.approx(2 * 64**3 / 0.05 * 1e-9)
    assert next(ticks) in (6, 8)  # rounding decides whether 0.05 + 0.05 reaches 0.1
