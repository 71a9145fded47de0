"""Which elements of Word, PowerPoint and OpenDocument hold text, stand around it, or divide it."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Vocabulary:
    """Names of elements, with the prefixes of `xml_elements`."""

    paragraphs: frozenset[str]
    around: frozenset[str]  # within a paragraph, around text
    run: str = ""  # holds text with formatting; empty: text stands in the paragraph itself
    first: str = ""  # properties at the beginning of a paragraph
    last: str = ""  # properties at its end
    breaks: frozenset[str] = frozenset()  # divide sentences
    dropped: frozenset[str] = frozenset()  # say where lines and pages of the source ended
    spelled: dict[str, str] = field(default_factory=dict)  # elements that stand for a character
    read: frozenset[str] = frozenset()  # kept, with the text in them a part of the sentence
    skipped: frozenset[str] = frozenset()  # nothing in them is translated


def _words(names: str) -> frozenset[str]:
    return frozenset(names.split())


WORD = Vocabulary(
    _words("w:p"), _words("w:hyperlink w:ins w:moveTo w:smartTag w:sdt w:customXml w:dir w:bdo"),
    run="w:r", first="w:pPr", breaks=_words("w:tab w:br w:cr w:ptab"),
    dropped=_words("w:lastRenderedPageBreak w:proofErr w:softHyphen"),
    spelled={"w:noBreakHyphen": "\u2011"}, read=_words("w:fldSimple"),
    skipped=_words("w:del w:moveFrom"),
)  # fmt: skip
SLIDES = Vocabulary(
    _words("a:p"), frozenset(), run="a:r", first="a:pPr", last="a:endParaRPr",
    breaks=_words("a:br"), read=_words("a:fld"),
)  # fmt: skip
OPEN_DOCUMENT = Vocabulary(
    _words("text:p text:h"), _words("text:span text:a text:meta"),
    breaks=_words("text:tab text:line-break"), dropped=_words("text:soft-page-break"),
    spelled={"text:s": " "},
    read=_words(
        "text:page-number text:page-count text:date text:time text:sequence text:chapter "
        "text:bookmark-ref text:reference-ref text:sequence-ref text:note-ref text:title "
        "text:author-name text:file-name text:variable-get text:user-field-get"
    ),
    skipped=_words("text:tracked-changes office:annotation"),
)  # fmt: skip
