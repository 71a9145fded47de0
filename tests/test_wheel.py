"""Outside of a checkout: the files of a wheel, laid out as pyproject.toml says, are enough.

`scripts/check_wheel.py` does the same with a wheel that pip builds, which needs the network.
"""

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from places import ROOT

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    site = tmp_path_factory.mktemp("site")
    build = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]
    wheel = build["targets"]["wheel"]
    for source, target in {**{p: p for p in wheel["packages"]}, **wheel["force-include"]}.items():
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / source, site / target, ignore=ignore)
    return site


@pytest.fixture
def run(installed: Path, tmp_path: Path) -> Run:
    """A Python in an empty folder that takes the package from `installed`."""

    def run(*words: str | Path) -> "subprocess.CompletedProcess[str]":
        environment = {**os.environ, "PYTHONPATH": str(installed)}
        command = [sys.executable, *map(str, words)]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        )

    return run


def test_the_command_and_its_configurations(installed: Path, tmp_path: Path, run: Run) -> None:
    program = installed / "transformer_mt" / "__main__.py"
    assert run(program, "--version").stdout.strip() == "0.1.0"
    assert "\nbase " in "\n" + run(program, "config").stdout
    text = run(program, "config", "base").stdout
    assert text == (ROOT / "configs/base.yaml").read_text(encoding="utf-8")
    (tmp_path / "my.yaml").write_text(text, encoding="utf-8")
    code = (
        "import transformer_mt, sys; from pathlib import Path;"
        "from transformer_mt.config.experiment import load_experiment;"
        "assert load_experiment('my.yaml') == load_experiment('base');"
        "print(*(path for path in sys.modules['transformer_mt'].__path__))"
    )
    assert run("-c", code).stdout.strip() == str(installed / "transformer_mt")


def test_templates_and_fonts_lie_in_the_package(installed: Path) -> None:
    """Hatch takes all files of a listed package."""
    found = {path.suffix for path in (installed / "transformer_mt").rglob("*.*")}
    assert {".j2", ".bz2", ".otf", ".typed", ".yaml", ".js", ".cjs", ".css"} <= found
