"""The encoded corpus: what was written is what is read, and damage is noticed."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from transformer_mt.data import dataset
from transformer_mt.data.dataset import encode_corpus, open_corpus
from transformer_mt.data.tokenizer import EOS_ID, Tokenizer
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
    return encode_corpus(pairs, settings["tokenizers"], out_dir, max_length=settings["max_length"])


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


def test_too_long_pairs_are_dropped_on_both_sides_and_counted(tmp_path: Path) -> None:
    """The limit does not count EOS; either side may break it."""
    pairs = [("abc", "abc"), ("abcd", "a"), ("a", "abcd"), ("ab", "c")]
    report = write(tmp_path / "train", pairs, max_length=3)
    corpus = open_corpus(tmp_path / "train")
    assert (report.kept, report.too_long) == (2, 2)
    assert corpus.src.lengths.tolist() == [4, 3]
    assert corpus.tgt.lengths.tolist() == [4, 2]


def test_pieces_of_the_stream_make_no_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = [("a" * (i % 7), "b" * (i % 5)) for i in range(100)]
    files = []
    for chunk in (10_000, 7):
        monkeypatch.setattr(dataset, "CHUNK", chunk)
        write(tmp_path / str(chunk), iter(pairs), max_length=5)
        files.append({p.name: p.read_bytes() for p in (tmp_path / str(chunk)).iterdir()})
    assert files[0] == files[1]
    assert set(files[0]) == {
        "src.ids", "tgt.ids", "src.offsets.npy", "tgt.offsets.npy", "report.json",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (
            [("abcd", "a"), ("a", "abcd")],
            "no pair is left: all 2 have more than data.max_length = 3 tokens on a side",
        ),
        ([], "no pair is left after cleaning"),
    ],
)
def test_nothing_left(tmp_path: Path, pairs: list[tuple[str, str]], message: str) -> None:
    with pytest.raises(DataError, match=message):
        write(tmp_path / "train", pairs, max_length=3)
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_encoding_leaves_nothing(tmp_path: Path) -> None:
    def cut_short() -> Iterator[tuple[str, str]]:
        yield "a", "b"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "train", cut_short())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("n_bytes", [0, 1, 11, 17])
def test_truncated_ids(tmp_path: Path, n_bytes: int) -> None:
    directory = tmp_path / "train"
    write(directory)
    path = directory / "src.ids"
    path.write_bytes(path.read_bytes()[:n_bytes])
    with pytest.raises(DataError) as caught:
        open_corpus(directory)
    expected = f"{path}: {n_bytes} bytes for 13 tokens; delete {directory} and run again"
    assert str(caught.value) == expected


@pytest.mark.parametrize("name", ["src.ids", "tgt.ids", "src.offsets.npy", "tgt.offsets.npy"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    directory = tmp_path / "train"
    write(directory)
    (directory / name).unlink()
    with pytest.raises(DataError, match=f"train: encoded corpus is incomplete: .*{name}"):
        open_corpus(directory)


@pytest.mark.parametrize("n_bytes", [0, 5, 130])
def test_truncated_offsets(tmp_path: Path, n_bytes: int) -> None:
    directory = tmp_path / "train"
    write(directory)
    path = directory / "tgt.offsets.npy"
    path.write_bytes(path.read_bytes()[:n_bytes])
    with pytest.raises(DataError, match="train: encoded corpus is incomplete: "):
        open_corpus(directory)


def test_a_write_error_is_said_with_its_cause(
    tmp_path: Path, limit_file_size: Callable[[int], None]
) -> None:
    limit_file_size(1000)
    with pytest.raises(TmtError, match="train: cannot be written: File too large"):
        write(tmp_path / "train", [("a" * 5000, "b")])
    assert list(tmp_path.iterdir()) == []
