"""Train variants of one configuration, each for the same time or updates, and print one table.

    python scripts/bench/ablations.py CONFIG --minutes 15 --set data.root=FOLDER --variant base \\
        --variant "modern: model.architecture=modern model.norm=pre" \\
        --variant "6+2: model.encoder_layers=6 model.decoder_layers=2" --out runs/ablations

A variant is a name and what it sets, beside what `--set` gives to all of them. Each is a
`tmt train` of its own in OUT/NAME, with its output in OUT/NAME/train.log; with `--seeds 3` there
are three of each, and the table has means ± standard errors; `--figure FILE.png` draws the loss on
dev by minutes. The first variant's data is prepared
once and copied to the others, which redo only what their settings change. The table is Markdown, on
standard output. The same command again goes on where it was stopped.
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
from transformer_mt.config.presets import find_config
from transformer_mt.errors import ConfigError
from transformer_mt.evaluation.test_sets import describe_model
from transformer_mt.model_dir import read_metadata
from transformer_mt.pipeline.records import read_metrics
from transformer_mt.pipeline.run_dir import Run
from transformer_mt.rendering.figures import figure_style, new_figure, save_figure

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
    ends = [f"train.max_updates={n_updates}", f"train.max_minutes={clock}", "train.patience=null"]
    # A number of updates would count from the last one, which the clock does not know.
    return ends if minutes is None else [*ends, "train.cooldown_updates=auto"]


def read_variants(text: str, common: list[str], out_dir: Path, n_seeds: int) -> list[Variant]:
    """`NAME` or `NAME: a.b=c d.e=f`, once for each seed; values with spaces stand in quotes.

    Raises:
        ConfigError: the name cannot be a folder.
    """
    name, _, settings = (part.strip() for part in text.partition(":"))
    if not re.fullmatch(r"[\w+][\w+., -]*", name):
        raise ConfigError(
            f"--variant {text!r}: expected NAME or 'NAME: section.key=value …', with a name of "
            "letters, digits, spaces and + . , - _"
        )
    folder, shared = name.replace(" ", "-"), [*common, *shlex.split(settings)]
    if n_seeds == 1:
        return [Variant(name, shared, Run(out_dir / folder))]
    return [
        Variant(name, [*shared, f"seed={seed}"], Run(out_dir / f"{folder}-seed{seed}"))
        for seed in range(1, n_seeds + 1)
    ]


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
    """Lines of Markdown, one for each name; names without a finished model say so."""
    finished = [v for v in variants if (v.run.model_dir / "metadata.json").is_file()]
    tests = sorted({name for v in finished for name in read_metadata(v.run.model_dir)["scores"]})
    columns = ["variant", "parameters", "updates", "minutes", "tgt tokens/s"]
    columns += ["best dev loss", "best dev BLEU", "best dev chrF"]
    columns += [f"{name} BLEU / chrF" for name in tests]
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"
    for name in dict.fromkeys(variant.name for variant in variants):
        runs = [variant.run for variant in finished if variant.name == name]
        cells = row(runs, tests) if runs else ["not finished"]
        cells += ["–"] * (len(columns) - 1 - len(cells))
        yield f"| {' | '.join([name, *cells])} |"


def row(runs: list[Run], tests: list[str]) -> list[str]:
    """What the columns after the name say of the finished runs of a variant."""
    records = [read_metrics(run.metrics_path) for run in runs]
    metadata = [read_metadata(run.model_dir) for run in runs]

    def over_seeds(choose: Callable[[list[float]], float], event: str, key: str) -> list[float]:
        found = (values(of_run, event, key) for of_run in records)
        return [choose(of_run) for of_run in found if of_run]

    return [
        f"{describe_model(runs[0].model_dir)['parameters'] / 1e6:.2f} M",
        mean([m["trained"]["updates"] for m in metadata], ".0f"),
        mean([m["trained"]["minutes"] for m in metadata], ".1f"),
        mean(over_seeds(statistics.median, "train", "tgt_tokens_per_s"), ",.0f"),
        mean(over_seeds(min, "validation", "loss"), ".3f"),
        mean(over_seeds(max, "validation", "bleu"), ".2f"),
        mean(over_seeds(max, "validation", "chrf"), ".2f"),
        *(scores([m["scores"].get(name) for m in metadata]) for name in tests),
    ]


def values(records: list[dict[str, Any]], event: str, key: str) -> list[float]:
    """All finite ones; JSON has null for the others."""
    return [r[key] for r in records if r["event"] == event and r.get(key) is not None]


def mean(found: list[float], form: str) -> str:
    """With its standard error, if there are several."""
    if not found:
        return "–"
    middle = f"{statistics.mean(found):{form}}"
    if len(found) == 1:
        return middle
    return f"{middle} ± {statistics.stdev(found) / len(found) ** 0.5:{form}}"


def scores(by_run: list[dict[str, Any] | None]) -> str:
    """Variants may have test sets of their own."""
    found = [by_metric for by_metric in by_run if by_metric is not None]
    if not found:
        return "–"
    return " / ".join(mean([by[m]["score"] for by in found], ".2f") for m in ("bleu", "chrf"))


def draw(variants: list[Variant], path: Path) -> None:
    """Loss on dev by minutes of training: a line for each seed, a colour for each name."""
    with figure_style():
        figure = new_figure(6.4, 3.6)
        axes = figure.add_subplot()
        colours: dict[str, str] = {}
        for variant in variants:
            found = read_metrics(variant.run.metrics_path)
            dev = [r for r in found if r["event"] == "validation" and r["loss"] is not None]
            label = None if variant.name in colours else variant.name
            colour = colours.setdefault(variant.name, f"C{len(colours) % 10}")
            minutes = [r["minutes"] for r in dev]
            axes.plot(minutes, [r["loss"] for r in dev], "o-", ms=3, color=colour, label=label)
        axes.set(xlabel="minutes of training", ylabel="loss on dev, nats per token")
        axes.legend(frameon=False)
        save_figure(figure, path)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("config", type=find_config, help="a file, or the name of a bundled one")
    length = parser.add_mutually_exclusive_group(required=True)
    length.add_argument("--minutes", type=float, help="of training, for each variant")
    length.add_argument("--updates", type=int, help="for each variant, whatever time they take")
    parser.add_argument("--set", action="append", default=[], help="a.b=c, for all variants")
    parser.add_argument("--variant", action="append", required=True, help="NAME: a.b=c d.e=f")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--figure", type=Path, help="PNG of the losses on dev")
    parser.add_argument("--seeds", type=int, default=1, help="trainings of each variant")
    parser.add_argument("--jobs", type=int, default=1, help="variants at a time, one thread each")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    common = [*limits(arguments.minutes, arguments.updates), *arguments.set]
    environment = dict(os.environ)
    if arguments.jobs > 1:
        environment["OMP_NUM_THREADS"] = "1"
    try:
        variants = [
            variant
            for text in arguments.variant
            for variant in read_variants(text, common, arguments.out, arguments.seeds)
        ]
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
    if arguments.figure:
        draw(variants, arguments.figure)
    sys.exit(failed)


if __name__ == "__main__":
    main()
