"""`scripts/faults/inject.py`: faults are made as they say, and the commands stand a sample of them.

The whole sweep takes up to half an hour: python scripts/faults/inject.py
"""

import errno
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from places import ROOT

FAULTS = ROOT / "scripts" / "faults"
UNABLE = 3

# Under watch: a file is written through Python and through C's own buffers, flushed and renamed,
# and another one, outside of the folder, is written, too.
WATCHED = """
import ctypes, json, os, sys
sys.path.insert(0, {faults!r})
from trial import KINDS, Shared
shared = Shared(kind={kind}, n={n}, error={error}, after={after}, half={half})
assert ctypes.CDLL({library!r}).watch({root!r}.encode(), ctypes.byref(shared)) == 0
os.chdir({root!r})
done = []
def attempt(name, call, *arguments):
    try:
        done.append([name, call(*arguments)])
    except OSError as error:
        done.append([name, f"errno {{error.errno}}"])
def write_by_c():
    c = ctypes.CDLL(None, use_errno=True)
    c.fopen.restype = ctypes.c_void_p
    c.fputs.argtypes, c.fclose.argtypes = (ctypes.c_char_p, ctypes.c_void_p), (ctypes.c_void_p,)
    file = c.fopen(b"by-c", b"w")
    if file is None:
        return f"errno {{ctypes.get_errno()}}"
    c.fputs(b"12345678", file)
    return f"errno {{ctypes.get_errno()}}" if c.fclose(file) else 8
fd = os.open("file", os.O_WRONLY | os.O_CREAT)
outside = os.open({outside!r}, os.O_WRONLY | os.O_CREAT)
attempt("first", os.write, fd, b"12345678")
attempt("second", os.write, fd, b"12345678")
attempt("by C", write_by_c)
attempt("outside", os.write, outside, b"12345678")
attempt("flush", os.fsync, fd)
attempt("rename", os.replace, "file", "renamed")
attempt("folder", os.mkdir, "folder")
print(json.dumps([dict(done), list(shared.counts), shared.path.decode()]))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    source = "import sys, pathlib, inject; inject.build_library(pathlib.Path(sys.argv[1]))"
    built = subprocess.run(
        [sys.executable, "-c", source, folder],
        cwd=FAULTS,
        capture_output=True,
        text=True,
        timeout=300,
    )
    if built.returncode == UNABLE:
        pytest.skip(built.stdout.strip())
    assert built.returncode == 0, built.stderr
    return folder / "inject.so"


def run_watched(library: Path, folder: Path, **plan: int) -> subprocess.CompletedProcess[str]:
    root = folder / "root"
    root.mkdir()
    source = WATCHED.format(
        faults=str(FAULTS), library=str(library), root=str(root), outside=str(folder / "outside"),
        **{"kind": -1, "n": 1, "error": 0, "after": 0, "half": 0, **plan},
    )  # fmt: skip
    return subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, timeout=300
    )


def told(ended: subprocess.CompletedProcess[str]) -> Any:
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_every_call_that_changes_something_below_the_folder_is_counted(
    library: Path, tmp_path: Path
) -> None:
    done, counts, path = told(run_watched(library, tmp_path))
    assert counts == [3, 3, 1, 0, 1]  # write, create, rename, remove, fsync
    assert not any(isinstance(value, str) for value in done.values()) and path == ""


def test_a_disk_becomes_full_in_the_middle_of_a_write_and_stays_full(
    library: Path, tmp_path: Path
) -> None:
    plan = {"kind": 0, "n": 1, "error": errno.ENOSPC, "after": 0b11, "half": 1}
    done, _, path = told(run_watched(library, tmp_path, **plan))
    no_room = f"errno {errno.ENOSPC}"
    assert done["first"] == 4 and done["second"] == done["folder"] == no_room
    assert done["outside"] == 8 and done["rename"] is None and done["flush"] is None
    assert (tmp_path / "root" / "renamed").read_bytes() == b"1234"
    assert path == str(tmp_path / "root" / "file")


def test_an_error_comes_once_and_in_the_buffers_of_c_as_well(library: Path, tmp_path: Path) -> None:
    done, _, _ = told(run_watched(library, tmp_path, kind=0, n=3, error=errno.EIO))
    assert done["first"] == done["second"] == 8 and done["by C"] == f"errno {errno.EIO}"
    assert done["rename"] is None


def test_the_process_is_killed_at_the_call(library: Path, tmp_path: Path) -> None:
    ended = run_watched(library, tmp_path, kind=2, n=1)
    assert ended.returncode == -9
    assert (tmp_path / "root" / "file").read_bytes() == b"12345678" * 2
    assert not (tmp_path / "root" / "renamed").exists()


def test_commands_stand_a_sample_of_faults() -> None:
    commands = ["translate", "average", "train on"]
    ended = subprocess.run(
        [sys.executable, FAULTS / "inject.py", "--most", "3", "--commands", *commands],
        capture_output=True,
        text=True,
        timeout=900,
    )
    if ended.returncode == UNABLE:
        pytest.skip(ended.stdout.strip())
    assert ended.returncode == 0, ended.stdout + ended.stderr
