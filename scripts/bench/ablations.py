"""Train variants of one configuration, each for the same time or updates, and print one table.

    python scripts/bench/ablations.py CONFIG --minutes 15 --set data.root=FOLDER --variant base \\
        --variant "modern: model.architecture=modern model.norm=pre" \\
        --variant "6+2: model.encoder_layers=6 model.decoder_layers=2" --out runs/ablations

A variant is a name and what it sets, beside what `--set` gives to all of them. Each is a
`tmt train` of its own in OUT/NAME, with its output in OUT/NAME/train.log. The first variant's data
is prepared once and copied to the others, which redo only what their settings change. The table is
Markdown, on standard output. The same command again goes on where it was stopped.
"""

import argparse
import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from transformer_mt.config.experiment import load_config
from transformer_mt.errors import ConfigError
from transformer_mt.evaluation.test_sets import describe_model
from transformer_mt.model_dir import read_metadata
from transformer_mt.pipeline.log import read_metrics
from transformer_mt.pipeline.run_dir import Run

NO_LIMIT = 10**9  # updates, where the clock decides


@dataclass(frozen=True)
class Variant:
    name: str
    settings: list[str]  # `a.b=c`, in the order in which they are applied
    run: Run

    def command(self, config: Path, *words: str) -> list[str]:
        """`tmt WORDS CONFIG …` in the run directory of this variant."""
        overrides = [part for setting in self.settings for part in ("--set", setting)]
        tmt = [sys.executable, "-m", "transformer_mt", *words, str(config)]
        return [*tmt, "--run-dir", str(self.run.directory), *overrides]


def limits(minutes: float | None, updates: int | None) -> list[str]:
    """Settings that let the clock or the number of updates, and nothing else, end training."""
    n_updates = NO_LIMIT if updates is None else updates
    clock = "null" if minutes is None else minutes
    return [f"train.max_updates={n_updates}", f"train.max_minutes={clock}", "train.patience=null"]


def read_variant(text: str, common: list[str], out_dir: Path) -> Variant:
    """`NAME` or `NAME: a.b=c d.e=f`; values with spaces stand in quotes.

    Raises:
        ConfigError: the name cannot be a folder.
    """
    name, _, settings = (part.strip() for part in text.partition(":"))
    if not re.fullmatch(r"[\w+][\w+., -]*", name):
        raise ConfigError(
            f"--variant {text!r}: expected NAME or 'NAME: section.key=value …', with a name of "
            "letters, digits, spaces and + . , - _"
        )
    return Variant(name, [*common, *shlex.split(settings)], Run(out_dir / name.replace(" ", "-")))


def check(variants: list[Variant], config: Path) -> None:
    """Raises: ConfigError: all that is wrong with the names and settings of all variants."""
    problems = []
    directories = [variant.run.directory for variant in variants]
    for directory in {d for d in directories if directories.count(d) > 1}:
        problems.append(f"--variant: two variants would lie in {directory}")
    for variant in variants:
        try:
            load_config(config, variant.settings)
        except ConfigError as error:
            problems += [f"{variant.name}: {line}" for line in str(error).split("\n")]
    if problems:
        raise ConfigError("\n".join(problems))


def share_data(variants: list[Variant], config: Path) -> None:
    """Prepare the first variant's data and copy it; stages that do not fit are made anew."""
    first, *others = variants
    if subprocess.run(first.command(config, "data", "prepare")).returncode:
        sys.exit(f"ablations: the data of {first.name} could not be prepared")
    for variant in others:
        target = variant.run.directory / "data"
        if not target.exists():
            temporary = target.with_name(".data.copy")
            shutil.rmtree(temporary, ignore_errors=True)
            shutil.copytree(first.run.directory / "data", temporary)
            temporary.rename(target)


def train(variant: Variant, *, config: Path, jobs: int, environment: dict[str, str]) -> int:
    """Train one variant, in one process if others train beside; its exit status."""
    variant.run.directory.mkdir(parents=True, exist_ok=True)
    with (variant.run.directory / "train.log").open("ab") as log:
        command = variant.command(config, "train")
        if jobs > 1:
            command += ["--processes", "1"]
        return subprocess.run(command, stderr=log, env=environment).returncode


def table(variants: list[Variant]) -> Iterator[str]:
    """Lines of Markdown; variants without a finished model say so."""
    finished = [v for v in variants if (v.run.model_dir / "metadata.json").is_file()]
    tests = {name for v in finished for name in read_metadata(v.run.model_dir)["scores"]}
    columns = ["variant", "parameters", "updates", "minutes", "tgt tokens/s", "best dev loss",
               "best dev BLEU", *(f"{name} BLEU / chrF" for name in sorted(tests))]  # fmt: skip
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"
    for variant in variants:
        cells = row(variant.run, sorted(tests)) if variant in finished else ["not finished"]
        cells += ["–"] * (len(columns) - 1 - len(cells))
        yield f"| {' | '.join([variant.name, *cells])} |"


def row(run: Run, tests: list[str]) -> list[str]:
    """What the columns after the name say of a finished run."""
    records = read_metrics(run.metrics_path)
    trained = read_metadata(run.model_dir)["trained"]
    return [
        f"{describe_model(run.model_dir)['parameters'] / 1e6:.2f} M",
        str(trained["updates"]),
        f"{trained['minutes']:.1f}",
        number(statistics.median, values(records, "train", "tgt_tokens_per_s"), ",.0f"),
        number(min, values(records, "validation", "loss"), ".3f"),
        number(max, values(records, "validation", "bleu"), ".2f"),
        *(scores(read_metadata(run.model_dir)["scores"].get(name)) for name in tests),
    ]


def values(records: list[dict[str, Any]], event: str, key: str) -> list[float]:
    """All finite ones; JSON has null for the others."""
    return [r[key] for r in records if r["event"] == event and r.get(key) is not None]


def number(choose: Callable[[list[float]], float], found: list[float], form: str) -> str:
    return f"{choose(found):{form}}" if found else "–"


def scores(by_metric: dict[str, Any] | None) -> str:
    if by_metric is None:  # a variant may have test sets of its own
        return "–"
    return " / ".join(f"{by_metric[metric]['score']:.2f}" for metric in ("bleu", "chrf"))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("config", type=Path)
    length = parser.add_mutually_exclusive_group(required=True)
    length.add_argument("--minutes", type=float, help="of training, for each variant")
    length.add_argument("--updates", type=int, help="for each variant, whatever time they take")
    parser.add_argument("--set", action="append", default=[], help="a.b=c, for all variants")
    parser.add_argument("--variant", action="append", required=True, help="NAME: a.b=c d.e=f")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=1, help="variants at a time, one thread each")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    common = [*limits(arguments.minutes, arguments.updates), *arguments.set]
    environment = dict(os.environ)
    if arguments.jobs > 1:
        environment["OMP_NUM_THREADS"] = "1"
    try:
        variants = [read_variant(text, common, arguments.out) for text in arguments.variant]
        check(variants, arguments.config)
    except ConfigError as error:
        sys.exit(f"ablations: {error}")
    share_data(variants, arguments.config)
    failed = False
    one = partial(train, config=arguments.config, jobs=arguments.jobs, environment=environment)
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for variant, status in zip(variants, pool.map(one, variants), strict=True):
            failed |= status != 0
            said = "done" if status == 0 else f"exit status {status}"
            print(f"{variant.name}: {said}, {variant.run.directory}/train.log", file=sys.stderr)
    print("\n".join(table(variants)))
    sys.exit(failed)


if __name__ == "__main__":
    main()
