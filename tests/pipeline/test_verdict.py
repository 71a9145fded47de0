"""The verdict on a training, on synthetic curves."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from transformer_mt.config.experiment import Config, build_config
from transformer_mt.pipeline.verdict import judge_training

judge = partial(judge_training, annealed=False)


def config(**train: Any) -> Config:
    settings = {"max_updates": 1000, "validate_every": 100, "warmup_updates": 50, **train}
    return build_config(
        {
            "name": "x",
            "languages": {"src": "zh", "tgt": "en"},
            "data": {"train": ["a"]},
            "train": settings,
        },
        "test",
    )


def curve(
    loss: Callable[[float], float], bleu: Callable[[float], float], n: int = 10
) -> list[dict[str, Any]]:
    """`n` validations at equal distances, with values as functions of the share done."""
    return [
        {"event": "validation", "update": 1000 * i // n, "loss": loss(i / n), "bleu": bleu(i / n),
         "chrf": 2 * bleu(i / n)}
        for i in range(1, n + 1)
    ]  # fmt: skip


def noise(x: float) -> float:
    return math.sin(1000 * x)


@pytest.mark.parametrize(
    ("loss", "bleu", "kind", "words"),
    [
        (lambda x: 6 - 2 * x, lambda x: 2.7 * x, "barely learned", "still falls. Train longer"),
        (lambda x: 5 + 0.001 * noise(x), lambda x: 1.0, "barely learned", "tmt data check"),
        (lambda x: 4 - 2 * x, lambda x: 30 * x, "still improving", "train.max_updates=2000"),
        (lambda x: 2.0, lambda x: 30 * x, "still improving", "BLEU rose by"),
        (lambda x: 2 + (x - 0.4) ** 2, lambda x: 30 * x, "still improving", "BLEU rose by"),
        (lambda x: 2 + (x - 0.4) ** 2, lambda x: 30 - (x - 0.4) ** 2, "overfitting", "update 400"),
        (lambda x: 2 + 3 * math.exp(-20 * x) + 0.005 * noise(x),
         lambda x: 30 - 30 * math.exp(-20 * x) + 0.1 * noise(x), "settled", "hardly help"),
    ],
)  # fmt: skip
def test_the_kinds_of_curves(
    loss: Callable[[float], float], bleu: Callable[[float], float], kind: str, words: str
) -> None:
    found = judge(config(), curve(loss, bleu), "max_updates")
    assert found.kind == kind
    assert words in str(found)


@pytest.mark.parametrize(
    ("stopped_by", "setting"),
    [
        ("max_updates", "train.max_updates=2000 (now 1000)"),
        ("max_minutes", "train.max_minutes=5 (now 2.5)"),
        ("patience", "train.patience=14 (now 7)"),
    ],
)
def test_the_setting_that_ended_training_is_the_one_to_change(
    stopped_by: str, setting: str
) -> None:
    cfg = config(max_minutes=2.5, patience=7)
    found = judge(cfg, curve(lambda x: 4 - 2 * x, lambda x: 30 * x), stopped_by)
    assert found.kind == "still improving" and setting in found.advice


def test_the_gain_of_a_short_cooldown_is_not_taken_for_progress() -> None:
    def loss(x: float) -> float:
        return 2.5 if x <= 0.7 else 2.5 - (x - 0.7)

    records = curve(loss, lambda x: 30.0)
    assert judge(config(cooldown_updates=300), records, "max_updates").kind == "settled"
    for stopped_by in ("max_updates", "max_minutes", "patience"):  # without any
        assert judge(config(), records, stopped_by).kind == "still improving"


@pytest.mark.parametrize(
    ("cooldown", "annealed", "kind"),
    [
        (600, True, "complete"),
        (600, False, "still improving"),
        (300, True, "still improving"),
        ("auto", True, "complete"),
        ("auto", False, "still improving"),
    ],
)
def test_a_gain_of_a_long_cooldown_does_not_promise_another(
    cooldown: int | str, annealed: bool, kind: str
) -> None:
    cfg = config(cooldown_updates=cooldown, max_minutes=5, patience=7)
    judged = partial(judge_training, cfg, stopped_by="max_minutes", annealed=annealed)
    found = judged(curve(lambda x: 3 - x, lambda x: 30 * x))
    assert found.kind == kind
    assert ("--run-dir OTHER" in found.advice) == (kind == "complete")
    assert judged(curve(lambda x: 2 + (x - 0.4) ** 2, lambda x: 9.0)).kind == "overfitting"
    assert judged(curve(lambda x: 2.0, lambda x: 9.0)).kind == "settled"


def test_a_warm_up_that_did_not_end_is_named() -> None:
    cfg = config(warmup_updates=4000)
    for n in (1, 10):
        records = curve(lambda x: 7 - x, lambda x: 9.0, n)
        found = judge(cfg, records, "max_minutes")
        assert found.kind == "barely learned" and "fewer than the 4000" in found.reason
        assert "train.warmup_updates" in found.advice


@pytest.mark.parametrize("n", [0, 1])
def test_one_point_is_no_curve(n: int) -> None:
    found = judge(config(), curve(lambda x: 4.0, lambda x: 9.0)[:n], "max_minutes")
    assert found.kind == "unknown" and "train.validate_every" in found.advice


@pytest.mark.parametrize("missing", ["bleu", "chrf", "loss"])
def test_values_that_are_not_numbers_are_left_out(missing: str) -> None:
    records = curve(lambda x: 4 - 2 * x, lambda x: 30 * x)
    records[3][missing] = None
    assert judge(config(), records, "max_updates").kind == "still improving"
    for record in records:
        record[missing] = None
    kind = judge(config(), records, "max_updates").kind
    assert kind == ("unknown" if missing == "loss" else "still improving")
