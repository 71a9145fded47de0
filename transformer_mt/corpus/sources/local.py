"""The local form of a source that was named, with its other settings."""

from pathlib import Path
from typing import Any, NamedTuple

from transformer_mt.config.data import SOURCE_KINDS, Languages, Source
from transformer_mt.corpus.readers.pairs import source_order
from transformer_mt.corpus.sources.cache import Download


class Obtained(NamedTuple):
    source: Source  # a local one
    downloads: list[Download]  # none for the user's own files


def local(source: Source, **place: Any) -> Source:
    """The same source as local files."""
    away = {**dict.fromkeys(SOURCE_KINDS), "sha256": None}
    return source.model_copy(update={**away, **place})


def local_sides(source: Source, languages: Languages, sides: dict[str, Path]) -> Source:
    """The same source as a file for each language."""
    order = source_order(source, languages)
    return local(source, files=[str(sides[code]) for code in order])
