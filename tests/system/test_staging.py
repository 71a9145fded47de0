"""Staging folders: those of living processes are left alone, those of dead ones go."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from transformer_mt.system import staging as module
from transformer_mt.system.staging import exchange_folders, remove_all_left_over, staging

WRITER = (
    "import sys; from pathlib import Path; from transformer_mt.system.staging import staging\n"
    "with staging(Path(sys.argv[1])) as folder:\n"
    "    (folder / 'half').write_text('half'); print('there', flush=True); sys.stdin.read()\n"
)


def writer(parent: Path) -> "subprocess.Popen[str]":
    """A process that is writing in a staging folder below `parent`."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(parent)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout and process.stdout.readline() == "there\n"
    return process


def make(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def test_it_goes_at_the_end(tmp_path: Path) -> None:
    with staging(tmp_path) as folder:
        (folder / "x").touch()
        assert folder.parent.parent == tmp_path
    assert list(tmp_path.iterdir()) == []


def test_a_living_process_keeps_its_folder_and_a_killed_one_loses_it(tmp_path: Path) -> None:
    deep = make(tmp_path / "a" / "b")
    living, killed = writer(deep), writer(deep)
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


@pytest.mark.parametrize("atomic", [True, False])
def test_exchange_keeps_what_it_is_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, atomic: bool
) -> None:
    if not atomic:  # as on a file system without the call
        monkeypatch.setattr(module, "_renameat2", lambda: None)
    target = make(tmp_path / "target", ours="old", mine="mine")
    make(target / "sub", mine="deep")
    with staging(tmp_path) as folder:
        exchange_folders(make(folder / "target", ours="new"), target, ["mine", "sub/mine"])
    assert (target / "ours").read_text() == "new"
    assert (target / "mine").read_text() == "mine"
    assert (target / "sub" / "mine").read_text() == "deep"
    assert list(tmp_path.iterdir()) == [target]


KILLED = """
import os, signal, sys
from pathlib import Path
from transformer_mt.system import staging as module

steps = 0
def dying(*arguments, call):
    global steps
    if steps == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    steps += 1
    return call(*arguments)

rename = os.rename
os.rename = lambda *a: dying(*a, call=rename)
if sys.argv[3] == "atomic":
    exchange = module._exchange
    module._exchange = lambda *a: dying(*a, call=exchange)
else:
    module._renameat2 = lambda: None
parent = Path(sys.argv[1])
with module.staging(parent) as folder:
    new = folder / "target"
    new.mkdir()
    (new / "ours").write_text("new")
    module.exchange_folders(new, parent / "target", ["mine"])
"""


@pytest.mark.parametrize("way", ["atomic", "in steps"])
@pytest.mark.parametrize("step", range(6))
def test_killed_at_any_step_the_old_or_the_new_stands_and_nothing_is_lost(
    tmp_path: Path, way: str, step: int
) -> None:
    target = make(tmp_path / "target", ours="old", mine="mine")
    command = [sys.executable, "-c", KILLED, str(tmp_path), str(step), way]
    status = subprocess.run(command, check=False).returncode
    assert status in (0, -signal.SIGKILL)
    if way == "atomic":
        assert (target / "ours").read_text() in ("old", "new")
    remove_all_left_over(tmp_path)
    assert (target / "ours").read_text() == "new" if status == 0 else True
    assert (target / "ours").read_text() in ("old", "new")
    assert (target / "mine").read_text() == "mine"
    assert os.listdir(tmp_path) == ["target"]
