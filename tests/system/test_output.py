"""Where results go: the old content or the new, and nothing outside of the target is touched."""

import errno
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import torch
from full_disk import limited_file_size
from safetensors import SafetensorError
from safetensors.torch import save_file

from transformer_mt.errors import TmtError
from transformer_mt.system.output import (
    refuse_foreign,
    remove,
    remove_made,
    write_json,
    write_text,
    writing,
    writing_files,
    writing_folder,
)
from transformer_mt.system.state import write_manifest

Writer = Callable[[Path], AbstractContextManager[Path]]


def writing_model(path: Path) -> AbstractContextManager[Path]:
    return writing_folder(path, "m.json")


def tree(directory: Path) -> dict[str, str]:
    """Relative name → content of every file; links as their targets, folders without files too."""
    found = {}
    for path in sorted(directory.rglob("*")):
        name = path.relative_to(directory).as_posix()
        if path.is_symlink():
            found[name] = f"→ {os.readlink(path)}"
        elif path.is_file():
            found[name] = path.read_text()
        elif not any(path.iterdir()):
            found[name + "/"] = ""
    return found


def make_folder(path: Path, content: str) -> None:
    """A folder of tmt's own, as the body of `writing_folder` fills it."""
    path.mkdir(exist_ok=True)
    (path / "inside.txt").write_text(content)
    write_manifest(path, "m.json", {"content": content})


def test_a_file_is_there_only_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "a.txt"
    with writing(path) as temporary:
        assert temporary.name == path.name
        temporary.write_text("whole")
        assert not path.exists()
    assert tree(tmp_path) == {"new/folder/a.txt": "whole"}


def test_a_folder_is_replaced_as_a_whole_and_foreign_entries_stay(tmp_path: Path) -> None:
    path = tmp_path / "model"
    make_folder(path, "old")
    (path / "left.txt").write_text("of the old one")
    write_manifest(path, "m.json", {})
    (path / "notes").mkdir()
    (path / "notes" / "mine.txt").write_text("mine")
    (path / "link").symlink_to("inside.txt")
    (path / "folder").symlink_to("../model/notes")
    with writing_model(path) as new:
        make_folder(new, "new")
        assert (path / "inside.txt").read_text() == "old"
    found = tree(path)
    assert found.pop("m.json")
    assert found == {
        "inside.txt": "new", "link": "→ inside.txt", "folder": "→ ../model/notes",
        "notes/mine.txt": "mine",
    }  # fmt: skip
    assert os.listdir(tmp_path) == ["model"]


def test_a_foreign_folder_is_refused(tmp_path: Path) -> None:
    taken, file = tmp_path / "mine", tmp_path / "mine" / "inside.txt"
    taken.mkdir()
    for name in ("inside.txt", "other.json"):
        (taken / name).write_text("mine")
    before = tree(tmp_path)
    refused = pytest.raises(TmtError, match=r"mine: exists and was not written by tmt; name a")
    with refused, writing_model(taken):
        pytest.fail("nothing may be made for a place that is taken")
    clash = pytest.raises(TmtError, match=r"inside\.txt would be overwritten")
    with clash, writing_folder(taken, "m.json", ours=True) as new:
        make_folder(new, "new")
    with pytest.raises(TmtError, match="is not a folder"), writing_model(file):
        pass
    assert tree(tmp_path) == before


def test_an_empty_folder_and_a_link_to_one_are_filled(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    for content in ("first", "second"):
        with writing_model(tmp_path / "link") as new:
            make_folder(new, content)
        assert (tmp_path / "empty" / "inside.txt").read_text() == content
    assert (tmp_path / "link").is_symlink()


def test_a_folder_of_which_nothing_is_known_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "model"
    for _ in range(2):
        make_folder(path, "old")
        (path / "m.json").write_text("{")
        (path / "mine.txt").write_text("mine")
        with writing_model(path) as new:
            make_folder(new, "new")
        assert not (path / "mine.txt").exists() and (path / "inside.txt").read_text() == "new"
    for name in ("model.damaged", "model.damaged2"):
        assert (tmp_path / name / "mine.txt").read_text() == "mine"


def test_removing_takes_what_tmt_made_and_nothing_else(tmp_path: Path) -> None:
    for name in ("model", "other"):
        make_folder(tmp_path / name, "old")
    (tmp_path / "model" / "mine.txt").write_text("mine")
    (tmp_path / "link").symlink_to("other")
    remove(tmp_path / "link")
    for name in ("model", "other", "absent"):
        remove_made(tmp_path / name, "m.json")
    assert tree(tmp_path) == {"model/mine.txt": "mine"}
    for name in ("model", "absent", "absent/deeper"):
        remove(tmp_path / name)
    assert tree(tmp_path) == {}


def test_files_in_a_folder_replace_those_of_tmt_only(tmp_path: Path) -> None:
    def write(**files: str) -> None:
        with writing_files(tmp_path / "out") as folder:
            for name, text in files.items():
                (folder / name).write_text(text)

    write(a="1", b="1")
    (tmp_path / "out" / "mine").write_text("mine")
    for text in ("2", "3"):
        write(a=text, b="1", mine="mine")
        assert (tmp_path / "out" / "a").read_text() == text
    (tmp_path / "out" / "a").write_text("changed by its owner")
    (tmp_path / "out" / "c").mkdir()
    before = tree(tmp_path)
    for name in ("a", "c"):
        with pytest.raises(TmtError, match=f"out: {name} would be overwritten, but tmt did not w"):
            write(b="3", **{name: "3"})
    assert tree(tmp_path) == before, "nothing has moved, b neither"


@pytest.mark.parametrize(
    "error", [ValueError("bug"), KeyboardInterrupt(), OSError(errno.EIO, "broken"), TmtError("x")]
)
@pytest.mark.parametrize("writer", [writing, writing_model, writing_files])
def test_a_failure_inside_leaves_the_old_content_and_nothing_else(
    tmp_path: Path, error: BaseException, writer: Writer
) -> None:
    path = tmp_path / "kept"
    if writer is writing:
        path.write_text("old")
    else:
        make_folder(path, "old")
    before = tree(tmp_path)
    with pytest.raises((type(error), TmtError)), writer(path) as temporary:
        (temporary if writer is writing else temporary / "inside.txt").write_text("half")
        raise error
    assert tree(tmp_path) == before


def in_a_circle(tmp_path: Path) -> Path:
    (tmp_path / "circle").symlink_to("circle")
    return tmp_path / "circle"


def read_only(tmp_path: Path) -> Path:
    (tmp_path / "fixed").write_text("old")
    (tmp_path / "fixed").chmod(0o444)
    return tmp_path / "fixed"


def below_a_file(tmp_path: Path) -> Path:
    (tmp_path / "file").write_text("old")
    return tmp_path / "file" / "a.txt"


def folder(tmp_path: Path) -> Path:
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "mine.txt").write_text("mine")
    return tmp_path / "results"


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (folder, "results: is a folder; name a file"),
        (read_only, "fixed: is read-only"),
        (in_a_circle, "circle: cannot be written: .*symbolic links"),
        (below_a_file, r"a\.txt: cannot be written: "),
        (lambda folder: folder / ("x" * 256), "File name too long"),
        (lambda folder: folder / "a\0b", "not a name of a file"),
        (lambda _: Path("/dev/full"), "the disk is full"),
    ],
)
def test_a_place_that_cannot_be_written_is_kept(
    tmp_path: Path, place: Callable[[Path], Path], message: str
) -> None:
    path = place(tmp_path)
    before = tree(tmp_path)
    with pytest.raises(TmtError, match=message):
        write_text(path, "x")
    assert tree(tmp_path) == before


def test_links_are_written_through(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to("deep/real.txt")
    (tmp_path / "new.txt").symlink_to("deep/absent.txt")
    write_text(tmp_path / "link.txt", "new")
    write_text(tmp_path / "new.txt", "made")
    assert tree(tmp_path) == {
        "deep/absent.txt": "made", "deep/real.txt": "new",
        "link.txt": "→ deep/real.txt", "new.txt": "→ deep/absent.txt",
    }  # fmt: skip


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755, 0o222])
def test_permissions_stay(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    path.chmod(mode)
    write_text(path, "new")
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_new_files_are_as_the_user_wants_them(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        with writing(tmp_path / "w.safetensors") as temporary:
            save_file({"w": torch.zeros(3)}, temporary)  # which makes it 600
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "w.safetensors").stat().st_mode) == mode


def test_pipes_and_devices_are_written_to_and_stay(tmp_path: Path) -> None:
    path, got = tmp_path / "pipe", []
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: got.append(path.read_text()))
    reader.start()
    write_text(path, "through")
    reader.join(10)
    assert got == ["through"] and stat.S_ISFIFO(path.stat().st_mode)
    (tmp_path / "null").symlink_to("/dev/null")
    write_text(tmp_path / "null", "x")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_a_file_that_the_shell_has_opened_is_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "all.txt"
    code = (
        "from pathlib import Path; from transformer_mt.system.output import write_text; "
        "[write_text(Path(name), 'one\\n') for name in ('/dev/stdout', '/dev/fd/1')]"
    )
    with path.open("w") as stream:
        stream.write("before\n")
        stream.flush()
        subprocess.run([sys.executable, "-c", code], stdout=stream, check=True)
        stream.write("after\n")
    assert path.read_text() == "before\none\none\nafter\n" and os.listdir(tmp_path) == ["all.txt"]


def test_a_mount_point_is_refused_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(TmtError, match="is a mount point"):
        refuse_foreign(Path("/proc"), "m.json")


@pytest.mark.parametrize(
    "name", ["好 \n\t.txt", b"\xff.txt".decode("utf-8", "surrogateescape"), "x" * 255, "-", "\\"]
)
def test_any_name_of_a_file_will_do(tmp_path: Path, name: str) -> None:
    for text in ("old", "new"):
        write_text(tmp_path / name, text)
    assert os.listdir(tmp_path) == [name]
    assert (tmp_path / name).read_text() == "new"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(errno.ENOSPC, "No space"), r"out/new: the disk is full \(\d+ MiB free\); nothing"),
        (OSError(errno.EDQUOT, "quota"), "the disk is full"),
        (SafetensorError("I/O error: No space left (os error 28)"), "the disk is full"),
        (FileNotFoundError(2, "", "read.txt"), "out/new: cannot be written: read.txt: No such"),
    ],
)
def test_a_failed_call_of_the_system_is_explained(
    tmp_path: Path, error: Exception, message: str
) -> None:
    with pytest.raises(TmtError, match=message), writing(tmp_path / "not" / "out" / "new"):
        raise error


def test_a_real_write_error_of_the_weights_file_is_said(tmp_path: Path) -> None:
    """safetensors raises an error of its own, with the system's number in the text only."""
    path = tmp_path / "weights.safetensors"
    reason = r"weights.safetensors: cannot be written: File too large"
    too_large = pytest.raises(TmtError, match=reason)
    with limited_file_size(1000), too_large, writing(path) as temporary:
        save_file({"w": torch.zeros(9999)}, temporary)
    assert tree(tmp_path) == {}


def test_text_and_json(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "好\n")
    assert (tmp_path / "a.txt").read_bytes() == "好\n".encode()
    write_json(tmp_path / "a.json", {"名": [1, None]})
    assert (tmp_path / "a.json").read_text("utf-8") == '{\n  "名": [\n    1,\n    null\n  ]\n}\n'


def test_parts_of_a_whole_need_no_staging_of_their_own(tmp_path: Path) -> None:
    with writing_model(tmp_path / "x") as new:
        write_text(new / "a", "a")
        with writing_folder(new / "sub", None) as inner, writing(inner / "b") as temporary:
            temporary.write_text("b")
            assert not [path for path in new.rglob("*") if path.name.startswith(".tmt-")]
        write_manifest(new, "m.json", {})
    found = tree(tmp_path)
    assert found.pop("x/m.json")
    assert found == {"x/a": "a", "x/sub/b": "b"}
