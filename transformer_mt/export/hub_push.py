"""A model directory with its card and exports on the Hugging Face Hub, in one commit.

Nothing goes there that no manifest lists, and nothing there is replaced that tmt has not put there.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from transformer_mt import __version__
from transformer_mt.errors import TmtError
from transformer_mt.export.card import model_card
from transformer_mt.export.hub import HubName, explained, hub_api
from transformer_mt.export.proof import MANIFEST, ExportOrigin
from transformer_mt.messages.catalogue import tr
from transformer_mt.model_dir import CARD, FILES, METADATA, read_metadata, weights_digest
from transformer_mt.system.state import damages, read_manifest
from transformer_mt.system.terminal import Say

_MADE_BY_HUB = {".gitattributes", CARD}  # what a new repository may hold

Content = Path | bytes


def read_exports(model_dir: Path, paths: Sequence[Path]) -> dict[str, tuple[Path, ExportOrigin]]:
    """Exports by the folder that each gets in a repository.

    Raises:
        TmtError: no export, a damaged one, one of other weights, or two of the same kind.
    """
    found: dict[str, tuple[Path, ExportOrigin]] = {}
    for path in paths:
        origin = ExportOrigin.read(path)
        if origin is None:
            raise TmtError(tr("{}: not an export of tmt: {} is missing", path, MANIFEST))
        if problems := damages(path, read_manifest(path, MANIFEST) or {}):
            raise TmtError("\n".join(problems) + tr("; tmt export makes it anew"))
        if origin.weights != weights_digest(model_dir):
            raise TmtError(
                tr("{}: made from other weights than {}; tmt export makes it anew", path, model_dir)
            )
        name = f"{origin.format}-{origin.quantization}"
        if name in found:
            raise TmtError(tr("{} and {} are both {}; give one", found[name][0], path, name))
        found[name] = path, origin
    return found


def files_to_push(
    model_dir: Path, name: HubName, exports: Sequence[Path], licence: str | None
) -> dict[str, Content]:
    """Everything that a repository gets, by its place there.

    A README.md that lies in the model directory is the card, as it stands.
    """
    listed = read_metadata(model_dir)["files"]
    files: dict[str, Content] = {file: model_dir / file for file in (*listed, METADATA)}
    found = read_exports(model_dir, exports)
    own_card = model_dir / CARD
    if own_card.is_file() and licence:
        raise TmtError(
            tr(
                "{} is the card: write the licence into it, or remove it and have one made",
                own_card,
            )
        )
    card = model_card(model_dir, name.repository, licence, {k: o for k, (_, o) in found.items()})
    files[CARD] = own_card if own_card.is_file() else card.encode()
    for folder, (path, _) in found.items():
        manifest = read_manifest(path, MANIFEST) or {}
        for file in (*manifest.get("files", {}), MANIFEST):
            files[f"{folder}/{file}"] = path / file
    return files


def push(name: HubName, files: Mapping[str, Content], *, private: bool, say: Say) -> str:
    """Make a repository hold these files, in one commit; the address of the repository.

    Folders of earlier exports go; other files stay. The repository is made if there is none.

    Raises:
        TmtError: no token, no right to write, a public repository where a private one is asked for,
            or a repository with files that tmt did not put there.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, constants, get_token

    if not get_token():
        raise TmtError(
            tr("no token: make one that may write at {}/settings/tokens, then hf auth login, or "
               "set HF_TOKEN", constants.ENDPOINT)
        )  # fmt: skip
    api = hub_api()
    with explained(name):
        address = api.create_repo(name.repository, private=private or None, exist_ok=True)
        info = api.model_info(name.repository)
    there = {file.rfilename for file in info.siblings or ()}
    if private and not info.private:
        raise TmtError(tr("{} is public; make it private in its settings first", address))
    if METADATA not in there and (foreign := sorted(there - _MADE_BY_HUB)):
        raise TmtError(
            tr("{} holds files that tmt did not put there, such as {}; name another",
               address, ", ".join(foreign[:8]))
        )  # fmt: skip
    gone = _left_over(there, files)
    for file in gone:
        say(tr("removing {}", f"{name}: {file}"))
    operations: list[Any] = [CommitOperationDelete(path_in_repo=file) for file in gone]
    operations += [CommitOperationAdd(place, content) for place, content in sorted(files.items())]
    with explained(name):
        api.create_commit(
            name.repository, operations, commit_message=f"tmt {__version__}",
            parent_commit=info.sha,
        )  # fmt: skip
    return str(address)


def _left_over(there: set[str], files: Mapping[str, Content]) -> list[str]:
    """What an earlier push has put there and this one does not: of the model, and of exports."""
    exports = tuple(f"{Path(file).parent}/" for file in there if Path(file).name == MANIFEST)
    ours = {file for file in there if file in FILES or file.startswith(exports)}
    return sorted(ours - files.keys())


def checked_licence(text: str | None) -> str | None:
    """An identifier as the Hub writes it. Raises: TmtError: it cannot be one."""
    if text is not None and not re.fullmatch(r"[\w.-]+", text, re.ASCII):
        raise TmtError(
            tr("--license {}: expected an identifier such as apache-2.0, mit or cc-by-4.0", text)
        )
    return text and text.lower()
