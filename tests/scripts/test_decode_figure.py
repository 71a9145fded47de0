"""The figure of decoding speeds: medians, panels, and a file."""

import json
import sys
from pathlib import Path
from typing import Any

import decode_figure
import pytest

MEASURED: list[list[Any]] = [
    ["tmt", 64, 5, [{"sentences": 64, "seconds": s} for s in (1.0, 2.0, 64.0)]],
    ["other", 64, 5, [{"sentences": 64, "seconds": 4.0}, None]],
    ["failed", 64, 5, [None, None]],
    ["tmt", 1, 5, [{"sentences": 8, "seconds": 1.0}]],
]


def test_a_panel_has_the_median_of_each_engine() -> None:
    large, single = decode_figure.panels("tiny", MEASURED)
    assert large == ("tiny, batch 64, beam 5", {"tmt": 32.0, "other": 16.0})
    assert single == ("tiny, batch 1, beam 5", {"tmt": 8.0})


def test_the_figure_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tiny.json").write_text(json.dumps(MEASURED), encoding="utf-8")
    out = tmp_path / "figure.png"
    arguments = ["decode_figure", f"tiny={tmp_path / 'tiny.json'}", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", arguments)
    decode_figure.main()
    assert out.read_bytes().startswith(b"\x89PNG")
