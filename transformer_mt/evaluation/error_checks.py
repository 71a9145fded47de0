"""One translation beside its source and its reference → its errors, a `CheckResult` per kind.

Each check excuses a fault that the reference has, too: a number that the reference leaves out is
not missed, a word that it repeats may be repeated. A translation without errors may still be wrong.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from transformer_mt.messages.catalogue import tr
from transformer_mt.text.languages import is_chinese, is_unspaced
from transformer_mt.text.numbers_and_markup import numbers_apart
from transformer_mt.text.scripts import script_of
from transformer_mt.text.words import words


@dataclass(frozen=True)
class Case:
    """A sentence; `src` may be empty, and its language "" if it is unknown."""

    src: str
    ref: str
    hyp: str
    src_language: str
    tgt_language: str


@dataclass(frozen=True)
class CheckResult:
    """The verdict of a check on a sentence that it applies to."""

    severity: float = 0.0  # 0: no error; the larger, the worse
    detail: str = ""  # the error in words


_FINE = CheckResult()
_HALF_WIDTH = {code: code - 0xFEE0 for code in (*range(0xFF10, 0xFF1A), 0xFF0C, 0xFF0E)}
# 第1，2，3章: it only groups thousands that are as wide.
_WIDE_COMMA = re.compile("(?<![０-９])，|，(?![０-９]{3})")
_NUMBER = re.compile(r"[0-9]+(?:[.,][0-9]+)*")
_GROUPED = re.compile("(?<![0-9.,])[1-9][0-9]{0,2}(?:[ \u00a0\u202f][0-9]{3})+(?![0-9])")
_DIGIT = re.compile(r"\d")
_SCALES = {
    "hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9,
    "百": 10**2, "千": 10**3, "万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8,
}  # fmt: skip
_SCALE = re.compile(rf"[\s\u3000]?({'|'.join(_SCALES)})", re.IGNORECASE | re.ASCII)
# Numbers that are looked for in words on both sides. 1 and 2 have too many: a, both, pair, again …;
# and 30 is found where 3 is, because zeros do not count in words.
_SPELT = [str(number) for number in range(3, 32) if number % 10]
_ADDRESS = re.compile(
    r"https?://[^\s<>\"'，。）)]*[\w/]|(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+", re.ASCII
)
_LATIN = re.compile(r"[A-Za-zÀ-ɏ][0-9A-Za-zÀ-ɏ]+")
_UNKNOWN = re.compile("⁇|<unk>|\N{REPLACEMENT CHARACTER}")
_LONGEST = 5000  # characters of a text that are read
_LONGEST_SEARCHED = 1000  # pieces in which repetitions are looked for


def numbers(case: Case) -> CheckResult | None:
    """Numbers of the source that the reference has and the translation has not.

    1,500,000, 1 500 000, 1.5 million and 150万 are the same, 3 and three, 32 and 三十二, in any
    width and script. Words are read in Chinese and English; elsewhere small ones may stand in
    words.
    """
    wide = (_WIDE_COMMA.sub(" ", text) for text in (case.src, case.ref, case.hyp))
    texts = [_plain_digits(text.translate(_HALF_WIDTH)) for text in wide]
    joined = {number for text in texts for number in _digits(text)}
    src, ref, hyp = (_without_spaces(text, joined) for text in texts)
    src_digits, ref_digits, hyp_digits = map(_digits, (src, ref, hyp))
    candidates = set(src_digits)
    if _reads_words(case.src_language):
        candidates |= _in_words(src, ref_digits, case.src_language)
        if _reads_words(case.tgt_language):
            candidates |= _in_words(src, _SPELT, case.src_language)
    wanted = candidates & ref_digits | _in_words(ref, candidates - ref_digits, case.tgt_language)
    if not wanted:
        return None
    missing = wanted - hyp_digits
    excused = _in_words(hyp, missing, case.tgt_language)
    if not _reads_words(case.tgt_language) and hyp_digits - src_digits - ref_digits:
        excused -= ref_digits  # it may stand in words; but another number stands in its place
    missing -= excused
    if not missing:
        return _FINE
    listed = sorted(missing, key=lambda number: (len(number), number))
    return CheckResult(len(missing), tr("without {}", ", ".join(listed)))


def _plain_digits(text: str) -> str:
    """With the digits of any script as 0 to 9."""
    return text if text.isascii() else _DIGIT.sub(lambda digit: str(int(digit[0])), text)


def _without_spaces(text: str, joined: set[str]) -> str:
    """With numbers whose thousands are apart as one; at a plain space, if `joined` has that one."""

    def one(match: re.Match[str]) -> str:
        number = "".join(match[0].split())
        return match[0] if " " in match[0] and number not in joined else number

    return _GROUPED.sub(one, text)


def _reads_words(language: str) -> bool:
    return is_chinese(language) or language == "en"


def _in_words(text: str, numbers: Iterable[str], language: str) -> set[str]:
    """The numbers that a text has in words; zeros at their ends do not count."""
    wanted, without_digits = list(numbers), re.sub("[0-9]", " ", text)
    if numbers_apart(" ".join(wanted), without_digits, "", language) == len(wanted):
        return set()  # none of them, as in most texts
    return {number for number in wanted if not numbers_apart(number, without_digits, "", language)}


def _digits(text: str) -> set[str]:
    """The numbers in digits, in one spelling: without separators, scales multiplied."""
    found = set()
    for match in _NUMBER.finditer(text):
        value, end = _value(match[0]), match.end()
        while scale := _SCALE.match(text, end):
            value, end = value * _SCALES[scale[1].lower()], scale.end()
        found.add(_plain(value))
    return found


def _value(number: str) -> Decimal:
    """1,500 and 1.500 are thousands; 1.5 and 1,50 have a fraction."""
    *groups, last = re.split("[.,]", number[:60])
    if groups and len(last) != 3:
        return Decimal(f"{''.join(groups)}.{last}")
    return Decimal("".join(groups) + last)


def _plain(value: Decimal) -> str:
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def names(case: Case) -> CheckResult | None:
    """Addresses and names in Latin letters that source and reference share, and not the other."""
    wanted = dict.fromkeys(_ADDRESS.findall(case.src))
    latin = dict.fromkeys(_LATIN.findall(_ADDRESS.sub(" ", case.src)))
    if script_of(case.src).latin > len(case.src) / 2:  # then names only, by their capital
        latin = {word: None for word in latin if word[0].isupper()}
    in_ref = set(_LATIN.findall(case.ref))
    wanted |= {word: None for word in latin if word in in_ref}
    wanted = {name: None for name in wanted if name in case.ref}
    if not wanted:
        return None
    lower = case.hyp.lower()
    missing = [name for name in wanted if name.lower() not in lower]
    return CheckResult(len(missing), tr("without {}", ", ".join(missing))) if missing else _FINE


def repetition(case: Case) -> CheckResult:
    """Repeated stretches, unless the reference repeats as much."""
    language = case.tgt_language
    hyp, ref = (_said_again(words(text, language), language) for text in (case.hyp, case.ref))
    if not hyp or len(hyp) <= len(ref):
        return _FINE
    again = ("" if is_unspaced(language) else " ").join(hyp[:20])
    return CheckResult(len(hyp) - len(ref), tr("again: {}", again))


def _said_again(pieces: list[str], language: str) -> list[str]:
    """The longest stretch that has stood before: at once and in full, or else a long one."""
    shortest, long = (4, 12) if is_unspaced(language) else (3, 6)
    pieces = pieces[:_LONGEST_SEARCHED]
    grams = Counter(zip(*(pieces[i:] for i in range(shortest)), strict=False))
    if max(grams.values(), default=0) < 2:
        return []
    longest, best_end = 0, 0
    for lag in range(1, len(pieces)):
        run = 0
        for end, (piece, before) in enumerate(zip(pieces[lag:], pieces, strict=False), lag + 1):
            run = run + 1 if piece == before else 0
            if run > longest and run >= (shortest if run >= lag else long):
                longest, best_end = run, end
    return pieces[best_end - longest : best_end]


def omission(case: Case) -> CheckResult:
    """Less than half as long as the reference, and by more than a few words."""
    n_hyp, n_ref, few, unit = _lengths(case)
    severe = n_hyp < n_ref / 2 and (n_ref - n_hyp >= few or not n_hyp)
    return CheckResult(n_ref - n_hyp, tr("{} for {} {}", n_hyp, n_ref, unit)) if severe else _FINE


def too_long(case: Case) -> CheckResult:
    """More than twice as long as the reference, and by more than a few words."""
    n_hyp, n_ref, few, unit = _lengths(case)
    severe = n_hyp > 2 * n_ref and n_hyp - n_ref >= few
    return CheckResult(n_hyp - n_ref, tr("{} for {} {}", n_hyp, n_ref, unit)) if severe else _FINE


def _lengths(case: Case) -> tuple[int, int, int, str]:
    """Of the translation and of the reference, a few of these units, and their name."""
    few, unit = (8, tr("characters")) if is_unspaced(case.tgt_language) else (5, tr("words"))
    n_hyp, n_ref = (len(words(text, case.tgt_language)) for text in (case.hyp, case.ref))
    return n_hyp, n_ref, few, unit


def unknown(case: Case) -> CheckResult:
    """Signs of characters outside of the vocabulary, unless the reference has them."""
    n = len(_UNKNOWN.findall(case.hyp)) - len(_UNKNOWN.findall(case.ref))
    return CheckResult(n, tr("{} unknown", n)) if n > 0 else _FINE


def untranslated(case: Case) -> CheckResult:
    """Words of the source copied, or Chinese characters where the reference has none."""
    tgt = case.tgt_language
    if not is_chinese(tgt) and tgt not in ("ja", "ko"):
        n_han = script_of(case.hyp).han
        if n_han and not script_of(case.ref).han:
            return CheckResult(n_han, tr("{} Chinese characters", n_han))
    src, ref, hyp = (Counter(words(text, tgt)) for text in (case.src, case.ref, case.hyp))
    copied, usual = (src & hyp).total(), (src & ref).total()
    n_words, unit = hyp.total(), tr("characters") if is_unspaced(tgt) else tr("words")
    if n_words >= 3 and copied >= 0.8 * n_words and copied - usual >= max(3, 0.5 * n_words):
        return CheckResult(copied, tr("{} of {} {} are the source's", copied, n_words, unit))
    return _FINE


Check = Callable[[Case], CheckResult | None]
CHECKS: dict[str, tuple[Check, str]] = {
    "numbers": (numbers, tr("numbers of source and reference that the translation lacks")),
    "names": (names, tr("names and addresses that the reference copies and the translation lacks")),
    "repetition": (repetition, tr("stretches said again, beyond the reference")),
    "omission": (omission, tr("less than half as long as the reference")),
    "too long": (too_long, tr("more than twice as long as the reference")),
    "unknown": (unknown, tr("signs of unknown characters")),
    "untranslated": (untranslated, tr("the source instead of its translation")),
}


def check_sentences(cases: Sequence[Case]) -> dict[str, dict[int, CheckResult]]:
    """Every check on every sentence, of which the first 5000 characters are read.

    Returns:
        Kind of error → index of the sentence → result, where the check applies.
    """
    found: dict[str, dict[int, CheckResult]] = {}
    readable = [
        replace(case, src=case.src[:_LONGEST], ref=case.ref[:_LONGEST], hyp=case.hyp[:_LONGEST])
        for case in cases
    ]
    for kind, (check, _) in CHECKS.items():
        verdicts = ((i, check(case)) for i, case in enumerate(readable))
        found[kind] = {i: verdict for i, verdict in verdicts if verdict is not None}
    return found
