"""Parts of two files, and of stored pairs: together they are what one reader reads."""

from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_mt.config.data import Languages, Source
from transformer_mt.corpus.readers.pairs import read_pairs, split_source
from transformer_mt.corpus.readers.parts import read_stored, store_pairs, stored_line, stored_parts
from transformer_mt.errors import DataError

ZH_EN = Languages(src="zh", tgt="en")
SOURCE = Source(path="a")
LINES = st.lists(st.text("ab é好\r\u2028\x85", max_size=6), max_size=12)


def write(folder: Path, src: bytes, tgt: bytes) -> None:
    (folder / "a.zh").write_bytes(src)
    (folder / "a.en").write_bytes(tgt)


@settings(deadline=None)
@given(LINES, LINES, st.integers(1, 5), st.none() | st.integers(1, 9), st.booleans(), st.booleans())
def test_parts_are_the_whole(
    tmp_path_factory: pytest.TempPathFactory, one: list[str], other: list[str], every: int,
    limit: int | None, mark: bool, ends: bool,
) -> None:  # fmt: skip
    folder = tmp_path_factory.mktemp("parts")
    n = min(len(one), len(other))
    texts = ["\n".join(side[:n]) + ("\n" if ends and n else "") for side in (one, other)]
    start = b"\xef\xbb\xbf" if mark else b""
    write(folder, start + texts[0].encode(), texts[1].encode())
    source = SOURCE.model_copy(update={"limit": limit})
    try:
        whole = list(read_pairs(source, ZH_EN, root=folder, role="train"))
    except DataError:  # a last line that is empty and has no end is none
        with pytest.raises(DataError, match="line-aligned"):
            list(split_source(source, ZH_EN, folder, every) or ())
        return
    parts = list(split_source(source, ZH_EN, folder, every) or ())
    assert list(chain.from_iterable(part.read() for part in parts)) == whole
    assert [part.first for part in parts] == list(range(0, len(whole), every))
    assert sum(part.size for part in parts) == len(whole)


def test_a_file_that_changes_while_it_is_read(tmp_path: Path) -> None:
    """Its lines are elsewhere, and would go with those of other pairs."""
    write(tmp_path, b"a\nb\nc\nd\n", b"1\n2\n3\n4\n")
    first, second = split_source(SOURCE, ZH_EN, tmp_path, 2) or ()
    assert list(first.read()) == [("a", "1"), ("b", "2")]
    write(tmp_path, b"a\nnew\nb\nc\nd\n", b"1\nnew\n2\n3\n4\n")
    with pytest.raises(DataError, match=r"a\.zh: has changed while it was read"):
        list(second.read())


def test_errors_name_the_line_of_the_file(tmp_path: Path) -> None:
    write(tmp_path, b"a\nb\nc\nd\xff\n", b"1\n2\n3\n4\n")
    *good, bad = split_source(SOURCE, ZH_EN, tmp_path, 2) or ()
    assert [list(part.read()) for part in good] == [[("a", "1"), ("b", "2")]]
    with pytest.raises(DataError, match="line 4: byte 0xff at offset 7 is not UTF-8"):
        list(bad.read())


def test_other_forms_are_not_cut(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("a\tb\n")
    assert split_source(Source(tsv="a.tsv"), ZH_EN, tmp_path, 2) is None
    assert split_source(Source(demo=True), ZH_EN, tmp_path, 2) is None


@settings(deadline=None)
@given(st.lists(st.tuples(st.text(st.characters(), max_size=5), st.text(max_size=5)), max_size=9))
def test_stored_pairs_come_back(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]]
) -> None:
    path = tmp_path_factory.mktemp("stored") / "pairs"
    pairs = [*pairs, ("\ud800\n", "x")]
    store_pairs(((3 * i + 2, pair) for i, pair in enumerate(pairs)), path, 3)
    assert list(read_stored(path)) == pairs
    parts = list(stored_parts(path))
    assert [part.size for part in parts[:-1]] == [3] * (len(parts) - 1)
    lines = [3 * i + 2 for i in range(len(pairs))]
    assert [line for part in parts for line in part.lines().tolist()] == lines
    assert [stored_line(path, i) for i in range(1, len(pairs) + 1)] == lines
