"""`tmt push` and `tmt pull`: models on the Hugging Face Hub."""

from pathlib import Path
from typing import Annotated

import typer

from transformer_mt.cli.options import ModelPath, Quiet, find_model_path, say, show
from transformer_mt.errors import TmtError
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.terminal import show_document

_REPOSITORY = typer.Argument(metavar="OWNER/NAME", help="the repository on the Hub")
_EXPORT = "an export of the same model to go with it, in a folder of its own; may be repeated"
_LICENSE = "of the model, as the Hub writes it: apache-2.0, cc-by-4.0; default: unknown"


def push(
    repository: Annotated[str, _REPOSITORY],
    model: ModelPath = None,
    exports: Annotated[
        list[Path] | None, typer.Option("--export", metavar="DIR", help=_EXPORT)
    ] = None,
    license_: Annotated[str | None, typer.Option("--license", metavar="ID", help=_LICENSE)] = None,
    private: Annotated[
        bool, typer.Option("--private", help="a new repository that only its owner sees")
    ] = False,
    card: Annotated[
        bool, typer.Option("--card", help="print the card, and put nothing on the Hub")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Put a model on the Hugging Face Hub, with a card that says what it is and how good.

    Needs a token that may write: hf auth login, or HF_TOKEN. A README.md in the model directory
    is the card, as it stands.
    """
    from transformer_mt.export import hub_push
    from transformer_mt.export.hub import MAIN, HubName
    from transformer_mt.model_dir import CARD

    name = HubName.parse(repository)
    if name.revision != MAIN:
        raise TmtError(tr("{}: a push goes to {}; leave out @{}", name, MAIN, name.revision))
    model_dir = find_model_path(model)
    licence = hub_push.checked_licence(license_)
    files = hub_push.files_to_push(model_dir, name, exports or [], licence)
    if card:
        content = files[CARD]
        show_document(content.decode() if isinstance(content, bytes) else content.read_text())
        return
    address = hub_push.push(name, files, private=private, say=say)
    say(tr("{}; next: {}", address, tr("tmt translate -m {} TEXT", name)))


def pull(
    repository: Annotated[str, _REPOSITORY],
    out_dir: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="a new directory; default: the cache, for -m hf:…"),
    ] = None,
    revision: Annotated[
        str | None, typer.Option(help="a branch, tag or commit; default: main")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Fetch a model from the Hugging Face Hub, compare it with its digests, print where it is."""
    from transformer_mt.export import hub

    name = hub.HubName.parse(repository, revision)
    if out_dir is None:
        show(str(hub.pull_into_cache(name, say)))
        say(tr("next: {}", tr("tmt translate -m {} TEXT", name)))
        return
    hub.pull(name, out_dir, say)
    show(str(out_dir))
    say(tr("next: {}", tr("tmt translate -m {} TEXT", out_dir)))
