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
    with log:
        log.record("train", 10, TRAIN)
        records = [{"event": "train", "update": 10, **TRAIN}]
        assert read_metrics(path) == records, "written at once, so that it can be watched"
        log.record("validation", 10, {"loss": 4.5, "bleu": 31.25, "chrf": 52.5})
    records.append({"event": "validation", "update": 10, "loss": 4.5, "bleu": 31.25, "chrf": 52.5})
    assert read_metrics(path) == records == log.records
    assert output.getvalue().splitlines() == [
        "update      10 · loss   5.123 · ppl    167.90 · lr 2.50e-04 · norm   1.50",
        "  dev       10 · loss   4.500 · BLEU  31.25 · chrF  52.50",
    ]


def test_lines_are_aligned() -> None:
    lines = [
        format_record({"event": event, "update": update, "loss": loss, "ppl": math.exp(loss)})
        for event, update, loss in (("train", 1, 11.5), ("train", 99999, 0.001), ("x", 10, 5.0))
    ]
    assert len({tuple(i for i, c in enumerate(line) if c == "·") for line in lines}) == 1
    assert len(set(map(len, lines))) == 1


def test_unknown_and_not_finite_values_are_not_shown() -> None:
    record = {"event": "train", "update": 1, "loss": math.nan, "ppl": None, "lr": 1.0, "other": 5}
    assert format_record(record) == "update       1 · lr 1.00e+00"


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
    log, output = make_log(path, resume_update=20)
    with log:
        assert [record["update"] for record in log.records] == [10, 20]
        log.record("train", 30, {"loss": 1.0})
    assert [record["update"] for record in read_metrics(path)] == [10, 20, 30]
    assert read_metrics(path)[-1]["loss"] == 1.0
    assert output.getvalue().count("update") == 1, "old records are not shown again"


def test_a_last_line_cut_by_a_crash_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"event": "train", "update": 1}\n\n{"event": "train", "upd')
    assert read_metrics(path) == [{"event": "train", "update": 1}]
    assert read_metrics(tmp_path / "absent.jsonl") == []


def test_every_line_is_json_that_other_programs_read(tmp_path: Path) -> None:
    """JSON knows no NaN and no infinity, which a skipped update has."""
    path = tmp_path / "metrics.jsonl"
    log, _ = make_log(path)
    with log:
        log.record("train", 1, {"loss": math.nan, "grad_norm": math.inf, "lr": 0.5})

    def refuse(constant: str) -> None:
        pytest.fail(f"{constant} is not JSON")

    (line,) = path.read_text().splitlines()
    found = json.loads(line, parse_constant=refuse)
    assert found == {"event": "train", "update": 1, "loss": None, "grad_norm": None, "lr": 0.5}


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
    with pytest.raises(TrainingError) as caught:
        make_log(tmp_path / "metrics.jsonl", tensorboard_dir=tmp_path / "events")
    assert str(caught.value) == (
        "train.tensorboard needs an extra package: pip install 'transformer-mt[track]'"
    )
