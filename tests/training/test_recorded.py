"""Recorded micro-batches give the gradients of plain ones; on a GPU, where there is one."""

import weakref
from collections.abc import Callable

import pytest
import torch
from micro_batches import SHAPES, VOCAB, assert_same, batches, gradients, learner
from torch import Tensor

from transformer_mt.encoding.subword_alignment import AlignmentModel
from transformer_mt.model.attention import EXPLICIT_MAX_CELLS
from transformer_mt.training import recorded
from transformer_mt.training.guided_attention import AttentionGuide
from transformer_mt.training.micro_batch import Learner
from transformer_mt.training.padding import GPU_MULTIPLE, Batch
from transformer_mt.training.recorded import PLAIN, CudaGraphs, RecordedMicroBatches

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


class OnCpu:
    """A recording of a CPU: the function, called again. Counts how often one is made."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self, work: Callable[[], None]) -> "_Again":
        self.made += 1
        return _Again(work)


class _Again:
    def __init__(self, work: Callable[[], None]) -> None:
        self.replay = work


def test_a_recording_of_each_shape_gives_the_gradients_of_plain_micro_batches() -> None:
    exact = gradients(learner(), batches(padded=False))
    other, record = learner(), OnCpu()
    other._recorded = RecordedMicroBatches(other._add_gradients, other._tables, record)
    assert_same(gradients(other, batches(padded=True)), exact, 1e-5)
    n_shapes = {(n, -(-s // GPU_MULTIPLE), -(-t // GPU_MULTIPLE)) for n, s, t in SHAPES[PLAIN:]}
    assert record.made == len(n_shapes)


def test_recordings_lead_the_attention_like_plain_micro_batches() -> None:
    """Of sentences in which a token is translated by itself; with a weight that changes."""

    def led() -> Learner:
        made = learner()
        words = torch.arange(VOCAB) * (VOCAB + 1)
        alignment = AlignmentModel(VOCAB, words, *torch.ones(2, VOCAB))
        made.guide = AttentionGuide(alignment, made.device)
        return made

    def of_weights(made: Learner, padded: bool) -> list[tuple[float, Tensor]]:
        found = []
        for weight in (0.0, 3.0):
            assert made.guide
            made.guide.set_weight(weight)
            found += gradients(made, batches(padded=padded))
        return found

    exact, other, record = of_weights(led(), padded=False), led(), OnCpu()
    other._recorded = RecordedMicroBatches(other._add_gradients, other._tables, record)
    assert_same(of_weights(other, padded=True), exact, 1e-5)
    assert record.made
    n = len(exact) // 2
    without = gradients(learner(), batches(padded=False))
    assert_same(exact[:n], without, 1e-5)
    assert not torch.allclose(exact[-1][1] - exact[n - 1][1], without[-1][1], rtol=0.05)


def test_further_shapes_and_long_sentences_are_not_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exact = gradients(learner(), batches(padded=False))
    for name, most in (("MOST", 1), ("LONGEST", 8)):
        with monkeypatch.context() as patch:
            patch.setattr(recorded, name, most)
            other, record = learner(), OnCpu()
            other._recorded = RecordedMicroBatches(other._add_gradients, other._tables, record)
            assert_same(gradients(other, batches(padded=True)), exact, 1e-5)
            assert record.made == 1


def test_without_memory_for_recordings_training_goes_on_without() -> None:
    def no_memory(_: Callable[[], None]) -> _Again:
        raise torch.OutOfMemoryError

    other = learner()
    other._recorded = RecordedMicroBatches(other._add_gradients, other._tables, no_memory)
    exact = gradients(learner(), batches(padded=False))
    assert_same(gradients(other, batches(padded=True)), exact, 1e-5)


def test_what_a_failed_recording_took_is_free_for_the_plain_micro_batch() -> None:
    taken: list[weakref.ref[Tensor]] = []
    still_there: list[bool] = []

    def run(batch: Batch) -> Tensor:
        still_there.append(any(tensor() is not None for tensor in taken))
        hidden = batch.src + 1
        taken.append(weakref.ref(hidden))
        if len(taken) == PLAIN + 1:
            raise torch.OutOfMemoryError
        return hidden.sum()

    def record(work: Callable[[], None]) -> _Again:
        work()
        return _Again(work)

    other = RecordedMicroBatches(run, list, record)
    for batch in batches(padded=True)[: PLAIN + 1]:
        other(batch)
    assert still_there == [False] * (PLAIN + 2)


def test_a_recording_keeps_the_tables_that_longer_sentences_replace() -> None:
    for architecture in ("paper", "modern"):
        one = learner(architecture=architecture)
        short, *_ = batches(padded=True)
        one.add_gradients(short)
        before = {table.data_ptr() for table in one._tables()}
        held = one._tables()
        long = torch.full((1, 2 * recorded.LONGEST), 5)
        assert long.size(1) ** 2 > EXPLICIT_MAX_CELLS
        one.add_gradients(Batch(long, long, long))
        assert before & {table.data_ptr() for table in held} == before
        assert before != {table.data_ptr() for table in one._tables()}


@GPU
@pytest.mark.parametrize("architecture", ["paper", "modern", "rnn"])
@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-3), ("bf16", 0.05)])
def test_a_gpu_gives_the_gradients_of_a_cpu(
    architecture: str, precision: str, tolerance: float
) -> None:
    exact = gradients(learner(architecture=architecture), batches(padded=False))
    other = learner("cuda", precision, architecture=architecture)
    assert_same(gradients(other, batches("cuda", padded=True)), exact, tolerance)


@GPU
@pytest.mark.parametrize("architecture", ["paper", "modern"])
def test_a_recording_drops_what_a_plain_micro_batch_drops(architecture: str) -> None:
    plain = learner("cuda", "fp32", 0.3, architecture)
    plain._recorded = None
    other = learner("cuda", "fp32", 0.3, architecture)
    other._recorded = RecordedMicroBatches(other._add_gradients, other._tables, CudaGraphs())
    made = batches("cuda", padded=True)
    assert_same(gradients(other, made), gradients(plain, made), 1e-4)


@GPU
def test_recordings_without_memory_on_a_gpu() -> None:
    one = learner("cuda")
    made = batches("cuda", padded=True)
    gradients(one, made)
    long = torch.randint(4, VOCAB, (4000, 200), device="cuda")
    _, total = torch.cuda.mem_get_info()
    torch.cuda.set_per_process_memory_fraction(4e9 / total)
    try:
        with pytest.raises(torch.OutOfMemoryError):
            one.add_gradients(Batch(long, long, long))
        one.optimizer.gradient.discard()
        one.optimizer.gradient.total.zero_()
        assert_same(gradients(one, made), gradients(learner(), batches(padded=False)), 1e-4)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
