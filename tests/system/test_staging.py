"""Staging folders and locks: those of living processes hold, those of dead ones go."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from transformer_mt.errors import TmtError
from transformer_mt.system.locks import locked
from transformer_mt.system.staging import remove_all_left_over

HOLD = """
import sys; from pathlib import Path
from transformer_mt.system.locks import locked
from transformer_mt.system.staging import staging
path = Path(sys.argv[1])
if sys.argv[2] == "lock":
    with locked(path, lambda: None):
        print("there", flush=True); sys.stdin.read()
with staging(path) as folder:
    (folder / "half").write_text("half"); print("there", flush=True); sys.stdin.read()
"""


def holder(path: Path, what: str) -> "subprocess.Popen[str]":
    """A process that holds a lock file, or is writing in a staging folder below `path`."""
    command = [sys.executable, "-c", HOLD, str(path), what]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout and process.stdout.readline() == "there\n"
    return process


def make(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def test_a_living_process_keeps_its_folder_and_a_killed_one_loses_it(tmp_path: Path) -> None:
    deep = make(tmp_path / "a" / "b")
    living, killed = holder(deep, "folder"), holder(deep, "folder")
    killed.kill()
    killed.wait()
    assert len(list(deep.iterdir())) == 2
    remove_all_left_over(tmp_path)
    (left,) = deep.iterdir()
    assert (left / "new" / "half").read_text() == "half"
    living.communicate()
    assert living.returncode == 0 and list(deep.iterdir()) == []


def test_only_names_of_staging_folders_are_looked_at(tmp_path: Path) -> None:
    names = (".tmt-abc.tmp", ".x.123.tmp", "tmt-0123456789abcdef.tmp", ".tmt-0123456789abcdef")
    for name in names:
        make(tmp_path / name, mine="x")
    (tmp_path / ".tmt-0123456789abcdef.tmp").write_text("a file")
    make(tmp_path / "elsewhere", mine="x")
    (tmp_path / ".tmt-fedcba9876543210.tmp").symlink_to("elsewhere")
    remove_all_left_over(tmp_path)
    assert len(list(tmp_path.iterdir())) == 7
    assert (tmp_path / "elsewhere" / "mine").read_text() == "x"


EXCHANGE = """
import os, signal, sys
from pathlib import Path
from transformer_mt.system import staging as module

steps = 0
def dying(call):
    def step(*arguments, **options):
        global steps
        if steps == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
        steps += 1
        return call(*arguments, **options)
    return step

os.rename, os.link = dying(os.rename), dying(os.link)
module._exchange = dying(module._exchange if sys.argv[3] == "atomic" else lambda *_: False)
parent = Path(sys.argv[1])
with module.staging(parent) as folder:
    new = folder / "target"
    new.mkdir()
    (new / "ours").write_text("new")
    module.exchange_folders(new, parent / "target", ["mine", "sub/mine"])
"""


@pytest.mark.parametrize("way", ["atomic", "in steps"])
@pytest.mark.parametrize("step", range(6))
def test_killed_at_any_step_the_old_or_the_new_stands_and_nothing_is_lost(
    tmp_path: Path, way: str, step: int
) -> None:
    target = make(tmp_path / "target", ours="old", mine="mine")
    make(target / "sub", mine="deep")
    command = [sys.executable, "-c", EXCHANGE, str(tmp_path), str(step), way]
    status = subprocess.run(command, check=False).returncode
    assert status == (-signal.SIGKILL if step < (3 if way == "atomic" else 5) else 0)
    if way == "atomic":
        assert (target / "ours").read_text() in ("old", "new")
    remove_all_left_over(tmp_path)
    assert (target / "ours").read_text() == ("old" if status else "new")
    assert (target / "mine").read_text() == "mine"
    assert (target / "sub" / "mine").read_text() == "deep"
    assert os.listdir(tmp_path) == ["target"]


def nobody() -> None:
    pytest.fail("nobody has it")


def test_a_lock_is_held_by_one_and_the_other_is_told(tmp_path: Path) -> None:
    path, said = tmp_path / "deep" / "x.lock", []
    other = holder(path, "lock")

    def end_the_other() -> None:
        said.append("busy")
        other.kill()  # however it ends

    with locked(path, end_the_other):
        assert said == ["busy"]
    other.wait()
    path.write_text("kept")
    with locked(path, nobody):
        assert path.read_text() == "kept"


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK])
def test_where_there_are_no_locks_nobody_waits_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """As on Lustre without `flock`, or NFS without its service."""

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with locked(tmp_path / "x.lock", nobody):
        pass


def test_a_place_that_cannot_be_locked_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / ".lock").symlink_to("file")
    for path in (tmp_path / "file" / "x.lock", tmp_path / ".lock"):
        refused = pytest.raises(TmtError, match=r"cannot be written: .*; go elsewhere$")
        with refused, locked(path, nobody, remedy="; go elsewhere"):
            pass
    assert (tmp_path / "file").read_text() == "mine"
