"""`tmt bench train`: how fast this machine trains, and where an update's time goes.

Comes in: a model size and two text files, or none for the bundled corpus. Goes out: real tokens per
second, seconds by part, the share of the machine's matrix-product peak, memory, and the time from
cold start to the first update. The corpus is prepared in a temporary folder; measured is in
processes that hold nothing else.
"""

import subprocess
import tempfile
import time
from dataclasses import asdict, dataclass
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
from transformer_mt.profiling.dry_run import plan_first_epoch, worst_batches
from transformer_mt.profiling.flops import peak_gflops
from transformer_mt.profiling.timed_updates import PARTS, Cost, Workbench, in_new_processes
from transformer_mt.system.output import write_text
from transformer_mt.system.processes.child_python import TMT, child_environment, python_command
from transformer_mt.system.processes.distributed import Ranks
from transformer_mt.text.languages import canonical_code
from transformer_mt.training.batches import padding_share

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
COLD_START_LIMIT_S = 600.0


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
    cfg: Config
    run_dir: Path
    n_updates: int


@dataclass(frozen=True)
class Measured:
    """What the processes found together."""

    parameters: int
    device: str
    precision: str
    threads: int
    padding: tuple[float, float]
    update_s: list[float]  # of each counted update
    costs: list[Cost]  # tokens and operations of all processes, seconds of the first
    peak_gflops: float
    peak_memory_mib: float


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
        measured = in_new_processes(measure, BenchTask(cfg, run.directory, n_updates), processes)
        first_update_s = cold_start_seconds(cfg, run, processes)
    return _report(cfg, size, processes, measured, first_update_s)


def measure(task: BenchTask, ranks: Ranks) -> Measured:
    """Carry out updates of the first epoch, and matrix products before and after them."""
    cfg, run = task.cfg, Run(task.run_dir)
    corpus = open_corpus(run.encoded_dir / "train")
    lengths = corpus.src.lengths, corpus.tgt.lengths
    plan = plan_first_epoch(cfg, corpus)
    bench = Workbench(cfg, run, corpus, ranks)
    peak = peak_gflops(bench.device, bench.dtype)
    for index in worst_batches(plan, *lengths):
        bench.update([plan.batch(index)] * ranks.size)
    costs, update_s = [], []
    for number in range(WARM_UP + task.n_updates):
        start = bench.now()
        cost = bench.update(plan.update(number % len(plan)))
        if number >= WARM_UP:
            update_s.append(bench.now() - start)
            costs.append(cost)
    peak = max(peak, peak_gflops(bench.device, bench.dtype))
    return Measured(
        parameters=bench.n_parameters,
        device=str(bench.device),
        precision=bench.precision,
        threads=torch.get_num_threads(),
        padding=(padding_share(plan, lengths[0]), padding_share(plan, lengths[1])),
        update_s=update_s,
        costs=_together(ranks.gather([asdict(cost) for cost in costs])),
        peak_gflops=sum(ranks.gather(peak)),
        peak_memory_mib=bench.peak_memory_mib(),
    )


def _together(costs_of_ranks: list[list[dict[str, Any]]]) -> list[Cost]:
    """Tokens and operations of all processes, update by update, with the seconds of the first."""
    updates = zip(*([Cost(**cost) for cost in costs] for costs in costs_of_ranks), strict=True)
    return [
        Cost(
            sum(cost.src_tokens for cost in costs),
            sum(cost.tgt_tokens for cost in costs),
            sum(cost.flops for cost in costs),
            costs[0].seconds,
        )
        for costs in updates
    ]


def _report(
    cfg: Config, size: Size, processes: int, measured: Measured, first_update_s: float
) -> BenchReport:
    timed = list(zip(measured.costs, measured.update_s, strict=True))
    gflops = median(cost.flops / seconds for cost, seconds in timed) / 1e9
    return BenchReport(
        size=size,
        parameters=measured.parameters,
        device=measured.device,
        precision=measured.precision,
        processes=processes,
        threads=measured.threads,
        max_tokens=cfg.train.batch_tokens,
        updates=len(timed),
        src_tokens_per_s=median(cost.src_tokens / seconds for cost, seconds in timed),
        tgt_tokens_per_s=median(cost.tgt_tokens / seconds for cost, seconds in timed),
        tokens_per_s=median((c.src_tokens + c.tgt_tokens) / seconds for c, seconds in timed),
        src_padding=measured.padding[0],
        tgt_padding=measured.padding[1],
        update_ms=1000 * median(measured.update_s),
        part_ms={part: 1000 * median(c.seconds[part] for c in measured.costs) for part in PARTS},
        gflops=gflops,
        peak_gflops=measured.peak_gflops,
        share_of_peak=gflops / measured.peak_gflops,
        peak_memory_mib=measured.peak_memory_mib,
        first_update_s=first_update_s,
    )


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
