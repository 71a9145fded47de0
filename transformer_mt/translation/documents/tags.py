"""Where HTML markup stands in a text: tags, comments, and elements whose content is no prose.

Time is linear, also where quotes, comments and elements never end.
"""

import re
from collections.abc import Iterator

# Elements whose content ends with their own closing tag and with nothing else.
_RAW = frozenset("script style textarea xmp iframe noembed noframes".split())
_KEPT = _RAW | frozenset("pre code kbd samp var svg math".split())
VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())

_TAG_START = re.compile(r"</?([A-Za-z][^\s/>]*)")
_NOT_TRANSLATED = re.compile(r"""\stranslate\s*=\s*["']?no(?=["'\s/>])""", re.IGNORECASE)
_VALUE = re.compile(r"""=\s*(["'])""")
_OTHER_MARKUP = {"<!--": "-->", "<![CDATA[": "]]>", "<?": "?>", "<%": "%>", "<!": ">", "</": ">"}


def tag_name(raw: str) -> str:
    """The name of the tag that a text begins with, in lower case; empty: none."""
    tag = _TAG_START.match(raw)
    return tag[1].lower() if tag else ""


def is_not_translated(tag: str) -> bool:
    """Whether a tag begins an element with code, a formula, or `translate="no"`."""
    return (tag_name(tag) in _KEPT or bool(_NOT_TRANSLATED.search(tag))) and not (
        tag.endswith("/>") or tag_name(tag) in VOID
    )


def markup_spans(text: str, *, keep: bool = True) -> Iterator[tuple[int, int]]:
    """Spans of markup: (start, end) in rising order.

    With `keep`, an element that is not translated (code, styles, formulas, `translate="no"`) is one
    span with all of its content; without its end, it goes to the end of the text.
    """
    finder = _Finder(text)
    kept, kept_start, depth = "", 0, 0  # the kept element that is open, if any
    position = text.find("<")
    while position >= 0:
        tag = _TAG_START.match(text, position)
        end = finder.markup_end(position, tag)
        if end is None:
            position = text.find("<", position + 1)
            continue
        name = tag[1].lower() if tag else ""
        closes, alone = text[position + 1] == "/", text[end - 2 : end] == "/>" or name in VOID
        if name in _RAW and not closes and not (alone and finder.is_xml):
            end = finder.raw_end(name, end)
            alone = True
        if not kept:
            skipped = name in _KEPT or (tag and _NOT_TRANSLATED.search(text, position, end))
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

    def _find(self, what: str, start: int) -> int:
        found = -1 if what in self._absent else self._text.find(what, start)
        if found < 0:
            self._absent.add(what)
        return found

    def markup_end(self, start: int, tag: re.Match[str] | None) -> int | None:
        """After the tag, comment or the like at `start`; None if its < is plain text."""
        if tag is not None:
            return self._tag_end(tag.end())
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
