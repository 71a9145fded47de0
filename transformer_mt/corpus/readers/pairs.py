"""Aligned text in any common form → a stream of pairs, or an error: where, and what to do.

Comes in: a `Source` of the configuration. Goes out: (source, target) texts, one by one, unchanged
but for byte order mark and line ends. This file does not know which pairs are good: see `cleaning`;
nor the formats of files: see `tables.py`, `tmx_xliff.py` and `sgm.py`.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any

from transformer_mt.config.data import Languages, Source, split_direction
from transformer_mt.corpus.readers.columns import read_arrow
from transformer_mt.corpus.readers.demo import read_demo
from transformer_mt.corpus.readers.huggingface import Role, hub_rows
from transformer_mt.corpus.readers.line_counts import first_suspect, line_shapes
from transformer_mt.corpus.readers.lines import expand, split_lines, split_stream
from transformer_mt.corpus.readers.paths import Part, find_file, find_parts, format_of
from transformer_mt.corpus.readers.sgm import read_sgm_pair
from transformer_mt.corpus.readers.tables import (
    Pair,
    language_of,
    pair_of_row,
    read_jsonl,
    read_tsv,
)
from transformer_mt.corpus.readers.tmx_xliff import read_markup
from transformer_mt.errors import DataError

__all__ = [
    "Pair", "Role", "language_of", "read_pairs", "source_files", "source_order", "split_lines",
    "split_stream",
]  # fmt: skip


_MOST_SHAPES = 20_000_000  # lines; the shapes of all lines are in memory together


def read_pairs(
    source: Source, languages: Languages, *, root: Path, role: Role, offline: bool = False
) -> Iterator[Pair]:
    """Stream the pairs of a source, in order.

    Args:
        source: where the text is; public corpora by name must have been brought here before.
        languages: which side, column or key is the source and which the target.
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
            rows = hub_rows(source, root=root, role=role, offline=offline)
            yield _read_rows(rows, f"{source}: row", languages, swapped)
        else:
            for part in _parts(source, languages, root):
                yield _read_part(part, source, languages, swapped)

    return islice(chain.from_iterable(streams()), source.limit)


def source_files(source: Source, languages: Languages, root: Path) -> list[Path]:
    """The local files that a source reads, in order; of two sides the source comes first.

    None for the bundled corpus and for remote datasets.

    Raises:
        DataError: a file is missing; the message has one line for each, with near names.
    """
    if source.demo:
        return []
    if source.hf is not None:
        folder = root / expand(source.hf)
        return sorted(path for path in folder.rglob("*") if path.is_file())
    return [path for part in _parts(source, languages, root) for path in part]


def source_order(source: Source, languages: Languages) -> tuple[str, str]:
    """The two languages in the order in which they stand in a source.

    Raises:
        DataError: the `direction` of the source has another language.
    """
    order = split_direction(source.direction or languages.pair)
    if set(order) != {languages.src, languages.tgt}:
        raise DataError(
            f"{source}: direction is {source.direction}, but languages are {languages.src} → "
            f"{languages.tgt}; write {languages.pair} or {languages.reversed().pair}"
        )
    return order


def _is_swapped(source: Source, languages: Languages) -> bool:
    """Whether the target comes first in the source."""
    return source_order(source, languages)[0] == languages.tgt


def _parts(source: Source, languages: Languages, root: Path) -> list[Part]:
    """The files to read one after another."""
    if source.path is not None:
        return find_parts(source.path, languages, root)
    if source.files is None and source.tsv is None and source.jsonl is None:
        raise ValueError(f"{source}: a source of the kind {source.kind} must be made local first")
    paths, problems = [], []
    for name in source.files or [source.tsv or source.jsonl or ""]:
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
    form = ".tsv" if source.tsv else ".jsonl" if source.jsonl else format_of(path)
    if form == ".tsv":
        pairs = read_tsv(path)
        return ((src, tgt) for tgt, src in pairs) if swapped else pairs
    if form == ".jsonl":
        return read_jsonl(path, languages, swapped=swapped)
    if form in (".parquet", ".arrow", ".feather"):
        return read_arrow(path, languages, swapped=swapped)
    return read_markup(path, languages)


def _read_aligned(src_path: Path, tgt_path: Path) -> Iterator[Pair]:
    for src, tgt in zip_longest(split_lines(src_path), split_lines(tgt_path)):
        if src is None or tgt is None:
            raise DataError(_unequal(src_path, tgt_path))
        yield src, tgt


def _unequal(src_path: Path, tgt_path: Path) -> str:
    counts = [sum(1 for _ in split_lines(path)) for path in (src_path, tgt_path)]
    suspect = None
    if max(counts) <= _MOST_SHAPES:
        shapes = [line_shapes(split_lines(path)) for path in (src_path, tgt_path)]
        longer, shorter = sorted(shapes, key=len, reverse=True)
        suspect = first_suspect(longer, shorter)
    return (
        f"{src_path} has {counts[0]} lines but {tgt_path} has {counts[1]}: "
        "the files must be line-aligned" + (f"; first suspect line {suspect}" if suspect else "")
    )


def _read_rows(
    rows: Iterable[Mapping[str, Any]], where: str, languages: Languages, swapped: bool
) -> Iterator[Pair]:
    try:
        for number, row in enumerate(rows, 1):
            yield pair_of_row(row, languages, where, number, swapped=swapped)
    except DataError as error:
        if error.__cause__ is None:  # the dataset was loaded, but a row is malformed
            raise
        raise DataError(f"{error}\n{_own_files(languages)}") from error


def _own_files(languages: Languages) -> str:
    """Settings that work without network: files of the user's own."""
    return (
        "Files of your own work without network. These settings read my/text."
        f"{languages.src} and my/text.{languages.tgt} under data.root, and hold dev and test out "
        "of them:\n"
        "  --set 'data.train=[my/text]' --set 'data.dev=[]' --set 'data.test={}'\n"
        "Other names: --set 'data.train=[{files: [my/source.txt, my/target.txt]}]'"
    )
