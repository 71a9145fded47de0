"""The fused loss against the formula written out and against torch's cross-entropy."""

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from transformer_mt.training import loss as loss_module
from transformer_mt.training.guided_attention import attention_loss
from transformer_mt.training.loss import OutputLoss

PAD, VOCAB, WIDTH = 0, 23, 8
SMOOTHINGS = pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.6])

Way = Callable[[Tensor], Tensor | None]


def real_rows(tgt_out: Tensor) -> Tensor:
    return (tgt_out != PAD).flatten().nonzero().squeeze(1)


def all_rows(_: Tensor) -> None:
    return None


WAYS = pytest.mark.parametrize("way", [real_rows, all_rows])


def example(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    """Hidden states (3, 6, 8), a matrix (23, 8), ids with padding; the first two are leaves."""
    generator = torch.Generator().manual_seed(1)
    hidden = torch.randn(3, 6, WIDTH, generator=generator).to(dtype)
    weight = torch.randn(VOCAB, WIDTH, generator=generator).to(dtype)
    tgt_out = torch.randint(1, VOCAB, (3, 6), generator=generator)
    tgt_out[1, 4:] = tgt_out[2, 1:] = PAD
    return hidden.requires_grad_(), weight.requires_grad_(), tgt_out


def reference(hidden: Tensor, weight: Tensor, tgt_out: Tensor, smoothing: float = 0.1) -> Tensor:
    logits = (hidden @ weight.T).transpose(1, 2)  # (B, V, T)
    return F.cross_entropy(
        logits, tgt_out, ignore_index=PAD, label_smoothing=smoothing, reduction="sum"
    )


def assert_same(
    found: Tensor, expected: Tensor, hidden: Tensor, weight: Tensor, tolerance: float = 1e-5
) -> None:
    """The losses, and their gradients."""
    ours, theirs = (torch.autograd.grad(x, (hidden, weight)) for x in (found, expected))
    assert min(gradient.abs().max() for gradient in theirs) > 0.1
    for mine, other in zip((found, *ours), (expected, *theirs), strict=True):
        torch.testing.assert_close(mine, other, rtol=tolerance, atol=tolerance)


@WAYS
@SMOOTHINGS
def test_equals_the_formula_written_out(smoothing: float, way: Way) -> None:
    hidden, weight, tgt_out = example()
    sums = OutputLoss(smoothing, PAD)(hidden, weight, tgt_out, way(tgt_out))
    loss = nll = 0.0
    real = tgt_out != PAD
    rows = zip((hidden @ weight.T)[real].tolist(), tgt_out[real].tolist(), strict=True)
    for scores, right in rows:
        normaliser = math.log(sum(math.exp(score) for score in scores))
        nll -= scores[right] - normaliser
        for word, score in enumerate(scores):
            share = smoothing / VOCAB + (1 - smoothing) * (word == right)
            loss -= share * (score - normaliser)
    assert sums.loss.item() == pytest.approx(loss, rel=1e-5)
    assert sums.nll.item() == pytest.approx(nll, rel=1e-5)
    assert sums.loss.requires_grad and not sums.nll.requires_grad
    with torch.inference_mode():
        without = OutputLoss(smoothing, PAD)(hidden, weight, tgt_out, way(tgt_out))
    assert without.loss.item() == sums.loss.item()


@WAYS
@SMOOTHINGS
def test_equals_torchs_cross_entropy_with_its_gradients(smoothing: float, way: Way) -> None:
    hidden, weight, tgt_out = example()
    found = OutputLoss(smoothing, PAD)(hidden, weight, tgt_out, way(tgt_out)).loss
    expected = reference(hidden, weight, tgt_out, smoothing)
    assert_same(7 * found, 7 * expected, hidden, weight)  # scaled by what follows


@pytest.mark.parametrize("chunk_rows", [0, 1, 3, 11, 1000])
def test_chunking_changes_nothing(chunk_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss_module, "CHUNK_BYTES", 4 * VOCAB * chunk_rows)
    hidden, weight, tgt_out = example()
    parts = OutputLoss(0.1, PAD)(hidden, weight, tgt_out)
    assert_same(parts.loss, reference(hidden, weight, tgt_out), hidden, weight)
    torch.testing.assert_close(parts.nll, reference(hidden, weight, tgt_out, 0.0).detach())


@WAYS
def test_padding_is_ignored(way: Way) -> None:
    """Neither more of it nor what stands there makes a difference, and it gets no gradient."""
    hidden, weight, tgt_out = example()
    wider = F.pad(hidden.detach(), (0, 0, 0, 2), value=math.inf).requires_grad_()
    wider_tgt = F.pad(tgt_out, (0, 2), value=PAD)
    sums = OutputLoss(0.1, PAD)(wider, weight, wider_tgt, way(wider_tgt))
    torch.testing.assert_close(sums.loss, reference(hidden, weight, tgt_out))
    grad_hidden, grad_weight = torch.autograd.grad(sums.loss, (wider, weight))
    assert grad_hidden[wider_tgt == PAD].eq(0).all()
    assert grad_hidden[wider_tgt != PAD].abs().amax(-1).gt(0).all()
    (expected,) = torch.autograd.grad(reference(hidden, weight, tgt_out), weight)
    torch.testing.assert_close(grad_weight, expected, rtol=1e-5, atol=1e-5)


def test_a_buffer_is_kept_between_calls_of_any_size_without_mixing_them_up() -> None:
    """Two losses may be alive at once, as with two uses before one backward."""
    hidden, weight, tgt_out = example()
    output_loss = OutputLoss(0.1, PAD)
    batches = [
        (hidden, tgt_out),
        (hidden[:1, :2] + 1, tgt_out[:1, :2]),
        (torch.cat([hidden, -hidden]), torch.cat([tgt_out, tgt_out])),
    ]
    found = sum((output_loss(h, weight, t).loss for h, t in batches), torch.zeros(()))
    expected = sum((reference(h, weight, t) for h, t in batches), torch.zeros(()))
    assert_same(found, expected, hidden, weight, tolerance=1e-4)


def test_bf16_is_close_to_fp32() -> None:
    hidden, weight, tgt_out = example(torch.bfloat16)
    output_loss = OutputLoss(0.1, PAD)
    loss = output_loss(hidden, weight, tgt_out).loss
    exact = [x.detach().float().requires_grad_() for x in (hidden, weight)]
    expected = reference(*exact, tgt_out)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(expected.item(), rel=0.01)
    found_gradients = torch.autograd.grad(loss, (hidden, weight))
    for found, wanted in zip(found_gradients, torch.autograd.grad(expected, exact), strict=True):
        assert found.dtype == torch.bfloat16
        assert (found.float() - wanted).norm() / wanted.norm() < 0.02
    after = output_loss(*exact, tgt_out)  # the buffer changes its type
    torch.testing.assert_close(after.loss, expected)


def test_huge_scores_do_not_overflow() -> None:
    hidden, weight, tgt_out = example()
    huge = (1000 * hidden).detach()
    sums = OutputLoss(0.1, PAD)(huge, weight, tgt_out)
    assert math.isfinite(sums.loss.item()) and math.isfinite(sums.nll.item())
    assert torch.autograd.grad(sums.loss, weight)[0].isfinite().all()


def test_the_attention_loss_falls_where_the_first_head_looks_at_linked_words() -> None:
    generator = torch.Generator().manual_seed(1)
    scores = torch.randn(2, 3, 4, 5, generator=generator).requires_grad_()
    links = torch.rand(2, 4, 5, generator=generator) / 5
    links[1, 2:] = 0
    found = attention_loss(scores.softmax(-1), links)
    expected = -sum(
        links[b, t, s] * scores[b, 0, t].log_softmax(-1)[s]
        for b in range(2)
        for t in range(4)
        for s in range(5)
    )
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=0)
    (gradient,) = torch.autograd.grad(found, scores)
    # Of a cross-entropy: the row's sum of links times the weights, less the links.
    shares = links.sum(2, keepdim=True) * scores[:, 0].softmax(-1)
    torch.testing.assert_close(gradient[:, 0], shares - links, rtol=1e-3, atol=1e-5)
    assert not gradient[:, 1:].any() and not gradient[1, 0, 2:].any()
