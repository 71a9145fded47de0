"""The encoded corpus: what was written is what is read, in any pieces, and damage is noticed."""

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from encoded import encode_pairs
from full_disk import limited_file_size

from transformer_mt.encoding import encoded_corpus as dataset
from transformer_mt.encoding.encoded_corpus import encode_corpus, open_corpus
from transformer_mt.encoding.tags import Tagging
from transformer_mt.encoding.tokenizer import EOS_ID, Tokenizer
from transformer_mt.errors import DataError, TmtError

PAIRS = [("a bc", "d"), ("", "efg hi"), ("xyz", "z" * 30), ("ü", "好")]


class ByteTokenizer:
    """One id per UTF-8 byte, moved up so that large vocabularies get large ids."""

    def __init__(self, vocab_size: int) -> None:
        self.vocab_size = vocab_size

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [[self.vocab_size - 1 - byte for byte in text.encode()] for text in texts]


def byte_tokenizers(src: int = 300, tgt: int = 300) -> tuple[Tokenizer, Tokenizer]:
    return cast(tuple[Tokenizer, Tokenizer], (ByteTokenizer(src), ByteTokenizer(tgt)))


def write(out_dir: Path, pairs: Any = PAIRS, **changes: Any) -> Any:
    settings = {"tokenizers": byte_tokenizers(), "max_length": None, **changes}
    return encode_pairs(pairs, settings.pop("tokenizers"), out_dir, **settings)


def read(directory: Path) -> tuple[list[list[int]], list[list[int]]]:
    """All rows of both sides, without EOS, which each must end with."""
    corpus = open_corpus(directory)
    sides = []
    for side in (corpus.src, corpus.tgt):
        rows = [side.sentence(i) for i in range(len(corpus))]
        assert all(row[-1] == EOS_ID for row in rows)
        sides.append([row[:-1] for row in rows])
    return sides[0], sides[1]


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.mark.parametrize(
    ("vocab_size", "dtype"),
    [(300, np.uint16), (2**16, np.uint16), (2**16 + 1, np.int32), (900_000, np.int32)],
)
def test_round_trip(tmp_path: Path, vocab_size: int, dtype: type) -> None:
    """Each side with the smallest type that holds its largest id."""
    tokenizers = byte_tokenizers(vocab_size, 300)
    report = write(tmp_path / "train", tokenizers=tokenizers)
    corpus = open_corpus(tmp_path / "train")
    assert len(corpus) == len(PAIRS)
    assert corpus.src.ids.dtype == dtype
    assert corpus.tgt.ids.dtype == np.uint16
    for side, name in ((0, "src"), (1, "tgt")):
        encoded = getattr(corpus, name)
        expected = [[*ids, EOS_ID] for ids in tokenizers[side].encode([p[side] for p in PAIRS])]
        assert [encoded.sentence(i) for i in range(len(PAIRS))] == expected
        assert encoded.lengths.tolist() == [len(ids) for ids in expected]
    assert (report.kept, report.too_long) == (4, 0)
    assert (report.src_tokens, report.tgt_tokens) == (4 + 0 + 3 + 2 + 4, 1 + 6 + 30 + 3 + 4)


def test_neither_the_pieces_of_the_stream_nor_processes_make_a_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = [("a" * (i % 7), "b" * (i % 5)) for i in range(100)]
    sources = np.arange(100, dtype=np.uint16) // 34
    tagging = Tagging(sources=((), (7,), ()))
    files = []
    for chunk, shard, workers in ((10_000, 10_000, 1), (7, 10_000, 1), (7, 30, 2), (10_000, 1, 1)):
        monkeypatch.setattr(dataset, "CHUNK", chunk)
        monkeypatch.setattr(dataset, "SHARD", shard)
        out_dir = tmp_path / f"{chunk}-{shard}"
        write(out_dir, pairs, max_length=5, tagging=tagging, sources=sources, workers=workers)
        files.append(contents(out_dir))
    assert all(other == files[0] for other in files[1:])
    assert set(files[0]) == {
        "src.ids", "tgt.ids", "src.offsets.npy", "tgt.offsets.npy", "sources.npy", "report.json",
    }  # fmt: skip


class Deadly(ByteTokenizer):
    """Kills the process that meets an x; knows what it was asked for."""

    def __init__(self) -> None:
        super().__init__(300)
        self.seen: list[str] = []

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        if "x" in texts:
            os.kill(os.getpid(), signal.SIGKILL)
        self.seen += texts
        return super().encode(texts)


def test_shards_that_were_finished_before_a_death_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dataset, "SHARD", 10)
    pairs = [("a" * i, "b") for i in range(30)]
    deadly = Deadly()
    place, again = tmp_path / "train", tmp_path / "again"
    settings = {"tokenizers": (deadly, ByteTokenizer(300)), "shards_dir": tmp_path / "shards"}
    with pytest.raises(DataError, match="killed, most likely for want of memory"):
        write(place, [*pairs[:-1], ("x", "b")], workers=2, **settings)
    assert not place.exists()
    # A worker that died in the middle of writing leaves a shard without its digest.
    done = {path.stem for path in (tmp_path / "shards").glob("[!.]*.sha256")}
    assert done and done < {"000000.npz", "000001.npz", "000002.npz"}
    write(place, pairs, **settings)
    assert len(deadly.seen) == 10 * (3 - len(done))
    write(again, pairs)
    assert contents(place) == contents(again)
    assert not (tmp_path / "shards").exists()


def test_tags_stand_before_the_source_and_count_for_no_limit(tmp_path: Path) -> None:
    """By source of the pair; the target has none."""
    pairs = [("abc", "d"), ("ef", "g"), ("abcd", "d"), ("h", "i")]
    tokenizers = byte_tokenizers()
    sources = np.array([0, 1, 1, 1], dtype=np.uint16)
    tagging = Tagging(directions=((7,),), sources=((), (8, 9)))
    report = write(tmp_path / "train", pairs, max_length=3, tagging=tagging, sources=sources)
    a, b, c = tokenizers[0].encode(["abc", "ef", "h"])
    src, tgt = read(tmp_path / "train")
    assert src == [[7, *a], [7, 8, 9, *b], [7, 8, 9, *c]]
    assert tgt == tokenizers[1].encode(["d", "g", "i"])
    assert (report.kept, report.too_long) == (3, 1)
    kept_sources = open_corpus(tmp_path / "train").sources
    assert kept_sources is not None and kept_sources.tolist() == [0, 1, 1]


def test_with_two_directions_each_pair_makes_two_rows(tmp_path: Path) -> None:
    pairs = [("abc", "d"), ("too long", "x"), ("", "fg")]
    tagging = Tagging(directions=((7,), (8,)), sources=((), (9,)))
    sources = np.array([0, 0, 1], dtype=np.uint16)
    report = write(tmp_path / "train", pairs, max_length=3, tagging=tagging, sources=sources)
    abc, d, fg = byte_tokenizers()[0].encode(["abc", "d", "fg"])
    src, tgt = read(tmp_path / "train")
    assert src == [[7, *abc], [8, *d], [7, 9], [8, 9, *fg]]
    assert tgt == [d, abc, fg, []]
    assert (report.kept, report.too_long) == (2, 1)
    row_sources = open_corpus(tmp_path / "train").sources
    assert row_sources is not None and row_sources.tolist() == [0, 0, 1, 1]
    write(tmp_path / "dev", pairs, tagging=tagging)
    assert read(tmp_path / "dev")[0][0] == [7, *abc], "dev is from no source"
    assert open_corpus(tmp_path / "dev").sources is None


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([("abcd", "a"), ("a", "abcd")], r"all 2 have more than data.max_length = 3 tokens on a"),
        ([], "no pair is left after cleaning"),
    ],
)
def test_nothing_left(tmp_path: Path, pairs: list[tuple[str, str]], message: str) -> None:
    with pytest.raises(DataError, match=message):
        write(tmp_path / "train", pairs, max_length=3)
    assert not (tmp_path / "train").exists()


class Stopped(ByteTokenizer):
    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        raise KeyboardInterrupt


def test_an_interrupted_encoding_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "out" / "train", tokenizers=(Stopped(300), Stopped(300)))
    assert list((tmp_path / "out").iterdir()) == []


def test_files_of_different_lengths_are_refused(tmp_path: Path) -> None:
    texts = tmp_path / "a", tmp_path / "b"
    for path, lines in zip(texts, ("x\ny\n", "x\n"), strict=True):
        path.write_text(lines)
    with pytest.raises(DataError, match="b have different numbers of lines"):
        encode_corpus(texts, byte_tokenizers(), tmp_path / "train", max_length=None)


@pytest.mark.parametrize(
    ("name", "n_bytes", "message"),
    [
        *(("src.ids", n, f"{n} bytes for 13 tokens; delete .* and run") for n in (0, 1, 11, 17)),
        *(("tgt.offsets.npy", n, "train: encoded corpus is incomplete") for n in (0, 5, 130)),
        *((f"{side}.{name}", None, f"train: encoded corpus is incomplete: .*{side}.{name}")
          for side in ("src", "tgt") for name in ("ids", "offsets.npy")),
    ],
)  # fmt: skip
def test_truncated_and_missing_files(
    tmp_path: Path, name: str, n_bytes: int | None, message: str
) -> None:
    write(tmp_path / "train")
    path = tmp_path / "train" / name
    content = path.read_bytes()
    path.unlink()
    if n_bytes is not None:
        path.write_bytes(content[:n_bytes])
    with pytest.raises(DataError, match=message):
        open_corpus(tmp_path / "train")


def test_a_write_error_is_said_with_its_cause(tmp_path: Path) -> None:
    too_large = pytest.raises(TmtError, match="npz: cannot be written: File too large")
    with limited_file_size(1000), too_large:
        write(tmp_path / "train", [("a" * 900, "b")])
    assert not (tmp_path / "train").exists()
