"""Locks: one process at a time, and the lock file itself is never changed."""

import subprocess
import sys
from pathlib import Path

import pytest

from transformer_mt.errors import TmtError
from transformer_mt.system.locks import locked


def nobody() -> None:
    pytest.fail("nobody has it")


def test_a_lock_is_held_by_one_and_the_other_is_told(tmp_path: Path) -> None:
    path, said = tmp_path / "deep" / "x.lock", []
    code = (
        "import sys; from pathlib import Path; from transformer_mt.system.locks import locked\n"
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
        locked(tmp_path / "file" / "x.lock", nobody, remedy="; go elsewhere"),
    ):
        pass


def test_a_link_in_the_place_of_a_lock_is_refused_and_its_target_kept(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    (tmp_path / ".lock").symlink_to("precious")
    with (
        pytest.raises(TmtError, match=r"\.lock: cannot be written"),
        locked(tmp_path / ".lock", nobody),
    ):
        pass
    assert (tmp_path / "precious").read_text() == "mine"


def test_a_file_in_the_place_of_a_lock_keeps_its_content(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text("mine")
    with locked(tmp_path / ".lock", nobody):
        pass
    assert (tmp_path / ".lock").read_text() == "mine"
