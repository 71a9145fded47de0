"""Translations and references → BLEU, chrF and TER with sacreBLEU's signatures and significance.

Comes in: detokenised text, one reference for each translation. Goes out: `Score`s and their tables.
This file does not know the origin of the translations.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

from transformer_mt.errors import ConfigError, DataError
from transformer_mt.messages.catalogue import tr
from transformer_mt.rendering.cells import align_columns
from transformer_mt.system.terminal import columns_of, folded
from transformer_mt.text.languages import is_chinese, is_unspaced, language_name

METRICS = ("bleu", "chrf", "chrf++", "ter", "spbleu")
DEFAULT_METRICS = ("bleu", "chrf")
SIGNIFICANT = 0.05  # a p-value below it is worth a mark
_SHORTEST_NAME = 6  # columns of a system's name where there is little room
_INTERVAL = tr("95 % interval")
_SPBLEU_TOKENIZER = "flores200"  # one vocabulary for 200 languages
# Languages whose words sacreBLEU cuts with an extra package: code → (tokenizer, module, extra).
_WORD_CUTTERS = {"ja": ("ja-mecab", "MeCab", "ja"), "ko": ("ko-mecab", "mecab_ko", "ko")}


@dataclass(frozen=True)
class Score:
    """One metric of one corpus."""

    name: str  # as sacreBLEU writes it: BLEU, chrF2, TER
    score: float  # BLEU and chrF in [0, 100], higher is better; TER from 0, lower is better
    signature: str  # everything that must agree before two scores may be compared
    # 95 % confidence: mean of the bootstrap samples ± half the width of their middle 95 %.
    low: float | None = None
    high: float | None = None
    difference: float | None = None  # to the score of the baseline
    p_value: float | None = None  # how often chance alone would make such a difference, in (0, 1]

    @property
    def interval(self) -> str:
        """The bounds as people read them, or nothing."""
        return "" if self.low is None else f"{self.low:.2f} … {self.high:.2f}"

    @property
    def is_significant(self) -> bool:
        return self.p_value is not None and self.p_value < SIGNIFICANT

    def to_json(self) -> dict[str, float | str]:
        known = {name: value for name, value in vars(self).items() if value is not None}
        del known["name"]
        return known


SystemScores = dict[str, dict[str, Score]]  # system → metric → score


def scores_to_json(scores: Mapping[str, SystemScores]) -> dict[str, Any]:
    """Test set → system → metric → the score as plain values."""
    return {
        test: {name: {m: s.to_json() for m, s in own.items()} for name, own in systems.items()}
        for test, systems in scores.items()
    }


class Scorer:
    """Scores translations into one language; validation, `tmt eval` and reports share it.

    BLEU cuts words by the sacreBLEU tokenizer `tokenize`; `note` is a remark on this choice.
    """

    def __init__(self, tgt_language: str) -> None:
        self._language = tgt_language
        self.tokenize, self.note = _tokenizer_for(tgt_language)

    def score(
        self,
        hyps: Sequence[str],
        refs: Sequence[str],
        metrics: Iterable[str] = DEFAULT_METRICS,
    ) -> dict[str, Score]:
        """Score a corpus by some of `METRICS`, in their order.

        Raises:
            DataError: unequal counts, or nothing to score.
            ConfigError: unknown metric.
        """
        _check_aligned(hyps, refs)
        scores = {}
        for name in metrics:
            metric = self._metric(name)
            found = metric.corpus_score(list(hyps), [list(refs)])
            signature = str(metric.get_signature())
            scores[name] = Score(_name_of(name, found.name), found.score, signature)
        return scores

    def check(self, metrics: Iterable[str]) -> None:
        """Raises: ConfigError: a metric that `score` would not take."""
        for name in metrics:
            self._metric(name)

    def compare(
        self,
        outputs: Mapping[str, Sequence[str]],
        refs: Sequence[str],
        metrics: Iterable[str] = DEFAULT_METRICS,
        *,
        n: int,
    ) -> SystemScores:
        """`score` with intervals; systems beside the first are compared with it.

        The test is the paired bootstrap. All systems are resampled with the same sentences, so
        their intervals agree with each other. The p-values hold for single comparisons: with many
        systems, some will be small by chance. The seed is sacreBLEU's: 12345, or the environment
        variable SACREBLEU_SEED.

        Source: Koehn 2004; sacreBLEU's `PairedTest`.
        Args:
            outputs: translations by name of the system; the first is the baseline.
            n: bootstrap samples; the smallest possible p-value is 1 / (n + 1). All are in memory
                at once: 1000 of 2000 lines take about 150 MB.
        """
        from sacrebleu.significance import PairedTest

        for hyps in outputs.values():
            _check_aligned(hyps, refs)
        systems: list[tuple[str, Sequence[str]]] = list(outputs.items())
        scores: SystemScores = {system: {} for system in outputs}
        for name in metrics:
            test = PairedTest(
                systems, {name: self._metric(name)}, [list(refs)], test_type="bs", n_samples=n
            )
            signatures, columns = test()
            ((shown, signature),) = signatures.items()
            results: list[Any] = columns[shown]
            for (system, hyps), result in zip(systems, results, strict=True):
                low, high = float(result.mean - result.ci), float(result.mean + result.ci)
                label, value = _name_of(name, shown), float(result.score)
                score = Score(label, value, str(signature), low, high)
                if result is not results[0]:
                    same = list(hyps) == list(systems[0][1]) or _is_same(result, results[0])
                    p_value = 1.0 if same else result.p_value
                    difference = value - float(results[0].score)
                    score = replace(score, difference=difference, p_value=p_value)
                scores[system][name] = score
        return scores

    def sentence_chrf(self, hyps: Sequence[str], refs: Sequence[str]) -> list[float]:
        """chrF of each sentence by itself: for looking at sentences, not for reports of systems."""
        metric = self._metric("chrf")
        pairs = zip(hyps, refs, strict=True)
        return [metric.sentence_score(hyp, [ref]).score for hyp, ref in pairs]

    def _metric(self, name: str) -> Any:
        """A fresh sacreBLEU metric: a used one keeps the bootstrap in its signature.

        Raises:
            ConfigError: unknown, not for this language, or its vocabulary cannot be had.
        """
        from sacrebleu.metrics import BLEU, CHRF, TER

        if name == "bleu":
            return BLEU(tokenize=self.tokenize)
        if name in ("chrf", "chrf++"):
            return CHRF(word_order=2 if name == "chrf++" else 0)
        if name == "spbleu":
            return _spbleu()
        if name != "ter":
            raise ConfigError(tr("unknown metric {!r}: use {}", name, ", ".join(METRICS)))
        # TER counts words; for Chinese and Japanese it can count characters instead.
        cjk = is_chinese(self._language) or self._language == "ja"
        if is_unspaced(self._language) and not cjk:
            raise ConfigError(
                tr(
                    "ter needs words, but {} is written without spaces; use bleu "
                    "(counted in characters) or chrf",
                    language_name(self._language),
                )
            )
        return TER(normalized=cjk, asian_support=cjk)


def _is_same(first: Any, second: Any) -> bool:
    """Whether no sample differs, to which sacreBLEU gives its smallest p-value."""
    return all(getattr(first, name) == getattr(second, name) for name in ("score", "mean", "ci"))


def share_score(name: str, n_right: int, n: int) -> Score:
    """A share of `n` trials in per cent, with its 95 % interval.

    Source: Wilson 1927; it stays within [0, 100] and has a width at 0 and at 100, too.
    """
    z = 1.959964  # 97.5 % of the normal distribution lie below
    share, spread = n_right / n, z * z / n
    middle = (share + spread / 2) / (1 + spread)
    half = math.sqrt(share * (1 - share) * spread + spread * spread / 4) / (1 + spread)
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    return Score(name, 100 * share, f"n:{n}|interval:wilson", 100 * low, 100 * high)


def format_table(results: Mapping[str, Mapping[str, Score]]) -> str:
    """Lay scores out in aligned columns for a terminal; {test set: {metric: Score}} in order."""
    scores = [(test, score) for test, row in results.items() for score in row.values()]
    columns = ["interval"] if any(score.interval for _, score in scores) else []
    interval = [_INTERVAL for _ in columns]
    rows = [[tr("test set"), tr("metric"), tr("score"), *interval, tr("signature")]]
    for test, score in scores:
        bounds = [score.interval or "–" for _ in columns]
        rows.append([test, score.name, f"{score.score:.2f}", *bounds, score.signature])
    return align_columns(rows, numbers=(2,))


def score_rows(results: Mapping[str, SystemScores]) -> Iterator[tuple[str, str, Score]]:
    """Test set, system and score, systems of the same test set and metric below each other."""
    for test, systems in results.items():
        for metric in dict.fromkeys(name for scores in systems.values() for name in scores):
            for system, scores in systems.items():
                if metric in scores:
                    yield test, system, scores[metric]


def format_comparison(results: Mapping[str, SystemScores]) -> str:
    """Lay {test set: {system: {metric: Score}}} out for a terminal, signatures below."""
    head = [tr("test set"), tr("metric"), tr("system"), tr("score")]
    rows = [[*head, _INTERVAL, tr("difference"), "p", ""]]
    signatures: dict[str, None] = {}
    for test, system, score in score_rows(results):
        cells = [test, score.name, system, f"{score.score:.2f}", score.interval or "–"]
        if score.p_value is None:
            cells += ["", "", ""]
        else:
            star = "*" if score.is_significant else ""
            cells += [f"{score.difference:+.2f}", f"{score.p_value:.3f}", star]
        rows.append(cells)
        signatures[f"{score.name}: {score.signature}"] = None
    return "\n".join([align_columns(rows, numbers=(3, 5, 6)), "", *signatures])


def _name_of(metric: str, name: str) -> str:
    """sacreBLEU's name, except for spBLEU, which it calls BLEU."""
    return "spBLEU" if metric == "spbleu" else name


def _spbleu() -> Any:
    """BLEU over the pieces of sacreBLEU's multilingual vocabulary, which it fetches once."""
    from sacrebleu.metrics import BLEU
    from sacrebleu.utils import SACREBLEU_DIR

    try:
        return BLEU(tokenize=_SPBLEU_TOKENIZER)
    except (OSError, RuntimeError, SystemExit) as error:  # it exits where TLS fails
        raise ConfigError(
            tr(
                "spbleu needs sacreBLEU's tokenizer {}, whose model could not be "
                "fetched or read ({}); run this command once with a network, or copy "
                "{}/models from a machine that has it",
                _SPBLEU_TOKENIZER,
                error,
                SACREBLEU_DIR,
            )
        ) from error


def _tokenizer_for(language: str) -> tuple[str, str | None]:
    """The sacreBLEU tokenizer that fits a language, and a note if it is only second best."""
    if is_chinese(language):
        return "zh", None
    if language in _WORD_CUTTERS:
        name, module, extra = _WORD_CUTTERS[language]
        if find_spec(module):
            return name, None
        return "char", (
            tr(
                "BLEU is counted in characters, because {} is not installed (pip "
                "install 'sacrebleu[{}]'): not comparable with published scores",
                name,
                extra,
            )
        )
    if is_unspaced(language):
        return "char", (
            tr(
                "BLEU is counted in characters: {} is written without spaces",
                language_name(language),
            )
        )
    return "13a", None


def _check_aligned(hyps: Sequence[str], refs: Sequence[str]) -> None:
    if len(hyps) != len(refs):
        raise DataError(
            tr(
                "{} translations but {} references: each line needs its reference",
                len(hyps),
                len(refs),
            )
        )
    if not hyps:
        raise DataError(tr("there is nothing to score: no translations and no references"))


def fit_scores(scores: Mapping[str, Mapping[str, Score]], width: int | None) -> str:
    """`format_table` for a terminal: signatures stand below the table where it would be too wide.

    Args:
        width: columns; None: no limit.
    """
    text = format_table(scores)
    if width is None or max(map(columns_of, text.split("\n"))) <= width:
        return text
    found = dict.fromkeys(score.signature for row in scores.values() for score in row.values())
    marks = {signature: f"[{i}]" for i, signature in enumerate(found, 1)}
    marked = {
        test: {
            name: replace(score, signature=marks[score.signature]) for name, score in row.items()
        }
        for test, row in scores.items()
    }
    notes = [f"{mark} {signature}" for signature, mark in marks.items()]
    return folded("\n".join([format_table(marked), "", *notes]), width)


def fit_comparison(scores: Mapping[str, SystemScores], width: int | None) -> str:
    """`format_comparison` for a terminal: names of systems lose their beginnings where needed.

    Args:
        width: columns; None: no limit.
    """
    text = format_comparison(scores)
    if width is None:
        return text
    table = text.partition("\n\n")[0]
    names = {name for systems in scores.values() for name in systems}
    excess = max(map(columns_of, table.split("\n"))) - width
    if excess > 0:
        room = max(_SHORTEST_NAME, max(map(len, names)) - excess)
        short = {name: name if len(name) <= room else f"…{name[1 - room :]}" for name in names}
        if len({*short.values()}) == len(names):
            text = format_comparison(
                {
                    test: {short[name]: own for name, own in systems.items()}
                    for test, systems in scores.items()
                }
            )
    return folded(text, width)
