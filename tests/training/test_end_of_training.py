"""What ends a training: patience, the clock, and a cool-down by the clock."""

import math
from pathlib import Path
from types import SimpleNamespace

import pytest
from training_session import Session, make_config

from transformer_mt.training import trainer as trainer_module


@pytest.mark.parametrize(
    ("metric", "scores", "best", "stopped_at"),
    [
        ("bleu", [1, 5, 4, 6, 6, 6], 20, 30),
        ("bleu", [0, 0, 0], 5, 15),
        ("loss", [3, 2, 2, 1, 4, 5], 20, 30),
    ],
)
def test_patience(
    tmp_path: Path, metric: str, scores: list[int], best: int, stopped_at: int
) -> None:
    """Two validations in a row without a better metric end training, also if it was stopped."""
    cfg = make_config(metric=metric, patience=2, max_updates=1000)

    def session() -> Session:
        return Session(tmp_path, cfg, scores=lambda u: {metric: float(scores[u // 5 - 1])})

    session().stop_at(12).run()
    outcome = session().run()
    assert outcome.stopped_by == "patience"
    assert (outcome.progress.update, outcome.progress.best_update) == (stopped_at, best)
    assert abs(outcome.progress.best_metric) == scores[best // 5 - 1]


def test_the_clock_ends_training_with_a_validation(tmp_path: Path) -> None:
    session = Session(tmp_path, make_config(max_minutes=1e-6, max_updates=1000))
    outcome = session.run()
    assert (outcome.stopped_by, outcome.progress.update) == ("max_minutes", 1)
    assert session.validated_at == [1] and outcome.progress.validated


class Clock:
    """Minutes that pass with the updates of the sessions that it watches."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.minutes = 0.0
        stub = SimpleNamespace(monotonic=lambda: 60 * self.minutes)
        monkeypatch.setattr(trainer_module, "time", stub)

    def watch(self, session: Session, *, slow_after: int = 1000) -> Session:
        """A minute for each update, two of them after some updates."""

        def pass_on(update: int) -> None:
            self.minutes += 1 if update < slow_after else 2

        for update in range(1, 100):
            session.log.actions[update] = lambda update=update: pass_on(update)
        return session


def auto(**train: object) -> dict[str, object]:
    return {"cooldown_updates": "auto", "max_updates": 1000, "validate_every": 1000, **train}


def rates(session: Session) -> dict[int, float]:
    return {r["update"]: r["lr"] for r in session.log.records if r["event"] == "train"}


def test_the_last_two_thirds_of_the_minutes_are_a_cool_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rate falls from 10 of 30 minutes on, also where a stop has come between."""
    clock = Clock(monkeypatch)
    session = clock.watch(Session(tmp_path, make_config(**auto(max_minutes=30))))
    session.log.actions[25] = lambda: setattr(session.stop, "signal_name", "SIGTERM")
    session.run()
    again = clock.watch(Session(tmp_path, make_config(**auto(max_minutes=30)), seed=99))
    outcome = again.run()
    assert (outcome.stopped_by, outcome.progress.update) == ("max_minutes", 32)
    assert again.validated_at == [32]
    found = rates(session) | rates(again)
    for update, rate in found.items():
        # The clock of these sessions moves on after it was read, but not with the update that
        # asks for a stop.
        minutes = max(0, update - 2) if update <= 26 else update - 3
        plain = 3e-3 * (update / 5 if update < 5 else math.sqrt(5 / update))
        assert rate == pytest.approx(plain * min(1, (30 - minutes) / 20)), update
    assert len(found) == 32
    more = clock.watch(Session(tmp_path, make_config(**auto(max_minutes=60))))
    assert more.run().progress.update > 50, "more minutes train on"


def test_a_machine_that_becomes_slow_ends_on_time_with_a_rate_near_zero(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Clock(monkeypatch).watch(
        Session(tmp_path, make_config(**auto(max_minutes=30))), slow_after=21
    )
    outcome = session.run()
    assert outcome.stopped_by == "max_minutes"
    assert 30 <= outcome.progress.seconds / 60 <= 32 and outcome.progress.update < 31
    found = rates(session)
    assert found[max(found)] < 0.1 * max(found.values())


def test_without_a_clock_they_are_the_last_two_thirds_of_the_updates(tmp_path: Path) -> None:
    session = Session(tmp_path, make_config(**auto(max_updates=12, validate_every=6)))
    assert session.run().stopped_by == "max_updates"
    found = rates(session)
    shares = [found[u] / (3e-3 * math.sqrt(5 / u)) for u in range(5, 13)]
    assert shares == pytest.approx([1 - i / 8 for i in range(8)])
