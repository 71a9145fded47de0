"""One estimate of the time that is left: the first limit that will be reached."""

from typing import Any

import pytest

from transformer_mt.config.experiment import TrainConfig
from transformer_mt.pipeline.time_left import TrainingClock, time_left, validations_without_gain


def dev(*scores: float | None) -> list[dict[str, Any]]:
    """Validations every 100 updates."""
    return [
        {"event": "validation", "update": 100 * i, "bleu": score}
        for i, score in enumerate(scores, 1)
    ]


@pytest.mark.parametrize(
    ("settings", "records", "expected", "why"),
    [
        ({}, [], (5.0, "max_updates"), "500 updates of 0.01 minutes"),
        ({"max_minutes": 7}, [], (2.0, "max_minutes"), "7 − 5 minutes"),
        ({"max_minutes": 20}, [], (5.0, "max_updates"), "the clock is later"),
        ({"max_minutes": 3}, [], (0.0, "max_minutes"), "never less than nothing"),
        ({"patience": 4}, dev(1, 2, 3, 4, 5), (5.0, "max_updates"), "every validation was better"),
        ({"patience": 4}, dev(1, 5, 3, 4, 2), (1.0, "patience"), "3 of 4 used up"),
        ({"patience": 6}, dev(1, 2, 5, 4, 2), (5.0, "max_updates"), "2 of 6 used up"),
        ({"patience": 3}, dev(9, 8, 8, None, 7), (0.0, "patience"), "all used up"),
        ({"patience": None}, dev(9, 1, 1, 1, 1), (5.0, "max_updates"), "patience is off"),
    ],
)
def test_the_first_limit_counts(
    settings: dict[str, Any], records: list[dict[str, Any]], expected: tuple[float, str], why: str
) -> None:
    train = TrainConfig.model_validate({"max_updates": 1000, "validate_every": 100, **settings})
    found = time_left(train, update=500, minutes=5.0, per_update=0.01, records=records)
    assert (found.minutes, found.limit) == (pytest.approx(expected[0]), expected[1]), why


def test_a_lower_loss_is_a_gain() -> None:
    train = TrainConfig.model_validate({"metric": "loss"})
    records = [{"event": "validation", "update": i, "loss": 5 - i} for i in (1, 2, 3)]
    assert validations_without_gain(train, records) == (0, 3)
    records.append({"event": "validation", "update": 4, "loss": 2.0})
    assert validations_without_gain(train, records) == (1, 4)


def test_a_resumed_training_is_timed_anew() -> None:
    """By the updates of this machine alone; the minutes of the first start count."""
    train = TrainConfig.model_validate({"max_updates": 200, "max_minutes": 80})
    clock = TrainingClock(train, 100, 60.0)
    assert clock.left(100, []) is None, "nothing is timed yet"
    clock.set(61.0)
    left = clock.left(110, [])
    assert left is not None
    assert (left.minutes, left.limit) == (pytest.approx(9.0, abs=0.01), "max_updates")
    later = TrainingClock(train, 149, 64.9)  # where no record was written for long
    later.set(65.0)
    left = later.left(150, [])
    assert left is not None and left.minutes == pytest.approx(5.0, abs=0.01)
    clock.set(65.0)
    left = clock.left(150, [])
    assert left is not None and left.minutes == pytest.approx(5.0, abs=0.01)
