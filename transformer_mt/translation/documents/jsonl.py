"""JSON Lines: one field of every object is translated, all other bytes stay.

Each line of the field's string is a segment. Objects are walked, not written anew, so that order
of keys, spacing and spelling of all other values survive.
"""

import json
import re
from itertools import groupby

from transformer_mt.errors import DataError
from transformer_mt.messages.catalogue import tr
from transformer_mt.translation.documents.inline import Document, Segment, Syntax, text_parts

_DECODER = json.JSONDecoder()
_GAP = re.compile(r"[ \t\r\n]*[:,{]?[ \t\r\n]*")  # between two values of an object
_SURROGATE = re.compile("[\ud800-\udfff]")  # half a character, which no file can hold
_UNIT = re.compile(r"\\.|[^\\]+")  # of the raw text between a string's quotes


def read_json_lines(text: str, field: str) -> Document:
    """Read the string under `field` of every object; `DataError` names the line that has none."""
    parts: list[str | Segment] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            start, end = _value_span(line, field, number)
            parts += [line[:start], *_string_parts(line[start:end]), line[end:]]
        else:
            parts.append(line)
        parts.append("\n")
    return Document(parts[:-1])


def _value_span(line: str, field: str, number: int) -> tuple[int, int]:
    """Where the characters of the field's string stand, without its quotes."""
    try:
        content = json.loads(line)
    except (ValueError, RecursionError) as error:
        reason = str(error)
        if isinstance(error, json.JSONDecodeError):
            reason = tr("{} at character {} (char {})", error.msg, error.colno, error.pos)
        raise DataError(
            tr("line {}: not JSON: {}; give one object per line", number, reason)
        ) from error
    if not isinstance(content, dict):
        raise DataError(tr("line {}: no JSON object but a {}", number, type(content).__name__))
    if not isinstance(content.get(field), str):
        found = ", ".join(key for key, value in content.items() if isinstance(value, str))
        text = tr(
            "line {}: no text in the field {!r}; fields with text: {}; every line needs the "
            "same one",
            number,
            field,
            found[:200] or tr("none"),
        )
        raise DataError(text)
    span, position = (0, 0), _gap_end(line, 0)
    while line[position] != "}":
        key, position = _DECODER.raw_decode(line, position)
        start = _gap_end(line, position)
        _, end = _DECODER.raw_decode(line, start)
        if key == field:  # of a key that is there twice, JSON readers take the last
            span = (start + 1, end - 1)
        position = _gap_end(line, end)
    return span


def _string_parts(raw: str) -> list[str | Segment]:
    r"""The lines of a string, which are apart by `\n` or `\r\n`, each as it is spelled in JSON."""
    parts: list[str | Segment] = []
    lines = groupby(_UNIT.findall(raw), lambda unit: unit in (r"\n", r"\r"))
    for is_end, units in lines:
        line = "".join(units)
        parts += [line] if is_end else text_parts(line, _JsonSyntax())
    return parts


def _gap_end(line: str, position: int) -> int:
    gap = _GAP.match(line, position)
    assert gap is not None
    return gap.end()


class _JsonSyntax(Syntax):
    def decode(self, raw: str) -> str:
        return str(json.loads(f'"{raw}"', strict=False))

    def encode(self, text: str) -> str:
        spelled = json.dumps(text, ensure_ascii=False)[1:-1]
        return _SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", spelled)
