"""A small learner, micro-batches for it, and the gradients that it finds."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from transformer_mt.config.experiment import TrainConfig
from transformer_mt.config.model import ModelConfig
from transformer_mt.encoding.tokenizer import BOS_ID, PAD_ID
from transformer_mt.model.architectures import new_model
from transformer_mt.system.device import seed_all
from transformer_mt.training.micro_batch import Learner
from transformer_mt.training.padding import GPU_MULTIPLE, Batch

VOCAB = 60
# (sentences, source tokens, target tokens) of each micro-batch.
SHAPES = [(5, 7, 9), (3, 8, 8), (5, 7, 9), (2, 20, 3), (5, 6, 10), (3, 8, 8), (2, 20, 3), (5, 7, 9)]


def learner(
    device: str = "cpu",
    precision: str = "fp32",
    dropout: float = 0.0,
    architecture: str = "paper",
    norm: str = "pre",
) -> Learner:
    """A small model in training, the same for each call."""
    torch.manual_seed(1)
    sizes = {"d_model": 64, "heads": 2, "ffn": 96, "encoder_layers": 2, "decoder_layers": 2}
    kind = {"architecture": architecture, "norm": norm, "tie_embeddings": "decoder"}
    cfg = ModelConfig.model_validate({**sizes, **kind, "dropout": dropout})
    model = new_model(cfg, VOCAB, VOCAB).to(device).train()
    return Learner(model, TrainConfig.model_validate({"precision": precision}))


def batches(device: str = "cpu", *, padded: bool) -> list[Batch]:
    """Sentences of random lengths; padded to few shapes, or only as far as they need."""
    made = []
    for number, (n, src_length, tgt_length) in enumerate(SHAPES):
        generator = torch.Generator().manual_seed(number)
        sides = []
        for longest in (src_length, tgt_length):
            ids = torch.randint(4, VOCAB, (n, longest), generator=generator)
            lengths = torch.randint(1, longest + 1, (n, 1), generator=generator)
            lengths[0] = longest
            ids[torch.arange(longest) >= lengths] = PAD_ID
            sides.append(F.pad(ids, (0, -longest % GPU_MULTIPLE)) if padded else ids)
        src, tgt_out = sides
        tgt_in = tgt_out.roll(1, 1).masked_fill(tgt_out == PAD_ID, PAD_ID)
        tgt_in[:, 0] = BOS_ID
        real = None if padded else (tgt_out != PAD_ID).flatten().nonzero().squeeze(1)
        made.append(Batch(src, tgt_in, tgt_out, real).to(torch.device(device)))
    return made


def gradients(learner: Learner, made: list[Batch]) -> list[tuple[float, Tensor]]:
    """After each micro-batch: its loss, and the sum of gradients so far."""
    found = []
    for number, batch in enumerate(made):
        seed_all(number)
        nll = learner.add_gradients(batch).item()
        found.append((nll, learner.optimizer.gradient.total.cpu().clone()))
    return found


def assert_same(
    found: list[tuple[float, Tensor]], expected: list[tuple[float, Tensor]], tolerance: float
) -> None:
    for (nll, gradient), (wanted, exact) in zip(found, expected, strict=True):
        assert nll == pytest.approx(wanted, rel=tolerance)
        assert (gradient - exact).norm() < tolerance * exact.norm()
