"""Which beam and length penalty suit a model: measured on its dev set.

Comes in: a model directory in a run, or with a test set of its own. Goes out: a `Tuning`, and the
model directory with the best of it, if that is wanted.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from transformer_mt.errors import DataError
from transformer_mt.evaluation.metrics import Scorer
from transformer_mt.evaluation.test_sets import EvaluationSet, read_dev_sets
from transformer_mt.model_dir import load_model_dir, save_model_dir, weights_of
from transformer_mt.search.beam_search import LengthPenalty
from transformer_mt.text.sentences import join_translations
from transformer_mt.translation.retry import Draft
from transformer_mt.translation.translator import Translator

BEAMS = (1, 2, 4, 8)
ALPHAS = (0.0, 0.3, 0.6, 1.0, 1.4)
ENOUGH = 0.1  # points; a larger beam has to bring more than that


@dataclass(frozen=True)
class Choice:
    beam: int
    length_penalty: float
    score: float  # mean over the directions of the model


@dataclass(frozen=True)
class Tuning:
    """
    Attributes:
        choices: every beam with every length penalty.
        best: the smallest beam that scores within `ENOUGH` of the highest, at its best penalty.
    """

    metric: str
    choices: list[Choice]
    best: Choice

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def render(self) -> str:
        alphas = sorted({choice.length_penalty for choice in self.choices})
        lines = [f"{self.metric} on dev", "  beam  " + "".join(f"  α {a:<5}" for a in alphas)]
        for beam in sorted({choice.beam for choice in self.choices}):
            cells = {c.length_penalty: c.score for c in self.choices if c.beam == beam}
            lines.append(f"  {beam:>4}  " + "".join(f"{cells[a]:>9.2f}" for a in alphas))
        best = self.best
        lines.append(f"best: beam {best.beam}, length penalty {best.length_penalty}")
        return "\n".join(lines)


def tune(model_dir: Path, metric: str, tests: Sequence[EvaluationSet] = ()) -> Tuning:
    """Search once with each beam, and rank its hypotheses by each length penalty.

    Args:
        metric: a name of `metrics.METRICS`.
        tests: what to measure on; none: the dev set of the run that holds the model.
    Raises:
        DataError: there is no dev set.
    """
    translator = Translator.load(model_dir)
    tests = tests or _dev_sets(model_dir, translator)
    choices = []
    for beam in BEAMS:
        found = [
            translator.drafts(test.srcs, to=test.tgt, beam=beam, n_best=beam) for test in tests
        ]
        for alpha in ALPHAS:
            penalty = LengthPenalty(translator.cfg.decode.penalty, alpha)
            scores = []
            for test, drafts in zip(tests, found, strict=True):
                hyps = [_best_text(pieces, penalty, test.tgt) for pieces in drafts]
                scores.append(Scorer(test.tgt).score(hyps, test.refs, (metric,))[metric].score)
            choices.append(Choice(beam, alpha, mean(scores)))
    return Tuning(metric, choices, choose(choices))


def choose(choices: Sequence[Choice]) -> Choice:
    """The best of the smallest beam that is nearly as good as any."""
    highest = max(choice.score for choice in choices)
    good = [choice for choice in choices if choice.score >= highest - ENOUGH]
    smallest = min(choice.beam for choice in good)
    return max((c for c in good if c.beam == smallest), key=lambda choice: choice.score)


def write_choice(model_dir: Path, best: Choice) -> None:
    """Make a choice the model's own: its directory is replaced by one with that configuration."""
    loaded = load_model_dir(model_dir)
    decode = {"beam": best.beam, "length_penalty": best.length_penalty}
    cfg = loaded.config
    cfg = cfg.model_copy(update={"decode": cfg.decode.model_copy(update=decode)})
    kept = {k: v for k, v in loaded.metadata.items() if k not in ("format", "versions", "files")}
    if "decode" in kept:
        kept["decode"] = cfg.decode.model_dump()
    save_model_dir(model_dir, cfg, weights_of(loaded.model), model_dir, kept)


def _dev_sets(model_dir: Path, translator: Translator) -> list[EvaluationSet]:
    clean_dir = model_dir.parent / "data" / "clean"
    if not clean_dir.is_dir():
        raise DataError(f"{model_dir} does not lie in a run with a dev set; give --src and --ref")
    return read_dev_sets(clean_dir, translator.cfg.languages)


def _best_text(pieces: Sequence[Draft], penalty: LengthPenalty, tgt: str) -> str:
    """The hypothesis of each piece that ranks first, joined."""
    texts = []
    for draft in pieces:
        scores = [h.log_prob / penalty(max(1, len(h.ids) + h.complete)) for h in draft.hypotheses]
        texts.append(draft.texts[scores.index(max(scores))])
    return join_translations(texts, tgt)
