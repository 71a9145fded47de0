"""How long a training will still take: the limits of its configuration, and its own clock."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from transformer_mt.config.experiment import TrainConfig

_Record = Mapping[str, Any]  # of `metrics.jsonl`


@dataclass(frozen=True)
class TimeLeft:
    minutes: float
    limit: Literal["max_updates", "max_minutes", "patience"]  # the first that will be reached


class TrainingClock:
    """Minutes so far and minutes left, from the records of the log.

    Args:
        update, minutes: of the training before this start of it.
    """

    def __init__(self, train: TrainConfig, update: int, minutes: float) -> None:
        self._train = train
        self._first_update = update
        self._first_minutes = self._minutes = minutes
        self._since = time.monotonic()

    def set(self, minutes: float) -> None:
        """Follow the clock of the trainer, which is told with its records."""
        self._minutes, self._since = minutes, time.monotonic()

    def minutes(self) -> float:
        """Of training, those before this start of it included."""
        return self._minutes + (time.monotonic() - self._since) / 60

    def left(self, update: int, records: Sequence[_Record]) -> TimeLeft | None:
        """None: no update has been timed yet."""
        minutes = self.minutes()
        if update <= self._first_update:
            return None
        per_update = (minutes - self._first_minutes) / (update - self._first_update)
        return time_left(
            self._train, update=update, minutes=minutes, per_update=per_update, records=records
        )


def time_left(
    train: TrainConfig,
    *,
    update: int,
    minutes: float,
    per_update: float,
    records: Sequence[_Record],
) -> TimeLeft:
    """Minutes until the first limit.

    Patience counts once half of it is used up: before that, a better score is to be expected.

    Args:
        minutes: of training so far.
        per_update: minutes.
        records: of this training, with its validations.
    """
    found = [TimeLeft((train.max_updates - update) * per_update, "max_updates")]
    if train.max_minutes is not None:
        found.append(TimeLeft(train.max_minutes - minutes, "max_minutes"))
    waited, last = validations_without_gain(train, records)
    if train.patience is not None and 2 * waited >= train.patience:
        end = last + (train.patience - waited) * train.validate_every
        found.append(TimeLeft((end - update) * per_update, "patience"))
    first = min(found, key=lambda left: left.minutes)
    return TimeLeft(max(0.0, first.minutes), first.limit)


def validations_without_gain(train: TrainConfig, records: Sequence[_Record]) -> tuple[int, int]:
    """How many validations since the best one, as patience counts; and the update of the last."""
    best, waited, last = None, 0, 0
    for record in records:
        value = record.get(train.metric)
        if record["event"] != "validation" or value is None:
            continue
        value = -value if train.metric == "loss" else value
        last = record["update"]
        if best is None or value > best:
            best, waited = value, 0
        else:
            waited += 1
    return waited, last
