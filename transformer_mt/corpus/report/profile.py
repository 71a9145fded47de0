"""Pairs → statistics of the text: lengths, ratios, scripts, vocabulary.

This file does not know where the pairs are from, or how a tokenizer cuts them.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from transformer_mt.config.data import Languages
from transformer_mt.corpus.readers.pairs import Pair
from transformer_mt.text.languages import is_chinese, is_unspaced
from transformer_mt.text.scripts import Letters, script_of, traditional_share
from transformer_mt.text.words import WORD

# Half octaves in whole characters; the same for both sides and all corpora, so that they compare.
LENGTH_EDGES = [
    0, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128, 181, 256, 362, 512, 724, 1024, 1448,
]  # fmt: skip
# Quarter octaves, from a sixteenth to sixteen times as many characters on the target side.
RATIO_EDGES = [0.0, *(2 ** (k / 4) for k in range(-16, 17))]
QUANTILES = (1, 5, 25, 50, 75, 95, 99)

_WORD = re.compile(WORD)
_DIGIT = re.compile(r"\d")
# Of an address at most 64 characters are looked at before the @, or each letter of a long run would
# be the beginning of another attempt.
_URL = re.compile(r"https?://|\bwww\.|\w[\w.+-]{0,63}@[\w-]{1,255}\.\w", re.IGNORECASE)
_MARKUP = re.compile(
    r"</?[A-Za-z][^<>]*>|&(?:[A-Za-z]{2,8}|#x?[0-9A-Fa-f]{1,6});|\{\{|\}\}|\[\[|\]\]"
)


@dataclass(frozen=True)
class Histogram:
    """`counts[i]` values from `edges[i]` up to, not including, `edges[i + 1]`; the last is open."""

    edges: list[float]
    counts: list[int]


@dataclass(frozen=True)
class SideProfile:
    """Statistics of the text of one side; shares are of its lines unless said otherwise."""

    language: str
    characters: Histogram  # per line
    quantiles: dict[str, float]  # of the same: min, p1 … p99, max
    scripts: dict[str, float]  # shares of the letters, the largest first
    distinct_characters: int
    distinct_words: int | None  # None: the language writes no spaces between words
    with_digits: float
    with_urls: float
    with_markup: float
    # Chinese alone: shares of lines by characters that exist in one script only.
    chinese: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class ProfileReport:
    """Statistics of a sample of the clean pairs."""

    pairs: int  # in the sample
    src: SideProfile
    tgt: SideProfile
    ratio: Histogram  # target / source characters
    ratio_quantiles: dict[str, float]


@dataclass(frozen=True)
class VocabularyReport:
    """How a tokenizer, and the training text, cover the dev text of one side; shares are 0 to 1."""

    vocab_size: int
    unknown_rate: float  # of dev tokens
    byte_rate: float  # of dev tokens: pieces of characters outside the vocabulary
    tokens_per_word: float | None  # dev; None: no spaces between words
    tokens_per_character: float  # dev
    type_coverage: float  # distinct dev words (characters, without spaces) seen in training
    token_coverage: float  # running dev words (characters) seen in training


def profile(pairs: Sequence[Pair], languages: Languages) -> ProfileReport:
    """Describe a sample of at least one pair; about 20 µs per pair."""
    src, tgt = ([pair[side] for pair in pairs] for side in (0, 1))
    src_lengths, tgt_lengths = (np.array([len(text) for text in side]) for side in (src, tgt))
    ratios = tgt_lengths / np.maximum(src_lengths, 1)
    return ProfileReport(
        pairs=len(pairs),
        src=_side_profile(src, src_lengths, languages.src),
        tgt=_side_profile(tgt, tgt_lengths, languages.tgt),
        ratio=_histogram(ratios, RATIO_EDGES),
        ratio_quantiles=_quantiles(ratios),
    )


def _side_profile(texts: list[str], lengths: np.ndarray, code: str) -> SideProfile:
    together = "\n".join(texts)
    return SideProfile(
        language=code,
        characters=_histogram(lengths, LENGTH_EDGES),
        quantiles=_quantiles(lengths),
        scripts=_script_shares(script_of(together)),
        distinct_characters=len(set(together) - {"\n", " "}),
        distinct_words=None if is_unspaced(code) else len(_words(texts)),
        with_digits=_share(_DIGIT, texts),
        with_urls=_share(_URL, texts),
        with_markup=_share(_MARKUP, texts),
        chinese=_chinese_shares(texts) if is_chinese(code) else {},
    )


def word_counts(texts: Sequence[str], unspaced: bool) -> Counter[str]:
    """Words in lower case, or characters of unspaced scripts, by how often they occur."""
    if not unspaced:
        return _words(texts)
    return Counter(char for text in texts for char in text if not char.isspace())


def _words(texts: Sequence[str]) -> Counter[str]:
    return Counter(word for text in texts for word in _WORD.findall(text.lower()))


def _histogram(values: np.ndarray, edges: Sequence[float]) -> Histogram:
    # A hair below each edge: a ratio of exactly 2 must not fall beside its bin by rounding.
    places = np.searchsorted(np.array(edges) - 1e-9, values, side="right") - 1
    counts = np.bincount(places, minlength=len(edges)).tolist()
    return Histogram(list(map(float, edges)), counts)


def _quantiles(values: np.ndarray) -> dict[str, float]:
    found = np.percentile(values, [0, *QUANTILES, 100], method="nearest").tolist()
    names = ["min", *(f"p{q}" for q in QUANTILES), "max"]
    return {name: round(float(value), 3) for name, value in zip(names, found, strict=True)}


def _share(pattern: re.Pattern[str], texts: list[str]) -> float:
    return sum(pattern.search(text) is not None for text in texts) / len(texts)


def _script_shares(letters: Letters) -> dict[str, float]:
    """Shares of the letters by script, the largest first."""
    names = ("Han", "kana", "Hangul", "Latin", "other")
    total = max(1, sum(letters))
    shares = {name: n / total for name, n in zip(names, letters, strict=True) if n}
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


def _chinese_shares(texts: list[str]) -> dict[str, float]:
    """Shares of lines; `either`: no character tells."""
    names: dict[float | None, str] = {0: "simplified", 1: "traditional", None: "either"}
    counts = Counter(names.get(traditional_share(text), "mixed") for text in texts)
    order = ("simplified", "traditional", "mixed", "either")
    return {name: counts[name] / len(texts) for name in order}
