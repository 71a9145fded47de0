"""The curve of dev → how a training went, in words, and the setting to change.

The last quarter of the updates is compared with the time before.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from transformer_mt.config.experiment import Config, TrainConfig

LOSS_GAIN = 0.02  # nats per token: a perplexity lower by 2 %
SCORE_GAIN = 0.5  # points of BLEU or chrF
LOSS_RISE = 0.05  # nats above the lowest loss
BARELY = {"bleu": 5.0, "chrf": 20.0}  # below all of them, text is guessed rather than translated
_LABELS = {"bleu": "BLEU", "chrf": "chrF"}

_Record = Mapping[str, Any]  # of `metrics.jsonl`


class Verdict(NamedTuple):
    kind: Literal["barely learned", "still improving", "overfitting", "settled", "unknown"]
    reason: str
    advice: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.reason}. {self.advice}"


class _Trend(NamedTuple):
    """A curve, read so that more is better."""

    gain: float  # of the best value of the last quarter over the best one before
    best: float
    best_update: int
    last: float


def judge_training(cfg: Config, records: Sequence[_Record], stopped_by: str) -> Verdict:
    """Judge a training by its validations.

    A gain in the cool-down of the learning rate does not count: there is one at the end of every
    training, however long it was.

    Args:
        records: of `metrics.jsonl`.
        stopped_by: max_updates, max_minutes or patience.
    """
    train = cfg.train
    loss = _trend(records, "loss", sign=-1)
    updates = max((record["update"] for record in records), default=0)
    if 0 < updates < train.warmup_updates:
        reason = f"{updates} updates are fewer than the {train.warmup_updates} of the warm-up"
        advice = f"{_train_longer(train, stopped_by)}; or lower train.warmup_updates"
        return Verdict("barely learned", reason, advice)
    if loss is None:
        now = f"(now {train.validate_every})"
        advice = f"Validate more often: train.validate_every {now}"
        return Verdict("unknown", "fewer than two validations draw no curve", advice)
    warm = [record for record in records if record["update"] <= _start_of_cooldown(train, updates)]
    fall = (_trend(warm, "loss", sign=-1) or loss).gain
    scores = {name: found for name in BARELY if (found := _trend(records, name))}
    gains = {name: (_trend(warm, name) or found).gain for name, found in scores.items()}
    rising = [name for name, gain in gains.items() if gain > SCORE_GAIN]
    if scores and all(found.best < BARELY[name] for name, found in scores.items()):
        return _barely_learned(train, scores, fall, stopped_by)
    if loss.best - loss.last > LOSS_RISE and not rising:
        return Verdict(
            "overfitting",
            f"the loss on dev was lowest after update {loss.best_update} ({-loss.best:.2f}) and "
            f"has risen to {-loss.last:.2f}",
            f"More text helps most; then a higher model.dropout (now {cfg.model.dropout}), or a "
            "smaller model",
        )
    better = [f"the loss on dev fell by {fall:.2f}"] * (fall > LOSS_GAIN)
    better += [f"{_LABELS[name]} rose by {gains[name]:.1f}" for name in rising[:1]]
    if better:
        reason = f"in the last quarter {' and '.join(better)}"
        return Verdict("still improving", reason, _train_longer(train, stopped_by))
    reason = f"in the last quarter the loss on dev moved by {abs(fall):.2f} only"
    advice = "More updates will hardly help; more text or another model may: tmt plan gives advice"
    return Verdict("settled", reason, advice)


def _barely_learned(
    train: TrainConfig, scores: Mapping[str, _Trend], fall: float, stopped_by: str
) -> Verdict:
    name, best = next((name, found.best) for name, found in scores.items())
    reason = f"the best {_LABELS[name]} on dev is {best:.1f}, and the loss on dev "
    if fall > LOSS_GAIN:
        return Verdict("barely learned", reason + "still falls", _train_longer(train, stopped_by))
    advice = "Look at the text with tmt data check, and at the settings with tmt plan"
    return Verdict("barely learned", reason + "does not fall any more", advice)


def _train_longer(train: TrainConfig, stopped_by: str) -> str:
    if stopped_by == "max_minutes" and train.max_minutes is not None:
        setting = f"train.max_minutes={2 * train.max_minutes:g} (now {train.max_minutes:g})"
    elif stopped_by == "patience":
        setting = f"train.patience={2 * (train.patience or 1)} (now {train.patience})"
    else:
        setting = f"train.max_updates={2 * train.max_updates} (now {train.max_updates})"
    return f"Train longer, --set {setting}: the same command then goes on"


def _start_of_cooldown(train: TrainConfig, n_done: int) -> int:
    if train.cooldown_updates == "auto":
        return n_done - n_done // 3
    return train.max_updates - train.cooldown_updates


def _trend(records: Sequence[_Record], key: str, *, sign: int = 1) -> _Trend | None:
    """None: fewer than two points."""
    found = {
        int(record["update"]): sign * float(record[key])
        for record in records
        if record["event"] == "validation" and record.get(key) is not None
    }
    curve = sorted(found.items())
    if len(curve) < 2:
        return None
    end = curve[-1][0]
    n_before = max(1, sum(update <= 0.75 * end for update, _ in curve))
    before, recent = ([value for _, value in part] for part in (curve[:n_before], curve[n_before:]))
    best_update, best = max(curve, key=lambda point: point[1])
    return _Trend(max(recent) - max(before), best, best_update, curve[-1][1])
