"""Translations of a test set beside their references → tables of their errors.

Comes in: sentences, and the frequency of each word in training. Goes out: counts by kind of error,
scores by length of the source, recall of words by frequency. This file knows strings only.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from transformer_mt.corpus.readers.lines import split_lines
from transformer_mt.evaluation.error_checks import CHECKS, CheckResult
from transformer_mt.evaluation.metrics import Scorer
from transformer_mt.text.languages import is_unspaced
from transformer_mt.text.words import words

LENGTHS = (0, 5, 10, 20, 30, 50)  # words of a source; a bucket ends with the next number
_CHARACTERS_PER_WORD = 2  # in languages without spaces, roughly
FREQUENCIES = (0, 1, 2, 10, 100, 1000)  # a bucket begins with its number
N_WORST = 5
MAX_TRAINING_LINES = 1_000_000  # in which words are counted


@dataclass(frozen=True)
class ErrorCount:
    """One kind of error.

    Attributes:
        n: sentences with it.
        of: sentences that could have it: for `numbers`, sentences with a number.
        worst: indices of some of them, the worst first.
    """

    kind: str
    meaning: str
    n: int
    of: int
    worst: list[int]


@dataclass(frozen=True)
class LengthBucket:
    name: str  # 6–10
    n: int
    bleu: float
    chrf: float


@dataclass(frozen=True)
class FrequencyBucket:
    """Words of the references that training saw about equally often.

    Attributes:
        n: occurrences in the references.
        found: how many of them are in the translation of the same sentence.
        missed: the words that are missed most often.
    """

    name: str  # 2–9
    n: int
    found: int
    missed: list[str]


@dataclass(frozen=True)
class ErrorTables:
    errors: list[ErrorCount]
    lengths: list[LengthBucket]
    length_unit: str  # words or characters
    frequencies: list[FrequencyBucket]
    frequency_basis: str  # the text that the words were counted in

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def count_errors(results: Mapping[str, Mapping[int, CheckResult]]) -> list[ErrorCount]:
    """The result of `check_sentences`, counted."""
    counts = []
    for kind, (_, meaning) in CHECKS.items():
        wrong = {i: found for i, found in results[kind].items() if found.severity > 0}
        worst = sorted(wrong, key=lambda i: -wrong[i].severity)[:N_WORST]
        counts.append(ErrorCount(kind, meaning, len(wrong), len(results[kind]), worst))
    return counts


def score_by_length(
    srcs: Sequence[str], hyps: Sequence[str], refs: Sequence[str], language: str, scorer: Scorer
) -> list[LengthBucket]:
    """Scores of the sentences whose sources are of about the same length; empty ones left out.

    Args:
        language: of the sources; without spaces, buckets count characters, twice as many.
        scorer: for the target language.
    """
    per_word = _CHARACTERS_PER_WORD if is_unspaced(language) else 1
    starts = [per_word * start for start in LENGTHS]
    names = [f"{low + 1}–{high}" for low, high in pairwise(starts)]
    names.append(f"over {starts[-1]}")
    rows: dict[str, list[int]] = {name: [] for name in names}
    for i, src in enumerate(srcs):
        length = max(1, len(words(src, language)))
        rows[names[bisect_left(starts, length) - 1]].append(i)
    buckets = []
    for name, chosen in rows.items():
        if chosen:
            scores = scorer.score([hyps[i] for i in chosen], [refs[i] for i in chosen])
            bleu, chrf = scores["bleu"].score, scores["chrf"].score
            buckets.append(LengthBucket(name, len(chosen), bleu, chrf))
    return buckets


def recall_by_frequency(
    hyps: Sequence[str], refs: Sequence[str], frequencies: Mapping[str, int], language: str
) -> list[FrequencyBucket]:
    """How many words of the references the translations have, by how often training saw them."""
    n_words: Counter[str] = Counter()
    n_missed: Counter[str] = Counter()
    for hyp, ref in zip(hyps, refs, strict=True):
        wanted = Counter(words(ref, language))
        n_words += wanted
        n_missed += wanted - Counter(words(hyp, language))
    names = [str(a) if b == a + 1 else f"{a}–{b - 1}" for a, b in pairwise(FREQUENCIES)]
    names.append(f"{FREQUENCIES[-1]} and more")
    inside: dict[str, list[str]] = {name: [] for name in names}
    for word in n_words:
        inside[names[bisect_right(FREQUENCIES, frequencies.get(word, 0)) - 1]].append(word)
    buckets = []
    for name, chosen in inside.items():
        if chosen:
            n, missed = (sum(count[word] for word in chosen) for count in (n_words, n_missed))
            most = sorted(chosen, key=lambda word: -n_missed[word])[: 2 * N_WORST]
            most = [word for word in most if n_missed[word]]
            buckets.append(FrequencyBucket(name, n, n - missed, most))
    return buckets


def word_frequencies(
    refs: Sequence[str], training_path: Path | None, language: str
) -> tuple[Counter[str], str]:
    """Frequencies of the words of references in the training text, or else in themselves.

    Args:
        training_path: text in the target language, or None; a long one is read from the start only.
    Returns:
        The counts, and the name of the text that they are of.
    """
    vocabulary = {word for ref in refs for word in words(ref, language)}
    lines, basis = iter(refs), "the references (no training text at hand)"
    if training_path is not None:
        lines = islice(split_lines(training_path), MAX_TRAINING_LINES)
        basis = f"the training text (its first {MAX_TRAINING_LINES:,} lines at most)"
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(word for word in words(line, language) if word in vocabulary)
    return counts, basis
