"""Options of several commands, and how they read lines and write them.

Results go to standard output, everything else to standard error.
"""

import shlex
import sys
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from transformer_mt.errors import ConfigError, TmtError
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.terminal import Always, say, set_quiet, show

__all__ = ["Always", "say", "show"]

if TYPE_CHECKING:
    from transformer_mt.config.experiment import Config
    from transformer_mt.translation.translator import Translator

# Groups of `--help`, and the options of each.
EXPERIMENT, MACHINE, OUTPUT = "The experiment", "This machine", "Output"
PRECISIONS = ("auto", "fp32", "bf16", "fp16", "int8")  # of a search
_option: Any = typer.Option
_experiment, _machine, _output = (
    partial(_option, rich_help_panel=panel) for panel in (EXPERIMENT, MACHINE, OUTPUT)
)


def _use_device(choice: str) -> str:
    if choice != "auto":
        from transformer_mt.system.device import use_device

        use_device(choice)
    return choice


def _silence(quiet: bool) -> bool:
    set_quiet(quiet)
    return quiet


def _silence_all(quiet: bool) -> bool:
    set_quiet(quiet, errors_only=True)
    if quiet:
        warnings.simplefilter("ignore")
    return quiet


ConfigName = Annotated[
    str,
    typer.Argument(metavar="CONFIG", help="a YAML file, or a bundled one by name: see tmt config"),
]
Overrides = Annotated[
    list[str] | None,
    _experiment("--set", metavar="A.B=C", help="change one setting; may be given repeatedly"),
]
ModelPath = Annotated[
    Path | None,
    _option("-m", "--model",
            help="model or run directory, or hf:OWNER/NAME; default: the newest finished run"),
]  # fmt: skip
Into = Annotated[
    str | None, _option("--to", help="language to translate into, for a model of both directions")
]
Processes = Annotated[
    int | None,
    _machine(
        min=1, help="that share the work; default: one per GPU, or per core of a CPU, up to 8"
    ),
]
ExecutorAddress = Annotated[
    str | None,
    _machine("--executor", metavar="ADDRESS",
             help="prepare data on a cluster: dask://HOST:PORT, or mpi; the same as data.workers"),
]  # fmt: skip
Reverse = Annotated[
    bool, _experiment("--reverse", help="the same experiment in the other direction")
]
Offline = Annotated[
    bool, _machine("--offline", help="use what the cache holds, and never the network")
]
RunDir = Annotated[Path | None, _output(help="where everything goes; default: runs/<name>")]
AsJson = Annotated[bool, _output("--json", help="print JSON")]
Device = Annotated[
    str,
    _machine("--device", metavar="DEVICE", callback=_use_device,
             help="cpu, cuda, one GPU as cuda:1; auto: GPUs where there are some"),
]  # fmt: skip
SearchPrecision = Annotated[
    str,
    _machine("--precision", callback=lambda name: one_of("--precision", name, PRECISIONS),
             help="auto, fp32, bf16 or fp16; int8: products of large matrices, on CPUs with VNNI"),
]  # fmt: skip
Quiet = Annotated[
    bool, _output("--quiet", "-q", callback=_silence, help="only warnings and the end")
]
ErrorsOnly = Annotated[
    bool,
    _output("--quiet", "-q", callback=_silence_all, help="nothing but errors on standard error"),
]

Name = TypeVar("Name", bound=str)


def one_of(option: str, value: str, allowed: tuple[Name, ...]) -> Name:
    """Raises: TmtError: the value of an option, such as `--engine`, is not one of a few names."""
    for name in allowed:
        if value == name:
            return name
    *others, last = allowed
    before_last = tr(" or ") if others else ""
    raise TmtError(
        tr("{} {}: expected {}{}{}", option, value, ", ".join(others), before_last, last)
    )


def with_executor(overrides: list[str] | None, executor: str | None) -> list[str]:
    """Changed settings, and the place where data is prepared as one of them."""
    return [*(overrides or ()), *([] if executor is None else [f"data.workers={executor}"])]


def read_config(
    config: str, overrides: list[str] | None, *, reverse: bool = False, offline: bool = False
) -> "Config":
    """The configuration that a command line names, with its changes.

    Raises:
        ConfigError: see `load_config`; or it is a user's text.
    """
    from transformer_mt.config.experiment import load_experiment
    from transformer_mt.corpus.readers.paths import tells_languages

    if tells_languages(Path(config)):
        name = shlex.quote(config)
        raise ConfigError(
            tr("{}: is text, no configuration; tmt init {} > my.yaml writes one", config, name)
        )
    return load_experiment(config, overrides or (), reverse=reverse, offline=offline)


def find_model_path(model: Path | None) -> Path:
    """The model directory that -m means; one on the Hub comes into the cache."""
    from transformer_mt.pipeline.run_dir import find_model

    return find_model(model)


def load_translator(model: Path | None, *, precision: str = "auto") -> "Translator":
    from transformer_mt.translation.translator import Translator

    return Translator.load(find_model_path(model), precision=precision)


def input_lines(texts: list[str] | None, path: Path | None) -> Iterator[str]:
    """Arguments, or a file's lines, or those of standard input."""
    if texts and path:
        raise TmtError(tr("give texts or --input FILE, not both"))
    if texts:
        return (line for text in texts for line in text.split("\n"))
    from transformer_mt.corpus.readers.lines import split_lines, split_stream

    return split_lines(path) if path else split_stream(sys.stdin.buffer, tr("standard input"))


def write_lines(lines: Iterator[str], path: Path | None) -> None:
    """Print lines as they come, or put all of them into a file at once, at the end."""
    if path is None:
        for line in lines:
            show(line)
        return
    from transformer_mt.system.output import writing

    with writing(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
