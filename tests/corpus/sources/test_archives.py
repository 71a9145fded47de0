import bz2
import gzip
import io
import lzma
import random
import resource
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pytest

from transformer_mt.corpus.sources import archives
from transformer_mt.corpus.sources.archives import Limits, is_archive, unpack_archive
from transformer_mt.errors import DataError, TmtError

TEXT = "\n".join(f"第{i}行 line {i * 7919 % 1000}" for i in range(5000)).encode()
FILES = {"a.en-zh.zh": TEXT, "deep/er/b.txt": b"b\n", "empty": b"", "名字.txt": "名".encode()}


def make_zip(path: Path, files: dict[str, bytes] = FILES) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in files.items():
            file.writestr(name, content)
    return path


def tar_bytes(files: dict[str, bytes] = FILES, *members: tarfile.TarInfo) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as file:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))
        for member in members:
            file.addfile(member)
    return buffer.getvalue()


def zstd(content: bytes) -> bytes:
    sink = pyarrow.BufferOutputStream()
    with pyarrow.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return sink.getvalue().to_pybytes()


COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "a.tar": bytes, "a.tar.gz": gzip.compress, "a.TGZ": gzip.compress, "a.tar.xz": lzma.compress,
    "a.tar.bz2": bz2.compress, "a.tar.zst": zstd,
}  # fmt: skip


def make(tmp_path: Path, name: str, files: dict[str, bytes] = FILES) -> Path:
    path = tmp_path / name
    if name.endswith(".zip"):
        return make_zip(path, files)
    path.write_bytes(COMPRESS[name](tar_bytes(files)))
    return path


def refusal(archive: Path, limits: Limits | None = None) -> str:
    """The message; nothing may be left, inside or outside of where it should have gone."""
    out = archive.parent / "out"
    before = sorted(archive.parent.parent.rglob("*"))
    with pytest.raises(DataError) as caught:
        unpack_archive(archive, out, *([limits] if limits else []))
    assert sorted(archive.parent.parent.rglob("*")) == before
    assert str(caught.value).startswith(f"{archive}: ")
    return str(caught.value)


@pytest.mark.parametrize("name", ["a.zip", *COMPRESS])
def test_what_was_packed_comes_out(tmp_path: Path, name: str) -> None:
    archive = make(tmp_path, name)
    assert is_archive(archive)
    files = unpack_archive(archive, tmp_path / "out")
    assert files == sorted(tmp_path / "out" / name for name in FILES)
    assert {str(f.relative_to(tmp_path / "out")): f.read_bytes() for f in files} == FILES


@pytest.mark.parametrize("name", ["download", "index.php", "a.gz.1"])
def test_the_content_tells_where_the_name_does_not(tmp_path: Path, name: str) -> None:
    assert is_archive(make_zip(tmp_path / "a.zip").rename(tmp_path / name))
    for compress in COMPRESS.values():
        (tmp_path / name).write_bytes(compress(tar_bytes()))
        assert is_archive(tmp_path / name)
    assert len(unpack_archive(tmp_path / name, tmp_path / "out")) == len(FILES)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt.gz", gzip.compress(TEXT, mtime=0)),
        ("a.tsv.xz", lzma.compress(TEXT)),
        ("a.zst", zstd(TEXT)),
        ("a.tmx", TEXT),
        ("a", b""),
        ("tar.txt", TEXT),
        ("cut.gz", gzip.compress(TEXT, mtime=0)[:50]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_single_files_are_no_archives(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    assert not is_archive(tmp_path / name)


@pytest.mark.parametrize("archive", ["a.zip", "a.tar.gz"])
@pytest.mark.parametrize(
    "name", ["../x", "a/../../x", "/etc/x", "..", "..\\x", "a\\..\\..\\x", "C:\\x", "\\\\host\\x"]
)
def test_no_member_leaves_its_directory(tmp_path: Path, archive: str, name: str) -> None:
    (tmp_path / "in").mkdir()
    message = refusal(make(tmp_path / "in", archive, {"good.txt": b"good", name: b"bad"}))
    assert repr(name) in message
    assert "would be written outside of its directory: refused" in message


def test_dots_that_stay_inside_are_fine(tmp_path: Path) -> None:
    archive = make(tmp_path, "a.tar.gz", {"./a/./b..c": b"1", "...": b"2"})
    files = unpack_archive(archive, tmp_path / "out")
    assert [str(file.relative_to(tmp_path / "out")) for file in files] == ["...", "a/b..c"]


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (tarfile.SYMTYPE, "a later member could be written through it"),
        (tarfile.LNKTYPE, "it could show any file of the user"),
        (tarfile.FIFOTYPE, "whoever reads it waits forever"),
        (tarfile.CHRTYPE, "a device"),
        (tarfile.BLKTYPE, "a device"),
    ],
)
def test_only_plain_files_of_a_tar(tmp_path: Path, kind: bytes, why: str) -> None:
    info = tarfile.TarInfo("link")
    info.type, info.linkname = kind, "/etc/passwd"
    archive = tmp_path / "in" / "a.tar"
    archive.parent.mkdir()
    archive.write_bytes(tar_bytes(FILES, info))
    assert "'link' is a link or a device: refused" in refusal(archive), why


def test_only_plain_files_of_a_zip(tmp_path: Path) -> None:
    archive = tmp_path / "in" / "a.zip"
    archive.parent.mkdir()
    info = zipfile.ZipInfo("link")
    info.external_attr = 0o120777 << 16
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr(info, "/etc/passwd")
    assert "'link' is a link or a device: refused" in refusal(archive)


def test_encrypted_members(tmp_path: Path) -> None:
    archive = make(tmp_path, "a.zip", {"secret.txt": b"x"})
    content = bytearray(archive.read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1  # the flag, where the directory says it
    archive.write_bytes(content)
    assert "'secret.txt' is encrypted: refused" in refusal(archive)


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz", "a.tar.xz", "a.tar.zst"])
def test_bombs(tmp_path: Path, name: str) -> None:
    """80 MiB of zeros in a few kilobytes."""
    archive = make(tmp_path, name, {"ok.txt": b"ok", "zeros": bytes(80 << 20)})
    message = refusal(archive)
    assert "'zeros' brings it to more than 200 times the size of the archive" in message
    allowed = Limits(always_allowed=100 << 20)
    assert unpack_archive(archive, tmp_path / "out", allowed)[-1].stat().st_size == 80 << 20


def test_too_many_members(tmp_path: Path) -> None:
    archive = make(tmp_path, "a.zip", {f"{i:02}": b"x" for i in range(20)})
    assert "'10' is member 11; more than 10 are refused" in refusal(archive, Limits(members=10))
    assert len(unpack_archive(archive, tmp_path / "out", Limits(members=20))) == 20


def test_a_name_that_is_file_and_directory(tmp_path: Path) -> None:
    archive = make(tmp_path, "a.zip", {"a": b"1", "a/b": b"2"})
    assert "'a/b' is both a file and a directory: refused" in refusal(archive)


def test_nothing_in_it(tmp_path: Path) -> None:
    assert "holds no files" in refusal(make(tmp_path, "a.zip", {}))
    (tmp_path / "b.tar").write_bytes(tar_bytes({}))
    assert "holds no files" in refusal(tmp_path / "b.tar")


@pytest.mark.parametrize("name", ["a.zip", *COMPRESS])
def test_damage_is_found_or_harmless(tmp_path: Path, name: str) -> None:
    """Cut or altered anywhere: an error of ours that says so, or what was packed, never a mix."""
    archive = make(tmp_path, name, {"a.txt": TEXT, "b.txt": TEXT[::-1]})
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
            files = unpack_archive(archive, tmp_path / f"out{turn}")
        except DataError as error:
            assert "delete it and get it again" in str(error) or "refused" in str(error)
            n_refused += 1
        else:
            if name not in ("a.tar", "a.tar.zst"):  # these have no checksums
                assert [file.read_bytes() for file in files] == [TEXT, TEXT[::-1]]
    assert n_refused > (5 if name == "a.tar" else 15)


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz"])
def test_a_web_page_instead(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\n<!DOCTYPE html><html>please log in</html>")
    assert is_archive(tmp_path / name)
    assert "(it is a web page); delete it and get it again" in refusal(tmp_path / name)


def test_a_full_disk_leaves_nothing(tmp_path: Path, limit_file_size: Callable[[int], None]) -> None:
    archive = make(tmp_path, "a.zip")
    limit_file_size(1000)
    with pytest.raises(TmtError, match="cannot be written: File too large"):
        unpack_archive(archive, tmp_path / "out")
    assert sorted(tmp_path.iterdir()) == [archive]


def test_no_room_is_noticed_before_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 10_000}))
    assert "'a.en-zh.zh' does not fit on the disk" in refusal(make(tmp_path, "a.zip"))


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.XGLTYPE])
def test_headers_that_announce_much(tmp_path: Path, kind: bytes) -> None:
    """tarfile reads such a header whole, before there is a member."""
    info = tarfile.TarInfo("x")
    info.type, info.size = kind, 30 << 20
    path = tmp_path / "a.tar.gz"
    with gzip.open(path, "wb", 1) as file:
        file.write(info.tobuf(tarfile.GNU_FORMAT) + b"1" * (30 << 20))
    tracemalloc.start()
    assert "member 1 has headers of more than 64 KiB: refused" in refusal(path)
    assert tracemalloc.get_traced_memory()[1] < 5 << 20
    tracemalloc.stop()


def test_long_names_are_no_harm(tmp_path: Path) -> None:
    files = {f"{'d' * 90}/{'é' * 100}/{i}.txt": b"x" * i for i in range(300)}
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        path = tmp_path / f"{form}.tar"
        with tarfile.open(path, "w", format=form) as file:
            for name, content in files.items():
                info = tarfile.TarInfo(name)
                info.size = len(content)
                file.addfile(info, io.BytesIO(content))
        out = tmp_path / f"out{form}"
        assert {str(f.relative_to(out)): f.read_bytes() for f in unpack_archive(path, out)} == files


def test_a_directory_of_millions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "_DIRECTORY", 1 << 17)
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as file:
        for i in range(3000):
            file.writestr(f"member {i}", b"")
    assert "its directory has more than 0 MiB: refused" in refusal(path)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_blocks_that_become_very_much(tmp_path: Path, method: int) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", method) as file, file.open("x", "w", force_zip64=True) as out:
        for _ in range(10):
            out.write(bytes(1 << 23))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "refused, as from an archive made to do harm" in refusal(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 75 << 10  # KiB


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, zipfile.ZIP_STORED])
def test_other_compressions_of_a_zip(tmp_path: Path, method: int) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", method) as file:
        for name, content in FILES.items():
            file.writestr(name, content)
    found = unpack_archive(path, tmp_path / "out")
    assert {str(f.relative_to(tmp_path / "out")): f.read_bytes() for f in found} == FILES


def test_a_member_without_a_name(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "a.zip", {"x": b"a"})
    content = bytearray(path.read_bytes())
    at = content.index(b"PK\x01\x02")
    content[at + 28] = 0  # the length of the name in the directory
    del content[at + 46]
    end = content.index(b"PK\x05\x06")
    content[end + 12] -= 1  # the size of the directory
    path.write_bytes(content)
    assert "damaged, or no such archive" in refusal(path)
