"""The fused loss against the formula written out and against torch's cross-entropy."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from transformer_mt.training import loss as loss_module
from transformer_mt.training.loss import LossSums, OutputLoss

PAD, VOCAB, WIDTH = 0, 23, 8


def example(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    """Hidden states (3, 6, 8), a matrix (23, 8), ids with padding; the first two are leaves."""
    generator = torch.Generator().manual_seed(1)
    hidden = torch.randn(3, 6, WIDTH, generator=generator).to(dtype)
    weight = torch.randn(VOCAB, WIDTH, generator=generator).to(dtype)
    tgt_out = torch.randint(1, VOCAB, (3, 6), generator=generator)
    tgt_out[1, 4:] = tgt_out[2, 1:] = PAD
    return hidden.requires_grad_(), weight.requires_grad_(), tgt_out


def reference(hidden: Tensor, weight: Tensor, tgt_out: Tensor, smoothing: float) -> Tensor:
    return F.cross_entropy(
        (hidden @ weight.T).flatten(0, 1),
        tgt_out.flatten(),
        ignore_index=PAD,
        label_smoothing=smoothing,
        reduction="sum",
    )


def gradients(loss: Tensor, hidden: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(loss, (hidden, weight))


def assert_close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.6])
def test_equals_the_formula_written_out(smoothing: float) -> None:
    hidden, weight, tgt_out = example()
    sums = OutputLoss(smoothing, PAD)(hidden, weight, tgt_out)
    loss = nll = 0.0
    n_tokens = 0
    logits = (hidden @ weight.T).tolist()
    for row in range(3):
        for t in range(6):
            right = int(tgt_out[row, t])
            if right == PAD:
                continue
            scores = logits[row][t]
            normaliser = math.log(sum(math.exp(score) for score in scores))
            n_tokens += 1
            nll -= scores[right] - normaliser
            for word, score in enumerate(scores):
                share = smoothing / VOCAB + (1 - smoothing) * (word == right)
                loss -= share * (score - normaliser)
    assert sums.n_tokens == n_tokens == 11
    assert sums.loss.item() == pytest.approx(loss, rel=1e-5)
    assert sums.nll.item() == pytest.approx(nll, rel=1e-5)
    assert (sums.loss.item() == pytest.approx(sums.nll.item())) == (smoothing == 0)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.6])
def test_equals_torchs_cross_entropy_with_its_gradients(smoothing: float) -> None:
    hidden, weight, tgt_out = example()
    sums = OutputLoss(smoothing, PAD)(hidden, weight, tgt_out)
    expected = reference(hidden, weight, tgt_out, smoothing)
    assert_close(sums.loss, expected)
    found_gradients = gradients(sums.loss, hidden, weight)
    for found, wanted in zip(found_gradients, gradients(expected, hidden, weight), strict=True):
        assert wanted.abs().max() > 0.1
        assert_close(found, wanted)


def test_gradient_is_scaled_by_what_follows() -> None:
    hidden, weight, tgt_out = example()
    loss = OutputLoss(0.1, PAD)(hidden, weight, tgt_out).loss
    expected = gradients(7 * reference(hidden, weight, tgt_out, 0.1), hidden, weight)
    for found, wanted in zip(gradients(7 * loss, hidden, weight), expected, strict=True):
        assert_close(found, wanted)


@pytest.mark.parametrize("chunk_rows", [0, 1, 3, 11, 1000])
def test_chunking_changes_nothing(chunk_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden, weight, tgt_out = example()
    whole = OutputLoss(0.1, PAD)(hidden, weight, tgt_out)
    monkeypatch.setattr(loss_module, "CHUNK_BYTES", 4 * VOCAB * chunk_rows)
    parts = OutputLoss(0.1, PAD)(hidden, weight, tgt_out)
    assert_close(parts.loss, whole.loss)
    assert_close(parts.nll, whole.nll)
    expected = gradients(whole.loss, hidden, weight)
    for found, wanted in zip(gradients(parts.loss, hidden, weight), expected, strict=True):
        assert_close(found, wanted)


def test_padding_is_ignored() -> None:
    """Neither more of it nor what stands there makes a difference, and it gets no gradient."""
    hidden, weight, tgt_out = example()
    sums = OutputLoss(0.1, PAD)(hidden, weight, tgt_out)
    grad_hidden, grad_weight = gradients(sums.loss, hidden, weight)
    assert grad_hidden[tgt_out == PAD].eq(0).all()
    assert grad_hidden[tgt_out != PAD].abs().amax(-1).gt(0).all()
    wider = F.pad(hidden.detach(), (0, 0, 0, 2), value=1e4).requires_grad_()
    padded = OutputLoss(0.1, PAD)(wider, weight, F.pad(tgt_out, (0, 2), value=PAD))
    assert padded.n_tokens == sums.n_tokens
    assert_close(padded.loss, sums.loss)
    assert_close(gradients(padded.loss, wider, weight)[1], grad_weight)


def test_only_padding_is_an_error() -> None:
    hidden, weight, tgt_out = example()
    with pytest.raises(ValueError, match="tgt_out contains no real token"):
        OutputLoss(0.1, PAD)(hidden, weight, torch.full_like(tgt_out, PAD))


def test_a_tied_matrix_learns_as_input_and_as_output() -> None:
    """The embedding is the output matrix; its gradient is the sum of both uses."""
    _, weight, tgt_out = example()
    ids = (tgt_out + 1) % VOCAB
    loss = OutputLoss(0.1, PAD)(F.embedding(ids, weight).tanh(), weight, tgt_out).loss
    (found,) = torch.autograd.grad(loss, weight)
    expected = reference(F.embedding(ids, weight).tanh(), weight, tgt_out, 0.1)
    (wanted,) = torch.autograd.grad(expected, weight)
    assert_close(found, wanted)


def test_a_buffer_is_kept_between_calls_of_any_size_without_mixing_them_up() -> None:
    """Two losses may be alive at once, as with two uses before one backward."""
    hidden, weight, tgt_out = example()
    output_loss = OutputLoss(0.1, PAD)
    first = output_loss(hidden, weight, tgt_out).loss
    second = output_loss(hidden[:1, :2] + 1, weight, tgt_out[:1, :2]).loss
    third = output_loss(torch.cat([hidden, -hidden]), weight, torch.cat([tgt_out, tgt_out])).loss
    expected = (
        reference(hidden, weight, tgt_out, 0.1)
        + reference(hidden[:1, :2] + 1, weight, tgt_out[:1, :2], 0.1)
        + reference(torch.cat([hidden, -hidden]), weight, torch.cat([tgt_out, tgt_out]), 0.1)
    )
    found_gradients = gradients(first + second + third, hidden, weight)
    for found, wanted in zip(found_gradients, gradients(expected, hidden, weight), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


def test_bf16_is_close_to_fp32() -> None:
    hidden, weight, tgt_out = example(torch.bfloat16)
    output_loss = OutputLoss(0.1, PAD)
    sums = output_loss(hidden, weight, tgt_out)
    exact_hidden, exact_weight = (x.detach().float().requires_grad_() for x in (hidden, weight))
    expected = reference(exact_hidden, exact_weight, tgt_out, 0.1)
    assert sums.loss.dtype == torch.float32
    assert sums.loss.item() == pytest.approx(expected.item(), rel=0.01)
    found_gradients = gradients(sums.loss, hidden, weight)
    exact = gradients(expected, exact_hidden, exact_weight)
    for found, wanted in zip(found_gradients, exact, strict=True):
        assert found.dtype == torch.bfloat16
        assert (found.float() - wanted).norm() / wanted.norm() < 0.02
    after = output_loss(exact_hidden, exact_weight, tgt_out)  # the buffer changes its type
    assert_close(after.loss, expected)


def test_huge_scores_do_not_overflow() -> None:
    hidden, weight, tgt_out = example()
    sums = OutputLoss(0.1, PAD)((1000 * hidden).detach().requires_grad_(), weight, tgt_out)
    assert math.isfinite(sums.loss.item()) and math.isfinite(sums.nll.item())
    assert gradients(sums.loss, weight, weight)[0].isfinite().all()


def test_only_the_smoothed_loss_carries_a_gradient() -> None:
    hidden, weight, tgt_out = example()
    sums: LossSums = OutputLoss(0.1, PAD)(hidden, weight, tgt_out)
    assert sums.loss.requires_grad
    assert not sums.nll.requires_grad


def test_works_where_gradients_are_switched_off() -> None:
    hidden, weight, tgt_out = example()
    with torch.inference_mode():
        sums = OutputLoss(0.0, PAD)(hidden, weight, tgt_out)
    assert sums.nll.item() == pytest.approx(reference(hidden, weight, tgt_out, 0.0).item())
