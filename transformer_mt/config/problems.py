"""pydantic's report on a configuration → one line for people per key.

This file knows the form of pydantic's errors; the settings it knows only through their classes.
"""

import difflib
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from transformer_mt.config.names_elsewhere import meaning_of
from transformer_mt.messages.catalogue import LANGUAGE, tr

_MOST_PROBLEMS = 100  # that are told one by one
_LONGEST_LINE, _LONGEST_VALUE = 1000, 200  # characters
_NEAR, _VERY_NEAR = 0.65, 0.8  # likeness of names that differ by a slip

_NUMBER, _TEXT, _SECTION, _LIST = tr("a number"), tr("text"), tr("a section"), tr("a list")
_EXPECTED = {
    "int_type": tr("a whole number"),
    "int_from_float": tr("a whole number"),
    "float_type": _NUMBER,
    "finite_number": tr("a finite number"),
    "bool_type": tr("true or false"),
    "string_type": _TEXT,
    "invalid_key": _TEXT,
    "list_type": _LIST,
    "dict_type": _SECTION,
    "model_type": _SECTION,
    "model_attributes_type": _SECTION,
}
_LIMITS = {
    "greater_than": tr("a number greater than {}"),
    "greater_than_equal": tr("a number greater than or equal to {}"),
    "less_than": tr("a number less than {}"),
    "less_than_equal": tr("a number less than or equal to {}"),
    "too_short": tr("at least {} item"),
    "too_long": tr("at most {} item"),
}
_KINDS = {
    str: _TEXT,
    bool: tr("true/false"),
    int: _NUMBER,
    float: _NUMBER,
    list: _LIST,
    dict: _SECTION,
    type(None): tr("nothing"),
}


def describe_problems(
    error: ValidationError, *, where: str, root: type[BaseModel], settings: Sequence[str] = ()
) -> list[str]:
    """All problems of an error, one line per key.

    `where` starts every line, or `--set` where it has given the key; the fields of `root`, which
    was validated, are for "did you mean".
    """
    by_key: dict[tuple[Any, ...], list[Any]] = {}  # several: the branches of a union
    for problem in error.errors():
        *path, last = problem["loc"] or ("",)
        is_own = problem["type"] == "extra_forbidden" or not _is_no_key(last)
        key = tuple(part for part in path if not _is_no_key(part)) + (last,) * is_own
        by_key.setdefault(key, []).append(problem)
    lines = [
        _cut(_describe(list(key), problems, _place(key, where, settings), root), _LONGEST_LINE)
        for key, problems in islice(by_key.items(), _MOST_PROBLEMS)
    ]
    more = len(by_key) - len(lines)
    return [*lines, tr("{}: {:,} more such problems", where, more)] if more else lines


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else text[:size] + "…"


def kind_of(value: Any) -> str:
    """What a person calls the type of a plain value: `text`, `a list`, `a section`."""
    return _KINDS.get(type(value), type(value).__name__)


def _place(location: Sequence[Any], where: str, settings: Sequence[str]) -> str:
    """`x.yaml: train.lr: `, or `--set train.lr: `."""
    key = ".".join(map(str, location))
    if any(f"{key}.".startswith(f"{setting}.") for setting in settings):
        return f"--set {key}: "
    return "".join(f"{part}: " for part in (where, key) if part)


def _describe(location: list[Any], problems: list[Any], prefix: str, root: type[BaseModel]) -> str:
    """pydantic's problems with one key → one line: file: key: what was found, what is allowed."""
    kind, value = problems[0]["type"], problems[0]["input"]
    if kind == "extra_forbidden":
        return prefix + tr("unknown key") + _nearest_key(location, root)
    if kind == "missing":
        return prefix + tr("missing, and there is no default")
    if kind == "value_error":
        return prefix + str(problems[0]["ctx"]["error"])
    if isinstance(value, dict) or value is None:
        found = kind_of(value)
    else:
        found = f"{_cut(repr(value), _LONGEST_VALUE)} ({kind_of(value)})"
    expected = tr(" or ").join(map(_expected, problems))
    quotes = tr("; put it in quotes") if kind == "string_type" and kind_of(value) == _NUMBER else ""
    return tr("{}expected {}, found {}{}", prefix, expected, found, quotes)


def _expected(problem: Any) -> str:
    kind, limits = problem["type"], problem.get("ctx", {})
    if kind in ("too_short", "too_long"):
        n_items = limits.get("min_length", limits.get("max_length"))
        return _LIMITS[kind].format(n_items) + "s" * (LANGUAGE == "en" and n_items != 1)
    message = problem["msg"].removeprefix("Input should be ")
    if kind in _LIMITS:
        return _LIMITS[kind].format(message.rpartition(" ")[2])
    return _EXPECTED.get(kind, (message[0].lower() + message[1:]).replace(" or ", tr(" or ")))


def _is_no_key(part: Any) -> bool:
    """pydantic adds the tried branch of a union, and a mark at wrong keys; a user knows neither."""
    return isinstance(part, str) and (
        part in ("[key]", "int", "float", "str", "")
        or part.startswith(("literal[", "list[", "constrained"))
    )


def _nearest_key(location: list[Any], root: type[BaseModel]) -> str:
    """Which key may be meant: here, in another section, or by its name in other tools."""
    fields, unknown = _fields_at(root, location[:-1]), str(location[-1])
    here = ".".join(map(str, location[:-1]))
    near = {f"{here}.{name}" if here else name: _likeness(unknown, name) for name in fields}
    keys = list(_keys(root))
    if len(keys) == len(root.model_fields) or any(isinstance(part, int) for part in location):
        keys = []  # there are no other sections; in a list there are other keys
    same = [key for key in keys if key.rpartition(".")[2] == unknown.lower()]
    if max(near.values()) >= _VERY_NEAR:
        same = []
    elif not same and keys and (meaning := meaning_of(unknown)):
        if meaning not in keys:
            return f"; {meaning}"
        same = [meaning]
    others = [key for key in keys if key not in near]
    near |= {key: _likeness(unknown, key.rpartition(".")[2]) - 0.1 for key in others}
    best = max(near, key=lambda key: near[key])
    begun = [key for key in near if key.rpartition(".")[2].startswith(unknown)][:1]
    if meant := same or ([best] if near[best] >= _NEAR else begun):
        return tr(" (did you mean {}?)", tr(" or ").join(meant))
    return tr("; allowed here: {}", ", ".join(fields))


def _likeness(unknown: str, name: str) -> float:
    """From 0 to 1; words that both begin or end with do not count.

    So `max_epochs` is not like `max_tokens`.
    """
    ours, theirs = unknown.lower().split("_"), name.split("_")
    for end in (0, -1):
        while len(ours) > 1 and len(theirs) > 1 and ours[end] == theirs[end]:
            del ours[end], theirs[end]
    return difflib.SequenceMatcher(None, "_".join(ours), "_".join(theirs)).ratio()


def _keys(section: type[BaseModel], before: str = "") -> Iterator[str]:
    """The keys of a section and of the sections in it, each by its whole name; no lists."""
    for name, field in section.model_fields.items():
        yield before + name
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _keys(field.annotation, f"{before}{name}.")


def _fields_at(section: type[BaseModel], location: list[Any]) -> list[str]:
    for part in location:
        if field := section.model_fields.get(str(part)):  # else a position, or a name in a dict
            section = next(_sections_in(field.annotation), section)
    return list(section.model_fields)


def _sections_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """`list[Source]` → `Source`; nothing for plain values."""
    for part in get_args(annotation):
        yield from _sections_in(part)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
