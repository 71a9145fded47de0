"""The curve of dev → how a training went, in words, and the setting to change.

The last quarter of the updates is compared with the time before.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from transformer_mt.config.experiment import Config, TrainConfig
from transformer_mt.messages.catalogue import tr

LOSS_GAIN = 0.02  # nats per token: a perplexity lower by 2 %
SCORE_GAIN = 0.5  # points of BLEU or chrF
LOSS_RISE = 0.05  # nats above the lowest loss
BARELY = {"bleu": 5.0, "chrf": 20.0}  # below all of them, text is guessed rather than translated
_LABELS = {"bleu": "BLEU", "chrf": "chrF"}
_KINDS = {
    "barely learned": tr("barely learned"),
    "still improving": tr("still improving"),
    "overfitting": tr("overfitting"),
    "settled": tr("settled"),
    "complete": tr("complete"),
    "unknown": tr("unknown"),
}

_Record = Mapping[str, Any]  # of `metrics.jsonl`


class Verdict(NamedTuple):
    kind: Literal[
        "barely learned", "still improving", "overfitting", "settled", "complete", "unknown"
    ]
    reason: str
    advice: str

    def __str__(self) -> str:
        return tr("{}: {}. {}", _KINDS[self.kind], self.reason, self.advice)


class _Trend(NamedTuple):
    """A curve, read so that more is better."""

    gain: float  # of the best value of the last quarter over the best one before
    best: float
    best_update: int
    last: float


def judge_training(
    cfg: Config, records: Sequence[_Record], stopped_by: str, *, annealed: bool
) -> Verdict:
    """Judge a training by its validations.

    A gain in a short cool-down of the learning rate does not count: there is one at the end of
    every training. Where most of a training is cool-down, the whole curve is judged; once it has
    ended, a gain tells nothing of a longer training.

    Args:
        records: of `metrics.jsonl`.
        stopped_by: max_updates, max_minutes or patience.
        annealed: the learning rate has fallen to 0.
    """
    train = cfg.train
    loss = _trend(records, "loss", sign=-1)
    updates = max((record["update"] for record in records), default=0)
    if 0 < updates < train.warmup_updates:
        reason = tr(
            "{} updates are fewer than the {} of the warm-up", updates, train.warmup_updates
        )
        advice = tr("{}; or lower train.warmup_updates", _train_longer(train, stopped_by))
        return Verdict("barely learned", reason, advice)
    if loss is None:
        now = tr("(now {})", train.validate_every)
        advice = tr("Validate more often: train.validate_every {}", now)
        return Verdict("unknown", tr("fewer than two validations draw no curve"), advice)
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
            tr(
                "the loss on dev was lowest after update {} ({:.2f}) and has risen to {:.2f}",
                loss.best_update,
                -loss.best,
                -loss.last,
            ),
            tr(
                "More text helps most; then a higher model.dropout (now {}), or a smaller model",
                cfg.model.dropout,
            ),
        )
    better = [tr("the loss on dev fell by {:.2f}", fall)] * (fall > LOSS_GAIN)
    better += [tr("{} rose by {:.1f}", _LABELS[name], gains[name]) for name in rising[:1]]
    if better:
        reason = tr("in the last quarter {}", tr(" and ").join(better))
        if annealed and _is_mostly_cooldown(train):
            return _complete(reason, train, stopped_by)
        return Verdict("still improving", reason, _train_longer(train, stopped_by))
    reason = tr("in the last quarter the loss on dev moved by {:.2f} only", abs(fall))
    advice = tr(
        "More updates will hardly help; more text or another model may: tmt plan gives advice"
    )
    return Verdict("settled", reason, advice)


def _barely_learned(
    train: TrainConfig, scores: Mapping[str, _Trend], fall: float, stopped_by: str
) -> Verdict:
    name, best = next((name, found.best) for name, found in scores.items())
    reason = tr("the best {} on dev is {:.1f}, and the loss on dev ", _LABELS[name], best)
    if fall > LOSS_GAIN:
        return Verdict(
            "barely learned", reason + tr("still falls"), _train_longer(train, stopped_by)
        )
    advice = tr("Look at the text with tmt data check, and at the settings with tmt plan")
    return Verdict("barely learned", reason + tr("does not fall any more"), advice)


def _complete(gain: str, train: TrainConfig, stopped_by: str) -> Verdict:
    advice = tr(
        "Only a longer training tells whether more would help: --run-dir OTHER --set {}",
        _longer(train, stopped_by),
    )
    return Verdict("complete", tr("{}, while the learning rate fell to 0", gain), advice)


def _train_longer(train: TrainConfig, stopped_by: str) -> str:
    setting = _longer(train, stopped_by)
    return tr("Train longer, --set {}: the same command, without --fresh, then goes on", setting)


def _longer(train: TrainConfig, stopped_by: str) -> str:
    if stopped_by == "max_minutes" and train.max_minutes is not None:
        return tr("train.max_minutes={:g} (now {:g})", 2 * train.max_minutes, train.max_minutes)
    if stopped_by == "patience":
        return tr("train.patience={} (now {})", 2 * (train.patience or 1), train.patience)
    return tr("train.max_updates={} (now {})", 2 * train.max_updates, train.max_updates)


def _is_mostly_cooldown(train: TrainConfig) -> bool:
    return train.cooldown_updates == "auto" or train.cooldown_updates > train.max_updates / 2


def _start_of_cooldown(train: TrainConfig, n_done: int) -> int:
    """The update after which gains do not count."""
    if _is_mostly_cooldown(train):
        return n_done
    assert train.cooldown_updates != "auto"
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
