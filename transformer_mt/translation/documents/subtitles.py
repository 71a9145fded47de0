"""Subtitles, SubRip and WebVTT: the text of cues is translated, with its tags.

All other lines stay byte for byte, and so does the number of lines.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from html import unescape

from transformer_mt.translation.documents.inline import (
    Document,
    Segment,
    Syntax,
    lay_out,
    run_parts,
    text_tokens,
)
from transformer_mt.translation.documents.marks import Token

_SRT_TIMES = re.compile(r"\s*[0-9:.,]+\s*-->")
_SRT_TAG = r"<[^<>\n]{1,200}>|\{\\[^{}\n]{1,200}\}"
_SRT_TAGS = re.compile(f"({_SRT_TAG})")
_SRT_SPEAKER = re.compile(rf"((?:{_SRT_TAG}|\s)*)([-–—](?![-–—])\s*)")
_VTT_TAG = r"<[^<>\n]{0,200}>"
_VTT_TAGS = re.compile(f"({_VTT_TAG})")
_VTT_TIME = re.compile(r"<(?:\d+:)?\d\d:\d\d\.\d\d\d>")
_VTT_NAME = re.compile("[a-z]+")
_VTT_SPEAKER = re.compile(rf"((?:(?!<v[ .\t]){_VTT_TAG}|\s)*)(?:([-–—](?![-–—])\s*)|(?=<v[ .\t]))")
_SPELLED = str.maketrans({
    "&": "&amp;", "<": "&lt;", ">": "&gt;", "\xa0": "&nbsp;", "\u200e": "&lrm;", "\u200f": "&rlm;",
})  # fmt: skip


def read_srt(text: str) -> Document:
    """SubRip. Numbers, times and all lines before the first time stay.

    Each speaker of a cue whose lines begin with a dash is a segment.
    """
    return _read_cues(_srt_lines(text), _SRT_SPEAKER, _srt_tokens, _SrtSyntax())


def _srt_lines(text: str) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it is text."""
    lines = text.split("\n")
    started = False
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        is_time = _SRT_TIMES.match(line) is not None
        started = started or is_time
        is_number = line.strip().isdigit() and _SRT_TIMES.match(following) is not None
        yield line, started and bool(line.strip()) and not is_time and not is_number


def _srt_tokens(raw: str) -> Iterator[Token]:
    """Lines of text with tags, which pair by their first letter."""
    for i, piece in enumerate(_SRT_TAGS.split(raw)):
        if i % 2 == 0:
            yield from text_tokens(piece)
        elif piece[0] == "<":
            name = piece.strip("</>")[:1].lower()
            yield Token("close" if piece[1] == "/" else "open", piece, name)
        else:
            yield Token("kept", piece)


@dataclass(frozen=True)
class _SrtSyntax(Syntax):
    inside: bool = False  # of a cue, in which others speak after this one

    def encode_line(self, line: str) -> str:
        if self.inside and not line:
            return "\xa0"  # an empty line would end the cue
        return line.replace("-->", "->") if _SRT_TIMES.match(line) else line


def read_vtt(text: str) -> Document:
    """WebVTT. Header, notes, styles, regions; names, times and settings of cues stay.

    A voice is a segment, as is a line that begins with a dash. Times within a cue come in their
    order, wherever the words have gone.
    """
    return _read_cues(_vtt_lines(text), _VTT_SPEAKER, _vtt_tokens, _VttSyntax())


def _vtt_lines(text: str) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it is text: after the line with the times, up to an empty one."""
    in_cue = False
    for line in text.split("\n"):
        is_time = "-->" in line
        in_cue = is_time or (in_cue and bool(line.strip("\r")))
        yield line, in_cue and not is_time


def _vtt_tokens(raw: str) -> Iterator[Token]:
    """Lines of text with tags, which pair by their name, such as c in <c.yellow>."""
    for i, piece in enumerate(_VTT_TAGS.split(raw)):
        name = _VTT_NAME.match(piece.lstrip("</"))
        if i % 2 == 0:
            yield from text_tokens(piece)
        elif name is None:  # a time
            yield Token("kept", piece)
        else:
            yield Token("close" if piece[1] == "/" else "open", piece, name[0])


@dataclass(frozen=True)
class _VttSyntax(Syntax):
    inside: bool = False

    def encode_line(self, line: str) -> str:
        return "&nbsp;" if self.inside and not line else line

    def decode(self, raw: str) -> str:
        return unescape(raw)

    def encode(self, text: str) -> str:
        return text.translate(_SPELLED)

    def write(self, tokens: Sequence[Token], joints: Sequence[str], raw: str) -> str:
        times = iter(sorted(filter(_is_time, tokens), key=_seconds))
        return lay_out([next(times) if _is_time(t) else t for t in tokens], joints, self)


def _is_time(token: Token) -> bool:
    return token.kind == "kept" and _VTT_TIME.match(token.raw) is not None


def _seconds(token: Token) -> float:
    time = token.raw[1:].partition(">")[0]
    return reduce(lambda sum_, part: 60 * sum_ + float(part), time.split(":"), 0.0)


def _read_cues(
    lines: Iterable[tuple[str, bool]],
    speaker: re.Pattern[str],
    tokens: Callable[[str], Iterator[Token]],
    syntax: "_SrtSyntax | _VttSyntax",
) -> Document:
    """The text of a cue is translated as one, and laid out on as many lines.

    Args:
        lines: each without its line end, and whether it is text.
        speaker: begins a line with which someone begins to speak; groups: tags, and a dash.
    """
    parts: list[str | Segment] = []
    group: list[str] = []

    def flush(*, inside: bool = False) -> None:
        if group:
            raw = "\n".join(group)
            match = speaker.match(raw)
            tags, dash = (match[1], match[2] or "") if match else ("", "")
            rest = tokens(raw[len(tags) + len(dash) :])
            spoken = [*tokens(tags), *([Token("break", dash)] if dash else []), *rest]
            parts.extend([*run_parts(spoken, replace(syntax, inside=inside)), "\n"])
            group.clear()

    for line, is_text in lines:
        if not is_text or speaker.match(line):
            flush(inside=is_text)
        if is_text:
            group.append(line)
        else:
            parts.append(f"{line}\n")
    flush()
    last = parts.pop()  # ends with a line end that the text has not
    assert isinstance(last, str)
    return Document([*parts, last[:-1]])
