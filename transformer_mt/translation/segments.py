"""Texts → segments: parts that the model takes at once, with their ids."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

from transformer_mt.config.data import Languages
from transformer_mt.config.experiment import Config
from transformer_mt.encoding.tags import language_tag
from transformer_mt.encoding.tokenizer import Tokenizer
from transformer_mt.text.known_units import KnownUnits
from transformer_mt.text.languages import is_chinese
from transformer_mt.text.normalise import Normaliser
from transformer_mt.text.sentences import split_sentences, split_text
from transformer_mt.translation.glossary import Glossary
from transformer_mt.translation.input_checks import InputCheck, check_inputs
from transformer_mt.translation.lexical_constraints import LexicalConstraints

_MOST_GLOSSARIES = 64  # glossaries that are kept, of a server
MOSTLY_UNKNOWN = 0.9  # of the ids of a segment, spelled because the vocabulary lacks the characters


@dataclass(frozen=True)
class SourceSegment:
    """A part of a text that the model takes at once."""

    text: str
    src: list[int]  # ids with tags, without EOS
    direction: Languages
    constraints: LexicalConstraints


class Segmenter:
    """Normalises, encodes and, where they are too long, divides texts."""

    def __init__(self, tokenizer: Tokenizer, cfg: Config, known: KnownUnits | None = None) -> None:
        """Args: tokenizer: of the source side. known: words that training has seen on it."""
        self._tokenizer, self._known = tokenizer, known
        self._limit = cfg.data.max_length
        # Those that were used; threads may replace them at any time.
        self._as_read_terms: dict[tuple[Glossary, str], Glossary] = {}
        codes, script = (cfg.languages.src, cfg.languages.tgt), cfg.data.clean.chinese_script
        self._normalisers = {code: Normaliser(code, script) for code in codes}

    def normalise(self, text: str, language: str) -> str:
        """A text as the model has learned to read and write it."""
        return self._normalisers[language](text)

    def read(self, text: str, language: str) -> str:
        """A source text as the model reads it: normalised, in the Chinese script that it knows."""
        text = self.normalise(text, language)
        return in_known_script(text, self._known) if language == "zh" and self._known else text

    def check(
        self,
        texts: Sequence[str],
        directions: Sequence[Languages],
        segments_of: Sequence[Sequence[SourceSegment]],
    ) -> list[InputCheck]:
        """What is strange about texts, which have become these segments."""
        languages = [direction.src for direction in directions]
        ids_of = [[id_ for s in segments for id_ in s.src] for segments in segments_of]
        return check_inputs(
            list(map(self.normalise, texts, languages)),
            list(map(self.read, texts, languages)),
            languages,
            list(map(self._tokenizer.spelled_share, ids_of)),
            self._known,
        )

    def encode(self, text: str, direction: Languages) -> list[int]:
        """Ids of a source text with tags, whatever its length."""
        (ids,) = self._tokenizer.encode([self.read(text, direction.src)])
        return [*self._tags(direction), *ids]

    def segments(
        self, text: str, direction: Languages, constraints: LexicalConstraints
    ) -> list[SourceSegment]:
        """As many as the model's length limit asks for; none of an empty text."""
        text, constraints = self.read(text, direction.src), self._as_read(constraints, direction)
        whole = self._encoded([text], direction, constraints)
        if all(len(segment.src) <= self._limit for segment in whole):
            return whole

        def fits(part: str) -> bool:
            return len(self._tokenizer.encode([part])[0]) <= self._limit

        return self._encoded(split_text(text, fits, direction.src), direction, constraints)

    def _as_read(self, constraints: LexicalConstraints, direction: Languages) -> LexicalConstraints:
        """With the terms of this direction; Chinese ones in the script that is read, too."""
        terms, language = constraints.glossary, direction.src
        if terms is None:
            return constraints
        as_read = self._as_read_terms.get((terms, direction.pair))
        if as_read is None:
            as_read = terms.for_direction(language, direction.tgt)
            if is_chinese(language):
                as_read = as_read.respelled(partial(self._read_term, language=language))
            if len(self._as_read_terms) >= _MOST_GLOSSARIES:  # other threads may use the old ones
                self._as_read_terms = {}
            self._as_read_terms[terms, direction.pair] = as_read
        return replace(constraints, glossary=as_read)

    def _read_term(self, term: str, language: str) -> str:
        """As it stands in a text that is converted as a whole, known or not."""
        term = self.normalise(term, language)
        return _to_simplified()(term) if language == "zh" and self._known else term

    def sentences(self, segment: SourceSegment) -> list[SourceSegment]:
        """The sentences of a segment as segments; none if it is a single sentence."""
        parts = split_sentences(segment.text, segment.direction.src)
        if len(parts) < 2:
            return []
        return self._encoded(parts, segment.direction, segment.constraints)

    def is_readable(self, segment: SourceSegment) -> bool:
        """Whether the vocabulary has its characters."""
        return self._tokenizer.spelled_share(segment.src) < MOSTLY_UNKNOWN

    def _encoded(
        self, parts: Sequence[str], direction: Languages, constraints: LexicalConstraints
    ) -> list[SourceSegment]:
        """Those of the parts that are not empty; the prefix goes with the first."""
        parts = [part.strip() for part in parts]
        encoded = zip(parts, self._tokenizer.encode(parts), strict=True)
        found = [(part, [*self._tags(direction), *ids]) for part, ids in encoded if ids]
        later = replace(constraints, prefix="")
        return [
            SourceSegment(part, ids, direction, later if i else constraints)
            for i, (part, ids) in enumerate(found)
        ]

    def _tags(self, direction: Languages) -> list[int]:
        if not direction.bidirectional:
            return []
        return [self._tokenizer.tags[language_tag(direction.tgt)]]


def in_known_script(text: str, known: KnownUnits) -> str:
    """Chinese text as Simplified, if it is not and that makes more of it known."""
    simplified = _to_simplified()(text)
    if simplified == text:
        return text
    as_it_is, converted = known.unknown_shares([text, simplified])
    return simplified if converted < as_it_is else text


@lru_cache(maxsize=1)
def _to_simplified() -> Normaliser:
    return Normaliser("zh", "simplified")
