"""The current folder lends no code: to the command, nor to any Python that tmt starts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import transformer_mt
from transformer_mt.__main__ import search_path
from transformer_mt.system.processes.child_python import TMT, child_environment, python_command

ROOT = Path(transformer_mt.__file__).parents[1]
NAMES = (
    "rich typer click torch numpy json random difflib argparse pickle struct multiprocessing "
    "tempfile signal yaml pydantic comet mtdata datasets sentencepiece queue socket select "
    "logging inspect dataclasses typing_extensions contextlib2 ctypes subprocess threading"
).split()
# What `python -m` finds before a line of tmt runs cannot be planted in its tests.
TAKEN = {"signal", "struct", "inspect", "contextlib2", "threading"}


@pytest.fixture
def evil(tmp_path: Path) -> Path:
    """A folder whose modules leave a mark when they are imported."""
    for name in [*NAMES, "transformer_mt", "mtdata_evil"]:
        code = f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r} + '\\n')\n"
        (tmp_path / f"{name}.py").write_text(code + "raise SystemExit(99)\n")
    return tmp_path


def ran(folder: Path) -> str:
    path = folder / "ran"
    return path.read_text() if path.exists() else ""


def do(folder: Path, command: list[str], **variables: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, **variables}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("python_path", ["", f".{os.pathsep}{os.pathsep}/nowhere"])
def test_a_child_takes_nothing_from_the_current_folder(
    evil: Path, monkeypatch: pytest.MonkeyPatch, python_path: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", python_path)
    command = python_command(TMT, "--version")
    found = subprocess.run(command, cwd=evil, env=child_environment(), capture_output=True)
    assert (found.returncode, ran(evil)) == (0, ""), found.stderr


@pytest.mark.parametrize("start", [["tmt"], [sys.executable, "-m", "transformer_mt"]])
def test_the_command_takes_nothing_from_the_current_folder(evil: Path, start: list[str]) -> None:
    if start == ["tmt"]:
        start = [str(Path(sys.executable).with_name("tmt"))]
    else:  # Python itself would run these, before us
        for name in ("transformer_mt", *TAKEN):
            (evil / f"{name}.py").unlink(missing_ok=True)
    found = do(evil, [*start, "--help"])
    assert (found.returncode, ran(evil)) == (0, ""), found.stderr


PROGRAM = """
import sys
from pathlib import Path
from transformer_mt.system.processes.executors import spawn_context
from transformer_mt.system.processes.parallel import run_apart, run_shards

def nothing(value, path=None):
    if path is not None: path.write_text("x")
    return ";".join(sys.path)

def places(ranks):
    return ranks.gather(sys.path), ranks.size

if __name__ == "__main__":
    here = sys.argv[1]
    (found,) = run_apart(nothing, [1])
    assert here not in found.split(";")
    list(run_shards([(Path(here, f"shard{n}"), n) for n in range(3)], nothing, workers=2))
    process = spawn_context().Process(target=nothing, args=(1,))
    process.start()
    process.join()
    assert process.exitcode == 0
    from transformer_mt.profiling.timed_updates import in_new_processes  # loads torch
    paths, size = in_new_processes(places, 2)
    assert size == 2 and not any(here in path for path in paths), paths
"""


def test_pools_and_ranks_take_nothing_from_the_current_folder(evil: Path) -> None:
    program = evil / "sub" / "program.py"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    found = do(evil, [sys.executable, str(program), str(evil)])
    assert (found.returncode, ran(evil)) == (0, ""), found.stderr


COMET = """
from pathlib import Path
import sys
from transformer_mt.evaluation.comet import _ask
answer = _ask(Path(sys.executable), {"model": "m", "systems": [[]]})
"""


@pytest.mark.parametrize("knows_safe_path", [True, False])
def test_comet_takes_nothing_from_the_current_folder(evil: Path, knows_safe_path: bool) -> None:
    """Whether or not its Python is of a version that knows PYTHONSAFEPATH."""
    program = COMET
    if not knows_safe_path:
        program = program.replace("Path(sys.executable)", "Path(sys.argv[1])")
        old = evil / "bin" / "python"
        old.parent.mkdir()
        old.write_text(f'#!/bin/sh\nunset PYTHONSAFEPATH\nexec {sys.executable} "$@"\n')
        old.chmod(0o755)
    found = do(evil, [sys.executable, "-P", "-c", program, str(evil / "bin" / "python")])
    assert ran(evil) == ""
    assert "has no COMET" in found.stderr


EXPERIMENT = """
name: evil
languages: {src: zh, tgt: en}
data: {cache: ./cache, train: [{mtdata: Toy-one-1-eng-zho}], dev: [{demo: true}]}
"""


def test_mtdata_takes_nothing_from_a_folder_that_a_configuration_names(evil: Path) -> None:
    """Nor from its cache, where mtdata would keep an index that is a pickle."""
    (evil / "exp.yaml").write_text(EXPERIMENT)
    cache = evil / "cache" / "mtdata"
    cache.mkdir(parents=True)
    for name in [*NAMES, "mtdata_evil"]:
        (evil / f"{name}.py").rename(cache / f"{name}.py")
    # A stand-in for the real one, which tells where it works and what it would unpickle.
    package = evil / "packages" / "mtdata"
    package.mkdir(parents=True)
    mark = evil / "asked"
    (package / "__init__.py").write_text(
        f"import os, pathlib\npathlib.Path({str(mark)!r}).write_text("
        "os.getcwd() + '\\n' + os.environ['MTDATA'] + '\\n' + oct(os.stat('.').st_mode))\n"
    )
    found = do(
        evil,
        [sys.executable, "-P", "-m", "transformer_mt", "plan", "exp.yaml"],
        PYTHONPATH=str(package.parent),
        XDG_CACHE_HOME=str(evil / "own"),
    )
    assert "needs mtdata" in found.stderr, found.stderr
    assert ran(evil) == ""
    folder, index, mode = mark.read_text().split("\n")
    assert not folder.startswith(str(evil)) and not Path(folder).exists() and mode == "0o40700"
    assert Path(index) == evil / "own" / "tmt" / "mtdata"


@pytest.mark.parametrize(
    ("places", "python_path", "expected", "why"),
    [
        (["HERE", "/lib"], "", ["/lib", "ROOT"], "python -m"),
        (["/bin", "/lib"], "", ["/bin", "/lib", "ROOT"], "a script"),
        (["HERE", "/a", "/lib"], "/a", ["/a", "/lib", "ROOT"], "named by the user"),
        (["/bin", "HERE", "/lib"], ":/x", ["/bin", "/lib", "ROOT"], "an empty entry"),
        (["/bin", "HERE/sub", "/lib"], "sub", ["/bin", "/lib", "ROOT"], "a relative entry"),
        (["/bin", "HERE", "/lib"], "HERE:", ["/bin", "HERE", "/lib", "ROOT"], "named after all"),
        (["", "/lib", "ROOT"], "", ["/lib", "ROOT"], "an interpreter; installed as editable"),
        (["HERE", "/lib", "OTHER"], "", ["/lib", "ROOT", "OTHER"], "another copy is installed"),
        (["HERE", "HERE", "/lib"], "", ["HERE", "/lib", "ROOT"], "in the folder of the packages"),
    ],
)
def test_the_search_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, places: list[str], python_path: str,
    expected: list[str], why: str,
) -> None:  # fmt: skip
    here = tmp_path / "here"
    other = tmp_path / "other"
    (other / "transformer_mt").mkdir(parents=True)
    (other / "transformer_mt" / "__init__.py").touch()
    here.mkdir()
    monkeypatch.chdir(here)

    def real(text: str) -> str:
        for name, path in (("HERE", here), ("ROOT", ROOT), ("OTHER", other)):
            text = text.replace(name, str(path))
        return text

    found = search_path([*map(real, places)], real(python_path))
    assert found == [*map(real, expected)], why


STARTING = """
import os, signal
from transformer_mt.system.processes.executors import spawn_context, start_worker

if __name__ == "__mp_main__":
    os.kill(os.getpid(), signal.SIGINT)  # before a line of its task

if __name__ == "__main__":
    process = spawn_context().Process(target=start_worker)
    process.start()
    process.join()
    print(process.exitcode)
"""


def test_a_child_does_not_hear_ctrl_c_while_it_starts(tmp_path: Path) -> None:
    (tmp_path / "starting.py").write_text(STARTING)
    found = do(tmp_path, [sys.executable, "starting.py"], PYTHONPATH=str(ROOT))
    assert (found.stdout, found.stderr) == ("0\n", "")
