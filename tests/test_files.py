"""Atomic writing: the old content or the new, whatever happens in between."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from transformer_mt.errors import TmtError
from transformer_mt.files import (
    fingerprint,
    locked,
    remove,
    sha256,
    write_json,
    write_text,
    writing,
)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def make_directory(path: Path, content: str) -> None:
    path.mkdir()
    (path / "inside.txt").write_text(content)


def test_a_file_is_there_only_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "a.txt"
    with writing(path) as temporary:
        assert temporary.parent == path.parent
        temporary.write_text("whole")
        assert not path.exists()
    assert path.read_text() == "whole"
    assert names(path.parent) == ["a.txt"]


def test_a_directory_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "model"
    make_directory(path, "old")
    (path / "left over").touch()
    with writing(path) as temporary:
        make_directory(temporary, "new")
        assert (path / "inside.txt").read_text() == "old"
    assert names(path) == ["inside.txt"]
    assert (path / "inside.txt").read_text() == "new"
    assert names(tmp_path) == ["model"]


@pytest.mark.parametrize(
    "error", [ValueError("bug"), KeyboardInterrupt(), OSError(errno.EIO, "broken"), TmtError("x")]
)
@pytest.mark.parametrize("kind", ["file", "directory"])
def test_a_failure_inside_leaves_the_old_content_and_nothing_else(
    tmp_path: Path, error: BaseException, kind: str
) -> None:
    path = tmp_path / "kept"
    if kind == "file":
        path.write_text("old")
    else:
        make_directory(path, "old")
    with pytest.raises((type(error), TmtError)), writing(path) as temporary:
        if kind == "file":
            temporary.write_text("half")
        else:
            make_directory(temporary, "half")
        raise error
    assert names(tmp_path) == ["kept"]
    assert (path if kind == "file" else path / "inside.txt").read_text() == "old"


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        SafetensorError("Error while serializing: I/O error: No space left (os error 28)"),
    ],
)
def test_a_full_disk_is_called_so(tmp_path: Path, error: Exception) -> None:
    path = tmp_path / "not" / "yet" / "weights"
    with pytest.raises(TmtError) as caught, writing(path):
        raise error
    message = str(caught.value)
    assert message.startswith(f"{path}: the disk is full (")
    assert message.endswith(
        " MiB free); nothing was overwritten. Make room and run the same command again"
    )


def test_a_real_write_error_of_the_weights_file_is_said(
    tmp_path: Path, limit_file_size: Callable[[int], None]
) -> None:
    """safetensors raises an error of its own, with the system's number in the text only."""
    path = tmp_path / "weights.safetensors"
    limit_file_size(1000)
    too_large = r"weights.safetensors: cannot be written: File too large"
    with pytest.raises(TmtError, match=too_large), writing(path) as temporary:
        save_file({"w": torch.zeros(9999)}, temporary)
    assert names(tmp_path) == []


def test_a_place_that_is_not_a_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "a.txt"
    with pytest.raises(TmtError, match=r"a\.txt: cannot be written: "):
        write_text(path, "x")
    assert names(tmp_path) == ["file"]


def test_a_file_that_cannot_be_read_inside_is_what_the_error_names(tmp_path: Path) -> None:
    missing = tmp_path / "missing.txt"
    with pytest.raises(TmtError) as caught, writing(tmp_path / "out") as temporary:
        temporary.write_text(missing.read_text())
    expected = f"{tmp_path / 'out'}: cannot be written: {missing}: No such file or directory"
    assert str(caught.value) == expected


def test_left_overs_of_a_killed_process_with_the_same_number_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "model"
    make_directory(tmp_path / f".model.{os.getpid()}.tmp", "half")
    make_directory(tmp_path / f".model.{os.getpid()}.old", "older")
    make_directory(path, "old")
    with writing(path) as temporary:
        make_directory(temporary, "new")
    assert (path / "inside.txt").read_text() == "new"
    assert names(tmp_path) == ["model"]


def test_text_and_json(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "好\n")
    assert (tmp_path / "a.txt").read_bytes() == "好\n".encode()
    write_json(tmp_path / "a.json", {"名": [1, None]})
    assert (tmp_path / "a.json").read_text("utf-8") == '{\n  "名": [\n    1,\n    null\n  ]\n}\n'


def test_remove(tmp_path: Path) -> None:
    make_directory(tmp_path / "folder", "x")
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    remove(tmp_path / "link")
    assert names(tmp_path) == ["folder"], "a link goes, what it points to stays"
    for name in ("folder", "absent", "absent/deeper"):
        remove(tmp_path / name)
    assert names(tmp_path) == []


def test_digests(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(b"a" * (3 << 20))
    before = sha256(path)
    assert len(before) == 64 and sha256(path) == before
    path.write_bytes(b"a" * ((3 << 20) - 1) + b"b")
    assert sha256(path) != before
    (tmp_path / "empty").touch()
    assert sha256(tmp_path / "empty").startswith("e3b0c44298fc1c14")


def test_fingerprint_is_of_the_values() -> None:
    assert fingerprint({"a": 1, "b": [2.5, "x"]}) == fingerprint({"b": [2.5, "x"], "a": 1})
    different = [("a",), ("b",), ("a", "b"), (["a", "b"],), ({"a": 1},), ({"a": "1"},), (None,)]
    assert len({fingerprint(*parts) for parts in different}) == len(different)


def test_a_lock_is_held_by_one_and_the_other_is_told(tmp_path: Path) -> None:
    path, said = tmp_path / "deep" / "x.lock", []
    code = (
        "import sys; from pathlib import Path; from transformer_mt.files import locked\n"
        "with locked(Path(sys.argv[1]), lambda: None):\n"
        "    print('mine', flush=True); sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", code, str(path)]
    other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdin and other.stdout and other.stdout.readline() == "mine\n"

    def end_the_other() -> None:
        said.append("busy")
        other.kill()  # however it ends

    with locked(path, end_the_other):
        assert said == ["busy"]
    other.wait()
    with locked(path, end_the_other):
        assert said == ["busy"], "nobody has it now"


def test_a_lock_that_cannot_be_made_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(TmtError, match=r"cannot be written: .*; go elsewhere$"),
        locked(tmp_path / "file" / "x.lock", lambda: None, remedy="; go elsewhere"),
    ):
        pass
