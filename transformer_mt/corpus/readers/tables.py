"""Tables as text → (source, target) texts: TSV and JSONL, and which names are the two sides."""

import json
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from transformer_mt.config.data import Languages
from transformer_mt.corpus.readers.lines import split_lines
from transformer_mt.errors import ConfigError, DataError
from transformer_mt.messages.catalogue import tr
from transformer_mt.text.languages import canonical_code
from transformer_mt.text.normalise import well_formed

Pair = tuple[str, str]
Role = Literal["train", "dev", "test"]

_LANGUAGE = re.compile(r"[A-Za-z]{2,3}([-_]([A-Za-z]{2,4}|[0-9]{3})){0,2}")  # 419: a region
_JSON = json.JSONDecoder()


def language_of(spelling: str) -> str | None:
    """The canonical code that a file ending, key or column name stands for, if any."""
    return _code_of(spelling) if _LANGUAGE.fullmatch(spelling) else None


@lru_cache(maxsize=10_000)
def _code_of(spelling: str) -> str | None:
    try:
        return canonical_code(spelling)
    except ConfigError:
        return None


@lru_cache(maxsize=32)
def find_keys(names: tuple[str, ...], src: str, tgt: str, swapped: bool) -> Pair | None:
    """Which two of the names of columns, or of keys, are the source and the target, if any.

    Of several spellings of a language the canonical one wins, or else the first.

    Args:
        swapped: names that say `source` and `target`, but no language, mean the other way round.
    """
    by_code = {language_of(name): name for name in reversed(names)}
    by_code |= {code: code for code in (src, tgt) if code in names}
    if src in by_code and tgt in by_code:
        return by_code[src], by_code[tgt]
    for pair in (("src", "tgt"), ("source", "target")):
        if pair[0] in names and pair[1] in names:
            return (pair[1], pair[0]) if swapped else pair
    return None


def no_keys(names: Iterable[str], languages: Languages) -> str:
    """The message where `find_keys` finds none."""
    return tr(
        'found the keys {}; expected {{"translation": {{"{}": …, "{}": …}}}}, the '
        "two languages themselves, src and tgt, or source and target",
        excerpt(", ".join(map(str, islice(names, 50))), 500),
        languages.src,
        languages.tgt,
    )


def read_tsv(path: Path) -> Iterator[Pair]:
    """The two columns of each line; empty lines may only end the file."""
    for number, line in _records(path):
        columns = line.split("\t")
        if len(columns) != 2:
            hint = tr("; keep two: cut -f1,2 {} > NEW", path.name) if len(columns) > 2 else ""
            raise DataError(
                tr(
                    "{}: line {}: expected source TAB target, found {} column{}: {}{}",
                    path,
                    number,
                    len(columns),
                    "s" * (len(columns) > 1),
                    excerpt(line),
                    hint,
                )
            )
        yield columns[0], columns[1]


def read_jsonl(path: Path, languages: Languages, *, swapped: bool) -> Iterator[Pair]:
    """The pair in the object of each line; empty lines may only end the file.

    An object is {"translation": {code: text}}, {code: text}, {"src": text, "tgt": text} or
    {"source": text, "target": text}, with any other keys. null is an empty text.
    """
    for number, line in _records(path):
        where = tr("{}: line {}", path, number)
        try:
            row = _parse_json(line.strip(" \t"))
        except (ValueError, RecursionError) as error:  # also of numbers with too many digits
            cause = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
            raise DataError(tr("{}: not JSON: {}: {}", where, cause, excerpt(line))) from error
        if not isinstance(row, dict):
            raise DataError(tr("{}: expected one object per line, found {}", where, excerpt(line)))
        nested = row.get("translation")
        texts = nested if isinstance(nested, dict) else row
        keys = find_keys(tuple(texts), languages.src, languages.tgt, swapped)
        if keys is None:
            raise DataError(f"{where}: {no_keys(texts, languages)}")
        src, tgt = (texts[key] for key in keys)
        for text in (src, tgt):
            if not isinstance(text, str | None):
                raise DataError(tr("{}: expected text, found {}", where, type(text).__name__))
        src, tgt = src or "", tgt or ""
        if "\\ud" in line or "\\uD" in line:
            # JSON can spell half a character, which no UTF-8 file can hold
            src, tgt = well_formed(src), well_formed(tgt)
        yield src, tgt


def _parse_json(text: str) -> Any:
    """`json.loads` in half the time: it need not look for spaces around the text."""
    value, end = _JSON.raw_decode(text)
    if end < len(text):
        raise json.JSONDecodeError(tr("Extra data"), text, end)
    return value


def _records(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines of a file with one record per line; empty lines may only end it."""
    empty = 0
    for number, line in enumerate(split_lines(path), 1):
        if not line.strip(" "):
            empty = empty or number
        elif empty:
            raise DataError(tr("{}: line {}: empty; expected one pair per line", path, empty))
        else:
            yield number, line


def excerpt(text: str, size: int = 60) -> str:
    return text if len(text) <= size else text[:size] + "…"
