"""Aligned text in any common form → a stream of pairs, or an error: where, and what to do.

Texts are unchanged but for byte order mark and line ends. This file does not know which pairs are
good: see `cleaning`; nor the formats of files: see the other readers.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import NoReturn

import numpy as np

from transformer_mt.config.data import Languages, Source, split_direction
from transformer_mt.config.yaml_text import flow_yaml
from transformer_mt.corpus.readers.columns import read_arrow, read_hub
from transformer_mt.corpus.readers.demo import read_demo
from transformer_mt.corpus.readers.lines import COMPRESSED, expand, split_lines
from transformer_mt.corpus.readers.parts import LinesOfFiles, cut_files
from transformer_mt.corpus.readers.paths import Part, find_file, find_parts, format_of
from transformer_mt.corpus.readers.sgm import read_sgm_pair
from transformer_mt.corpus.readers.spreadsheets import TABLES, layout_of, read_table
from transformer_mt.corpus.readers.tables import Pair, Role, read_jsonl
from transformer_mt.corpus.readers.tmx_xliff import read_markup
from transformer_mt.errors import DataError
from transformer_mt.messages.catalogue import tr

_DIGIT = re.compile("[0-9]")
_MAX_SURPLUS = 50  # more missing lines than this have no one place to look at
_MOST_SHAPES = 20_000_000  # lines; the shapes of all lines are in memory together
_MOST_STEPS = 100_000_000  # surplus lines times lines, of 8 bytes in memory each


def read_pairs(
    source: Source, languages: Languages, *, root: Path, role: Role, offline: bool = False
) -> Iterator[Pair]:
    """Stream the pairs of a source, in order.

    Args:
        source: where the text is; public corpora by name must have been brought here before.
        root: the directory that relative paths start from.
        role: chooses the split of a Hugging Face dataset or of the bundled corpus.
        offline: take Hugging Face datasets from their cache only.
    Raises:
        DataError: missing, unreadable, undecodable, misaligned or malformed text. Unequal line
            counts are known, and raised, at the end of the shorter file.
    """

    def streams() -> Iterator[Iterable[Pair]]:
        swapped = _is_swapped(source, languages)
        if source.demo:
            yield read_demo(languages, role)
        elif source.hf is not None:
            yield read_hub(
                source, languages, root=root, role=role, offline=offline, swapped=swapped
            )
        else:
            for part in _parts(source, languages, root):
                yield _read_part(part, source, languages, swapped)

    return islice(chain.from_iterable(streams()), source.limit)


def read_numbered(
    source: Source, languages: Languages, *, root: Path, role: Role, offline: bool = False
) -> Iterator[tuple[int, Pair]]:
    """`read_pairs` with the line of each; of one table the row, as a program for tables counts."""
    parts = [] if source.demo or source.hf is not None else _parts(source, languages, root)
    if len(parts) != 1 or len(parts[0]) != 1 or _form_of(parts[0], source) not in TABLES:
        return enumerate(read_pairs(source, languages, root=root, role=role, offline=offline), 1)
    rows = read_table(parts[0][0], languages, swapped=_is_swapped(source, languages))
    return islice(rows, source.limit)


def split_source(
    source: Source, languages: Languages, root: Path, every: int
) -> Iterator[LinesOfFiles] | None:
    """Parts of a source that is two plain text files, as they are found; None: it is not.

    Raises:
        DataError: as `read_pairs`, where the files end; no text is decoded.
    """
    if source.demo or source.hf is not None:
        return None
    parts = _parts(source, languages, root)
    if len(parts) != 1 or len(paths := parts[0]) != 2:
        return None
    if any(format_of(path) == ".sgm" or path.suffix in COMPRESSED for path in paths):
        return None
    return cut_files(paths, every, limit=source.limit, unequal=lambda: _raise_unequal(paths))


def source_files(source: Source, languages: Languages, root: Path) -> list[Path]:
    """The local files that a source reads, in order; of two sides the source comes first."""
    if source.demo:
        return []
    if source.hf is not None:
        folder = root / expand(source.hf)
        return sorted(path for path in folder.rglob("*") if path.is_file())
    return [path for part in _parts(source, languages, root) for path in part]


def source_order(source: Source, languages: Languages) -> Pair:
    """The two languages in the order in which they stand in a source."""
    order = split_direction(source.direction or languages.pair)
    if set(order) != {languages.src, languages.tgt}:
        raise DataError(
            tr(
                "{}: direction is {}, but languages are {} → {}; write {} or {}",
                source,
                source.direction,
                languages.src,
                languages.tgt,
                languages.pair,
                languages.reversed().pair,
            )
        )
    return order


def _is_swapped(source: Source, languages: Languages) -> bool:
    """Whether the target comes first in the source."""
    return source_order(source, languages)[0] == languages.tgt


def _parts(source: Source, languages: Languages, root: Path) -> list[Part]:
    """The files to read one after another."""
    if source.path is not None:
        return find_parts(source.path, languages, root)
    names = source.files or [name for name in (source.tsv, source.jsonl) if name is not None]
    assert names, f"{source}: must be made local first"
    paths, problems = [], []
    for name in names:
        try:
            paths.append(find_file(name, root))
        except DataError as error:
            problems.append(str(error))
    if problems:
        raise DataError("\n".join(problems))
    return [tuple(reversed(paths) if _is_swapped(source, languages) else paths)]


def _read_part(part: Part, source: Source, languages: Languages, swapped: bool) -> Iterator[Pair]:
    if len(part) == 2:
        is_sgm = any(format_of(path) == ".sgm" for path in part)
        return read_sgm_pair(*part) if is_sgm else _read_aligned(*part)
    path = part[0]
    form = _form_of(part, source)
    if form in TABLES:
        return (pair for _, pair in read_table(path, languages, swapped=swapped))
    if form == ".jsonl":
        return read_jsonl(path, languages, swapped=swapped)
    if form in (".parquet", ".arrow", ".feather"):
        return read_arrow(path, languages, swapped=swapped)
    return read_markup(path, languages)


def _form_of(part: Part, source: Source) -> str:
    return ".tsv" if source.tsv else ".jsonl" if source.jsonl else format_of(part[0])


def describe_tables(source: Source, languages: Languages, root: Path) -> list[str]:
    """A line about each table of a source: what was taken for what."""
    if source.demo or source.hf is not None:
        return []
    layouts = {
        part[0]: layout_of(part[0], languages)
        for part in _parts(source, languages, root)
        if len(part) == 1 and _form_of(part, source) in TABLES
    }
    return [
        f"{path}: {layout.describe()}"
        for path, layout in layouts.items()
        if layout.header or not layout.plain
    ]


def turned_source(source: Source, languages: Languages, root: Path) -> str:
    """How a configuration names a source that is read the other way round.

    Empty where languages that stand in the source decide: its files, columns or keys have wrong
    names.
    """
    keys = source.model_dump()
    if source.files:
        return flow_yaml({**keys, "files": source.files[::-1]})
    parts = _parts(source, languages, root) if source.path else []
    if len(parts) == 1 and len(parts[0]) == 2:
        files = [
            str(path.relative_to(root) if path.is_relative_to(root) else path)
            for path in reversed(parts[0])
        ]
        others = {key: value for key, value in keys.items() if key not in ("path", "direction")}
        return flow_yaml({"files": files, **others})
    keys["direction"] = "-".join(reversed(source_order(source, languages)))
    if source.hf is None:
        first, turned = (
            next((pair for pair in read_pairs(one, languages, root=root, role="train")
                  if pair[0] != pair[1]), None)
            for one in (source, Source.model_validate(keys))
        )  # fmt: skip
        if first == turned:
            return ""
    return flow_yaml(keys)


def _read_aligned(*paths: Path) -> Iterator[Pair]:
    for src, tgt in zip_longest(*map(split_lines, paths)):
        if src is None or tgt is None:
            break
        yield src, tgt
    else:
        return
    _raise_unequal(paths)


def _raise_unequal(paths: tuple[Path, ...]) -> NoReturn:
    counts = [sum(1 for _ in split_lines(path)) for path in paths]
    suspect = None
    if max(counts) <= _MOST_SHAPES:
        shapes = [line_shapes(split_lines(path)) for path in paths]
        suspect = first_suspect(*sorted(shapes, key=len, reverse=True))
    raise DataError(
        tr(
            "{} has {} lines but {} has {}: the files must be line-aligned",
            paths[0],
            counts[0],
            paths[1],
            counts[1],
        )
        + (tr("; first suspect line {}", suspect) if suspect else "")
    )


def line_shapes(lines: Iterable[str]) -> np.ndarray:
    """(n, 4) properties that translation keeps: characters, digits, ends in ?, ends in !"""
    rows = (
        (
            len(line),
            len(_DIGIT.findall(line)),
            line.endswith(("?", "？")),
            line.endswith(("!", "！")),
        )
        for line in lines
    )
    return np.fromiter(rows, dtype=np.dtype((np.float32, 4)))


def first_suspect(longer: np.ndarray, shorter: np.ndarray) -> int | None:
    """The first line of the longer file that has no partner, judged by the lines' shapes alone.

    The surplus lines may be anywhere, so the path over (line of the shorter file, surplus lines
    passed so far) with the least cost is found, one vectorised step per surplus line.

    Args:
        longer: (n, 4) from `line_shapes`.
        shorter: (m, 4) the same of the other file.
    Returns:
        A line number counted from 1; None when there is nothing, or too much, to tell from.
    """
    n_surplus = len(longer) - len(shorter)
    if not 0 < n_surplus <= _MAX_SURPLUS or not 0 < n_surplus * len(shorter) <= _MOST_STEPS:
        return None
    best, entries = _misfit(longer, shorter), []
    for shift in range(1, n_surplus + 1):
        cost = _misfit(longer[shift:], shorter)
        entry = best - cost  # cost of passing the next surplus line here
        entries.append(entry)
        best = cost + np.minimum.accumulate(entry)
    position = len(shorter)
    for entry in reversed(entries):
        position = int(np.argmin(entry[: position + 1]))
    return position + 1


def _misfit(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """(m + 1,) summed cost of pairing the first 0 … m lines of two arrays of shapes as they stand.

    Source: Gale and Church 1993, section 3: lengths differ with a variance that grows with length.
    """
    size = min(len(one), len(other))
    one, other = one[:size], other[:size]
    scale = (one[:, 0].sum() + 1) / (other[:, 0].sum() + 1)
    expected = scale * other[:, 0]
    cost = np.abs(one[:, 0] - expected) / np.sqrt(one[:, 0] + expected + 1)
    cost = cost + np.abs(one[:, 1:] - other[:, 1:]).clip(max=3).sum(axis=1)
    return np.concatenate([[0.0], np.cumsum(cost, dtype=np.float64)])
