"""The card of a model: the README.md of a model on the Hub, and of each export.

Comes in: a model directory, with the report of its data if it lies in a run. Goes out: Markdown
whose head is YAML, as the Hub reads it; the words are in `card.md.j2`. Text that users, corpora and
servers have given is written such that neither YAML nor Markdown take it for their own.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from transformer_mt.config.experiment import Config, load_config
from transformer_mt.config.yaml_text import parse_yaml
from transformer_mt.errors import ConfigError
from transformer_mt.evaluation.test_sets import describe_model
from transformer_mt.export.proof import ExportOrigin, Proof
from transformer_mt.export.training_data import training_data
from transformer_mt.messages.catalogue import tr
from transformer_mt.model_dir import CARD, DISTILLED, tokenizer_paths
from transformer_mt.system.terminal import visible

UNKNOWN = "unknown"  # the Hub's own word for a licence that nobody has told
LIBRARIES = {  # that the Hub shows how to load an export with
    "ctranslate2": "ctranslate2", "marian": "transformers", "onnx": "transformers.js",
    "argos": "argostranslate", "bergamot": "bergamot",
}  # fmt: skip
_HEAD = re.compile(r"---\r?\n(.*?\n)---\r?(?:\n|$)", re.DOTALL)
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~$&!])")
_EMPTY_LINES = re.compile(r"(?<=\n\n)\n+")
_DATASET = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*", re.ASCII)


def model_card(
    model_dir: Path,
    repository: str,
    licence: str | None = None,
    exports: Mapping[str, ExportOrigin] | None = None,
) -> str:
    """The card of a model that goes to the Hub.

    Args:
        repository: its name there, OWNER/NAME.
        licence: an identifier of the Hub, such as apache-2.0; None: nobody has told.
        exports: by the folder that each has in the repository.
    """
    shown = {folder: _export(folder, origin) for folder, origin in (exports or {}).items()}
    return _card(model_dir, "transformer-mt", licence, repository=repository, exports=shown)


def export_card(model_dir: Path, path: Path, origin: ExportOrigin) -> str:
    """The card of one export; the licence is what the card of the model says.

    Args:
        path: where the export will lie.
    """
    library = LIBRARIES.get(origin.format)
    return _card(model_dir, library, licence_of(model_dir), export=_export(path.name, origin))


def licence_of(model_dir: Path) -> str | None:
    """The licence in the head of a model's README.md; None: it says none."""
    try:
        head = _HEAD.match((model_dir / CARD).read_text(encoding="utf-8"))
        found = parse_yaml(head[1], CARD) if head else None
    except (OSError, UnicodeError, ConfigError):
        return None
    licence = found.get("license") if isinstance(found, dict) else None
    return licence if isinstance(licence, str) and licence != UNKNOWN else None


def _card(model_dir: Path, library: str | None, licence: str | None, **values: Any) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    cfg, about = load_config(model_dir / "config.yaml"), describe_model(model_dir)
    distilled = about.get(DISTILLED)
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    environment.globals |= {"tr": tr, "repository": "", "export": None, "exports": {}}
    environment.filters["plain"] = _plain
    body = environment.get_template("card.md.j2").render(
        about=_plain(about), cfg=cfg, licence=_plain(licence),
        tokenizers=[path.name for path in tokenizer_paths(Path(), joint=cfg.tokenizer.joint)],
        sources=distilled["sources"] if distilled else training_data(model_dir, cfg),
        distilled=distilled, **values,
    )  # fmt: skip
    scores = {} if "export" in values else about["scores"]  # an export has its proof
    languages = [code.partition("-")[0] for code in (cfg.languages.src, cfg.languages.tgt)]
    head = {
        "language": list(dict.fromkeys(languages)),  # the Hub knows no scripts
        "license": licence or UNKNOWN,
        "library_name": library,
        "pipeline_tag": "translation",
        "tags": ["translation", "transformer-mt"],
        "datasets": [s.hf for s in cfg.data.train if s.hf and _DATASET.fullmatch(s.hf)],
        "model-index": [{"name": cfg.name, "results": _results(cfg, scores)}] if scores else None,
    }
    kept = _one_line({key: value for key, value in head.items() if value})
    text = yaml.safe_dump(kept, allow_unicode=True, sort_keys=False, width=10_000)
    return f"---\n{text}---\n\n{_EMPTY_LINES.sub('', body)}"


def _export(folder: str, origin: ExportOrigin) -> dict[str, Any]:
    try:
        proof = str(Proof(**origin.proof))
    except TypeError:  # of another tmt, which proved other things
        proof = ""
    return {**vars(origin), "folder": folder, "proof": _plain(proof)}


def _results(cfg: Config, scores: dict[str, Any]) -> list[dict[str, Any]]:
    """Scores as the Hub lists them."""
    return [
        {
            "task": {"type": "translation", "name": f"Translation {_direction(cfg, name)}"},
            "dataset": {"type": name, "name": name},
            "metrics": [
                {"type": metric, "value": round(found["score"], 2), "name": metric,
                 "args": {"signature": found["signature"]}}
                for metric, found in by_metric.items()
            ],
        }
        for name, by_metric in scores.items()
    ]  # fmt: skip


def _direction(cfg: Config, test_name: str) -> str:
    """A test set of a model of both directions is called NAME.zh-en."""
    languages = cfg.languages
    return test_name.rpartition(".")[2] if languages.bidirectional else languages.pair


def _one_line(value: Any, change: Any = lambda text: text) -> Any:
    """Plain values, with all texts in them on one line and without control characters."""
    match value:
        case str():
            return change(visible(" ".join(value.split())))
        case dict():
            return {_one_line(k, change): _one_line(v, change) for k, v in value.items()}
        case list() | tuple():
            return [_one_line(item, change) for item in value]
    return value


def _plain(value: Any) -> Any:
    """The same, and no character of a text means anything in Markdown."""
    return _one_line(value, lambda text: _MARKDOWN.sub(r"\\\1", text))
