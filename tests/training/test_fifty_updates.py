"""Fifty updates of the training loop against the same in plain PyTorch and fp32.

Plain: whole logits, `F.cross_entropy`, `clip_grad_norm_`, `torch.optim.Adam`, autograd alone.
"""

from functools import partial
from itertools import islice
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from test_trainer import CORPUS, Session, make_config
from torch import nn

from transformer_mt.config.experiment import Config
from transformer_mt.encoding.tokenizer import PAD_ID
from transformer_mt.training.batches import collate
from transformer_mt.training.optimizer import learning_rate

CFG = make_config(dropout=0.0, max_updates=50, validate_every=50, cooldown_updates=15)


def plain_losses(directory: Path, cfg: Config) -> list[float]:
    """Mean unsmoothed loss of each update, in nats per token."""
    session = Session(directory, cfg)
    torch.manual_seed(1)
    model = type(session.model)(session.model.cfg, 20, 20, pad_id=PAD_ID).train()
    train = cfg.train
    adam = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=train.adam_eps)
    losses = []
    for step, planned in enumerate(islice(session.trainer._updates(), 50), start=1):
        loss, nll, n_tokens = torch.zeros(()), 0.0, 0
        for rows in planned.batches:
            batch = collate(CORPUS, rows)
            logits = model.project(model(batch.src, batch.tgt_in)).transpose(1, 2)  # (B, V, T)
            sum_of = partial(F.cross_entropy, logits, batch.tgt_out, ignore_index=PAD_ID,
                             reduction="sum")  # fmt: skip
            loss = loss + sum_of(label_smoothing=train.label_smoothing)
            nll += sum_of().item()
            n_tokens += int((batch.tgt_out != PAD_ID).sum())
        adam.zero_grad()
        (loss / n_tokens).backward()
        nn.utils.clip_grad_norm_(model.parameters(), train.clip_norm)
        adam.param_groups[0]["lr"] = learning_rate(
            step, train.peak_lr(32), train.warmup_updates, cooldown=15, last_step=50
        )
        adam.step()
        losses.append(nll / n_tokens)
    return losses


@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-4), ("bf16", 0.02)])
def test_fifty_updates_equal_plain_fp32(tmp_path: Path, precision: str, tolerance: float) -> None:
    """Nothing that makes training fast changes it beyond rounding."""
    expected = plain_losses(tmp_path / "plain", CFG)
    train = CFG.train.model_copy(update={"precision": precision})
    session = Session(tmp_path / "tmt", CFG.model_copy(update={"train": train}))
    session.run()
    found = [record["loss"] for record in session.records() if record["event"] == "train"]
    assert len(found) == 50
    assert expected[-1] < 0.7 * expected[0], "fifty updates must have learned something"
    assert found == pytest.approx(expected, rel=tolerance)
