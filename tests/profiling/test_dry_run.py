"""Measured is what trains: the same sentences and memory, and speed that adds up."""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from transformer_mt.config.experiment import Config, build_config
from transformer_mt.corpus.sources.obtain import obtain_sources
from transformer_mt.encoding.encoded_corpus import open_corpus
from transformer_mt.errors import DataError, TrainingError
from transformer_mt.pipeline.prepare import fingerprints, prepare
from transformer_mt.pipeline.run_dir import Run
from transformer_mt.profiling import dry_run as module
from transformer_mt.profiling.dry_run import (
    DryRunTask,
    dry_run,
    worst_batches,
)
from transformer_mt.profiling.timed_updates import PARTS, TimedTraining, in_new_processes
from transformer_mt.system.processes.distributed import ALONE, Ranks
from transformer_mt.training.batches import experiment_plan, plan_epoch


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


def copies(timed: TimedTraining) -> dict[str, Tensor]:
    return {name: w.clone() for name, w in timed.learner.optimizer.weights().items()}


def test_an_update_counts_its_real_tokens_and_changes_no_weight(cfg: Config, run: Run) -> None:
    corpus = open_corpus(run.encoded_dir / "train")
    timed = TimedTraining(cfg, run, corpus, ALONE)
    batches = experiment_plan(cfg, corpus, 0).update(0)
    before = copies(timed)
    start = timed.now()
    cost = timed.update(batches)
    seconds = timed.now() - start
    rows = np.concatenate(batches)
    assert cost.src_tokens == corpus.src.lengths[rows].sum()
    assert cost.tgt_tokens == corpus.tgt.lengths[rows].sum()
    assert list(cost.seconds) == list(PARTS)
    assert min(cost.seconds.values()) > 0 and sum(cost.seconds.values()) <= seconds
    assert all(weight.equal(before[name]) for name, weight in copies(timed).items())


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
    found = dry_run(DryRunTask(cfg, run.directory, corpus_dir, budget_s=0.2), ALONE)
    corpus = open_corpus(corpus_dir)
    plan = experiment_plan(cfg, corpus, 0)
    assert (found.pairs, found.updates) == (len(corpus), len(plan))
    assert found.tgt_tokens == corpus.tgt.lengths.sum()
    assert found.dev_pairs == 20
    assert min(found.tgt_tokens_per_s, found.validation_s, found.checkpoint_s) > 0
    twice = dry_run(DryRunTask(cfg, run.directory, corpus_dir, copies=2, budget_s=0.2), ALONE)
    assert (twice.pairs, twice.tgt_tokens) == (2 * found.pairs, 2 * found.tgt_tokens)
    assert twice.tgt_padding <= found.tgt_padding, "more sentences fit better together"


def test_the_optimizer_counts_once_per_update_however_little_was_done(
    cfg: Config, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that gives each micro-batch 1 s and each optimizer step 10 s."""
    corpus = open_corpus(run.encoded_dir / "train")
    timed = TimedTraining(cfg, run, corpus, ALONE)
    plan = experiment_plan(cfg, corpus, 0)
    clock = [0.0]
    monkeypatch.setattr(timed, "now", lambda: clock[0])
    micro_batch, step = timed._micro_batch, timed.learner.optimizer.step

    def slow_batch(*args: Any, **options: Any) -> Any:
        clock[0] += 1
        return micro_batch(*args, **options)

    def slow_step(*args: Any) -> float:
        clock[0] += 10
        return step(*args)

    monkeypatch.setattr(timed, "_micro_batch", slow_batch)
    monkeypatch.setattr(timed.learner.optimizer, "step", slow_step)
    n_batches, n_tokens = len(plan.batch_starts) - 1, int(corpus.tgt.lengths.sum())
    assert n_batches > len(plan)
    speed = module._measure_speed(timed, plan, n_tokens / len(plan), 100.0, ALONE)
    assert speed == pytest.approx(n_tokens / (n_batches + 10 * len(plan)), rel=0.15)


def _tokens_of(task: DryRunTask, ranks: Ranks) -> tuple[list[int], int]:
    corpus = open_corpus(task.corpus_dir)
    timed = TimedTraining(task.cfg, Run(task.run_dir), corpus, ranks)
    cost = timed.update(experiment_plan(task.cfg, corpus, 0).update(0))
    return ranks.gather(cost.tgt_tokens), ranks.size


def test_two_processes_share_an_update(cfg: Config, run: Run) -> None:
    task = DryRunTask(cfg, run.directory, run.encoded_dir / "train")
    tokens, size = in_new_processes(_tokens_of, task, 2)
    assert size == len(tokens) == 2 and min(tokens) > 0
    assert sum(tokens) == _tokens_of(task, ALONE)[0][0]


def _peak_of(task: DryRunTask, ranks: Ranks) -> float:
    return TimedTraining(
        task.cfg, Run(task.run_dir), open_corpus(task.corpus_dir), ranks
    ).peak_memory_mib()


@pytest.mark.skipif(sys.platform != "linux", reason="others do not say it of a single process")
def test_what_this_process_holds_does_not_count(cfg: Config, run: Run) -> None:
    task = DryRunTask(cfg, run.directory, run.encoded_dir / "train")
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
        (_abort, TrainingError, "^a process that measured training ended: .* SIGABRT"),
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
    assert module._with_max_tokens(cfg, run, ALONE) is cfg
    train = cfg.train.model_copy(update={"max_tokens": "auto"})
    resolved = module._with_max_tokens(cfg.model_copy(update={"train": train}), run, ALONE)
    longest = max(side.lengths.max() for side in (
        open_corpus(run.encoded_dir / "train").src, open_corpus(run.encoded_dir / "train").tgt
    ))  # fmt: skip
    assert longest <= resolved.train.batch_tokens <= cfg.train.tokens_per_update + 64
