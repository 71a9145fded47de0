"""Whether a model can know a text: its characters, its words, its script.

Comes in: source texts as the model reads them. Goes out: shares of the unknown, and notes for
people. This file knows neither the model nor its translations.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from transformer_mt.messages.catalogue import tr
from transformer_mt.text.foreign_script import SideScripts, weigh
from transformer_mt.text.known_units import KnownUnits
from transformer_mt.text.languages import is_chinese, language_name
from transformer_mt.text.scripts import Letters, script_of

_OWN = 0.5  # of the letters, at least, are of scripts that the language is written in
_KANA = 0.2  # of the letters of Chinese, at most
_SPELLED = 0.3  # of the tokens of a text, at most, are bytes of characters without a token
_SCRIPTS = {"han": tr("Chinese characters"), "kana": tr("kana"),
            "hangul": tr("Hangul"), "latin": tr("Latin letters"), 
            "other": tr("letters of another script")}  # fmt: skip


@dataclass(frozen=True)
class InputCheck:
    """How a text looks to a model.

    Attributes:
        unknown_words: share of words, or of characters and their pairs, that the training text had
            not.
        unknown_characters: share of the tokens that spell characters the vocabulary has not.
        notes: what is strange; empty for a usual text.
    """

    unknown_words: float = 0.0
    unknown_characters: float = 0.0
    notes: tuple[str, ...] = ()


USUAL = InputCheck()


def check_inputs(
    texts: Sequence[str],
    read: Sequence[str],
    languages: Sequence[str],
    spelled: Sequence[float],
    known: KnownUnits | None,
) -> list[InputCheck]:
    """Look at source texts.

    Args:
        texts: normalised; empty ones are usual.
        read: the same as the model reads them: Traditional characters converted, if it knows none.
        languages: the language that each is to be in.
        spelled: share of the tokens of each that are bytes.
        known: units of the training text; None: a model that has none stored.
    """
    shares = [0.0] * len(texts) if known is None else known.unknown_shares(list(read)).tolist()
    threshold = 1.0 if known is None else known.threshold
    return [
        _check(*row, threshold) if row[0] else USUAL
        for row in zip(texts, read, languages, spelled, shares, strict=True)
    ]


def _check(
    text: str, read: str, language: str, spelled: float, unknown: float, threshold: float
) -> InputCheck:
    notes = []
    if text != read and language == "zh":
        notes.append(tr("Traditional Chinese, read as Simplified"))
    letters = script_of(text)
    if script := _foreign_script(letters, language):
        notes.append(
            tr("mostly {}, and this model reads {}", _SCRIPTS[script], language_name(language))
        )
    elif not any(letters) and not any(map(str.isdigit, text)):
        notes.append(tr("holds no words"))
    if unknown > threshold:
        if letters.han:
            note = tr(
                "{:.0%} of its characters and pairs of them were never seen in training", unknown
            )
        else:
            note = tr("{:.0%} of its words were never seen in training", unknown)
        notes.append(note)
    if spelled > _SPELLED:
        notes.append(
            tr("{:.0%} of its tokens spell characters that the vocabulary has not", spelled)
        )
    return InputCheck(round(unknown, 4), round(spelled, 4), tuple(notes))


def _foreign_script(letters: Letters, language: str) -> str | None:
    """The script that most letters are of, if the language is not written in it."""
    own = SideScripts(language, None).own
    total = weigh(letters)
    if not total or not any(own):
        return None
    if is_chinese(language) and letters.kana > _KANA * (letters.kana + letters.han):
        return "kana"
    if weigh(letters, own) >= _OWN * total:
        return None
    foreign = {field: getattr(letters, field) for field in Letters._fields}
    return max((f for f in foreign if not getattr(own, f)), key=foreign.__getitem__)
