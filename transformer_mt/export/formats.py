"""The formats, by name. A format is a module of this folder with what `Format` names."""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from transformer_mt.errors import TmtError
from transformer_mt.messages.catalogue import tr

if TYPE_CHECKING:
    from transformer_mt.export.proof import ExportedModel, ExportTask

FORMATS = ("ctranslate2", "marian", "onnx", "argos", "bergamot", "html")


class Format(Protocol):
    """What `tmt export` needs of a format.

    Attributes:
        QUANTIZATIONS: the first is the default.
    """

    QUANTIZATIONS: tuple[str, ...]

    def refusals(self, task: "ExportTask") -> list[str]:
        """Every reason why the format cannot carry this model, and the nearest that it can."""

    def write(self, task: "ExportTask", folder: Path) -> None:
        """Write the export into an empty folder."""

    def load(self, task: "ExportTask", folder: Path) -> "ExportedModel":
        """Open in the real engine what `write` has written."""

    def next_step(self, path: Path, model_dir: Path) -> str:
        """What to type, or where to go, to use it."""


def load_format(name: str) -> Format:
    """Args: name: one of `FORMATS`."""
    return cast(Format, import_module(f"transformer_mt.export.{name}"))


def refusals_of(format_: Format, task: "ExportTask") -> list[str]:
    """Every reason why a format cannot carry this model, and the nearest that it can."""
    if task.translator.cfg.model.architecture == "rnn":
        return [tr("no format has this recurrent model (architecture: rnn)")]
    return format_.refusals(task)


def exported_path(model_dir: Path, name: str = "ctranslate2") -> Path:
    """Where the export of a model is written, and looked for."""
    return model_dir.with_name(f"{model_dir.name}.{name}")


def require(module: str, program: str, extra: str = "export") -> Any:
    """A package of an extra. Raises: TmtError: it is not installed."""
    try:
        return import_module(module)
    except ImportError as error:
        raise TmtError(
            tr("{} is not installed: pip install 'transformer-mt[{}]'", program, extra)
        ) from error
