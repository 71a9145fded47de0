"""The training data of a model: names, numbers of pairs, and where the texts are from.

Comes in: a model directory. The numbers, addresses and licences are in the report of the data, so
that only a model that lies in its run knows them.
"""

from pathlib import Path
from typing import Any
from urllib.parse import quote

from transformer_mt.config.data import Source
from transformer_mt.config.experiment import Config
from transformer_mt.system.state import Damaged, read_json

_IN_URLS = "%/:=&?+!$,;'@()#"


def training_data(model_dir: Path, cfg: Config) -> list[dict[str, Any]]:
    """The sources in the order of the configuration.

    Returns:
        Of each: `name`; `kept`, the pairs that cleaning has kept; `origins`, pairs of an address
        and a licence. Where nothing is known: None, and no origins.
    """
    try:
        report = read_json(model_dir.parent / "data" / "clean" / "report.json") or {}
    except Damaged:
        report = {}
    known = {source["name"]: source for source in report.get("sources", ())}
    found = []
    for source in cfg.data.train:
        own = known.get(str(source), {})
        origins = [(_url(o.get("url")), o.get("licence")) for o in own.get("origins", ())]
        if source.demo:
            origins = [("", "Apache-2.0")]  # it is a part of tmt
        found.append({"name": _name(source), "kept": own.get("kept"), "origins": origins})
    return found


def _name(source: Source) -> str:
    """A source's name; of the user's own files no folders, which may be nobody else's business."""
    if source.kind in ("path", "files", "tsv", "jsonl"):
        return " + ".join(Path(path).name for path in source.files or [str(source)])
    return str(source)


def _url(address: Any) -> str:
    """An address without spaces and characters that Markdown ends it at; "": it is none."""
    if not str(address).startswith(("http:", "https:")):
        return ""
    return quote(address, safe=_IN_URLS, errors="replace")
