"""pydantic's report on a configuration → one line for people per key.

This file knows the form of pydantic's errors; the settings it knows only through their classes.
"""

import difflib
from collections.abc import Iterator
from itertools import islice
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

_MOST_PROBLEMS = 100  # that are told one by one
_LONGEST_LINE, _LONGEST_VALUE = 1000, 200  # characters

_EXPECTED = {
    "int_type": "a whole number", "int_from_float": "a whole number", "float_type": "a number",
    "finite_number": "a finite number", "bool_type": "true or false", "string_type": "text",
    "invalid_key": "text", "list_type": "a list", "dict_type": "a section",
    "model_type": "a section", "model_attributes_type": "a section",
}  # fmt: skip
_KINDS = {
    str: "text", bool: "true/false", int: "a number", float: "a number", list: "a list",
    dict: "a section", type(None): "nothing",
}  # fmt: skip


def describe_problems(error: ValidationError, *, where: str, root: type[BaseModel]) -> list[str]:
    """All problems of an error, one line per key.

    `where` starts every line; the fields of `root`, which was validated, are for "did you mean".
    """
    by_key: dict[tuple[Any, ...], list[Any]] = {}  # several: the branches of a union
    for problem in error.errors():
        key = tuple(part for part in problem["loc"] if not _is_no_key(part))
        by_key.setdefault(key, []).append(problem)
    lines = [
        _cut(_describe(list(key), problems, where=where, root=root), _LONGEST_LINE)
        for key, problems in islice(by_key.items(), _MOST_PROBLEMS)
    ]
    more = len(by_key) - len(lines)
    return [*lines, f"{where}: {more:,} more such problems"] if more else lines


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else text[:size] + "…"


def kind_of(value: Any) -> str:
    """What a person calls the type of a plain value: `text`, `a list`, `a section`."""
    return _KINDS.get(type(value), type(value).__name__)


def _describe(
    location: list[Any], problems: list[Any], *, where: str, root: type[BaseModel]
) -> str:
    """pydantic's problems with one key → one line: file: key: what was found, what is allowed."""
    prefix = "".join(f"{part}: " for part in (where, ".".join(map(str, location))) if part)
    kind, value = problems[0]["type"], problems[0]["input"]
    if kind == "extra_forbidden":
        return prefix + "unknown key" + _nearest_key(location, root)
    if kind == "missing":
        return prefix + "missing, and there is no default"
    if kind == "value_error":
        return prefix + str(problems[0]["ctx"]["error"])
    if isinstance(value, dict) or value is None:
        found = kind_of(value)
    else:
        found = f"{_cut(repr(value), _LONGEST_VALUE)} ({kind_of(value)})"
    expected = " or ".join(map(_expected, problems))
    quotes = "; put it in quotes" if kind == "string_type" and kind_of(value) == "a number" else ""
    return f"{prefix}expected {expected}, found {found}{quotes}"


def _expected(problem: Any) -> str:
    kind, limits = problem["type"], problem.get("ctx", {})
    if kind in ("too_short", "too_long"):
        n_items = limits.get("min_length", limits.get("max_length"))
        bound = "at least" if kind == "too_short" else "at most"
        return f"{bound} {n_items} item{'s' * (n_items != 1)}"
    message = problem["msg"].removeprefix("Input should be ")
    number = "a number " if kind.startswith(("greater", "less")) else ""
    return _EXPECTED.get(kind, number + message[0].lower() + message[1:])


def _is_no_key(part: Any) -> bool:
    """pydantic adds the tried branch of a union, and a mark at wrong keys; a user knows neither."""
    return isinstance(part, str) and (
        part in ("[key]", "int", "float", "str", "constrained-int", "constrained-float")
        or part.startswith(("literal[", "list[", "constrained"))
    )


def _nearest_key(location: list[Any], root: type[BaseModel]) -> str:
    fields = _fields_at(root, location[:-1])
    unknown = str(location[-1])
    near = difflib.get_close_matches(unknown, fields, n=1, cutoff=0.4) or [
        field for field in fields if field.startswith(unknown) or unknown.startswith(field)
    ]
    if near:
        return f" (did you mean {'.'.join([*map(str, location[:-1]), near[0]])}?)"
    return f"; allowed here: {', '.join(fields)}"


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
