"""Archives of unknown origin: what was packed comes out whole, or nothing does."""

import bz2
import gzip
import io
import lzma
import random
import re
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from full_disk import limited_file_size
from loopback import tarred, zipped
from reading import zstd

from transformer_mt.corpus.sources import archives
from transformer_mt.corpus.sources.archives import is_archive, unpack_archive
from transformer_mt.errors import TmtError

TEXT = "\n".join(f"第{i}行 line {i * 7919 % 1000}" for i in range(5000)).encode()
FILES = {"a.en-zh.zh": TEXT, "deep/er/b.txt": b"b\n", "empty": b"", "名字.txt": "名".encode()}


COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "a.tar": bytes, "a.tar.gz": gzip.compress, "a.TGZ": gzip.compress, "a.tar.xz": lzma.compress,
    "a.tar.bz2": bz2.compress, "a.tar.zst": zstd,
}  # fmt: skip


def make(folder: Path, name: str, files: dict[str, bytes] = FILES) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_bytes(zipped(files) if name.endswith(".zip") else COMPRESS[name](tarred(files)))
    return path


def unpacked(archive: Path, out: Path) -> dict[str, bytes]:
    files = unpack_archive(archive, out)
    return {str(file.relative_to(out)): file.read_bytes() for file in files}


def refusal(archive: Path) -> str:
    """The message; nothing may be left, inside or outside of where it should have gone."""
    before = sorted(archive.parent.parent.rglob("*"))
    with pytest.raises(TmtError) as caught:
        unpack_archive(archive, archive.parent / "out")
    assert sorted(archive.parent.parent.rglob("*")) == before
    assert str(caught.value).startswith(str(archive.parent))
    return str(caught.value)


@pytest.mark.parametrize("name", ["a.zip", *COMPRESS])
def test_what_was_packed_comes_out(tmp_path: Path, name: str) -> None:
    archive = make(tmp_path, name)
    assert is_archive(archive)
    assert unpacked(archive, tmp_path / "out") == FILES
    other = archive.rename(tmp_path / "a.gz.1")  # the content tells where the name does not
    assert is_archive(other)
    assert unpacked(other, tmp_path / "other") == FILES


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.txt.gz", gzip.compress(TEXT)), ("a.tsv.xz", lzma.compress(TEXT)), ("a.zst", zstd(TEXT)),
     ("a.tmx", TEXT), ("a", b""), ("tar.txt", TEXT), ("cut.gz", gzip.compress(TEXT)[:50]),
     ("a.XLSX", zipped({"xl/workbook.xml": TEXT})), ("a.ods", zipped({"content.xml": TEXT}))],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_single_files_are_no_archives(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    assert not is_archive(tmp_path / name)


@pytest.mark.parametrize("archive", ["a.zip", "a.tar.gz"])
@pytest.mark.parametrize(
    "name", ["../x", "a/../../x", "/etc/x", "..", "..\\x", "a\\..\\..\\x", "C:\\x", "\\\\host\\x"]
)
def test_no_member_leaves_its_directory(tmp_path: Path, archive: str, name: str) -> None:
    message = refusal(make(tmp_path / "in", archive, {"good.txt": b"good", name: b"bad"}))
    assert f"{name!r} would be written outside of its directory: refused" in message


def test_dots_that_stay_inside_are_fine(tmp_path: Path) -> None:
    archive = make(tmp_path, "a.tar.gz", {"./a/./b..c": b"1", "...": b"2"})
    assert unpacked(archive, tmp_path / "out") == {"...": b"2", "a/b..c": b"1"}


def linked(kind: bytes) -> bytes:
    info = tarfile.TarInfo("link")
    info.type, info.linkname = kind, "/etc/passwd"
    return tarred(FILES, info)


def packed(method: int, mode: int = 0) -> bytes:
    buffer, info = io.BytesIO(), zipfile.ZipInfo("link")
    info.external_attr, info.compress_type = mode << 16, method
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr(info, "/etc/passwd")
    return buffer.getvalue()


def encrypted() -> bytes:
    content = bytearray(packed(zipfile.ZIP_STORED))
    content[content.index(b"PK\x01\x02") + 8] |= 1  # the flag, where the directory says it
    return bytes(content)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (linked(tarfile.SYMTYPE), "a later member could be written through it"),
        (linked(tarfile.LNKTYPE), "it could show any file of the user"),
        (linked(tarfile.FIFOTYPE), "a reader waits forever"),
        (linked(tarfile.CHRTYPE), "a device"),
        (linked(tarfile.BLKTYPE), "a device"),
        (packed(zipfile.ZIP_STORED, 0o120777), "a link in a zip"),
        (packed(zipfile.ZIP_BZIP2), "46 bytes may become 46 MiB at once"),
        (packed(zipfile.ZIP_LZMA), "46 bytes may become 46 MiB at once"),
        (encrypted(), "encrypted"),
    ],
)
def test_only_plain_files(tmp_path: Path, content: bytes, why: str) -> None:
    archive = make(tmp_path / "in", "a.zip")
    archive.write_bytes(content)
    if not content.startswith(b"PK"):
        archive = archive.rename(archive.with_name("a.tar"))
    assert "'link' is a link, a device, encrypted or" in refusal(archive), why


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz", "a.tar.xz", "a.tar.zst"])
def test_bombs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """12 MiB of zeros in a few kilobytes."""
    monkeypatch.setattr(archives, "_ALWAYS_ALLOWED", 10 << 20)
    archive = make(tmp_path / "in", name, {"ok.txt": b"ok", "zeros": bytes(12 << 20)})
    assert "'zeros' brings it to more than 200 times its own size: refused" in refusal(archive)
    monkeypatch.setattr(archives, "_ALWAYS_ALLOWED", 13 << 20)
    assert len(unpacked(archive, tmp_path / "out")["zeros"]) == 12 << 20


def test_too_many_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = make(tmp_path / "in", "a.zip", {f"{i:02}": b"x" for i in range(20)})
    monkeypatch.setattr(archives, "_MEMBERS", 10)
    assert "'10' is member 11, after which none is read: refused" in refusal(archive)
    monkeypatch.setattr(archives, "_MEMBERS", 20)
    assert len(unpacked(archive, tmp_path / "out")) == 20
    monkeypatch.setattr(archives, "_DIRECTORY", 1 << 9)
    assert "its directory has more than 0 MiB" in refusal(archive.rename(tmp_path / "in" / "b"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.zip", zipped({"a": b"1", "a/b": b"2"}), "out: cannot be written: "),
        ("a.zip", zipped({}), "holds no files"),
        ("a.tar", tarred({}), "holds no files"),
        ("a.zip", b"\n<!DOCTYPE html><html>", r"\(it is a web page\); delete it and get it again"),
        ("a.tar.gz", b"\n<html>log in</html>", r"\(it is a web page\); delete it and get it again"),
    ],
)
def test_nothing_of_use(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    archive = make(tmp_path / "in", name)
    archive.write_bytes(content)
    assert re.search(message, refusal(archive))


@pytest.mark.parametrize("name", ["a.zip", *COMPRESS])
def test_damage_is_found_or_harmless(tmp_path: Path, name: str) -> None:
    """Cut or altered anywhere: an error of ours that says so, or what was packed, never a mix."""
    files = {"a.txt": TEXT, "b.txt": TEXT[::-1]}
    archive = make(tmp_path, name, files)
    whole, generator = archive.read_bytes(), random.Random(2)
    n_refused = 0
    for turn in range(40):
        damaged = bytearray(whole)
        at = generator.randrange(len(whole))
        if turn % 2:
            del damaged[at:]
        else:
            damaged[at] ^= 1 << generator.randrange(8)
        archive.write_bytes(damaged)
        try:
            found = unpacked(archive, tmp_path / f"out{turn}")
        except TmtError as error:
            assert "delete it and get it again" in str(error) or "refused" in str(error)
            n_refused += 1
        else:
            assert found == files or name in ("a.tar", "a.tar.zst")  # these have no checksums
    assert n_refused > (5 if name == "a.tar" else 15)


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = make(tmp_path / "in", "a.zip")
    with limited_file_size(1000):
        assert "cannot be written: File too large" in refusal(archive)
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 10_000}))
    assert "'a.en-zh.zh' does not fit on the disk" in refusal(archive)


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.XGLTYPE])
def test_headers_that_announce_much(tmp_path: Path, kind: bytes) -> None:
    """tarfile reads such a header whole, before there is a member."""
    info = tarfile.TarInfo("x")
    info.type, info.size = kind, 30 << 20
    archive = make(tmp_path / "in", "a.tar.gz")
    with gzip.open(archive, "wb", 1) as file:
        file.write(info.tobuf(tarfile.GNU_FORMAT) + b"1" * (30 << 20))
    tracemalloc.start()
    assert "a member has headers of more than 64 KiB: refused" in refusal(archive)
    assert tracemalloc.get_traced_memory()[1] < 5 << 20
    tracemalloc.stop()


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_names_are_no_harm(tmp_path: Path, form: int) -> None:
    files = {f"{'d' * 90}/{'é' * 100}/{i}.txt": b"x" * i for i in range(150)}
    (tmp_path / "a.tar").write_bytes(tarred(files, form=form))
    assert unpacked(tmp_path / "a.tar", tmp_path / "out") == files
