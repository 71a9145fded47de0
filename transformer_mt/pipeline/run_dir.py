"""The run directory: where the things of one experiment lie, and which run is the newest."""

import difflib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from transformer_mt.errors import ModelDirError, TmtError
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.locks import locked
from transformer_mt.system.output import (
    refuse_foreign,
    remove,
    remove_made,
    write_json,
    write_text,
)
from transformer_mt.system.staging import remove_all_left_over
from transformer_mt.system.state import Damaged, read_json
from transformer_mt.system.terminal import say

_MARK = "run.json"
_CODE = r"[a-z]{2,3}(-[A-Za-z]{2,4})?"  # of a language, in the name of a direction
_OF_A_MODEL = "metadata.json"


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
        self.tracking_path = directory / "tracking.json"
        self.trace_path = directory / "trace.json.gz"
        self.curves_path = directory / "curves.png"
        self.translations_dir = directory / "translations"
        self.model_dir = directory / "model"
        self._cleared_path = directory / ".cleared"

    def claim(self) -> None:
        """Make the directory, or see that it is a run's: nothing else is ever written into."""
        mark = self.directory / _MARK
        if mark.is_file():
            return
        refuse_foreign(self.directory, None, ours=True)
        others = sorted(path.name for path in self.directory.glob("[!.]*"))
        # The marks of a tmt that wrote no run.json.
        trained = any(self.checkpoints_dir.glob("[0-9]*/progress.json"))
        if others and not trained and not (self.clean_dir / "stage.json").is_file():
            raise TmtError(
                tr(
                    "{}: is not a run of tmt, and holds {}{}; name a new directory with --run-dir",
                    self.directory,
                    ", ".join(others[:5]),
                    " …" * (len(others) > 5),
                )
            )
        write_json(mark, {"made_by": "tmt train: this directory is a run"})

    def insist(self) -> None:
        """Raises: TmtError: there is no run here."""
        if not self.config_path.is_file():
            raise TmtError(
                tr("{}: not a run: config.yaml is missing; tmt runs lists the runs", self.directory)
            )

    @contextmanager
    def held(self) -> Iterator[None]:
        """Claim the directory and train in it alone; left-overs of killed processes are removed."""
        self.claim()
        with locked(self.directory / ".lock", self._refuse):
            remove_all_left_over(self.directory)
            yield

    def refuse_while_held(self) -> None:
        """Raises: TmtError: another process trains in the directory."""
        with locked(self.directory / ".lock", self._refuse):
            pass

    def _refuse(self) -> None:
        raise TmtError(
            tr(
                "{}: another tmt train is at work here; wait for it, or use another --run-dir",
                self.directory,
            )
        )

    def forget_training(self) -> None:
        """Remove metrics, `max_tokens.json`, `tracking.json`, the model and its translations; files
        of others stay."""
        tests = [path.name.split(".")[1] for path in self.clean_dir.glob("test.*.src")]
        with suppress(Damaged):  # the text may be gone
            tests += (read_json(self.model_dir / _OF_A_MODEL) or {}).get("scores", {})
        found = {path.name: path for path in self.translations_dir.glob("*.txt")}
        form = re.compile(rf"({'|'.join(map(re.escape, tests))})(\.{_CODE}-{_CODE})?\.txt")
        written = [path for name, path in found.items() if tests and form.fullmatch(name)]
        for path in (self.metrics_path, self.max_tokens_path, self.tracking_path, *written):
            remove(path)
        remove_made(self.model_dir, _OF_A_MODEL)

    def was_cleared_for(self, agents: Sequence[str]) -> bool:
        """Whether one of these torchruns has already begun a fresh training here: they start the
        same command again where a process has died, or a machine has come."""
        try:
            cleared = self._cleared_path.read_text(encoding="utf-8").split("\n")
        except FileNotFoundError:
            return False
        return not {*cleared}.isdisjoint(agents)

    def remember_clearing(self, agents: Sequence[str]) -> None:
        if agents:
            write_text(self._cleared_path, "\n".join(sorted({*agents})))


def find_model(path: Path | None) -> Path:
    """The model directory of a path: itself, or the one in it; None: of the newest run in runs/.

    `hf:OWNER/NAME` is one on the Hub, which is fetched unless the cache has it.
    Raises:
        TmtError: there is none: no such directory, or a training that has not finished.
    """
    if path is not None and str(path).startswith("hf:"):
        from transformer_mt.export.hub import cached_model  # which loads torch

        return cached_model(str(path), say)
    if path is not None:
        if path.name in ("", ".."):  # exports are looked for beside it, by its name
            path = path.resolve()
        for directory in (path / "model", path):
            if (directory / _OF_A_MODEL).is_file():
                return directory
        raise ModelDirError(_no_model(path))
    finished = Path("runs").glob(f"*/model/{_OF_A_MODEL}")
    newest = max(finished, key=lambda file: file.stat().st_mtime, default=None)
    if newest is None:
        raise TmtError(
            tr(
                "no finished run under runs/; train one (tmt train tiny) or name a "
                "model directory with -m"
            )
        )
    return newest.parent


def _no_model(path: Path) -> str:
    """Why there is no model at a path, and what to do."""
    if (path / _MARK).is_file():
        made = [Run(path).config_path, path / "start.yaml"]
        config = next((file for file in made if file.is_file()), "CONFIG")
        return tr(
            "{}: its training has not finished; tmt train {} --run-dir {} goes on",
            path,
            config,
            path,
        )
    if path.is_dir():
        message = tr("{}: not a model directory: {} is missing", path, _OF_A_MODEL)
    elif path.exists():
        message = tr("{}: is a file; a model is named by its directory or that of its run", path)
    else:
        message = tr("{}: no such model directory", path)
    found = {
        file.parents[1].name: file.parents[1]
        for folder in (Path("runs"), path.parent)
        for file in sorted(folder.glob(f"*/model/{_OF_A_MODEL}"))
    }
    if not found:
        return tr("{}; train one with tmt train CONFIG", message)
    near = difflib.get_close_matches(path.name, found, n=4, cutoff=0.5) or list(found)[:4]
    return tr("{}; finished runs: {}", message, ", ".join(str(found[name]) for name in near))
