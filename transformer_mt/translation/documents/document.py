"""The parts of a document of any format: segments of text to translate, and the rest.

Comes in: parts from the reader of a format, then translations. Goes out: segments for a translator,
and after it the document again. This file knows no format and no model.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from transformer_mt.translation.documents.marks import Align, Mark

LINE_BREAKS = re.compile("[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")


@dataclass(frozen=True)
class Segment:
    text: str  # to be translated: one line, without white space around it
    raw: str  # the same as it stands in the document
    # (translation, its alignment with the text; see `Align`) → its place in the document
    write: Callable[[str, Sequence[int] | None], str]
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True)
class Document:
    parts: list[str | Segment]  # strings stay as they are

    @property
    def segments(self) -> list[str]:
        """The texts to translate, in order."""
        return [part.text for part in self.parts if isinstance(part, Segment)]

    def rebuild(self, translations: Sequence[str], align: Align | None = None) -> str:
        """The document with a translation in the place of each segment.

        A translation that equals its segment leaves the bytes of the document as they are. Line
        ends within a translation become spaces.

        Args:
            align: tells which words of a translation get the marks of a segment; None: a guess by
                position and by equal words.
        Raises:
            ValueError: the number of translations is not that of segments.
        """
        n_segments = sum(isinstance(part, Segment) for part in self.parts)
        if len(translations) != n_segments:
            raise ValueError(f"{len(translations)} translations for {n_segments} segments")
        remaining = iter(translations)
        return "".join(
            _written(part, next(remaining), align) if isinstance(part, Segment) else part
            for part in self.parts
        )


def _written(segment: Segment, translation: str, align: Align | None) -> str:
    if translation == segment.text:
        return segment.raw
    translation = LINE_BREAKS.sub(" ", translation).strip()
    if align is None or not segment.marks or not translation:
        return segment.write(translation, None)
    return segment.write(translation, align(segment.text, translation))
