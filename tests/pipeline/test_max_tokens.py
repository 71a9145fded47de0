"""`max_tokens: auto`: what is chosen fits, and is little less than what would."""

import gc
import math
import weakref
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from encoded import encoded_side
from torch import Tensor

from transformer_mt.config.experiment import TrainConfig
from transformer_mt.config.model import ModelConfig
from transformer_mt.encoding.encoded_corpus import EncodedCorpus
from transformer_mt.encoding.tokenizer import PAD_ID
from transformer_mt.errors import TrainingError
from transformer_mt.model.architectures import new_model
from transformer_mt.model.encoder_decoder import EncoderDecoder
from transformer_mt.pipeline import max_tokens
from transformer_mt.pipeline.max_tokens import (
    CPU_MAX_TOKENS,
    CPU_SHARE,
    StepMemory,
    agree_on_max_tokens,
    ample_bytes,
    choose_max_tokens,
    largest_by_trying,
    largest_that_fits,
    peak_of_step,
)
from transformer_mt.system.processes.distributed import Ranks
from transformer_mt.system.processes.environment import DEFAULTS
from transformer_mt.training.memory import is_out_of_memory
from transformer_mt.training.micro_batch import Learner
from transformer_mt.training.padding import Batch
from transformer_mt.training.recorded import RecordedMicroBatches, Recording

MIB = 1 << 20
VOCAB = 1000


def make_model(
    d_model: int = 64, architecture: Literal["paper", "modern"] = "paper"
) -> EncoderDecoder:
    cfg = ModelConfig(
        d_model=d_model, heads=4, ffn=2 * d_model, encoder_layers=2, decoder_layers=2,
        tie_embeddings="all", architecture=architecture,
    )  # fmt: skip
    return new_model(cfg, VOCAB, VOCAB, pad_id=PAD_ID)


def in_a_fresh_process(function: Callable[..., list[int]], *arguments: Any) -> list[int]:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


@pytest.mark.parametrize("most", [128, 256, 3072, 25024])
@pytest.mark.parametrize("bound", [0, 127, 128, 200, 1000, 3000, 24000, 10**6])
def test_the_largest_fits_and_little_more_would(bound: int, most: int) -> None:
    tried = []

    def fits(n_tokens: int) -> bool:
        assert n_tokens % 64 == 0 and 128 <= n_tokens <= most
        tried.append(n_tokens)
        return n_tokens <= bound

    found = largest_that_fits(fits, 128, most)
    if bound < 128:
        assert found == 0
    else:
        assert min(most, 0.9 * bound - 64) <= found <= bound
    assert len(tried) == len(set(tried)) <= 16, "each costs a step of training"


def sizes_within_limits() -> list[int]:
    """With 1 and 30 MiB left, and with no limit: the errors are those of the allocator."""
    import resource

    def limit(n_bytes: int) -> None:
        resource.setrlimit(resource.RLIMIT_AS, (n_bytes, resource.RLIM_INFINITY))

    torch.set_num_threads(1)
    model, cfg = make_model(), TrainConfig(precision="fp32")
    step = max_tokens._Step(max_tokens._builder(model), cfg, torch.device("cpu"))
    step.run(2, 32)  # threads and libraries take address space once
    status = Path("/proc/self/status").read_text().split()
    used = 1024 * int(status[status.index("VmSize:") + 1])
    before = torch.random.get_rng_state()
    found = []
    for left in (1, 30):
        limit(used + left * MIB)
        found.append(largest_by_trying(model, cfg, longest=32, most=4096))
    assert torch.equal(before, torch.random.get_rng_state())
    limit(used + 40 * MIB)  # more: the trials have left gaps in the address space
    step.run(found[-1] // 32, 32)
    with pytest.raises(RuntimeError) as caught:
        step.run(4096 // 32, 32)  # which was tried, and refused
    assert is_out_of_memory(caught.value)
    limit(resource.RLIM_INFINITY)
    return [*found, largest_by_trying(model, cfg, longest=32, most=512)]


def test_sizes_are_tried_until_memory_really_ends() -> None:
    pytest.importorskip("resource")
    none, some, unlimited = in_a_fresh_process(sizes_within_limits)
    assert (none, unlimited) == (0, 512) and 0 < some < 4096


def test_a_trial_leaves_nothing_to_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """With recordings, as on a GPU: a learner and they refer to each other."""
    models: list[weakref.ref[EncoderDecoder]] = []
    alive: list[int] = []

    def count() -> None:
        alive.append(sum(model() is not None for model in models))

    def learner(model: EncoderDecoder, cfg: TrainConfig) -> Learner:
        count()
        models.append(weakref.ref(model))
        made = Learner(model, cfg)
        made._recorded = RecordedMicroBatches(run, made._tables, refuse)
        return made

    def run(batch: Batch) -> Tensor:
        if len(batch.src) > 16:
            raise torch.OutOfMemoryError
        return torch.zeros(())

    def refuse(_: Callable[[], None]) -> Recording:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(max_tokens, "Learner", learner)
    gc.collect()
    gc.disable()  # by itself it comes at some time
    try:
        assert largest_by_trying(make_model(16), TrainConfig(), longest=32, most=512) == 448
        count()
    finally:
        gc.enable()
    assert len(alive) > 2 and not any(alive)


def saved_bytes(model: EncoderDecoder, n_sentences: int, src_length: int, tgt_length: int) -> int:
    """Of the tensors that forward keeps for backward."""
    storages: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        hidden = model(
            torch.randint(4, VOCAB, (n_sentences, src_length)),
            torch.randint(4, VOCAB, (n_sentences, tgt_length)),
        )
    assert hidden.requires_grad  # what it keeps lives until here
    return sum(storages.values())


def test_long_sentences_on_both_sides_are_the_worst_shape() -> None:
    model, longest = make_model(), 128
    worst = saved_bytes(model, 1024 // longest, longest, longest)
    for src, tgt in [(1, 1), (16, 16), (64, 64), (128, 32), (32, 128), (1, 128), (128, 1)]:
        assert saved_bytes(model, 1024 // max(src, tgt), src, tgt) < worst, (src, tgt)


def bytes_of(line: StepMemory, n_tokens: int) -> float:
    return line.fixed + line.per_token * n_tokens


def test_the_largest_within_a_line_fits() -> None:
    line = StepMemory(fixed=300.0 * MIB, per_token=0.1 * MIB)
    for n_bytes in (301 * MIB, 310 * MIB, 1000 * MIB):
        n_tokens = line.tokens_within(n_bytes)
        assert n_tokens % 64 == 0
        assert bytes_of(line, n_tokens) <= n_bytes < bytes_of(line, n_tokens + 64)
    assert line.tokens_within(200 * MIB) == 0


@pytest.mark.parametrize(("pages", "architecture"), [("4 KiB", "paper"), ("2 MiB", "modern")])
def test_the_prediction_comes_true(
    pages: str, architecture: Literal["paper", "modern"], monkeypatch: pytest.MonkeyPatch
) -> None:
    if pages == "2 MiB":
        monkeypatch.setenv("GLIBC_TUNABLES", DEFAULTS["GLIBC_TUNABLES"])
    else:
        monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    model, cfg = make_model(architecture=architecture), TrainConfig(precision="fp32")
    length, n_tokens = 32, 4096
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    predicted = peak_of_step(model, cfg, length=length)
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
    build, shapes = max_tokens._builder(model), [(n_tokens // length, length)]
    task = (build, cfg, torch.get_num_threads(), shapes)
    (measured,) = in_a_fresh_process(max_tokens._measure_peaks, *task)
    growth = measured - predicted.fixed
    assert growth > 0.2 * measured, "else the test would not see the tokens"
    assert bytes_of(predicted, n_tokens) == pytest.approx(measured, rel=0.25)
    assert 1.1 * measured < ample_bytes(model, n_tokens, length=length) < 2.5 * measured


def test_where_memory_is_ample_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[int] = []

    def peak(*_: object, length: int) -> StepMemory:
        measured.append(length)
        return StepMemory(100.0 * MIB, MIB)

    monkeypatch.setattr(max_tokens, "peak_of_step", peak)
    model, cfg = make_model(), TrainConfig()
    ample = ample_bytes(model, CPU_MAX_TOKENS, length=100)
    for share, expected in ((1.01, []), (0.99, [100])):
        n_bytes = int(share * ample / CPU_SHARE)
        monkeypatch.setattr(max_tokens, "available_memory_bytes", lambda n=n_bytes: n)
        choose_max_tokens(model, cfg, longest=100)
        assert measured == expected
    rnn = model.cfg.model_copy(update={"architecture": "rnn"})
    recurrent = new_model(rnn, VOCAB, VOCAB, pad_id=PAD_ID)
    assert math.isinf(ample_bytes(recurrent, 64, length=10))


def test_one_process_of_a_machine_chooses_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    class OfTwoMachines(Ranks):
        def gather(self, value: Any) -> list[Any]:
            return [value if self.local_rank == 0 else 512, None, 448, None]

    chosen = iter([640])  # once
    monkeypatch.setattr(max_tokens, "choose_max_tokens", lambda *_, **__: next(chosen))
    corpus = EncodedCorpus(encoded_side([[4] * 9]), encoded_side([[4] * 9]))
    for rank, others in ((0, 448), (1, 448)):
        ranks = OfTwoMachines(rank, 4, rank, 2)
        assert agree_on_max_tokens(make_model(), TrainConfig(), corpus, ranks) == others


@pytest.mark.parametrize(
    ("budget_mib", "longest", "n_processes", "expected", "why"),
    [
        (10**6, 100, 1, CPU_MAX_TOKENS, "more would not be faster"),
        (10**6, 5000, 1, 5056, "a sentence is not cut"),
        (1200, 100, 1, 1088, "what fits, in steps of 64"),
        (2400, 100, 2, 1088, "memory is shared"),
        (228, 100, 1, 128, "just one sentence"),
        (200, 100, 1, None, "not even one"),
    ],
)
def test_choice(
    monkeypatch: pytest.MonkeyPatch,
    budget_mib: int,
    longest: int,
    n_processes: int,
    expected: int | None,
    why: str,
) -> None:
    """With a line of 100 MiB and 1 MiB per token."""
    line = StepMemory(100.0 * MIB, MIB)
    monkeypatch.setattr(max_tokens, "peak_of_step", lambda *_, length: line)
    monkeypatch.setattr(max_tokens, "ample_bytes", lambda *_, length: math.inf)
    n_bytes = int(budget_mib * MIB / CPU_SHARE)
    monkeypatch.setattr(max_tokens, "available_memory_bytes", lambda: n_bytes)
    limits = {"longest": longest, "n_processes": n_processes}
    if expected is None:
        message = r"a sentence of 100 tokens.*does not fit into 200 MiB, which is 50%.*max_length"
        with pytest.raises(TrainingError, match=message):
            choose_max_tokens(make_model(), TrainConfig(), **limits)
        return
    assert choose_max_tokens(make_model(), TrainConfig(), **limits) == expected, why
    few = TrainConfig(tokens_per_update=64)
    assert choose_max_tokens(make_model(), few, **limits) < longest + 64, "an update has no more"
