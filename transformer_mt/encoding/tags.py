"""Marks before a source sentence: which language is wanted, and what kind of corpus it is from.

The tokenizer knows the marks as pieces of their own. No text is ever encoded as a mark, even if it
spells one.
"""

from dataclasses import dataclass

from transformer_mt.config.experiment import Config
from transformer_mt.encoding.tokenizer import Tokenizer

Ids = tuple[int, ...]


def language_tag(code: str) -> str:
    """The piece that asks a bidirectional model for a language: `<2en>`."""
    return f"<2{code}>"


def tag_pieces(cfg: Config) -> list[str]:
    """Every mark that the source tokenizer of an experiment must know; no order of keys matters."""
    languages = cfg.languages
    codes = sorted((languages.src, languages.tgt)) if languages.bidirectional else []
    names = sorted({source.tag for source in cfg.data.train if source.tag})
    return [*map(language_tag, codes), *(f"<{name}>" for name in names)]


@dataclass(frozen=True)
class Tagging:
    """The ids before a source sentence: first those of its direction, then those of its corpus.

    With two directions every pair is used both ways, so that it makes two rows.
    """

    directions: tuple[Ids, ...] = ((),)  # as the pair stands; the other way round
    sources: tuple[Ids, ...] = ((),)  # by index in `data.train`


def tagging(cfg: Config, tokenizer: Tokenizer) -> Tagging:
    """What an experiment writes before its source sentences.

    Args:
        tokenizer: of the source, trained with `tag_pieces`.
    """
    languages, ids = cfg.languages, tokenizer.tags
    directions: tuple[Ids, ...] = ((),)
    if languages.bidirectional:
        directions = tuple((ids[language_tag(code)],) for code in (languages.tgt, languages.src))
    sources = tuple((ids[f"<{s.tag}>"],) if s.tag else () for s in cfg.data.train)
    return Tagging(directions, sources)
