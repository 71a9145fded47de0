"""Memory: errors are recognised, what does not fit is split, and what is chosen fits."""

import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from transformer_mt.config.experiment import ModelConfig, TrainConfig
from transformer_mt.encoding.encoded_corpus import EncodedCorpus, EncodedSide
from transformer_mt.errors import TrainingError
from transformer_mt.model.transformer import Transformer
from transformer_mt.training import memory
from transformer_mt.training.memory import (
    CPU_MAX_TOKENS,
    CPU_SHARE,
    StepMemory,
    choose_max_tokens,
    halves,
    is_out_of_memory,
    largest_that_fits,
    peak_of_step,
)

MIB = 1 << 20
VOCAB = 1000


def make_model(d_model: int = 64) -> Transformer:
    cfg = ModelConfig(
        d_model=d_model, heads=4, ffn=2 * d_model, encoder_layers=2, decoder_layers=2,
        tie_embeddings="all",
    )  # fmt: skip
    return Transformer(cfg, VOCAB, VOCAB)


class TestErrors:
    @pytest.mark.parametrize(
        ("cause", "expected", "why"),
        [
            (lambda: torch.empty(10**15), True, "the CPU allocator"),
            (lambda: np.empty(10**15), True, "numpy's own kind of MemoryError"),
            (lambda: bytearray(10**15), True, "Python"),
            (lambda: torch.empty(2**62, dtype=torch.int64), False, "no such size: a bug"),
            (lambda: torch.ones(3) @ torch.ones(4), False, "shapes: a bug"),
            (lambda: os.stat("/nowhere/at/all"), False, "a file"),
        ],
    )
    def test_real_errors(self, cause: Any, expected: bool, why: str) -> None:
        with pytest.raises(BaseException) as raised:
            cause()
        assert is_out_of_memory(raised.value) is expected, why

    @pytest.mark.parametrize(
        ("error", "expected"),
        [
            (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), True),
            (RuntimeError("ran out of memory of patience"), False),
            (KeyboardInterrupt(), False),
        ],
    )
    def test_made_errors(self, error: BaseException, expected: bool) -> None:
        assert is_out_of_memory(error) is expected


def corpus_of_lengths(src: list[int], tgt: list[int]) -> EncodedCorpus:
    sides = (
        EncodedSide(np.zeros(sum(lengths), dtype=np.uint16), np.cumsum([0, *lengths]))
        for lengths in (src, tgt)
    )
    return EncodedCorpus(*sides)


class TestHalves:
    @pytest.mark.parametrize("n", [2, 3, 8, 101])
    def test_together_they_are_the_batch_in_its_order(self, n: int) -> None:
        indices = np.random.default_rng(n).permutation(n)
        parts = halves(indices, corpus_of_lengths([3] * n, [4] * n))
        assert np.concatenate(parts).tolist() == indices.tolist()
        assert sorted(map(len, parts)) == [n // 2, n - n // 2]

    def test_one_sentence_is_told_with_its_lengths(self) -> None:
        corpus = corpus_of_lengths([3, 170, 5], [4, 190, 6])
        with pytest.raises(TrainingError, match=r"pair 1 .*170 source and 190 target .*below 190"):
            halves(np.array([1]), corpus)


class TestLargestThatFits:
    @pytest.mark.parametrize("most", [256, 3072, 25024])
    @pytest.mark.parametrize("bound", [0, 127, 128, 200, 1000, 3000, 24000, 10**6])
    def test_it_fits_and_little_more_would(self, bound: int, most: int) -> None:
        tried = []

        def fits(n_tokens: int) -> bool:
            assert n_tokens % 64 == 0 and 128 <= n_tokens <= most
            tried.append(n_tokens)
            return n_tokens <= bound

        found = largest_that_fits(fits, 128, most)
        if bound < 128:
            assert found == 0
        else:
            assert found <= bound
            assert found >= min(most, 0.9 * bound - 64)
        assert len(tried) == len(set(tried)) <= 16, "each costs a step of training"

    def test_a_single_size(self) -> None:
        assert largest_that_fits(lambda n: True, 192, 192) == 192
        assert largest_that_fits(lambda n: False, 192, 192) == 0


def run_python(code: str) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_sizes_are_tried_until_memory_really_ends() -> None:
    """In a process whose address space is limited: the errors are those of the allocator."""
    pytest.importorskip("resource")
    code = f"""
import resource, sys
sys.path.insert(0, {str(Path(__file__).parents[0])!r})
import torch
from test_memory import MIB, make_model
from transformer_mt.config.experiment import TrainConfig
from transformer_mt.training.memory import _builder, _Step, is_out_of_memory, largest_by_trying

model, cfg = make_model(), TrainConfig(precision='fp32')
step = _Step(_builder(model), cfg, torch.device("cpu"))
step.run(2, 32)  # threads and libraries take address space once
used = 1024 * int(next(x for x in open("/proc/self/status") if x.startswith("VmSize")).split()[1])
before = torch.random.get_rng_state()
found = []
for left in (1, 30):
    resource.setrlimit(resource.RLIMIT_AS, (used + left * MIB, resource.RLIM_INFINITY))
    found.append(largest_by_trying(model, cfg, longest=32, most=4096))
assert torch.equal(before, torch.random.get_rng_state())
step.run(found[-1] // 32, 32)
try:
    step.run(2 * found[-1] // 32, 32)
except RuntimeError as error:
    assert is_out_of_memory(error)
else:
    raise SystemExit("twice as much would have fitted")
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
found.append(largest_by_trying(model, cfg, longest=32, most=512))
print(*found)
"""
    none, some, unlimited = map(int, run_python(code).split())
    assert none == 0
    assert 0 < some < 4096
    assert unlimited == 512


def saved_bytes(model: Transformer, n_sentences: int, src_length: int, tgt_length: int) -> int:
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


class TestStepMemory:
    def test_the_largest_that_fits_fits(self) -> None:
        line = StepMemory(fixed=300.0 * MIB, per_token=0.1 * MIB)
        for n_bytes in (301 * MIB, 310 * MIB, 1000 * MIB):
            n_tokens = line.tokens_within(n_bytes)
            assert n_tokens % 64 == 0
            assert bytes_of(line, n_tokens) <= n_bytes < bytes_of(line, n_tokens + 64)
        assert line.tokens_within(200 * MIB) == 0

    def test_the_prediction_comes_true(self) -> None:
        model, cfg, length, n_tokens = make_model(), TrainConfig(precision="fp32"), 32, 4096
        before = {name: weight.clone() for name, weight in model.state_dict().items()}
        predicted = peak_of_step(model, cfg, length=length)
        assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            build = memory._builder(model)
            shape = (n_tokens // length, length)
            task = (build, cfg, torch.get_num_threads(), [shape])
            (measured,) = pool.submit(memory._measure_peaks, *task).result()
        growth = measured - predicted.fixed
        assert growth > 0.2 * measured, "else the test would not see the tokens"
        assert bytes_of(predicted, n_tokens) == pytest.approx(measured, rel=0.25)


class TestChoice:
    """With a line of 100 MiB and 1 MiB per token."""

    @pytest.fixture(autouse=True)
    def _line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def line(model: Transformer, cfg: TrainConfig, *, length: int) -> StepMemory:
            return StepMemory(100.0 * MIB, 1.0 * MIB)

        monkeypatch.setattr(memory, "peak_of_step", line)

    def choose(
        self, monkeypatch: pytest.MonkeyPatch, budget_mib: int, longest: int, **settings: int
    ) -> int:
        n_bytes = int(budget_mib * MIB / CPU_SHARE)
        monkeypatch.setattr(memory, "available_memory_bytes", lambda: n_bytes)
        n_processes = settings.pop("n_processes", 1)
        cfg = TrainConfig(**settings)
        return choose_max_tokens(make_model(), cfg, longest=longest, n_processes=n_processes)

    @pytest.mark.parametrize(
        ("budget_mib", "longest", "settings", "expected", "why"),
        [
            (10**6, 100, {}, CPU_MAX_TOKENS, "more would not be faster"),
            (10**6, 100, {"tokens_per_update": 3000}, 3008, "an update has no more"),
            (10**6, 5000, {}, 5056, "a sentence is not cut"),
            (1200, 100, {}, 1088, "what fits, in steps of 64"),
            (2400, 100, {"n_processes": 2}, 1088, "memory is shared"),
            (228, 100, {}, 128, "just one sentence"),
        ],
    )
    def test_table(
        self,
        monkeypatch: pytest.MonkeyPatch,
        budget_mib: int,
        longest: int,
        settings: dict[str, int],
        expected: int,
        why: str,
    ) -> None:
        assert self.choose(monkeypatch, budget_mib, longest, **settings) == expected, why

    def test_not_even_one_sentence(self, monkeypatch: pytest.MonkeyPatch) -> None:
        message = r"a sentence of 100 tokens.*does not fit into 200 MiB, which is 50%.*max_length"
        with pytest.raises(TrainingError, match=message):
            self.choose(monkeypatch, 200, 100)
