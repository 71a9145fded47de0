"""Bytes of any form into lines: nothing but line ends may end a line, and mistakes are located."""

import bz2
import gzip
import io
import lzma
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from transformer_mt.corpus.readers import lines as streams
from transformer_mt.corpus.readers.lines import open_bytes, plain_name, split_lines, split_stream
from transformer_mt.errors import DataError


def zstd(data: bytes) -> bytes:
    import pyarrow

    sink = pyarrow.BufferOutputStream()
    with pyarrow.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
    ".zst": zstd,
}


def refusal(path: Path) -> str:
    with pytest.raises(DataError) as caught:
        list(split_lines(path))
    return str(caught.value)


@pytest.mark.parametrize(
    ("data", "lines", "why"),
    [
        (b"a\nb\n", ["a", "b"], "plain"),
        (b"a\nb", ["a", "b"], "no line end at the end"),
        (b"a\r\nb\r\n", ["a", "b"], "Windows"),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"], "only the first mark is a BOM"),
        ("a\u2028b\u0085c\x0bd\x0ce\n".encode(), ["a\u2028b\u0085c\x0bd\x0ce"], "only \\n ends"),
        (b"a\rb\n", ["a\rb"], "a lone \\r is text"),
        (b"\n\nx\n", ["", "", "x"], "empty lines count"),
        (b"", [], "empty file"),
        (b"a\x00b\n", ["a\x00b"], "control characters are for cleaning"),
    ],
)
def test_split_lines(tmp_path: Path, data: bytes, lines: list[str], why: str) -> None:
    (tmp_path / "f").write_bytes(data)
    assert list(split_lines(tmp_path / "f")) == lines, why


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("好\n第二\n".encode() + b"ab\xb0c\n", "f: line 3: byte 0xb0 at offset 13 is not UTF-8"),
        (b"\xef\xbb\xbfab\xff\n", "f: line 1: byte 0xff at offset 5 is not UTF-8"),
        (b"\xb0\n", "iconv -f ENCODING -t UTF-8 f > NEW (often GB18030 for Chinese, CP1252"),
        ("好".encode("utf-16"), "line 1: byte 0xff at offset 0 is not UTF-8; convert it: "
         "iconv -f UTF-16 -t UTF-8 f > NEW"),
    ],
)  # fmt: skip
def test_undecodable_bytes_are_located(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "f").write_bytes(data)
    assert message in refusal(tmp_path / "f")


def lines_one_by_one(data: bytes) -> Iterator[str]:
    """The definition: each line decoded alone; ends with the text of the error, if there is one."""
    offset = 0
    for number, raw in enumerate(io.BytesIO(data), 1):
        body = raw[3:] if number == 1 and raw.startswith(b"\xef\xbb\xbf") else raw
        try:
            yield body.decode().removesuffix("\n").rstrip("\r")
        except UnicodeDecodeError as error:
            at = error.start + len(raw) - len(body)
            yield f"line {number}: byte 0x{raw[at]:02x} at offset {offset + at} is not UTF-8"
            return
        offset += len(raw)


def lines_until_error(lines: Iterable[str]) -> list[str]:
    found = []
    try:
        found.extend(lines)  # list.extend keeps what came before an error
    except DataError as error:
        found.append(str(error).split("f: ")[1].split(";")[0])
    return found


def test_blocks_give_what_lines_give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any bytes, cut anywhere: the same lines, and the same error after the same lines."""
    choose = random.Random(1)
    words = ["a", "好", "\u2028", "\x85", "\x0c", "😀", "\r", "\n", "\n", "\r\n", "\ufeff", " "]
    pieces = [word.encode() for word in words]
    faults = [b"\xff", b"\xe5\xa5", b"\xf0\x9f", b"\x80", b"\xed\xa0\x80"]
    n_faulty = 0
    for _ in range(3000):
        chosen = choose.choices(pieces, k=choose.randrange(30))
        if choose.random() < 0.3:
            chosen.insert(choose.randrange(len(chosen) + 1), choose.choice(faults))
        if choose.random() < 0.2:
            chosen.insert(0, b"\xef\xbb\xbf")
        data = b"".join(chosen)
        expected = list(lines_one_by_one(data))
        n_faulty += any("is not UTF-8" in line for line in expected)
        (tmp_path / "f").write_bytes(data)
        monkeypatch.setattr(streams, "_BLOCK", choose.randrange(1, 12))
        assert lines_until_error(split_lines(tmp_path / "f")) == expected, data
        assert lines_until_error(split_stream(io.BytesIO(data), "f")) == expected, data
    assert n_faulty > 500


def test_a_stream_hands_on_a_line_before_the_next_is_there() -> None:
    def typed() -> Iterator[bytes]:
        yield b"one\n"
        raise AssertionError("asked for more than it needed")

    assert next(split_stream(typed(), "standard input")) == "one"


@pytest.mark.parametrize("ending", COMPRESS)
def test_compressed_files(tmp_path: Path, ending: str) -> None:
    text = "".join(f"第{n}行\u2028 line {n}\r\n" for n in range(30_000))
    compress = COMPRESS[ending]
    path = tmp_path / f"t.zh{ending}"
    path.write_bytes(compress(text.encode()))
    lines = list(split_lines(path))
    assert lines == text.replace("\r\n", "\n").split("\n")[:-1]
    assert plain_name(path.name) == "t.zh"

    path.write_bytes(compress(b"a\n") + compress(b"b\n"))
    assert list(split_lines(path)) == ["a", "b"]  # as joined by `cat`
    path.write_bytes(compress(b""))
    assert list(split_lines(path)) == []


@pytest.mark.parametrize("ending", COMPRESS)
def test_damaged_and_misnamed_files(tmp_path: Path, ending: str) -> None:
    kind, compress = streams.COMPRESSED[ending], COMPRESS[ending]
    whole = compress(random.Random(1).randbytes(9999).hex().encode())
    path, plain = tmp_path / f"t.zh{ending}", tmp_path / "t.zh"
    path.write_bytes(whole[:-20])
    assert f"t.zh{ending}: damaged {kind} data: " in refusal(path)
    assert refusal(path).endswith("; get the file again")
    path.write_bytes(b"hello\n")
    assert refusal(path) == (
        f"{path}: its content is not {kind}: rename it to t.zh, or get the file again if it is "
        "damaged"
    )
    path.write_bytes(b"")
    assert refusal(path) == f"{path}: is empty; expected {kind} data; get the file again"
    other = ".xz" if ending == ".gz" else ".gz"
    path.write_bytes(COMPRESS[other](b"hello\n"))
    assert f": its content is {streams.COMPRESSED[other]}: rename it to t.zh{other}, or" in refusal(
        path
    )
    plain.write_bytes(whole)
    assert refusal(plain) == f"{plain}: its content is {kind}: rename it to t.zh{ending}"
    with pytest.raises(DataError, match=f"standard input: .*; it is {kind}: rename"):
        list(split_stream([whole + b"\xff"], "standard input"))


def test_zstd_may_start_with_a_frame_to_skip(tmp_path: Path) -> None:
    (tmp_path / "t.zst").write_bytes(b"\x5e\x2a\x4d\x18\x03\0\0\0abc" + zstd(b"a\nb\n"))
    assert list(split_lines(tmp_path / "t.zst")) == ["a", "b"]


def test_text_that_starts_like_bzip2_is_text(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(b"BZh9 is how such files start\n")
    assert list(split_lines(tmp_path / "t")) == ["BZh9 is how such files start"]


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plain.gz").touch()
    assert refusal(tmp_path) == f"{tmp_path}: is a directory; expected a text file"
    missing = tmp_path / "plan.gz"
    assert refusal(missing) == f"{missing}: no such file; near names in {tmp_path}: plain.gz"

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    assert refusal(tmp_path / "x") == f"{tmp_path}/x: cannot be read: Permission denied"


def test_bytes_are_what_was_compressed(tmp_path: Path) -> None:
    data = random.Random(2).randbytes(600_000)
    for ending, compress in COMPRESS.items():
        path = tmp_path / f"bytes{ending}"
        path.write_bytes(compress(data))
        with open_bytes(path) as stream:
            assert b"".join(streams.blocks_of(stream)) == data
