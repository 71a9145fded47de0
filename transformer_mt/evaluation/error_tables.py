"""Translations of a test set beside their references → tables of what goes wrong, and where.

Comes in: sentences, and how often training saw each word. Goes out: counts by kind of error, scores
by length of the source, recall of words by their frequency. This file knows strings only: no model,
no page.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from transformer_mt.corpus.readers.pairs import split_lines
from transformer_mt.evaluation.error_checks import CHECKS, Finding
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
        of: sentences that could have it, such as those with a number.
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
    frequency_basis: str  # what the words were counted in

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def count_errors(findings: Mapping[str, Mapping[int, Finding]]) -> list[ErrorCount]:
    """The result of `check_sentences`, counted."""
    counts = []
    for kind, (_, meaning) in CHECKS.items():
        wrong = {i: found for i, found in findings[kind].items() if found.severity > 0}
        worst = sorted(wrong, key=lambda i: -wrong[i].severity)[:N_WORST]
        counts.append(ErrorCount(kind, meaning, len(wrong), len(findings[kind]), worst))
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
        rows[names[sum(length > start for start in starts) - 1]].append(i)
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
    buckets = []
    for low, high in zip(FREQUENCIES, (*FREQUENCIES[1:], None), strict=True):
        inside = [
            word
            for word in n_words
            if low <= frequencies.get(word, 0) and (high is None or frequencies.get(word, 0) < high)
        ]
        if inside:
            n, missed = (sum(count[word] for word in inside) for count in (n_words, n_missed))
            most = sorted(inside, key=lambda word: -n_missed[word])[: 2 * N_WORST]
            names = [word for word in most if n_missed[word]]
            buckets.append(FrequencyBucket(_range(low, high), n, n - missed, names))
    return buckets


def _range(low: int, high: int | None) -> str:
    if high is None:
        return f"{low} and more"
    return str(low) if high == low + 1 else f"{low}–{high - 1}"


def count_words(lines: Iterable[str], wanted: Iterable[str], language: str) -> Counter[str]:
    """How often each of the wanted words stands in a text."""
    known = set(wanted)
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(word for word in words(line, language) if word in known)
    return counts


def word_frequencies(
    refs: Sequence[str], training_path: Path | None, language: str
) -> tuple[Counter[str], str]:
    """Frequencies of the words of references in the training text, or else in themselves.

    Args:
        training_path: text in the target language, or None; long ones are read from the start only.
    Returns:
        The counts, and what they are of.
    """
    vocabulary = {word for ref in refs for word in words(ref, language)}
    if training_path is None:
        return count_words(refs, vocabulary, language), "the references (no training text at hand)"
    lines = islice(split_lines(training_path), MAX_TRAINING_LINES)
    counts = count_words(lines, vocabulary, language)
    return counts, f"the training text (its first {MAX_TRAINING_LINES:,} lines at most)"
