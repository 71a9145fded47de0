"""A sample of a source → whether its sides are in the languages that the configuration names.

Comes in: pairs from anywhere in the source. Goes out: sentences for people, with two pairs as they
stand. This file does not know single lines that are wrong: see `source_watch.py`.
"""

from collections.abc import Callable, Sequence

from transformer_mt.config.data import Languages
from transformer_mt.corpus.readers.pairs import Pair
from transformer_mt.messages.catalogue import tr
from transformer_mt.rendering.cells import clip
from transformer_mt.text.foreign_script import SideScripts, weigh
from transformer_mt.text.identify import identify, is_identified
from transformer_mt.text.languages import is_chinese, language_name
from transformer_mt.text.scripts import script_of

_SURE = 0.99  # probability of another language
_FEW = 0.2  # of the letters of a side: less than quotations and names
_WIDTH = 40  # columns of a text in a message


def whole_side_faults(
    sample: Sequence[Pair], languages: Languages, turned: Callable[[], str]
) -> list[str]:
    """At most one sentence: the sides look swapped, or in other languages.

    Args:
        turned: tells how the configuration names the source with its sides exchanged; nothing
            where names in the source would have to change.
    """
    pairs = [pair for pair in sample if all(pair)]
    if not pairs:
        return []
    codes = [languages.src, languages.tgt]
    texts = [list(side) for side in zip(*pairs, strict=True)]
    found = list(map(identify, texts))
    examples = "; ".join(f"{clip(src, _WIDTH)} | {clip(tgt, _WIDTH)}" for src, tgt in pairs[:2])
    both_chinese = all(map(is_chinese, codes))
    if found == codes[::-1] if both_chinese else _same(found, codes[::-1]):
        src, tgt = map(language_name, codes)
        swapped = tr("looks swapped: the {} side is {} and the {} side is {}, e.g. {}",
                   codes[0], tgt, codes[1], src, examples)  # fmt: skip
        if not (other := turned()):
            return [tr("{}; change the names of its sides", swapped)]
        return [
            tr("{}; write {} under data.train, or give tmt data check --src {} --tgt {}",
               swapped, other, codes[1], codes[0])
        ]  # fmt: skip
    faults = [
        fault for code, side in zip(codes, texts, strict=True) if (fault := _fault(code, side))
    ]
    if not faults:
        return []
    return [
        tr(
            "{}, e.g. {}; correct the languages, or leave the source out",
            tr(" and ").join(faults),
            examples,
        )
    ]


def carriage_returns(counts: Sequence[int], n_pairs: int) -> list[str]:
    """What is wrong with sides that hold more carriage returns than lines: those end the lines."""
    return [
        tr(
            "the {} side holds {:,} carriage returns (CR), more than it has lines ({:,}): the "
            "lines of the file seem to end with CR alone, and tmt reads LF and CR LF; convert it: "
            "tr '\\r' '\\n' < FILE > NEW",
            side,
            n,
            n_pairs,
        )
        for side, n in zip((tr("source"), tr("target")), counts, strict=True)
        if n > n_pairs
    ]


def _fault(code: str, texts: list[str]) -> str | None:
    """A side that is in another script, or surely in another language."""
    letters = script_of("\n".join(texts))
    scripts = SideScripts(code, None).own
    own, total = weigh(letters, scripts), weigh(letters)
    told = identify(texts, least=_SURE)
    looks = tr("looks {}", language_name(told)) if told else ""
    if any(scripts) and own < _FEW * total:
        share = tr("only {:.0%} of its letters are of {}", own / total, language_name(code))
        return (
            tr("the {} side {}: {}", code, looks, share)
            if told
            else tr("of the {} side {}", code, share)
        )
    if told and is_identified(code) and not _same([told], [code]):
        return tr("the {} side {}", code, looks)
    return None


def _same(found: Sequence[str | None], codes: Sequence[str]) -> bool:
    """Whether languages are the expected ones; both Chinese scripts are one."""
    return all(
        told is not None and (told == code or (is_chinese(told) and is_chinese(code)))
        for told, code in zip(found, codes, strict=True)
    )
