"""Operations of a training step: as torch counts them, and per second."""

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from transformer_mt.config.model import ModelConfig
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
