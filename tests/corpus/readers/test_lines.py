"""Bytes of any form into lines: nothing but line ends may end a line, and mistakes are located."""

import bz2
import gzip
import io
import lzma
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from reading import zstd

from transformer_mt.corpus.readers import lines as streams
from transformer_mt.corpus.readers.lines import open_bytes, plain_name, split_lines, split_stream
from transformer_mt.errors import DataError

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress, ".zst": zstd,
}  # fmt: skip


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


@pytest.mark.parametrize("size", [1, 2, 3, 5, 11])
def test_blocks_give_what_lines_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Any bytes, cut anywhere: the same lines, and the same error after the same lines."""
    monkeypatch.setattr(streams, "_BLOCK", size)
    choose = random.Random(size)
    words = ["a", "好", "\u2028", "\x85", "\x0c", "😀", "\r", "\n", "\n", "\r\n", "\ufeff", " "]
    faults = [b"\xff", b"\xe5\xa5", b"\xf0\x9f", b"\x80", b"\xed\xa0\x80"]
    n_faulty = 0
    for _ in range(200):
        chosen = [word.encode() for word in choose.choices(words, k=choose.randrange(30))]
        if choose.random() < 0.3:
            chosen.insert(choose.randrange(len(chosen) + 1), choose.choice(faults))
        data = b"\xef\xbb\xbf" * choose.randrange(2) + b"".join(chosen)
        expected = list(lines_one_by_one(data))
        n_faulty += any("is not UTF-8" in line for line in expected)
        (tmp_path / "f").write_bytes(data)
        assert lines_until_error(split_lines(tmp_path / "f")) == expected, data
        assert lines_until_error(split_stream(io.BytesIO(data), "f")) == expected, data
    assert n_faulty > 30


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
    with open_bytes(path) as stream:
        assert b"".join(streams.blocks_of(stream)) == text.encode()
    assert list(split_lines(path)) == text.replace("\r\n", "\n").split("\n")[:-1]
    assert plain_name(path.name) == "t.zh"
    path.write_bytes(compress(b"a\n") + compress(b"b\n"))
    assert list(split_lines(path)) == ["a", "b"]  # as joined by `cat`
    path.write_bytes(compress(b""))
    assert list(split_lines(path)) == []


@pytest.mark.parametrize("ending", COMPRESS)
def test_damaged_and_misnamed_files(tmp_path: Path, ending: str) -> None:
    kind, compress = streams.COMPRESSED[ending], COMPRESS[ending]
    whole = compress(random.Random(1).randbytes(9999).hex().encode())
    other = ".xz" if ending == ".gz" else ".gz"
    again = "or get the file again if it is damaged"
    for name, content, message in (
        (f"t{ending}", whole[:-20], f"damaged {kind} data: "),
        (f"t{ending}", b"hello\n", f"its content is not {kind}: rename it to t, {again}"),
        (f"t{ending}", b"", f"is empty; expected {kind} data; get the file again"),
        (f"t{ending}", COMPRESS[other](b"hello\n"),
         f"its content is {streams.COMPRESSED[other]}: rename it to t{other}, {again}"),
        ("t", whole, f"its content is {kind}: rename it to t{ending}"),
    ):  # fmt: skip
        (tmp_path / name).write_bytes(content)
        assert refusal(tmp_path / name).startswith(f"{tmp_path / name}: {message}")
    with pytest.raises(DataError, match=f"standard input: .*; it is {kind}: rename"):
        list(split_stream([whole + b"\xff"], "standard input"))


def test_beginnings_that_mislead(tmp_path: Path) -> None:
    (tmp_path / "t.zst").write_bytes(b"\x5e\x2a\x4d\x18\x03\0\0\0abc" + zstd(b"a\nb\n"))
    assert list(split_lines(tmp_path / "t.zst")) == ["a", "b"], "a frame to skip"
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


def test_a_line_without_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "LONGEST", 1 << 20)
    path = tmp_path / "t.gz"
    path.write_bytes(gzip.compress(b"a\n" + bytes(3 << 20), 1))
    assert "t.gz: line 2: longer than 1 MiB" in refusal(path)
    refused = pytest.raises(DataError, match="standard input: line 1: longer than 1 MiB")
    with open("/dev/zero", "rb", buffering=0) as zeros, refused:
        list(split_stream(io.BufferedReader(zeros), "standard input"))
    long = b"a" * ((1 << 20) - 1) + b"\n"
    assert len(list(split_stream([long] * 3, "f"))) == 3
