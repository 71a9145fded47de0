"""The run directory: where the things of one experiment lie, and which run is the newest.

Knows paths only, not what is in the files.
"""

from pathlib import Path

from transformer_mt.errors import TmtError


class Run:
    """Where the things of one experiment lie."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.config_path = directory / "config.yaml"
        self.clean_dir = directory / "data" / "clean"
        self.report_path = directory / "data" / "report.html"
        self.work_dir = directory / "data" / "work"
        self.tokenizer_dir = directory / "data" / "tokenizer"
        self.encoded_dir = directory / "data" / "encoded"
        self.max_tokens_path = directory / "max_tokens.json"
        self.checkpoints_dir = directory / "checkpoints"
        self.metrics_path = directory / "metrics.jsonl"
        self.curves_path = directory / "curves.png"
        self.translations_dir = directory / "translations"
        self.model_dir = directory / "model"


def find_model(path: Path | None) -> Path:
    """The model directory that `path` means: itself, or the one in a run directory.

    Args:
        path: None: the newest finished run under `runs/`.
    Raises:
        TmtError: there is none.
    """
    if path is not None:
        inside = path / "model"
        return inside if (inside / "metadata.json").is_file() else path
    finished = Path("runs").glob("*/model/metadata.json")
    newest = max(finished, key=lambda file: file.stat().st_mtime, default=None)
    if newest is None:
        raise TmtError(
            "no finished run under runs/; train one (tmt train configs/tiny.yaml) "
            "or name a model directory with -m"
        )
    return newest.parent
