"""`tmt bench train`: how fast this machine trains, and where an update's time goes.

Comes in: a model size and two text files, or none for the bundled corpus. Goes out: real tokens per
second, seconds by part, the share of the machine's matrix-product peak, memory, and the time from
cold start to the first update. The corpus is prepared in a temporary folder; measured is in
processes that hold nothing else.
"""

import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, Literal, get_args

import torch

from transformer_mt.config.experiment import Config, build_config
from transformer_mt.corpus.sources.obtain import obtain_sources
from transformer_mt.encoding.encoded_corpus import open_corpus
from transformer_mt.errors import ConfigError, DataError, TmtError, TokenizerError
from transformer_mt.pipeline.prepare import fingerprints, prepare
from transformer_mt.pipeline.run_dir import Run
from transformer_mt.profiling.dry_run import worst_batches
from transformer_mt.profiling.flops import peak_gflops
from transformer_mt.profiling.timed_updates import (
    FREE,
    PARTS,
    Cost,
    TimedTraining,
    in_new_processes,
)
from transformer_mt.system.output import write_text
from transformer_mt.system.processes.child_python import TMT, child_environment, python_command
from transformer_mt.system.processes.distributed import Ranks
from transformer_mt.text.languages import canonical_code
from transformer_mt.training.batches import experiment_plan, padding_share

Size = Literal["tiny", "small", "base", "big"]

SIZES: dict[Size, dict[str, Any]] = {
    "tiny": {
        "d_model": 128, "heads": 4, "ffn": 256, "encoder_layers": 4, "decoder_layers": 4,
        "dropout": 0.3,
    },
    "small": {
        "d_model": 256, "heads": 4, "ffn": 1024, "encoder_layers": 3, "decoder_layers": 3,
    },
    "base": {},
    "big": {"d_model": 1024, "heads": 16, "ffn": 4096, "dropout": 0.3},
}  # fmt: skip
WARM_UP = 5  # updates that are not counted
FILE_VOCABULARY = 8000  # pieces, joint


@dataclass(frozen=True)
class BenchReport:
    """Medians over the counted updates. Tokens are real ones: padding is never counted."""

    size: str
    parameters: int
    device: str
    precision: str
    processes: int
    threads: int  # of each process
    max_tokens: int
    updates: int
    src_tokens_per_s: float
    tgt_tokens_per_s: float
    tokens_per_s: float
    src_padding: float  # share of positions
    tgt_padding: float
    update_ms: float
    part_ms: dict[str, float]  # of the first process
    gflops: float  # of the matrix products that the real tokens need, per second
    peak_gflops: float  # of one matrix product, in the same processes and precision
    share_of_peak: float
    peak_memory_mib: float  # of all processes
    first_update_s: float  # from the start of `tmt train` on a prepared corpus

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def render(self) -> str:
        lines = [
            f"{self.size}: {self.parameters / 1e6:.1f} M parameters · {self.precision} · "
            f"{self.processes} × {self.device}, {self.threads} threads each · micro-batches of "
            f"{self.max_tokens} tokens",
            f"  tokens/s       {self.tgt_tokens_per_s:,.0f} target, {self.src_tokens_per_s:,.0f} "
            f"source, {self.tokens_per_s:,.0f} together",
            f"  padding        {self.src_padding:.1%} of source, {self.tgt_padding:.1%} of target",
            f"  update         {self.update_ms:.1f} ms, median of {self.updates}",
        ]
        lines += [f"    {part:<12} {self.part_ms[part]:.1f} ms" for part in PARTS]
        lines += [
            f"  arithmetic     {self.gflops:,.0f} of {self.peak_gflops:,.0f} GFLOP/s: "
            f"{self.share_of_peak:.1%}",
            f"  peak memory    {self.peak_memory_mib:,.0f} MiB",
            f"  cold start     {self.first_update_s:.1f} s to the first update",
        ]
        return "\n".join(lines)


@dataclass(frozen=True)
class BenchTask:
    size: Size
    cfg: Config
    run_dir: Path
    n_updates: int


def bench_configuration(
    size: Size, src_path: Path | None, tgt_path: Path | None, *, max_tokens: int, precision: str
) -> Config:
    """The experiment to measure: each update is one micro-batch per process.

    Raises:
        ConfigError: only one path, or no languages in the names of the files.
    """
    if (src_path is None) != (tgt_path is None):
        raise ConfigError("--src and --tgt go together: two files, line by line translations")
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
    return build_config(tree, "tmt bench")


def _language_of(path: Path) -> str:
    """The language that a file is named after: `train.en`, `train.en.gz`."""
    for suffix in reversed(path.suffixes):
        try:
            return canonical_code(suffix[1:])
        except TmtError:
            continue
    raise ConfigError(
        f"{path}: the name of the file must end with its language: {path.stem}.en, {path.stem}.zh …"
    )


def bench_training(cfg: Config, size: Size, *, n_updates: int, processes: int) -> BenchReport:
    """Prepare the corpus, measure, and start `tmt train` once for its first update.

    Raises:
        TmtError: the corpus cannot be prepared, or is too small; a process failed.
    """
    tokens_per_update = cfg.train.batch_tokens * processes
    train = cfg.train.model_copy(update={"tokens_per_update": tokens_per_update})
    cfg = cfg.model_copy(update={"train": train})
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        run = Run(Path(folder) / "run")
        local = obtain_sources(cfg, lambda _: None)
        try:
            prepare(local, fingerprints(local), run, lambda _: None)
        except TokenizerError as error:
            raise DataError(
                f"too little text to measure with; give a larger corpus ({error})"
            ) from (error)
        task = BenchTask(size, cfg, run.directory, n_updates)
        report = in_new_processes(measure, task, processes)
        return replace(report, first_update_s=cold_start_seconds(cfg, run, processes))


def measure(task: BenchTask, ranks: Ranks) -> BenchReport:
    """Carry out updates of the first epoch, and matrix products before and after them.

    Returns:
        All but `first_update_s`.
    """
    cfg, run = task.cfg, Run(task.run_dir)
    corpus = open_corpus(run.encoded_dir / "train")
    src_lengths, tgt_lengths = corpus.src.lengths, corpus.tgt.lengths
    plan = experiment_plan(cfg, corpus, epoch=0)
    timed = TimedTraining(cfg, run, corpus, ranks)
    device, dtype = timed.device, timed.learner.dtype
    own_peak = peak_gflops(device, dtype)
    for index in worst_batches(plan, src_lengths, tgt_lengths):
        timed.update([plan.batch(index)] * ranks.size)
    own_costs, seconds = [], []
    for number in range(WARM_UP + task.n_updates):
        start = timed.now()
        cost = timed.update(plan.update(number % len(plan)))
        if number >= WARM_UP:
            seconds.append(timed.now() - start)
            own_costs.append(cost)
    own_peak = max(own_peak, peak_gflops(device, dtype))
    costs = _together(ranks.gather([asdict(cost) for cost in own_costs]))

    def per_second(amount: Callable[[Cost], int]) -> float:
        return median(amount(cost) / s for cost, s in zip(costs, seconds, strict=True))

    gflops, peak = per_second(lambda cost: cost.flops) / 1e9, sum(ranks.gather(own_peak))
    return BenchReport(
        size=task.size,
        parameters=timed.n_parameters,
        device=str(device),
        precision=timed.precision,
        processes=ranks.size,
        threads=torch.get_num_threads(),
        max_tokens=cfg.train.batch_tokens,
        updates=len(costs),
        src_tokens_per_s=per_second(lambda cost: cost.src_tokens),
        tgt_tokens_per_s=per_second(lambda cost: cost.tgt_tokens),
        tokens_per_s=per_second(lambda cost: cost.src_tokens + cost.tgt_tokens),
        src_padding=padding_share(plan, src_lengths),
        tgt_padding=padding_share(plan, tgt_lengths),
        update_ms=1000 * median(seconds),
        part_ms={part: 1000 * median(cost.seconds[part] for cost in costs) for part in PARTS},
        gflops=gflops,
        peak_gflops=peak,
        share_of_peak=gflops / peak,
        peak_memory_mib=timed.peak_memory_mib(),
        first_update_s=0.0,
    )


def _together(costs_of_ranks: list[list[dict[str, Any]]]) -> list[Cost]:
    """Tokens and operations of all processes, update by update, with the seconds of the first."""
    updates = zip(*([Cost(**cost) for cost in costs] for costs in costs_of_ranks), strict=True)
    return [replace(sum(costs, start=FREE), seconds=costs[0].seconds) for costs in updates]


def cold_start_seconds(cfg: Config, run: Run, processes: int) -> float:
    """From the start of `tmt train`, whose corpus is prepared, until it logs its first update.

    Raises:
        TmtError: it ended before that.
    """
    config_path = run.directory / "bench.yaml"
    write_text(config_path, cfg.to_yaml())
    command = python_command(
        TMT, "train", str(config_path), "--run-dir", str(run.directory),
        "--processes", str(processes),
    )  # fmt: skip
    lines: list[str] = []
    start = time.monotonic()
    with subprocess.Popen(
        command,
        env=child_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    ) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if line.startswith("update"):
                    return time.monotonic() - start
                lines.append(line)
        finally:
            process.kill()  # nothing of it is wanted any more
    raise TmtError(f"tmt train did not come to its first update:\n{''.join(lines[-20:])}")


def parse_size(text: str) -> Size:
    for size in get_args(Size):
        if text == size:
            return size
    raise ConfigError(f"--size {text}: use {', '.join(get_args(Size))}")
