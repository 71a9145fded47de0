"""`tmt bench train`: how fast this machine trains, and where an update's time goes.

Comes in: a model size and two text files, or none for the bundled corpus. The corpus is prepared in
a temporary folder; measured is in processes that hold nothing else.
"""

import subprocess
import tempfile
import time
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Literal

import torch

from transformer_mt.config.experiment import Config, build_config
from transformer_mt.corpus.readers.tables import language_of
from transformer_mt.corpus.sources.obtain import obtain_sources
from transformer_mt.errors import ConfigError, DataError, TmtError, TokenizerError
from transformer_mt.messages.catalogue import tr
from transformer_mt.pipeline.prepare import fingerprints, prepare
from transformer_mt.pipeline.run_dir import Run
from transformer_mt.profiling.flops import peak_gflops
from transformer_mt.profiling.timed_updates import (
    GPU_PARTS,
    GPU_WARM_UP,
    PARTS,
    TimedTraining,
    TrainingSetup,
    first_block,
    in_new_processes,
)
from transformer_mt.rendering.progress import Stages
from transformer_mt.system.output import write_text
from transformer_mt.system.processes.child_python import TMT, child_environment, python_command
from transformer_mt.system.processes.distributed import Ranks

Size = Literal["tiny", "small", "base", "big"]

SIZES: dict[Size, dict[str, Any]] = {
    "tiny": {
        "d_model": 128, "heads": 4, "ffn": 256, "encoder_layers": 4, "decoder_layers": 4,
        "dropout": 0.3,
    },
    "small": {"d_model": 256, "heads": 4, "ffn": 1024, "encoder_layers": 3, "decoder_layers": 3},
    "base": {},
    "big": {"d_model": 1024, "heads": 16, "ffn": 4096, "dropout": 0.3},
}  # fmt: skip
WARM_UP = 5  # updates that are not counted
FILE_VOCABULARY = 8000  # pieces, joint


@dataclass(frozen=True)
class BenchReport(TrainingSetup):
    """Medians over the counted updates. Tokens are real ones: padding is never counted."""

    size: str
    threads: int  # of each process
    updates: int
    src_tokens_per_s: float
    tgt_tokens_per_s: float
    tokens_per_s: float
    update_ms: float
    part_ms: dict[str, float]  # of the first process
    gflops: float  # of the matrix products that the real tokens need, per second
    peak_gflops: float  # of one matrix product, in the same processes and precision
    share_of_peak: float
    first_update_s: float = 0.0  # from the start of `tmt train` on a prepared corpus

    def render(self) -> str:
        lines = [
            tr(
                "{}: {:.1f} M parameters · {} · {} × {}, {} threads each · "
                "micro-batches of {} tokens",
                self.size,
                self.parameters / 1000000.0,
                self.precision,
                self.processes,
                self.device,
                self.threads,
                self.max_tokens,
            ),
            tr(
                "  tokens/s       {:,.0f} target, {:,.0f} source, {:,.0f} together",
                self.tgt_tokens_per_s,
                self.src_tokens_per_s,
                self.tokens_per_s,
            ),
            tr(
                "  padding        {:.1%} of source, {:.1%} of target",
                self.src_padding,
                self.tgt_padding,
            ),
            tr("  update         {:.1f} ms, median of {}", self.update_ms, self.updates),
            *(f"    {part:<12} {ms:.1f} ms" for part, ms in self.part_ms.items()),
            tr(
                "  arithmetic     {:,.0f} of {:,.0f} GFLOP/s: {:.1%}",
                self.gflops,
                self.peak_gflops,
                self.share_of_peak,
            ),
            tr("  peak memory    {:,.0f} MiB", self.peak_memory_mib),
            tr("  cold start     {:.1f} s to the first update", self.first_update_s),
        ]
        return "\n".join(lines)


def bench_configuration(
    size: Size, src_path: Path | None, tgt_path: Path | None, *, max_tokens: int, precision: str
) -> Config:
    """The experiment to measure.

    Raises:
        ConfigError: only one path, or no languages in the names of the files.
    """
    if (src_path is None) != (tgt_path is None):
        raise ConfigError(tr("--src and --tgt go together: two files, line by line translations"))
    tree: dict[str, Any] = {
        "name": f"bench-{size}",
        "languages": {"src": "zh", "tgt": "en"},
        "data": {"train": [{"demo": True}], "dev": [{"demo": True}]},
        "tokenizer": {"vocab_size": [902, 1200]},
        "model": SIZES[size],
        "train": {"max_tokens": max_tokens, "precision": precision, "log_every": 1},
    }
    if src_path is not None and tgt_path is not None:
        paths = [str(src_path.resolve()), str(tgt_path.resolve())]
        tree["languages"] = {"src": _language_of(src_path), "tgt": _language_of(tgt_path)}
        tree["data"] = {"train": [{"files": paths}]}
        tree["tokenizer"] = {"vocab_size": FILE_VOCABULARY, "joint": True}
    return build_config(tree, tr("tmt bench"))


def _language_of(path: Path) -> str:
    """The language that a file is named after: `train.en`, `train.en.gz`."""
    for suffix in reversed(path.suffixes):
        if code := language_of(suffix[1:]):
            return code
    raise ConfigError(
        tr(
            "{}: the name of the file must end with its language: {}.en, {}.zh …",
            path,
            path.stem,
            path.stem,
        )
    )


def bench_training(
    cfg: Config, size: Size, *, n_updates: int, processes: int, stages: Stages | None = None
) -> BenchReport:
    """Prepare the corpus, measure, and start `tmt train` once for its first update.

    On a CPU an update is one micro-batch per process; on a GPU it has as many target tokens as the
    configuration says, if that is more.

    Args:
        stages: told of the work as it goes on.
    Raises:
        TmtError: the corpus cannot be prepared, or is too small; a process failed.
    """
    tokens_per_update = cfg.train.batch_tokens * processes
    if torch.cuda.is_available():  # one micro-batch would be little beside the optimizer's step
        tokens_per_update = max(tokens_per_update, cfg.train.tokens_per_update)
    train = cfg.train.model_copy(update={"tokens_per_update": tokens_per_update})
    cfg = cfg.model_copy(update={"train": train})
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        run, stages = Run(Path(folder) / "run"), stages or Stages()
        stages.begin(tr("preparing the corpus"))
        local = obtain_sources(cfg, lambda _: None)
        try:
            prepare(local, fingerprints(local), run, lambda _: None)
        except TokenizerError as error:
            message = tr("too little text to measure with; give a larger corpus ({})", error)
            raise DataError(message) from error
        stages.begin(tr("measuring {} updates", n_updates))
        report = in_new_processes(partial(measure, size, cfg, run.directory, n_updates), processes)
        stages.begin(tr("starting tmt train once, up to its first update"))
        return replace(report, first_update_s=cold_start_seconds(cfg, run, processes))


def measure(size: Size, cfg: Config, run_dir: Path, n_updates: int, ranks: Ranks) -> BenchReport:
    """Carry out updates of the first epoch, and matrix products before and after them."""
    run = Run(run_dir)
    timed = TimedTraining(cfg, run, first_block(cfg, run), ranks)
    own_peak = peak_gflops(timed.device, timed.learner.dtype)
    timed.update_with_worst()
    own_costs, seconds = [], []
    warm_up = WARM_UP if timed.device.type == "cpu" else GPU_WARM_UP
    updates = (timed.plan.update(n % len(timed.plan)) for n in range(warm_up + n_updates + 1))
    for number, (batches, following) in enumerate(pairwise(updates)):
        start = timed.now()
        cost = timed.update(batches, following)
        if number >= warm_up:
            seconds.append(timed.now() - start)
            own_costs.append(cost)
    own_peak = max(own_peak, peak_gflops(timed.device, timed.learner.dtype))
    costs = list(zip(*ranks.gather(own_costs), strict=True))  # update by update, of all processes

    def per_second(*names: str) -> float:
        amounts = (sum(cost[name] for cost in parts for name in names) for parts in costs)
        return median(amount / s for amount, s in zip(amounts, seconds, strict=True))

    gflops, peak = per_second("flops") / 1e9, sum(ranks.gather(own_peak))
    return BenchReport(
        **vars(timed.setup()),
        size=size,
        threads=torch.get_num_threads(),
        updates=len(costs),
        src_tokens_per_s=per_second("src_tokens"),
        tgt_tokens_per_s=per_second("tgt_tokens"),
        tokens_per_s=per_second("src_tokens", "tgt_tokens"),
        update_ms=1000 * median(seconds),
        part_ms={
            part: 1000 * median(cost[part] for cost in own_costs)
            for part in own_costs[0]
            if part in {*PARTS, *GPU_PARTS}
        },
        gflops=gflops,
        peak_gflops=peak,
        share_of_peak=gflops / peak,
    )


def cold_start_seconds(cfg: Config, run: Run, processes: int) -> float:
    """From the start of `tmt train`, whose corpus is prepared, until it logs its first update.

    Raises:
        TmtError: it ended before that.
    """
    config_path = run.directory / "bench.yaml"
    write_text(config_path, cfg.to_yaml())
    words = ["train", str(config_path), f"--run-dir={run.directory}", f"--processes={processes}"]
    command = python_command(TMT, *words)
    lines, start = list[str](), time.monotonic()
    with subprocess.Popen(
        command, env=child_environment(TMT_LANG="en"), stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, encoding="utf-8",
    ) as process:  # fmt: skip
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if line.startswith("update"):
                    return time.monotonic() - start
                lines.append(line)
        finally:
            process.kill()  # nothing of it is wanted any more
    raise TmtError(tr("tmt train did not come to its first update:\n{}", "".join(lines[-20:])))
