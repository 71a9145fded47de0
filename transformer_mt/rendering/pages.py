"""Templates and values → HTML pages that need no network and no other file; all text is escaped."""

import json
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformer_mt.messages.catalogue import LANGUAGE, tr
from transformer_mt.system.output import write_text

if TYPE_CHECKING:
    from jinja2 import Environment

SHARED_PAGE = Path(__file__).parent / "page"  # parts of pages that translate: parts.js, parts.css
PAGE_LANGUAGE = {"zh": "zh-Hans"}  # as HTML has it, which chooses the glyphs of characters

_FORBIDDEN = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff"  # in any HTML
_NOT_IN_HTML = re.compile(f"[{_FORBIDDEN}]")
_NOT_IN_SCRIPT = re.compile(f"[<>&\u2028\u2029{_FORBIDDEN}]")


def write_html(template_path: Path, path: Path, **values: Any) -> None:
    """Write a page, whole or not at all; a template may extend `base.html.j2` beside this file.

    Templates call `tr`. Filters: `number(spec)` formats, `script_json` makes JSON for a script
    element.
    """
    template = _environment(template_path.parent).get_template(template_path.name)
    write_text(path, template.render(values))


@cache  # with the templates that it has compiled
def _environment(folder: Path) -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader([folder, Path(__file__).parent]),
        autoescape=True,
        finalize=_replace_forbidden,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"tr": tr, "page_language": PAGE_LANGUAGE.get(LANGUAGE, LANGUAGE)}
    environment.filters["number"] = lambda value, spec=",": format(value, spec)
    environment.filters["script_json"] = lambda value: Markup(script_json(value))
    return environment


def _replace_forbidden(value: Any) -> Any:
    """Text with a visible sign for each forbidden character; finished HTML is of another type."""
    if type(value) is str:
        return _NOT_IN_HTML.sub("\N{REPLACEMENT CHARACTER}", value)
    return "" if value is None else value


def script_json(value: Any) -> str:
    """JSON in which no tag can begin or end, so that it may stand in a script element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _NOT_IN_SCRIPT.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
