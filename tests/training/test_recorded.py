"""Recorded micro-batches give the gradients of plain ones; on a GPU, where there is one."""

import weakref
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from transformer_mt.config.experiment import TrainConfig
from transformer_mt.config.model import ModelConfig
from transformer_mt.encoding.tokenizer import BOS_ID, PAD_ID
from transformer_mt.model.architectures import new_model
from transformer_mt.model.attention import EXPLICIT_MAX_CELLS
from transformer_mt.system.device import seed_all
from transformer_mt.training import recorded
from transformer_mt.training.micro_batch import Learner
from transformer_mt.training.padding import GPU_MULTIPLE, Batch
from transformer_mt.training.recorded import PLAIN, CudaGraphs, RecordedMicroBatches

VOCAB = 60
GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
SHAPES = [(5, 7, 9), (3, 8, 8), (5, 7, 9), (2, 20, 3), (5, 6, 10), (3, 8, 8), (2, 20, 3), (5, 7, 9)]


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


def learner(
    device: str = "cpu", precision: str = "fp32", dropout: float = 0.0, architecture: str = "paper"
) -> Learner:
    torch.manual_seed(1)
    sizes = {"d_model": 64, "heads": 2, "ffn": 96, "encoder_layers": 2, "decoder_layers": 2}
    kind = {"architecture": architecture, "norm": "pre", "tie_embeddings": "decoder"}
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


def test_a_recording_of_each_shape_gives_the_gradients_of_plain_micro_batches() -> None:
    exact = gradients(learner(), batches(padded=False))
    other, record = learner(), OnCpu()
    other._recorded = RecordedMicroBatches(other._add_gradients, other._tables, record)
    assert_same(gradients(other, batches(padded=True)), exact, 1e-5)
    n_shapes = {(n, -(-s // GPU_MULTIPLE), -(-t // GPU_MULTIPLE)) for n, s, t in SHAPES[PLAIN:]}
    assert record.made == len(n_shapes)


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
