"""`scripts/faults/hostile.py`: commands within the process, and what counts as a failure."""

from pathlib import Path
from typing import Any

import hostile
import pytest


def test_outcomes_of_command_lines(tmp_path: Path) -> None:
    assert hostile.run("--version").status == 0
    missing = hostile.run("tokenizer", "encode", tmp_path / "none.model", given=b"a\n")
    assert hostile.told_in_one_line(missing)
    assert not hostile.told_in_one_line(hostile.run("data", "check"))
    assert "tmt:" not in hostile.run("data", "check").err


def test_texts_as_pairs(tmp_path: Path) -> None:
    tallies: dict[str, Any] = {}
    for chunk in hostile.chunks_of(hostile.hostile_texts(28, 3)):
        tally = tallies.setdefault(chunk[0].kind, hostile.Tally())
        hostile.check(hostile.data_check, chunk, hostile.Setting(tmp_path, tmp_path), tally)
    assert sum(tally.n for tally in tallies.values()) == 28
    assert [text for tally in tallies.values() for text in tally.failures] == []


def test_a_crash_is_a_failure_of_the_text_that_causes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def main() -> None:
        if b"boom" in (tmp_path / "texts.zh").read_bytes():
            raise RuntimeError("a bug")
        print('{"parts": {"pairs": {"read": 2}}, "problems": []}')

    monkeypatch.setattr(hostile, "tmt", main)
    chunk = [hostile.Hostile("x", text) for text in ("fine", "boom", "well")]
    tally = hostile.Tally()
    hostile.check(hostile.data_check, chunk, hostile.Setting(tmp_path, tmp_path), tally)
    (failure,) = tally.failures
    assert "boom" in failure and "RuntimeError: a bug" in failure
