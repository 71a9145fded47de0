"""Attention that is led looks at the words that are translated; long sentences are not led."""

import pytest
import torch
from micro_batches import VOCAB, learner

from transformer_mt.encoding.subword_alignment import AlignmentModel
from transformer_mt.encoding.tokenizer import BOS_ID
from transformer_mt.model.encoder_decoder import AttentionWeights
from transformer_mt.training import guided_attention
from transformer_mt.training.guided_attention import AttentionGuide
from transformer_mt.training.micro_batch import Learner
from transformer_mt.training.padding import Batch

HALF = VOCAB // 2  # each word of the lower half is translated by one of the upper half


def alignment() -> AlignmentModel:
    src = torch.arange(4, HALF)
    words, ones = src * VOCAB + src + HALF, torch.ones(len(src))
    return AlignmentModel(VOCAB, words, ones, ones)


def translations(seed: int) -> Batch:
    """Sentences of eight words, and their translations in the opposite order."""
    generator = torch.Generator().manual_seed(seed)
    src = torch.stack([torch.randperm(HALF - 4, generator=generator)[:8] + 4 for _ in range(16)])
    tgt_out = src.flip(1) + HALF
    tgt_in = tgt_out.roll(1, 1)
    tgt_in[:, 0] = BOS_ID
    return Batch(src, tgt_in, tgt_out, torch.arange(tgt_out.numel()))


def trained(architecture: str, weight: float, n_updates: int) -> Learner:
    made = learner(architecture=architecture)
    made.guide = AttentionGuide(alignment(), made.device)
    made.guide.set_weight(weight)
    for update in range(n_updates):
        batch = translations(update)
        made.add_gradients(batch)
        made.optimizer.step(3e-3, n_tokens=batch.tgt_out.numel())
    return made


def looks_right(made: Learner) -> float:
    """The share of the led head's attention that is on the word to be translated next."""
    batch, weights = translations(-1), AttentionWeights()
    with torch.no_grad():
        made.model(batch.src, batch.tgt_in, weights)
    shares = weights.cross[0][:, 0]  # of two layers, the last but one
    return float(shares.flip(2).diagonal(dim1=1, dim2=2).mean())


@pytest.mark.parametrize(("architecture", "n_updates"), [("paper", 60), ("modern", 140)])
def test_the_led_head_looks_at_the_word_to_be_translated(architecture: str, n_updates: int) -> None:
    assert looks_right(trained(architecture, 0.5, n_updates)) > 0.7
    assert looks_right(trained(architecture, 0.0, n_updates)) < 0.3


def test_a_sentence_too_long_for_its_weights_is_not_led(monkeypatch: pytest.MonkeyPatch) -> None:
    guide, batch = AttentionGuide(alignment(), torch.device("cpu")), translations(1)
    assert guide.collector(batch) is not None
    monkeypatch.setattr(guided_attention, "EXPLICIT_MAX_CELLS", 63)
    assert guide.collector(batch) is None
    led, plain = trained("paper", 0.5, 3), trained("paper", 0.0, 3)
    for one, other in zip(plain.model.parameters(), led.model.parameters(), strict=True):
        torch.testing.assert_close(one, other)
