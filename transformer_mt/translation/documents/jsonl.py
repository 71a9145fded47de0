"""JSON Lines: one field of every object is translated, all other bytes stay.

Comes in: text with one JSON object per line. Goes out: a segment for each line of the field's
string. Objects are walked, not written anew, so that order of keys, spacing and spelling of all
other values survive.
"""

import json
import re

from transformer_mt.errors import DataError
from transformer_mt.translation.documents.document import Document, Segment
from transformer_mt.translation.documents.inline import Syntax, text_parts

_DECODER = json.JSONDecoder()
_GAP = re.compile(r"[ \t\r\n]*[:,{]?[ \t\r\n]*")  # between two values of an object
_SURROGATE = re.compile("[\ud800-\udfff]")  # half a character, which no file can hold
_UNIT = re.compile(r"\\.|[^\\]+")  # of the raw text between a string's quotes


def read_json_lines(text: str, field: str) -> Document:
    """
    Args:
        field: whose value is translated; a string in every object.
    Raises:
        DataError: a line that is no JSON object, or has no such string; it names the line. Empty
            lines are kept.
    """
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
            reason = f"{error.msg} at character {error.colno}"
        raise DataError(
            f"line {number}: not JSON: {reason}; one object per line is wanted"
        ) from error
    if not isinstance(content, dict):
        raise DataError(f"line {number}: no JSON object but a {type(content).__name__}")
    if not isinstance(content.get(field), str):
        found = ", ".join(key for key, value in content.items() if isinstance(value, str))
        raise DataError(
            f"line {number}: no text in the field {field!r}; fields with text: "
            f"{found[:200] or 'none'}; every line needs the same one"
        )
    span, position = (0, 0), _next_value(line, 0)
    while line[position] != "}":
        key, position = _DECODER.raw_decode(line, position)
        start = _next_value(line, position)
        _, end = _DECODER.raw_decode(line, start)
        if key == field:  # of a key that is there twice, JSON readers take the last
            span = (start + 1, end - 1)
        position = _next_value(line, end)
    return span


def _next_value(line: str, position: int) -> int:
    gap = _GAP.match(line, position)
    assert gap is not None
    return gap.end()


def _string_parts(raw: str) -> list[str | Segment]:
    r"""The lines of a string, which are apart by `\n`, each as it is spelled in JSON."""
    parts: list[str | Segment] = []
    line: list[str] = []
    for unit in [*_UNIT.findall(raw), r"\n"]:
        if unit == r"\n":
            parts += [*text_parts("".join(line), _JsonSyntax()), unit]
            line = []
        else:
            line.append(unit)
    return parts[:-1]


class _JsonSyntax(Syntax):
    def decode(self, raw: str) -> str:
        return str(json.loads(f'"{raw}"', strict=False))

    def encode(self, text: str) -> str:
        spelled = json.dumps(text, ensure_ascii=False)[1:-1]
        return _SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", spelled)
