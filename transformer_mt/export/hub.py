"""A model from the Hugging Face Hub: into a folder, or into the cache for `hf:OWNER/NAME`.

Only files that a model directory lists are fetched, and each is compared with its digest before the
directory takes its place: no pickle, no code, nothing half. $HF_TOKEN and $HF_ENDPOINT are those of
`huggingface_hub`. `hub_push.py` is the other way.
"""

import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformer_mt import __version__
from transformer_mt.corpus.sources.cache import default_cache
from transformer_mt.errors import ModelDirError, TmtError
from transformer_mt.messages.catalogue import tr
from transformer_mt.model_dir import CARD, FILES, METADATA, read_metadata
from transformer_mt.system.locks import locked
from transformer_mt.system.output import remove, write_json, writing_folder
from transformer_mt.system.state import Damaged, read_json, read_manifest
from transformer_mt.system.terminal import Say, is_quiet

if TYPE_CHECKING:
    from huggingface_hub import HfApi

MAIN = "main"  # the branch that a model without a revision is
PREFIX = "hf:"  # of a model on the Hub, where a path of a model is taken
_PART = r"[A-Za-z0-9](?:[\w.-]*\w)?"
_NAME = re.compile(rf"(?:{PREFIX})?({_PART}/{_PART})(?:@([\w./-]+))?", re.ASCII)
_COMMIT = re.compile("[0-9a-f]{40}")


@dataclass(frozen=True)
class HubName:
    """A model on the Hub. The revision is a branch, a tag or a commit."""

    repository: str  # OWNER/NAME
    revision: str = MAIN

    @classmethod
    def parse(cls, text: str, revision: str | None = None) -> "HubName":
        """Args: text: OWNER/NAME or OWNER/NAME@REVISION, with `hf:` before it or without."""
        found = _NAME.fullmatch(text)
        if not found or (revision and found[2]):
            raise TmtError(
                tr("{}: expected OWNER/NAME of a model on the Hub, or OWNER/NAME@REVISION", text)
            )
        return cls(found[1], revision or found[2] or MAIN)

    def __str__(self) -> str:
        end = "" if self.revision == MAIN else f"@{self.revision}"
        return f"{PREFIX}{self.repository}{end}"


def pull(name: HubName, path: Path, say: Say) -> str:
    """Fetch a model into a folder that is new or empty; the commit that it is of.

    Raises:
        TmtError: it cannot be had, is no model of tmt, or is damaged; then nothing is kept.
    """
    commit, files = _look_up(name)
    _fetch(HubName(name.repository, commit), files, path, say)
    return commit


def cached_model(text: str, say: Say) -> Path:
    """The model directory of `hf:OWNER/NAME`, without the network once it is in the cache."""
    name = HubName.parse(text)
    commits = _read_commits(name)
    commit = name.revision if _COMMIT.fullmatch(name.revision) else commits.get(name.revision)
    if commit and (found := _cached_path(name, commit)).is_dir():
        return found
    return pull_into_cache(name, say)


def pull_into_cache(name: HubName, say: Say) -> Path:
    """Fetch what a revision is today, unless the cache has it intact; its model directory."""
    commit, files = _look_up(name)
    path = _cached_path(name, commit)

    def wait() -> None:
        say(tr("waiting for another process that is {}", tr("getting {}", name)))

    with locked(path.parent.with_name("lock"), wait):
        if not _is_intact(path):
            remove(path)
            _fetch(HubName(name.repository, commit), files, path, say)
        write_json(_record(name), _read_commits(name) | {name.revision: commit})
    return path


def _cached_path(name: HubName, commit: str) -> Path:
    owner, _, own = name.repository.partition("/")
    return default_cache() / "models" / owner / commit / own  # called as the model is


def _record(name: HubName) -> Path:
    """The file that says which commit each revision was when it was fetched."""
    return default_cache() / "models" / f"{name.repository}.json"


def _read_commits(name: HubName) -> dict[str, str]:
    try:
        found = read_json(_record(name)) or {}
    except Damaged:
        return {}
    return {key: commit for key, commit in found.items() if _COMMIT.fullmatch(str(commit))}


def _is_intact(path: Path) -> bool:
    try:
        read_metadata(path)
    except ModelDirError:
        return False
    return True


def _look_up(name: HubName) -> tuple[str, set[str]]:
    """The commit of a revision, and the names of its files."""
    with explained(name):
        info = hub_api().model_info(name.repository, revision=name.revision)
    files = {file.rfilename for file in info.siblings or ()}
    if not _COMMIT.fullmatch(info.sha or ""):
        raise TmtError(tr("{}: the server names no commit", name))
    if METADATA not in files:
        raise TmtError(
            tr("{}: not a model of tmt: it has no {}; its files: {}",
               name, METADATA, ", ".join(sorted(files)[:8]) or tr("none"))
        )  # fmt: skip
    return str(info.sha), files


def _fetch(name: HubName, files: set[str], path: Path, say: Say) -> None:
    """Args: name: with a commit as its revision."""
    say(tr("getting {}", name))
    with writing_folder(path, None) as folder:
        _download(name, [METADATA], folder)
        try:
            listed = set((read_manifest(folder, METADATA) or {}).get("files", {}))
            if strange := sorted(listed - FILES):
                raise ModelDirError(
                    tr("it lists {}, which no model directory has", ", ".join(strange[:8]))
                )
            _download(name, sorted(listed & files) + [CARD] * (CARD in files), folder)
            shutil.rmtree(folder / ".cache", ignore_errors=True)  # of huggingface_hub
            read_metadata(folder)
        except (ModelDirError, Damaged) as error:
            text = str(error).replace(f"{folder}/", "").replace(str(folder), str(name))
            raise TmtError(tr("{}: nothing was kept: {}", name, text)) from error


def _download(name: HubName, files: Sequence[str], folder: Path) -> None:
    api = hub_api()
    for file in files:
        with explained(name):
            api.hf_hub_download(name.repository, file, revision=name.revision, local_dir=folder)


def hub_api() -> "HfApi":
    from huggingface_hub import HfApi
    from huggingface_hub.utils import disable_progress_bars

    if is_quiet() or not sys.stderr.isatty():
        disable_progress_bars()
    return HfApi(library_name="transformer-mt", library_version=__version__)


@contextmanager
def explained(name: HubName) -> Iterator[None]:
    """One message for each of the errors of `huggingface_hub`, which have no common class."""
    from huggingface_hub import errors

    try:
        yield
    except Exception as error:
        match error:
            case errors.GatedRepoError():
                text = tr("its owner grants access; ask for it on its page")
            case errors.RepositoryNotFoundError():
                text = tr("no such model on the Hub, or your token may not read it; check the "
                          "name, or hf auth login")  # fmt: skip
            case errors.RevisionNotFoundError():
                text = tr("the model has no such revision")
            case errors.LocalEntryNotFoundError() | errors.OfflineModeIsEnabled():
                text = _unreachable(error)
            case errors.HfHubHTTPError() if _status(error) in (401, 403):
                text = tr("your token may not do this; hf auth login with one that may")
            case errors.HfHubHTTPError() | ValueError():
                text = tr("the Hub refuses: {}", _one_line(error))
            case OSError() if isinstance(error.errno, int):
                raise  # of this machine, not of the network
            case _:
                text = _unreachable(error)
        raise TmtError(f"{name}: {text}") from error


def _unreachable(error: Exception) -> str:
    return tr("the Hub cannot be reached ({}); check the network, and HTTPS_PROXY if there is a "
              "proxy", _one_line(error))  # fmt: skip


def _status(error: Any) -> int | None:
    return None if error.response is None else int(error.response.status_code)


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
