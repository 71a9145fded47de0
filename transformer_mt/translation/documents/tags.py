"""Where markup of HTML or XML stands in a text: tags, comments, and elements whose content is no
prose.

Time is linear, also where quotes, comments and elements never end.
"""

import re
from collections.abc import Callable, Iterator

from transformer_mt.translation.documents.spans import parted

# Elements whose content ends with their own closing tag and with nothing else.
_RAW = frozenset("script style textarea xmp iframe noembed noframes".split())
_KEPT = _RAW | frozenset("pre code kbd samp var svg math".split())
VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())

_TAG_START = re.compile(r"</?([A-Za-z][^\s/>]*)")
_XML_TAG_START = re.compile(r"</?((?:[^\W\d]|:)[^\s/>]*)")
_NOT_TRANSLATED = re.compile(r"""\stranslate\s*=\s*["']?no(?=["'\s/>])""", re.IGNORECASE)
_VALUE = re.compile(r"""=\s*(["'])""")
# With declarations in brackets, among them quoted values and comments.
_DOCTYPE = re.compile(
    r"""<!DOCTYPE (?:[^<>\["']|"[^"]*"|'[^']*')*+ \[
    (?:<!--(?:(?!-->).)*+(?:-->|\Z)|<\?(?:(?!\?>).)*+(?:\?>|\Z)|"[^"]*"|'[^']*'|[^]"'])*+ \]\s*>""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_OTHER_MARKUP = {"<!--": "-->", "<![CDATA[": "]]>", "<?": "?>", "<%": "%>", "<!": ">", "</": ">"}


def tag_name(raw: str, *, is_xml: bool = False) -> str:
    """The name of the tag that a text begins with, of HTML in lower case; empty: none."""
    tag = (_XML_TAG_START if is_xml else _TAG_START).match(raw)
    name = tag[1] if tag else ""
    return name if is_xml else name.lower()


def content_of(raw: str, decode: Callable[[str], str], *, is_xml: bool = False) -> str | None:
    """The text of a whole element; None: it is a single tag."""
    spans = list(markup_spans(raw, keep=False, is_xml=is_xml))
    if len(spans) < 2:
        return None
    text = "".join(piece for piece, is_markup in parted(raw, spans) if not is_markup)
    return decode(text).strip()


def is_not_translated(tag: str) -> bool:
    """Whether a tag begins an element with code, a formula, or `translate="no"`."""
    return (tag_name(tag) in _KEPT or bool(_NOT_TRANSLATED.search(tag))) and not (
        tag.endswith("/>") or tag_name(tag) in VOID
    )


def markup_spans(
    text: str, *, keep: bool = True, is_xml: bool = False
) -> Iterator[tuple[int, int]]:
    """Spans of markup: (start, end) in rising order.

    With `keep`, an element that is not translated (code, styles, formulas, `translate="no"`) is one
    span with all of its content; without its end, it goes to the end of the text. In XML names mean
    nothing: only `translate="no"` keeps an element.
    """
    finder = _Finder(text)
    tag_start = _XML_TAG_START if is_xml else _TAG_START
    raw_names, kept_names, void = (frozenset[str](),) * 3 if is_xml else (_RAW, _KEPT, VOID)
    kept, kept_start, depth = "", 0, 0  # the kept element that is open, if any
    position = text.find("<")
    while position >= 0:
        tag = tag_start.match(text, position)
        end = finder.markup_end(position, tag)
        if end is None:
            position = text.find("<", position + 1)
            continue
        name = tag_name(tag[0], is_xml=is_xml) if tag else ""
        closes, alone = text[position + 1] == "/", text[end - 2 : end] == "/>" or name in void
        if name in raw_names and not closes and not (alone and finder.is_xml):
            end = finder.raw_end(name, end)
            alone = True
        if not kept:
            skipped = name in kept_names or (tag and _NOT_TRANSLATED.search(text, position, end))
            if keep and skipped and not closes and not alone:
                kept, kept_start, depth = name, position, 1
            else:
                yield position, end
        elif name == kept and not alone:
            depth += -1 if closes else 1
            if depth == 0:
                yield kept_start, end
                kept = ""
        position = text.find("<", end)
    if kept:
        yield kept_start, len(text)


_XML = re.compile(r"\A\s*<\?xml\b|http://www\.w3\.org/1999/xhtml")  # where <script/> is whole
_HEAD = 2000  # characters


class _Finder:
    """Ends of markup. A string that was once not found is not looked for again."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.is_xml = _XML.search(text, 0, _HEAD) is not None
        self._absent: set[str] = set()
        self._quotes_count = True  # until one never ends: then quotes mean nothing
        self._has_begun = False  # the document, which has one <!DOCTYPE> at most

    def _find(self, what: str, start: int) -> int:
        found = -1 if what in self._absent else self._text.find(what, start)
        if found < 0:
            self._absent.add(what)
        return found

    def markup_end(self, start: int, tag: re.Match[str] | None) -> int | None:
        """After the tag, comment or the like at `start`; None if its < is plain text."""
        if tag is not None:
            return self._tag_end(tag.end())
        if self._text.startswith("<!", start) and not self._has_begun:
            self._has_begun = self._text[start + 2 : start + 4] != "--"
            if doctype := _DOCTYPE.match(self._text, start):
                return doctype.end()
        for begin, finish in _OTHER_MARKUP.items():
            if self._text.startswith(begin, start):
                # <!--> is a whole comment.
                end = self._find(finish, start + 2 if begin != "<![CDATA[" else start + len(begin))
                return len(self._text) if end < 0 else end + len(finish)
        return None

    def _tag_end(self, position: int) -> int:
        """After the first > that stands in no quoted value."""
        name_end, close = position, -1
        while True:
            if close < position:
                close = self._find(">", position)
            if close < 0:
                return len(self._text)
            value = _VALUE.search(self._text, position, close) if self._quotes_count else None
            if value is None:
                return close + 1
            quote = self._find(value[1], value.end())
            if quote < 0:
                self._quotes_count = False
                position, close = name_end, self._text.find(">", name_end)
            else:
                position = quote + 1

    def raw_end(self, name: str, start: int) -> int:
        """After the closing tag of an element that holds raw text."""
        closing = re.compile(rf"</{name}(?=[\s/>])[^>]*>?", re.IGNORECASE).search(self._text, start)
        return closing.end() if closing else len(self._text)
