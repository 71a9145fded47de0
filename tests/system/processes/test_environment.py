"""What the environment says of ranks, right and wrong."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from transformer_mt.errors import TrainingError
from transformer_mt.system.processes.environment import (
    Place,
    allocator_variables,
    own_meeting_dir,
    own_place,
    place_variables,
)

NAMES = (
    "WORLD_SIZE", "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
    "TMT_LAUNCHED",
)  # fmt: skip
GOOD = {
    "WORLD_SIZE": "4", "RANK": "3", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "localhost", "MASTER_PORT": "1234",
}  # fmt: skip


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


def given(monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


def test_a_process_alone_and_a_rank_of_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    assert own_place() is None
    given(monkeypatch, WORLD_SIZE="1", RANK="0")
    assert own_place() is None
    given(monkeypatch, **GOOD)
    assert own_place() == Place(3, 4, 1, 2, meeting_dir=None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("WORLD_SIZE", "abc"), ("WORLD_SIZE", "-1"), ("WORLD_SIZE", "0"), ("WORLD_SIZE", ""),
        ("WORLD_SIZE", "９"), ("WORLD_SIZE", "1_0"), ("WORLD_SIZE", "9" * 5000), ("RANK", None),
        ("RANK", "4"), ("RANK", "-1"), ("RANK", "x"), ("LOCAL_RANK", "2"), ("LOCAL_RANK", "1.5"),
        ("LOCAL_WORLD_SIZE", "5"), ("LOCAL_WORLD_SIZE", "0"), ("MASTER_PORT", "port"),
        ("MASTER_PORT", "65536"), ("MASTER_PORT", None), ("MASTER_ADDR", None),
    ],
)  # fmt: skip
def test_impossible_values_are_named(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str | None
) -> None:
    given(monkeypatch, **GOOD)
    if value is None:
        monkeypatch.delenv(name)
    else:
        monkeypatch.setenv(name, value)
    with pytest.raises(TrainingError, match=f"^{name} is "):
        own_place()


def test_only_a_private_folder_of_ours_is_a_meeting_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "tmt-ranks-x"
    monkeypatch.setenv("TMT_LAUNCHED", str(folder))
    assert own_meeting_dir() is None
    folder.mkdir(mode=0o755)
    assert own_meeting_dir() is None
    folder.chmod(0o700)
    assert own_meeting_dir() == folder
    folder.chmod(0o2700)  # as in a folder of a group, which folders in it inherit
    assert own_meeting_dir() == folder
    given(monkeypatch, **place_variables(1, 3, folder))
    assert own_place() == Place(1, 3, 1, 3, meeting_dir=folder)
    for other in ("1", "", str(tmp_path)):
        monkeypatch.setenv("TMT_LAUNCHED", other)
        assert own_meeting_dir() is None
    link = tmp_path / "tmt-ranks-link"
    link.symlink_to(folder)
    monkeypatch.setenv("TMT_LAUNCHED", str(link))
    assert own_meeting_dir() is None


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"WORLD_SIZE": "abc", "RANK": "0"}, ["train", "CONFIG", "--processes", "2"]),
        ({"WORLD_SIZE": "2", "RANK": "7"}, ["train", "CONFIG"]),
        ({"TMT_LAUNCHED": "1"}, ["--version"]),
    ],
)
def test_the_command_says_one_line(
    tmp_path: Path, variables: dict[str, str], words: list[str]
) -> None:
    """Also with no standard input at all."""
    config = tmp_path / "c.yaml"
    config.write_text("{name: x, languages: {src: zh, tgt: en}, data: {train: [{demo: true}]}}")
    words = [str(config) if word == "CONFIG" else word for word in words]
    found = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-m", "transformer_mt", *words],
        env=os.environ | variables, cwd=tmp_path, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert "Traceback" not in found.stderr
    if "WORLD_SIZE" in variables:
        assert found.returncode == 2 and found.stderr.count("\n") == 1, found.stderr


def test_the_allocator_of_a_process_that_trains_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(
        "ctypes.util.find_library", lambda name: "libm.so.6" if name == "jemalloc" else None
    )
    assert allocator_variables() == {"LD_PRELOAD": "libm.so.6"}
    # A program that has no use for it.
    loaded = subprocess.run(
        ["/bin/cat", "/proc/self/maps"], env=allocator_variables(), capture_output=True, text=True
    )
    assert "libm.so" in loaded.stdout


def test_no_allocator_is_loaded_where_there_is_none_or_the_user_has_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    monkeypatch.setattr("ctypes.util.find_library", lambda name: None)
    assert allocator_variables() == {}
    monkeypatch.setattr("ctypes.util.find_library", lambda name: "libm.so.6")
    monkeypatch.setenv("LD_PRELOAD", "")
    assert allocator_variables() == {}
