"""ARCHITECTURE.md says what is there."""

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest
from places import ROOT
from test_imports import ORDER

import transformer_mt

PACKAGE = Path(transformer_mt.__file__).parent
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
HEART = 2700  # lines, at most: an evening
MODULES = 4425  # lines of model, training and search, at most


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}")[2].partition("\n## ")[0]


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_every_folder_is_named() -> None:
    table = re.findall(r"^\| .*?`.*$", PAGE.partition("\n## ")[0], re.MULTILINE)
    named = [name for row in table for name in re.findall(r"(\w+)/", row.split("|")[1])]
    folders = {path.parent.name for path in PACKAGE.rglob("__init__.py")} - {PACKAGE.name}
    assert set(named) == folders
    places = [ORDER.index(name) for name in named if name in ORDER]
    assert places == sorted(places, reverse=True)


def test_the_heart_is_an_evening() -> None:
    rows = re.findall(r"^\| `(.+?)` \| (\d+) \|", section("The heart"), re.MULTILINE)
    assert len(rows) > 10
    for name, count in rows:
        assert lines(PACKAGE / name) == pytest.approx(int(count), rel=0.05), name
    assert sum(lines(PACKAGE / name) for name, _ in rows) <= HEART


def test_the_modules_of_the_heart_stay_small() -> None:
    folders = [PACKAGE / name for name in ("model", "training", "search")]
    assert sum(lines(path) for folder in folders for path in folder.glob("*.py")) <= MODULES


def test_files_and_functions_are_read_at_a_glance() -> None:
    for path in PACKAGE.rglob("*.py"):
        assert lines(path) <= 350, path
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert (node.end_lineno or 0) - node.lineno < 60, (path, node.name)


@pytest.mark.parametrize(
    ("title", "most"), [("From `tmt train`", 25), ("From `tmt translate`", 15)]
)
def test_the_ways_of_the_data_name_functions_that_exist(title: str, most: int) -> None:
    rows = re.findall(r"^\| \d+ \| `(.+?)` \| `(.+?)\.py` \|$", section(title), re.MULTILINE)
    assert 10 < len(rows) <= most
    for function, file in rows:
        found = import_module(f"transformer_mt.{file.replace('/', '.')}")
        for part in function.split("."):
            found = getattr(found, part)
        assert found.__module__ == f"transformer_mt.{file.replace('/', '.')}", function
        assert found.__qualname__ == function, "not where a parent class has it"


def test_every_place_to_change_exists() -> None:
    table = section("Where to change")
    paths = re.findall(r"`((?:\w+/)+(?:[\w.]+\.(?:py|j2))?)`", table)
    assert len(paths) > 12
    assert [
        path
        for path in paths
        if not ((PACKAGE / path).exists() or (PACKAGE.parent / path).exists())
    ] == []
    for path, name in re.findall(r"`([\w/]+\.py)`: `(\w+)", table):
        assert re.search(rf"(def|class) {name}\b", (PACKAGE / path).read_text(encoding="utf-8"))
