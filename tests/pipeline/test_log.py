"""What a run tells: one record per event in the file, one aligned line on the console."""

import errno
import io
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from transformer_mt.config.experiment import TrainConfig
from transformer_mt.pipeline.log import (
    TrainingLog,
    format_minutes,
    format_record,
    format_samples,
)
from transformer_mt.pipeline.records import read_metrics

TRAIN = {"loss": 5.1234, "ppl": 167.9, "lr": 2.5e-4, "grad_norm": 1.5}


def make_log(
    path: Path,
    *,
    resume_update: int = 0,
    terminal: bool = False,
    width: int = 80,
    train: dict[str, Any] | None = None,
    **settings: Any,
) -> tuple[TrainingLog, io.StringIO]:
    output = io.StringIO()
    console = Console(
        file=output, force_terminal=terminal, soft_wrap=True, highlight=False, width=width
    )
    limits = TrainConfig.model_validate({"max_updates": 100, **(train or {})})
    log = TrainingLog(path, resume_update=resume_update, train=limits, console=console, **settings)
    return log, output


def lines_on_screen(output: str) -> list[str]:
    """What a terminal is given, without the codes that colour and move."""
    return re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output))


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


def test_records_that_cannot_be_read_are_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "metrics.jsonl"
    log, _ = make_log(path)
    with log:
        log.record("train", 1, TRAIN)
    before = path.read_bytes()

    def fails(_: Path) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Path, "read_bytes", fails)
    with pytest.raises(OSError, match="Input/output error"):
        make_log(path)
    monkeypatch.undo()
    assert path.read_bytes() == before


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


FULL = {"loss": 3.21456, "ppl": 24.876, "tgt_tokens_per_s": 51234.5, "lr": 2.5e-3,
        "grad_norm": 1.234, "epoch": 123.45, "minutes": 61.0, "eta_minutes": 1.0}  # fmt: skip
DEV = {"loss": 3.1, "bleu": 31.25, "chrf": 52.5, "bleu.zh-en": 30.0, "bleu.en-zh": 32.5,
       "minutes": 61.2, "validation_s": 12.5, "samples": [
           {"src": "这只动物没有穿过街道。" * 9, "hyp": "the " * 99, "ref": "a\tb" * 50}
       ]}  # fmt: skip


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_is_wider_than_the_terminal(tmp_path: Path, width: int) -> None:
    log, output = make_log(
        tmp_path / "metrics.jsonl", terminal=True, width=width, train={"max_updates": 100_000}
    )
    with log:
        for update in (9_998, 9_999, 10_000):
            log.record("train", update, FULL)
            log._shown_at = -math.inf
            log.advance(update)
        log.record("validation", 10_000, DEV)
        log._shown_at = -math.inf
        log.advance(10_001)
        log.say("note: 3 micro-batches did not fit into memory; done in halves. " * 3)
    lines = lines_on_screen(output.getvalue())
    assert max(map(cell_len, lines)) <= width
    assert any("training" in line and "update 9999/1" in line for line in lines)
    assert not any(line.startswith("update") for line in lines), "in the live line alone"
    text = " ".join(lines)
    assert ("loss 3.215" in text) == (width >= 80), "the least important values are left out first"
    assert ("norm 1.23" in text) == (width > 120)
    assert "loss   3.100" in text and ("chrF  52.50" in text) == (width >= 80)


def test_samples_are_shown_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    samples = [{"src": "猫看见狗。", "hyp": "the cat the", "ref": "The cat sees the dog."}]
    for terminal in (False, True):
        log, output = make_log(path, terminal=terminal)
        with log:
            log.record("validation", 10, {"loss": 4.5, "samples": samples})
        shown = [line.rstrip() for line in lines_on_screen(output.getvalue())]
        for line in ("src  猫看见狗。", "out  the cat the", "ref  The cat sees the dog."):
            assert f"    {line}" in shown
        assert read_metrics(path)[-1]["samples"] == samples
    assert len(format_samples(samples, 80)) == 3
    assert all(cell_len(line) <= 20 for line in format_samples(samples, 20))


def test_one_estimate_of_the_time_left(tmp_path: Path) -> None:
    """The number of the record is that of the live line, and knows the limit in minutes."""
    log, output = make_log(tmp_path / "m", terminal=True, train={"max_minutes": 65.0})
    with log:
        log.record("train", 50, {**FULL, "minutes": 61.0})
        assert log.records[-1]["eta_minutes"] == pytest.approx(4.0)
        log.advance(50)
    assert "4 min left" in output.getvalue() and "99" not in output.getvalue()


@pytest.mark.parametrize(
    ("minutes", "text"),
    [(0, "0 s"), (0.5, "30 s"), (12.4, "12 min"), (89, "89 min"), (210, "3.5 h"),
     (3024, "2.1 days")],
)  # fmt: skip
def test_durations(minutes: float, text: str) -> None:
    assert format_minutes(minutes) == text


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
