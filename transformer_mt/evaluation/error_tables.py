"""Translations of a test set beside their references → tables of their errors.

Rows are plain values, as report.json has them. This file knows strings only.
"""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from transformer_mt.corpus.readers.lines import split_lines
from transformer_mt.evaluation.error_checks import CHECKS, CheckResult
from transformer_mt.evaluation.metrics import Scorer
from transformer_mt.messages.catalogue import tr
from transformer_mt.text.languages import is_unspaced
from transformer_mt.text.words import words

LENGTHS = (0, 5, 10, 20, 30, 50)  # words of a source; a bucket ends with the next number
_CHARACTERS_PER_WORD = 2  # in languages without spaces, roughly
FREQUENCIES = (0, 1, 2, 10, 100, 1000)  # a bucket begins with its number
N_WORST = 5
MAX_TRAINING_LINES = 1_000_000  # in which words are counted

Rows = list[dict[str, Any]]


def count_errors(results: Mapping[str, Mapping[int, CheckResult]]) -> Rows:
    """By kind: `n` sentences with the error, `of` those that could have it, the `worst` of them."""
    counts = []
    for kind, (_, meaning) in CHECKS.items():
        wrong = {i: found for i, found in results[kind].items() if found.severity > 0}
        worst = sorted(wrong, key=lambda i: -wrong[i].severity)[:N_WORST]
        found = {"n": len(wrong), "of": len(results[kind]), "worst": worst}
        counts.append({"kind": kind, "meaning": meaning, **found})
    return counts


def score_by_length(
    srcs: Sequence[str], hyps: Sequence[str], refs: Sequence[str], language: str, scorer: Scorer
) -> Rows:
    """BLEU and chrF of the sentences whose sources, in `language`, are of about the same length.

    Without spaces, buckets count characters, twice as many.
    """
    per_word = _CHARACTERS_PER_WORD if is_unspaced(language) else 1
    starts = [per_word * start for start in LENGTHS]
    names = [*(f"{low + 1}–{high}" for low, high in pairwise(starts)), tr("over {}", starts[-1])]
    rows: dict[int, list[int]] = defaultdict(list)
    for i, src in enumerate(srcs):
        rows[bisect_left(starts, max(1, len(words(src, language)))) - 1].append(i)
    buckets = []
    for bucket, chosen in sorted(rows.items()):
        scores = scorer.score([hyps[i] for i in chosen], [refs[i] for i in chosen])
        values = {metric: score.score for metric, score in scores.items()}
        buckets.append({"name": names[bucket], "n": len(chosen), **values})
    return buckets


def recall_by_frequency(
    hyps: Sequence[str], refs: Sequence[str], frequencies: Mapping[str, int], language: str
) -> Rows:
    """How many words of the references the translations have, by how often training saw them.

    A bucket has `n` occurrences in the references, of which so many are `found` in the translation
    of the same sentence, and the words that are `missed` most often.
    """
    n_words: Counter[str] = Counter()
    n_missed: Counter[str] = Counter()
    for hyp, ref in zip(hyps, refs, strict=True):
        wanted = Counter(words(ref, language))
        n_words += wanted
        n_missed += wanted - Counter(words(hyp, language))
    names = [str(a) if b == a + 1 else f"{a}–{b - 1}" for a, b in pairwise(FREQUENCIES)]
    names.append(tr("{} and more", FREQUENCIES[-1]))
    inside: dict[int, list[str]] = defaultdict(list)
    for word in n_words:
        inside[bisect_right(FREQUENCIES, frequencies.get(word, 0)) - 1].append(word)
    buckets = []
    for bucket, chosen in sorted(inside.items()):
        n, missed = (sum(count[word] for word in chosen) for count in (n_words, n_missed))
        most = sorted(chosen, key=lambda word: -n_missed[word])[: 2 * N_WORST]
        most = [word for word in most if n_missed[word]]
        buckets.append({"name": names[bucket], "n": n, "found": n - missed, "missed": most})
    return buckets


def word_frequencies(
    refs: Sequence[str], training_path: Path | None, language: str
) -> tuple[Counter[str], str]:
    """Frequencies of the words of references in the training text, or else in themselves.

    Of a long text the beginning is read. The name of the text stands beside the counts.
    """
    vocabulary = {word for ref in refs for word in words(ref, language)}
    lines, basis = iter(refs), tr("the references (no training text at hand)")
    if training_path is not None:
        lines = islice(split_lines(training_path), MAX_TRAINING_LINES)
        basis = tr("the training text (its first {:,} lines at most)", MAX_TRAINING_LINES)
    counts = Counter(word for line in lines for word in words(line, language) if word in vocabulary)
    return counts, basis
