"""The XML of Word, PowerPoint and OpenDocument: paragraphs are translated, all else stays.

Comes in: the bytes of one XML file; then translations. Goes out: segments, and the XML again. The
formatting that most characters of a paragraph have is that of its translation; other formatting,
links, fields, notes and pictures are marks. A paragraph whose text does not change stays byte for
byte. This file does not know archives.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby, islice

from transformer_mt.translation.documents.inline import (
    Segment,
    Syntax,
    nested,
    segment_of,
    text_tokens,
)
from transformer_mt.translation.documents.marks import Align, Token
from transformer_mt.translation.documents.office_names import WORD, Vocabulary
from transformer_mt.translation.documents.office_pieces import (
    Piece,
    encode_xml,
    range_token,
    ranges_in_order,
    with_fields,
    with_ranges,
)
from transformer_mt.translation.documents.spans import has_words
from transformer_mt.translation.documents.xml_elements import Element, parse_xml

_HOLE = re.compile("\0([0-9]+)\0")  # stands for a paragraph within markup of another one
# Parts of run properties that nobody sees: languages, hints for fonts, looks of complex scripts.
_UNSEEN = re.compile(
    r'<\w+:(?:lang|noProof|bCs|iCs|szCs)\b[^>]*/>|\s\w+:hint="\w+"|\s+xmlns:\w+="[^"]*"'
)
_EMPTY = re.compile(r"<(\w+:rPr)\s*(?:/>|>(?:<\w+:rFonts\s*/>)?</\1>)|<\w+:rFonts\s*/>")
_UNSEEN_STYLE = frozenset(
    "rsid paragraph-rsid language country language-asian country-asian".split()
)
_UNSEEN_OF_SLIDES = re.compile(r'\s(?:lang|altLang|dirty|err|smtClean|noProof)="[^"]*"')
_RUN = "run"  # the name of the marks that are formatting


@dataclass(frozen=True)
class Block:
    """A paragraph, or a whole file with its paragraphs."""

    raw: str
    parts: list["str | Segment | Block"]
    inner: list["Block"] = field(default_factory=list)  # in the holes of the parts

    @cached_property
    def segments(self) -> list[Segment]:
        """In the order in which `write` takes translations."""
        found: list[Segment] = []
        for part in (*self.parts, *self.inner):
            if isinstance(part, Segment):
                found.append(part)
            elif isinstance(part, Block):
                found += part.segments
        return found

    def write(self, translations: Iterator[str], align: Align | None) -> str:
        mine = list(islice(translations, len(self.segments)))
        if mine == [segment.text for segment in self.segments]:
            return self.raw
        left = iter(mine)
        written = []
        for part in self.parts:
            if isinstance(part, Segment):
                written.append(part.write(next(left), align))
            else:
                written.append(part if isinstance(part, str) else part.write(left, align))
        inner = [block.write(left, align) for block in self.inner]
        return _HOLE.sub(lambda hole: inner[int(hole[1])], "".join(written))


def read_office_xml(content: bytes, vocabulary: Vocabulary) -> Block:
    """Raises: DataError: no well-formed XML."""
    root = parse_xml(content)
    reader = _Reader(content, vocabulary, root)
    parts: list[str | Segment | Block] = []
    position = 0
    for paragraph in reader.paragraphs(root):
        parts += [reader.raw(position, paragraph.start), reader.paragraph(paragraph)]
        position = paragraph.end
    return Block(content.decode(), [*parts, reader.raw(position, len(content))])


class _Reader:
    def __init__(self, content: bytes, vocabulary: Vocabulary, root: Element) -> None:
        self._content, self._names = content, vocabulary
        # Styles of OpenDocument that nobody sees: LibreOffice divides text by when it was typed.
        self._unseen = {
            element.attributes.get("name")
            for element in (() if vocabulary.run else root.below())
            if element.name == "style:style" and "parent-style-name" not in element.attributes
            if all(child.attributes.keys() <= _UNSEEN_STYLE for child in element.children)
        }
        self._inner: list[Block] = []  # of the paragraph that is read
        self._is_blank = True  # nothing of it has words so far

    def raw(self, start: int, end: int) -> str:
        return self._content[start:end].decode()

    def paragraphs(self, element: Element) -> Iterator[Element]:
        """The outermost paragraphs within an element."""
        for child in element.children:
            if child.name in self._names.paragraphs:
                yield child
            elif child.name not in self._names.skipped:
                yield from self.paragraphs(child)

    def paragraph(self, element: Element) -> Block:
        outer, self._inner = self._inner, []
        names = self._names
        outer_is_blank, self._is_blank = self._is_blank, True
        pieces = [piece for child in element.children for piece in self._pieces(child)]
        self._is_blank = outer_is_blank
        pieces = with_ranges(with_fields(pieces))
        properties = {c.name: self.raw(c.start, c.end) for c in element.children if c.name}
        head = self.raw(element.start, element.inner) + properties.get(names.first, "")
        tail = properties.get(names.last, "") + self.raw(element.inner_end, element.end)
        parts = [head, *_parts_of(pieces), tail]
        inner, self._inner = self._inner, outer
        return Block(self.raw(element.start, element.end), parts, inner)

    def _pieces(self, element: Element) -> Iterator[Piece]:
        """A child of a paragraph, or of markup in it."""
        names = self._names
        if element.name == "":
            if not names.run:
                self._is_blank = self._is_blank and not element.text.strip()
                yield Piece(Token("text", re.sub("[ \t\r\n]+", " ", element.text)))
        elif element.name in (names.first, names.last, *names.dropped):
            return
        elif element.name == names.run:
            yield from self._run(element)
        elif element.name in names.spelled and not names.run:
            raw, count = self.raw(element.start, element.end), element.attributes.get("c", "")
            if self._is_blank:  # an indent
                yield Piece(Token("kept", raw))
                return
            yield Piece(Token("text", names.spelled[element.name]))
            if re.fullmatch("[0-9]{1,9}", count) and int(count) > 1:  # more would be one again
                raw = re.sub(r"(\bc\s*=\s*.)[0-9]+", rf"\g<1>{int(count) - 1}", raw, count=1)
                yield Piece(Token("kept", raw))
        elif element.name == "text:span" and element.attributes.get("style-name") in self._unseen:
            for child in element.children:
                yield from self._pieces(child)
        elif element.name in names.around and element.children:
            contents = [c for c in element.children if c.name == "w:sdtContent"] or [element]
            yield Piece(Token("open", self.raw(element.start, contents[0].inner), element.name))
            for child in contents[0].children:
                yield from self._pieces(child)
            end = self.raw(contents[0].inner_end, element.end)
            yield Piece(Token("close", end, element.name))
        else:
            yield Piece(self._kept(element))

    def _kept(self, element: Element, before: str = "", after: str = "") -> Token:
        """Markup that is not around text."""
        raw = f"{before}{self._with_holes(element)}{after}"
        id_ = element.attributes.get("id") or element.attributes.get("name", "")
        if range_ := range_token(element.name, id_, raw):
            return range_
        if element.name in self._names.breaks:
            return Token("break", raw)
        read = element.name in self._names.read
        return Token("kept", raw, "".join(e.text for e in element.below()) if read else "")

    def _with_holes(self, element: Element) -> str:
        """The raw XML, with a hole for each paragraph in it."""
        found, position = [], element.start
        inside = [] if element.name in self._names.skipped else self.paragraphs(element)
        for paragraph in inside:
            found += [self.raw(position, paragraph.start), f"\0{len(self._inner)}\0"]
            self._inner.append(self.paragraph(paragraph))
            position = paragraph.end
        return "".join([*found, self.raw(position, element.end)])

    def _run(self, run: Element) -> Iterator[Piece]:
        """A run as a piece for each thing in it, each of which could stand in a run of its own."""
        names = self._names
        start = self.raw(run.start, run.inner)
        if start.endswith("/>"):
            return
        prefix = names.run[:2]
        properties = [c for c in run.children if c.name == f"{prefix}rPr"]
        start += "".join(self.raw(c.start, c.end) for c in properties)
        end = self.raw(run.inner_end, run.end)
        tag = end[2:].rpartition(":")[0]  # the prefix in this file
        text_tag = f"{tag}:t" if tag else "t"
        preserve = ' xml:space="preserve"' if names is WORD else ""
        around = f"{start}<{text_tag}{preserve}>", f"</{text_tag}>{end}"
        for child in run.children:
            if child.name == f"{prefix}t":
                for text in re.split("(\t)", "".join(e.text for e in child.children)):
                    tab = Token("break", f"{around[0]}\t{around[1]}")
                    yield Piece(tab) if text == "\t" else Piece(Token("text", text), around)
            elif child.name in names.spelled:
                yield Piece(Token("text", names.spelled[child.name]), around)
            elif child.name in ("w:fldChar", "w:instrText"):
                what = child.attributes.get("fldCharType", "instr")
                text = "".join(e.text for e in child.children)
                raw = f"{start}{self.raw(child.start, child.end)}{end}"
                yield Piece(Token("kept", raw, text), field=what)
            elif child.name and child not in properties and child.name not in names.dropped:
                yield Piece(self._kept(child, start, end))


def _seen(run: tuple[str, str]) -> str:
    """Formatting as a reader sees it."""
    properties = run[0][run[0].find(">") + 1 :]
    properties = _UNSEEN_OF_SLIDES.sub("", _UNSEEN.sub("", properties))
    return _EMPTY.sub("", properties)


def _parts_of(pieces: list[Piece]) -> list[str | Segment | Block]:
    """Segments, and XML between them."""
    sizes: Counter[str] = Counter()
    for piece in pieces:
        if piece.token.kind == "text":
            sizes[_seen(piece.run)] += len(piece.token.raw.strip())
    usual = max(sizes, key=lambda seen: sizes[seen], default="")
    around = next(
        (p.run for p in pieces if p.token.kind == "text" and _seen(p.run) == usual), ("", "")
    )
    syntax = _RunSyntax(*around)
    parts: list[str | Segment | Block] = []
    for breaks, group in groupby(pieces, lambda piece: piece.token.kind == "break"):
        if breaks:
            parts.append("".join(piece.raw for piece in group))
            continue
        tokens = nested(list(_tokens(list(group), usual, syntax)))
        written = syntax.write(tokens, (), "")
        words = "".join(token.raw for token in tokens if token.kind == "text")
        segment = replace(segment_of(tokens, syntax), raw=written) if has_words(words) else None
        parts.append(segment if segment and has_words(segment.text) else written)
    return parts


def _tokens(pieces: list[Piece], usual: str, syntax: "_RunSyntax") -> Iterator[Token]:
    """Tokens of a text without breaks; text of unusual formatting has marks around it."""
    formats: list[str] = []  # of each piece of text; white space has that of the text before it
    for piece in pieces:
        is_text = piece.token.kind == "text"
        blank = is_text and not piece.token.raw.strip()
        before = formats[-1] if formats else usual
        formats.append(before if blank else _seen(piece.run) if is_text else usual)
    keys = [
        (piece.token.kind == "text", format_ if piece.token.kind == "text" else i)
        for i, (piece, format_) in enumerate(zip(pieces, formats, strict=True))
    ]
    at_start = True
    for (is_text, format_), group in groupby(range(len(pieces)), lambda i: keys[i]):
        members = [pieces[i] for i in group]
        if not is_text:
            yield (token := members[0].token)
            at_start = at_start and not (token.kind == "kept" and token.name)
            continue
        text = "".join(piece.token.raw for piece in members)
        if at_start and text[:1].isspace():  # such as between the number of a note and its text
            space = text.removesuffix(text.lstrip())
            yield Token("kept", syntax.before + space + syntax.after)
            text = text.lstrip()
        at_start = at_start and not text
        if not text:
            continue
        if format_ == usual:
            yield from syntax.text_tokens(text)
        else:
            run = next(piece.run for piece in members if piece.token.raw.strip())
            yield Token("open", run[0], _RUN)
            yield from _RunSyntax("", "").text_tokens(text)
            yield Token("close", run[1], _RUN)


@dataclass(frozen=True)
class _RunSyntax(Syntax):
    """Text without marks around it stands in a run of the usual formatting."""

    before: str
    after: str

    def text_tokens(self, text: str) -> Iterator[Token]:
        """Addresses and placeholders in it are kept."""
        for token in text_tokens(text, lambda raw: raw):
            if token.kind == "kept":
                yield token._replace(raw=f"{self.before}{encode_xml(token.raw)}{self.after}")
            else:
                yield token._replace(kind="text")

    def write(self, tokens: Sequence[Token], joints: Sequence[str], raw: str) -> str:
        written, in_run = [], False
        for token in ranges_in_order(tokens):
            text = encode_xml(token.raw) if token.kind == "text" else ""
            markup = "" if token.kind == "text" else token.raw
            if token.name == _RUN and token.kind in ("open", "close"):
                in_run = token.kind == "open"
            elif markup.endswith("> "):  # a space after it, see `segment_of`
                markup, text = markup[:-1], " "
            if text and not in_run:
                text = f"{self.before}{text}{self.after}"
            written.append(markup + text)
        return "".join(written)
