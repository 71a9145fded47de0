"""SubRip subtitles: the text of a cue is translated as one and laid out on as many lines.

Each speaker of a cue whose lines begin with a dash is a segment. Numbers, times and all lines
before the first time stay; tags are placed in the translation.
"""

import re
from collections.abc import Iterator

from transformer_mt.translation.documents.inline import (
    Document,
    Segment,
    Syntax,
    run_parts,
    text_tokens,
)
from transformer_mt.translation.documents.marks import Token

_TIMES = re.compile(r"\s*[0-9:.,]+\s*-->")
_TAG = r"<[^<>\n]{1,200}>|\{\\[^{}\n]{1,200}\}"
_TAGS = re.compile(f"({_TAG})")
_SPEAKER = re.compile(rf"((?:{_TAG}|\s)*)([-–—](?![-–—])\s*)")


def read_srt(text: str) -> Document:
    lines = text.split("\n")
    parts: list[str | Segment] = []
    group: list[str] = []
    started = False
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        is_time = _TIMES.match(line) is not None
        started = started or is_time
        is_number = line.strip().isdigit() and _TIMES.match(following) is not None
        is_kept = is_time or is_number or not started or not line.strip()
        if group and (is_kept or _SPEAKER.match(line)):
            parts += _group_parts(group)
            group = []
        if is_kept:
            parts.append(f"{line}\n")
        else:
            group.append(line)
    parts += _group_parts(group) if group else []
    last = parts.pop()  # ends with a line end that the text has not
    assert isinstance(last, str)
    return Document([*parts, last[:-1]])


def _group_parts(group: list[str]) -> list[str | Segment]:
    """The parts of lines that are one text, and a line end."""
    raw = "\n".join(group)
    speaker = _SPEAKER.match(raw)
    tags, dash = speaker.groups() if speaker else ("", "")
    tokens = [*_tokens(tags), Token("break", dash), *_tokens(raw[len(tags) + len(dash) :])]
    return [*run_parts(tokens, _SrtSyntax()), "\n"]


def _tokens(raw: str) -> Iterator[Token]:
    """Lines of text with tags, which pair by their first letter."""
    for i, piece in enumerate(_TAGS.split(raw)):
        if i % 2 == 0:
            yield from text_tokens(piece)
        elif piece[0] == "<":
            name = piece.strip("</>")[:1].lower()
            yield Token("close" if piece[1] == "/" else "open", piece, name)
        else:
            yield Token("kept", piece)


class _SrtSyntax(Syntax):
    def encode_line(self, line: str) -> str:
        return line.replace("-->", "->") if _TIMES.match(line) else line
