"""Errors of PyYAML in words for people, and lines of a text with a caret under the place.

This file knows PyYAML's phrases; of the keys of a configuration it knows nothing.
"""

import re
from collections.abc import Sequence
from itertools import groupby

import yaml
from rich.cells import cell_len

from transformer_mt.config.typing_mistakes import Mistake
from transformer_mt.messages.catalogue import tr

_MOST_LINES = 20  # that are shown
_WINDOW = 90  # characters of a line that are shown before the first caret, and from it on
_CLOSING = {"[": "]", "{": "}"}
_GENERIC = {
    "mapping values are not allowed here": tr(
        "': ' cannot stand here: put a text with a colon into quotes, and begin each "
        "key in a line of its own"
    ),
    "could not find expected ':'": tr("expected a key, a colon and a value, such as `seed: 1`"),
    "sequence entries are not allowed here": tr(
        "'- ' begins a line of its own, below its key; in one line a list is [a, b]"
    ),
    "expected <block end>, but found '-'": tr(
        "a list stands below its own key: indent it, or put its key above"
    ),
    "expected <block end>, but found '<block mapping start>'": tr(
        "does not fit the lines above: keys of one section begin in the same column"
    ),
    "expected <block end>, but found '<scalar>'": tr(
        "a text follows one that has ended: put all of it into one pair of quotes"
    ),
    "expected <block end>, but found '?'": tr(
        "a key cannot follow an item of a list in this column"
    ),
}


def place(text: str, index: int) -> str:
    """`line 3, column 5`, both counted from 1."""
    line, column = text.count("\n", 0, index), index - (text.rfind("\n", 0, index) + 1)
    return tr("line {}, column {}", line + 1, column + 1)


def pointed_line(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """The line of the first span, and below it carets under all spans, which lie in that line."""
    first = spans[0][0]
    start = text.rfind("\n", 0, first) + 1
    end = text.find("\n", first)
    end = len(text) if end < 0 else end
    low, high = max(start, first - _WINDOW), min(end, first + _WINDOW)
    marked = {at for span in spans for at in range(span[0], max(span[1], span[0] + 1))}
    shown, carets = ("…", " ") if low > start else ("", "")
    for at in range(low, high):
        char = {"\t": "\\t", "\r": ""}.get(text[at], text[at])
        if char and not char.isprintable():
            char = " " * max(1, cell_len(char))
        shown += char
        carets += ("^" if at in marked else " ") * cell_len(char)
    shown += "…" * (high < end)
    carets += "^" * (high in marked and high == end)
    return f"    {shown}\n    {carets.rstrip()}"


def tell_mistakes(text: str, mistakes: Sequence[Mistake], where: str) -> list[str]:
    """A message for each line with mistakes, and the line itself with carets."""
    lines = groupby(mistakes, key=lambda mistake: text.count("\n", 0, mistake.start))
    by_line = [list(own) for _, own in lines]
    messages = []
    for own in by_line[:_MOST_LINES]:
        words = "; ".join(dict.fromkeys(mistake.message for mistake in own))
        line = pointed_line(text, [(mistake.start, mistake.end) for mistake in own])
        messages.append(f"{where}: {place(text, own[0].start)}: {words}\n{line}")
    more = len(by_line) - len(messages)
    return [*messages, tr("{}: {} more such lines", where, more)] if more else messages


def explain(error: yaml.YAMLError, text: str, where: str) -> str:
    """An error of PyYAML: the place, the finding, the remedy, and the line with a caret."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return tr("{}: not valid YAML: {}", where, str(error).splitlines()[0][:500])
    problem, at = str(error.problem)[:500], error.problem_mark.index
    index, words = (
        _bracket(error, problem, at, text)
        or _text(error, problem, at, text)
        or (at, _GENERIC.get(problem) or tr("not valid YAML: {}", problem))
    )
    line = pointed_line(text, [(index, index + 1)])
    return f"{where}: {place(text, index)}: {words}\n{line}"


_Found = tuple[int, str] | None  # the place, and the finding with its remedy


def _bracket(error: yaml.MarkedYAMLError, problem: str, at: int, text: str) -> _Found:
    """Where a bracket is not closed, closes nothing, or an entry lacks its comma."""
    stray = text[at : at + 1]
    if stray in ("]", "}") and not problem.startswith("expected ',' or"):
        opening = next(a for a, b in _CLOSING.items() if b == stray)
        return at, tr("{} closes nothing: there is no {} before it", stray, opening)
    opened = error.context_mark
    if opened is None or not str(error.context).startswith("while parsing a flow"):
        return None
    bracket = text[opened.index : opened.index + 1]
    if (closing := _CLOSING.get(bracket)) is None:
        return None
    if stray in ("]", "}") and stray != closing:
        where = place(text, opened.index)
        return at, tr("{} of {} is closed by {}, not by {}", bracket, where, stray, closing)
    if stray and "\n" not in text[opened.index : at]:
        return at, (
            tr(
                "expected , or {} before this: entries are separated by ', ', and a "
                "text with ': ' stands in quotes",
                closing,
            )
        )
    if stray and _indent(text, at) > _indent(text, opened.index):
        return at, tr("expected , at the end of the entry before, or {}", closing)
    return opened.index, tr("{} is never closed: type {} after the last entry", bracket, closing)


def _indent(text: str, index: int) -> int:
    line = text[text.rfind("\n", 0, index) + 1 :]
    return len(line) - len(line.lstrip(" "))


def _text(error: yaml.MarkedYAMLError, problem: str, at: int, text: str) -> _Found:
    """Where a quote is not closed, or a text begins with a sign that has a meaning."""
    begun = at if error.context_mark is None else error.context_mark.index
    if "end of stream" in problem and text[begun : begun + 1] in ("'", '"'):
        return begun, tr("{} is never closed: type {} after the text", text[begun], text[begun])
    if "escape" in problem and error.context == "while scanning a double-quoted scalar":
        return at, tr("in \"…\" a backslash begins an escape: type '…', or \\\\")
    if problem == "could not find expected ':'":
        return begun, _GENERIC[problem]
    named = error.context in ("while scanning an alias", "while scanning an anchor")
    if not named and not re.match("found (character '[@`%|>]'|undefined alias)", problem):
        return None
    at = begun if named else at
    if (word := re.compile(r"[^\s,\]}]{1,60}").match(text, at)) is None:
        return None
    return at, tr("a text that begins with {} must stand in quotes: '{}'", word[0][0], word[0])
