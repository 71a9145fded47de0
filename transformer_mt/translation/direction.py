"""The direction of a translation: the language to read and the language to write.

A model of one direction has one answer; one of both directions needs to be told, unless one of its
languages is Chinese and the script of the text tells.
"""

import re
from pathlib import Path

from transformer_mt.config.data import Languages
from transformer_mt.errors import TmtError
from transformer_mt.messages.catalogue import tr
from transformer_mt.text.languages import canonical_code, is_chinese
from transformer_mt.text.scripts import script_of

_WRITTEN_IN_HAN = {"ja", "yue", "wuu", "lzh", "hak", "gan"}  # as Chinese is
_WORD = re.compile(r"[^\W\d_]+")


def direction_of(text: str, languages: Languages, to: str | None) -> Languages:
    """The languages of a model in the order in which they are to be used for a text.

    Args:
        to: any spelling of the language to translate into; None: what follows from the rest.
    Raises:
        TmtError: the model does not write `to`, or nothing tells the direction.
    """
    if to is not None:
        code = canonical_code(to)
        if code == languages.tgt:
            return languages
        if code == languages.src and languages.bidirectional:
            return languages.reversed()
        arrow = "↔" if languages.bidirectional else "→"
        pair = f"{languages.src} {arrow} {languages.tgt}"
        raise TmtError(tr("--to {}: this model translates {} only", to, pair))
    if not languages.bidirectional:
        return languages
    return languages if _source_is_first(text, languages) else languages.reversed()


def direction_of_file(path: Path, languages: Languages, to: str | None) -> Languages:
    """The one direction of all lines of a file; raises `TmtError` as `direction_of`."""
    if languages.bidirectional and to is None:
        raise TmtError(f"{path}: {_say_which(languages)}")
    return direction_of("", languages, to)


def both_directions(languages: Languages) -> list[Languages]:
    """Every direction of a model, that of the configuration first."""
    return [languages, languages.reversed()] if languages.bidirectional else [languages]


def _source_is_first(text: str, languages: Languages) -> bool:
    """Whether a text is in the first language of a pair, of which one is Chinese."""
    chinese = [is_chinese(code) for code in (languages.src, languages.tgt)]
    if sum(chinese) != 1 or not _WRITTEN_IN_HAN.isdisjoint((languages.src, languages.tgt)):
        raise TmtError(_say_which(languages))
    # 用 Python 写: a foreign name is one word, however many letters it has.
    n_han = script_of(text).han
    n_words = sum(script_of(word).han == 0 for word in _WORD.findall(text)) if n_han else 1
    return chinese[0] == (n_han >= n_words)


def _say_which(languages: Languages) -> str:
    pair = languages.src, languages.tgt
    return tr(
        "this model translates {} ↔ {}: say into which of them, --to {} or --to {}", *pair, *pair
    )
