"""SubRip subtitles: the text of a cue is translated as one and laid out on as many lines.

Comes in: the text of an .srt file. Goes out: a segment for each cue, or for each speaker where
lines begin with a dash. Numbers, times, all lines before the first time, and tags at the ends of
lines stay; tags within a line are placed in the translation.
"""

import re
from collections.abc import Iterator

from transformer_mt.translation.documents.document import Document, Segment
from transformer_mt.translation.documents.inline import Syntax, Token, run_parts, text_tokens

_TIMES = re.compile(r"\s*[0-9:.,]+\s*-->")
_TAG = r"<[^<>\n]{1,200}>|\{\\[^{}\n]{1,200}\}"
_TAGS = re.compile(f"({_TAG})")
_DASH = r"[-–—](?![-–—])"
_LEAD = re.compile(rf"\s*(?:{_DASH}\s*)?")
_SPEAKER = re.compile(rf"(?:{_TAG}|\s)*{_DASH}")


def read_srt(text: str) -> Document:
    lines = text.split("\n")
    kept = _kept_lines(lines)
    parts: list[str | Segment] = []
    group: list[str] = []
    for line, is_kept in zip(lines, kept, strict=True):
        if group and (is_kept or _SPEAKER.match(line)):
            parts += [*_group_parts(group), "\n"]
            group = []
        if is_kept:
            parts += [line, "\n"]
        else:
            group.append(line)
    parts += [*_group_parts(group), "\n"] if group else []
    return Document(parts[:-1])


def _kept_lines(lines: list[str]) -> list[bool]:
    """Whether each line is a number, a time, empty, or before the first time."""
    kept, started = [], False
    for i, line in enumerate(lines):
        is_time = _TIMES.match(line) is not None
        started = started or is_time
        following = lines[i + 1] if i + 1 < len(lines) else ""
        is_number = line.strip().isdigit() and _TIMES.match(following) is not None
        kept.append(is_time or is_number or not started or not line.strip())
    return kept


def _group_parts(group: list[str]) -> list[str | Segment]:
    """The parts of lines that are one text, but for the last line end."""
    leads, cores, trails = map(list, zip(*map(_edges, group), strict=True))
    if any(map(_TAGS.search, cores)):
        raw = "\n".join(group)[len(leads[0]) :]
        return [leads[0], *run_parts(list(_tokens(raw)), _SrtSyntax())]
    tokens = []
    for i, (lead, core, trail) in enumerate(zip([*leads[1:], ""], cores, trails, strict=True)):
        tokens += [Token("text", core)]
        tokens += [Token("joint", f"{trail}\n{lead}")] if i + 1 < len(cores) else []
    return [leads[0], *run_parts(tokens, _SrtSyntax()), trails[-1]]


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


def _edges(line: str) -> tuple[str, str, str]:
    """A line as three: tags, spaces and a dash, then the text, then tags and spaces."""
    pieces = _TAGS.split(line)
    is_text = [i % 2 == 0 and not piece.isspace() and piece != "" for i, piece in enumerate(pieces)]
    if not any(is_text):
        return line, "", ""
    first, last = is_text.index(True), len(pieces) - is_text[::-1].index(True)
    core = "".join(pieces[first:last])
    lead = _LEAD.match(core)
    assert lead is not None
    text = core[lead.end() :].rstrip()
    trail = core[lead.end() + len(text) :]
    return "".join(pieces[:first]) + lead[0], text, trail + "".join(pieces[last:])


class _SrtSyntax(Syntax):
    def encode_line(self, line: str) -> str:
        return line.replace("-->", "->") if _TIMES.match(line) else line
