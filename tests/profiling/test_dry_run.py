"""Measured is what trains: the same sentences and memory, and speed that adds up."""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from transformer_mt.config.experiment import Config, build_config
from transformer_mt.corpus.sources.obtain import obtain_sources
from transformer_mt.encoding.encoded_corpus import open_corpus
from transformer_mt.errors import DataError, TrainingError
from transformer_mt.pipeline.prepare import fingerprints, prepare
from transformer_mt.pipeline.run_dir import Run
from transformer_mt.profiling import dry_run as trial
from transformer_mt.profiling.dry_run import (
    TrialTask,
    plan_first_epoch,
    try_out,
    with_max_tokens,
    worst_batches,
)
from transformer_mt.profiling.timed_updates import PARTS, Workbench, in_new_processes
from transformer_mt.system.processes.distributed import ALONE, Ranks
from transformer_mt.training.batches import plan_epoch


@pytest.fixture(scope="module")
def cfg(tmp_path_factory: pytest.TempPathFactory, toy_pairs: list[tuple[str, str]]) -> Config:
    folder = tmp_path_factory.mktemp("corpus")
    for name, pairs in {"train": toy_pairs[:180], "dev": toy_pairs[180:]}.items():
        for side, code in enumerate(("zh", "en")):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            (folder / f"{name}.{code}").write_text(text, encoding="utf-8")
    clean = dict.fromkeys(("mismatch", "duplicate", "length_ratio", "numbers", "repeated"), False)
    tree = {
        "name": "x",
        "languages": {"src": "zh", "tgt": "en"},
        "data": {
            "root": str(folder), "train": ["train"], "dev": ["dev"], "test": {"toy": "dev"},
            "clean": {**clean, "overlap": False}, "workers": 1,
        },
        "tokenizer": {"vocab_size": 320},
        "model": {"d_model": 16, "heads": 2, "ffn": 32, "encoder_layers": 1, "decoder_layers": 1},
        "train": {"max_tokens": 200, "tokens_per_update": 400, "precision": "fp32"},
    }  # fmt: skip
    return build_config(tree, "test")


@pytest.fixture(scope="module")
def run(cfg: Config, tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = Run(tmp_path_factory.mktemp("run"))
    local = obtain_sources(cfg, print)
    prepare(local, fingerprints(local), run, print)
    return run


def test_an_update_counts_its_real_tokens_and_changes_no_weight(cfg: Config, run: Run) -> None:
    corpus = open_corpus(run.encoded_dir / "train")
    bench = Workbench(cfg, run, corpus, ALONE)
    batches = plan_first_epoch(cfg, corpus).update(0)
    before = bench.optimizer.master.clone()
    start = bench.now()
    cost = bench.update(batches)
    seconds = bench.now() - start
    rows = np.concatenate(batches)
    assert cost.src_tokens == corpus.src.lengths[rows].sum()
    assert cost.tgt_tokens == corpus.tgt.lengths[rows].sum()
    assert list(cost.seconds) == list(PARTS)
    assert min(cost.seconds.values()) > 0 and sum(cost.seconds.values()) <= seconds
    assert before.equal(bench.optimizer.master)


def test_the_worst_batches_are_the_longest_the_largest_and_the_most_to_write() -> None:
    src = np.array([90, 10, 10, 10, 10, 3, 3, 3, 3, 3, 3])
    tgt = np.array([2, 10, 10, 10, 10, 9, 9, 9, 9, 9, 9])
    plan = plan_epoch(src, tgt, max_tokens=60, tokens_per_update=60, seed=1, epoch=0)
    chosen = [set(plan.batch(index)) for index in worst_batches(plan, src, tgt)]
    assert {0} in chosen, "one sentence, but the longest"
    assert {5, 6, 7, 8, 9, 10} in chosen, "54 tokens to write"
    sizes = [len(b) * (src[b].max() + tgt[b].max()) for b in plan.batches()]
    assert max(sizes) in [len(b) * (src[b].max() + tgt[b].max()) for b in map(list, chosen)], (
        "and the most positions"
    )


def test_a_trial_plans_what_training_will_do(cfg: Config, run: Run) -> None:
    corpus_dir = run.encoded_dir / "train"
    found = try_out(TrialTask(cfg, run.directory, corpus_dir, budget_s=0.2), ALONE)
    corpus = open_corpus(corpus_dir)
    plan = plan_first_epoch(cfg, corpus)
    assert (found.pairs, found.updates) == (len(corpus), len(plan))
    assert found.tgt_tokens == corpus.tgt.lengths.sum()
    assert found.dev_pairs == 20
    assert min(found.tgt_tokens_per_s, found.validation_s, found.checkpoint_s) > 0
    twice = try_out(TrialTask(cfg, run.directory, corpus_dir, copies=2, budget_s=0.2), ALONE)
    assert (twice.pairs, twice.tgt_tokens) == (2 * found.pairs, 2 * found.tgt_tokens)
    assert twice.tgt_padding <= found.tgt_padding, "more sentences fit better together"


def test_the_optimizer_counts_once_per_update_however_little_was_done(
    cfg: Config, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that gives each micro-batch 1 s and each optimizer step 10 s."""
    corpus = open_corpus(run.encoded_dir / "train")
    bench = Workbench(cfg, run, corpus, ALONE)
    plan = plan_first_epoch(cfg, corpus)
    clock = [0.0]
    monkeypatch.setattr(bench, "now", lambda: clock[0])
    micro_batch, step = bench._micro_batch, bench.optimizer.step

    def slow_batch(*args: Any, **options: Any) -> Any:
        clock[0] += 1
        return micro_batch(*args, **options)

    def slow_step(*args: Any) -> float:
        clock[0] += 10
        return step(*args)

    monkeypatch.setattr(bench, "_micro_batch", slow_batch)
    monkeypatch.setattr(bench.optimizer, "step", slow_step)
    n_batches, n_tokens = len(plan.batch_starts) - 1, int(corpus.tgt.lengths.sum())
    assert n_batches > len(plan)
    speed = trial._measure_speed(bench, plan, n_tokens / len(plan), 100.0, ALONE)
    assert speed == pytest.approx(n_tokens / (n_batches + 10 * len(plan)), rel=0.15)


def _tokens_of(task: TrialTask, ranks: Ranks) -> tuple[list[int], int]:
    corpus = open_corpus(task.corpus_dir)
    bench = Workbench(task.cfg, Run(task.run_dir), corpus, ranks)
    cost = bench.update(plan_first_epoch(task.cfg, corpus).update(0))
    return ranks.gather(cost.tgt_tokens), ranks.size


def test_two_processes_share_an_update(cfg: Config, run: Run) -> None:
    task = TrialTask(cfg, run.directory, run.encoded_dir / "train")
    tokens, size = in_new_processes(_tokens_of, task, 2)
    assert size == len(tokens) == 2 and min(tokens) > 0
    assert sum(tokens) == _tokens_of(task, ALONE)[0][0]


def _peak_of(task: TrialTask, ranks: Ranks) -> float:
    return Workbench(
        task.cfg, Run(task.run_dir), open_corpus(task.corpus_dir), ranks
    ).peak_memory_mib()


@pytest.mark.skipif(sys.platform != "linux", reason="others do not say it of a single process")
def test_what_this_process_holds_does_not_count(cfg: Config, run: Run) -> None:
    task = TrialTask(cfg, run.directory, run.encoded_dir / "train")
    ballast = np.ones(10**8)  # 763 MiB
    assert 20 < in_new_processes(_peak_of, task, 1) < ballast.nbytes / 2**20


def _die(task: str, ranks: Ranks) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _abort(task: str, ranks: Ranks) -> None:
    os.abort()


def _need_too_much(task: str, ranks: Ranks) -> None:
    raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate …")


def _give_up(task: str, ranks: Ranks) -> None:
    raise DataError(f"{task} is missing")


@pytest.mark.parametrize(
    ("work", "expected", "message"),
    [
        (_die, TrainingError, r"do not fit into memory .* killed.*: lower train\.max_tokens"),
        (_abort, TrainingError, "^a process that trained for a trial ended: .* SIGABRT"),
        (_need_too_much, TrainingError, r"refused more memory\): lower train\.max_tokens"),
        (_give_up, DataError, "^the file is missing$"),
    ],
)
def test_what_ends_a_trial_is_told(
    work: Callable[[str, Ranks], None], expected: type[Exception], message: str
) -> None:
    with pytest.raises(expected, match=message):
        in_new_processes(work, "the file", 1)


def test_max_tokens_auto_is_what_training_would_choose(cfg: Config, run: Run) -> None:
    assert with_max_tokens(cfg, run, ALONE) is cfg
    train = cfg.train.model_copy(update={"max_tokens": "auto"})
    chosen = with_max_tokens(cfg.model_copy(update={"train": train}), run, ALONE).train.batch_tokens
    longest = max(side.lengths.max() for side in (
        open_corpus(run.encoded_dir / "train").src, open_corpus(run.encoded_dir / "train").tgt
    ))  # fmt: skip
    assert longest <= chosen <= cfg.train.tokens_per_update + 64
