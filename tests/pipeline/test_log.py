"""What a run tells: one record per event in the file, one aligned line on the console."""

import io
import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from transformer_mt.errors import TrainingError
from transformer_mt.pipeline.log import TrainingLog, format_record, read_metrics

TRAIN = {"loss": 5.1234, "ppl": 167.9, "lr": 2.5e-4, "grad_norm": 1.5}


def make_log(
    path: Path, *, resume_update: int = 0, terminal: bool = False, **settings: Any
) -> tuple[TrainingLog, io.StringIO]:
    output = io.StringIO()
    console = Console(file=output, force_terminal=terminal, soft_wrap=True, highlight=False)
    log = TrainingLog(
        path, resume_update=resume_update, max_updates=100, console=console, **settings
    )
    return log, output


def test_a_record_goes_to_the_file_and_to_the_console(tmp_path: Path) -> None:
    path = tmp_path / "new" / "metrics.jsonl"
    log, output = make_log(path)
    records = [
        {"event": "train", "update": 10, **TRAIN},
        {"event": "validation", "update": 10, "loss": 4.5, "bleu": 31.25, "chrf": 52.5},
    ]
    with log:
        log.record("train", 10, TRAIN)
        assert read_metrics(path) == records[:1], "written at once, so that it can be watched"
        log.record("validation", 10, {"loss": 4.5, "bleu": 31.25, "chrf": 52.5})
    assert read_metrics(path) == records == log.records
    assert output.getvalue().splitlines() == [
        "update      10 · loss   5.123 · ppl    167.90 · lr 2.50e-04 · norm   1.50",
        "  dev       10 · loss   4.500 · BLEU  31.25 · chrF  52.50",
    ]


def test_a_record_that_cannot_be_written_is_written_later(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    log, output = make_log(path)
    with log:
        path.unlink()
        path.mkdir()
        for update in (1, 2):
            log.record("train", update, TRAIN)
        path.rmdir()
        path.write_text('{"event": "tr')  # half a line, as a full disk leaves it
        log.record("train", 3, TRAIN)
        log.record("train", 4, TRAIN)
        assert [record["update"] for record in read_metrics(path)] == [1, 2, 3, 4]
        assert output.getvalue().count("training goes on, and the records") == 1
        assert output.getvalue().count("written again, nothing is missing") == 1
        path.unlink()
        path.mkdir()
        log.record("train", 5, TRAIN)
    assert "1 records could not be written" in output.getvalue()


def test_lines_are_aligned() -> None:
    lines = [
        format_record({"event": event, "update": update, "loss": loss, "ppl": math.exp(loss)})
        for event, update, loss in (("train", 1, 11.5), ("train", 99999, 0.001), ("x", 10, 5.0))
    ]
    assert len({tuple(i for i, c in enumerate(line) if c == "·") for line in lines}) == 1
    assert len(set(map(len, lines))) == 1


@pytest.mark.parametrize("terminal", [False, True])
def test_a_progress_bar_is_for_terminals(tmp_path: Path, terminal: bool) -> None:
    log, output = make_log(tmp_path / "metrics.jsonl", terminal=terminal)
    with log:
        log.advance(40)
        log.say("plain [text] with brackets")
    assert "plain [text] with brackets\n" in output.getvalue()
    assert ("40/100" in output.getvalue()) == terminal
    assert ("\x1b" in output.getvalue()) == terminal


def test_resuming_drops_what_came_after_the_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    log, _ = make_log(path)
    with log:
        for update in (10, 20, 30):
            log.record("train", update, TRAIN)
    with path.open("a") as file:
        file.write('\n{"event": "train", "upd')  # cut short by a crash
    log, output = make_log(path, resume_update=20)
    with log:
        assert [record["update"] for record in log.records] == [10, 20]
        log.record("train", 30, {"loss": 1.0})
    assert [record["update"] for record in read_metrics(path)] == [10, 20, 30]
    assert read_metrics(path)[-1]["loss"] == 1.0
    assert output.getvalue().count("update") == 1, "old records are not shown again"


def test_every_line_is_json_that_other_programs_read(tmp_path: Path) -> None:
    """JSON knows no NaN and no infinity, which a skipped update has; nor are they shown."""
    path = tmp_path / "metrics.jsonl"
    log, output = make_log(path)
    with log:
        log.record("train", 1, {"loss": math.nan, "grad_norm": math.inf, "lr": 0.5, "other": 5})
    found = json.loads(path.read_text(), parse_constant=pytest.fail)
    assert found == {
        "event": "train", "update": 1, "loss": None, "grad_norm": None, "lr": 0.5, "other": 5,
    }  # fmt: skip
    assert output.getvalue() == "update       1 · lr 5.00e-01\n"


def test_tensorboard_gets_the_same_values(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log, _ = make_log(tmp_path / "metrics.jsonl", tensorboard_dir=tmp_path / "events")
    with log:
        log.record("train", 10, {"loss": 5.5})
        log.record("train", 20, {"loss": 4.5})
    events = EventAccumulator(str(tmp_path / "events")).Reload().Scalars("train/loss")
    assert [(event.step, event.value) for event in events] == [(10, 5.5), (20, 4.5)]


def test_missing_tensorboard_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(TrainingError, match=r"pip install 'transformer-mt\[track\]'"):
        make_log(tmp_path / "metrics.jsonl", tensorboard_dir=tmp_path / "events")
