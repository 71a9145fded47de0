"""Text and elements → HTML in which every text is escaped, because nothing else can be built.

Comes in: names, attributes, children. Goes out: `Html`. This file does not know any page.
"""

import html
import re
from collections.abc import Iterable, Sequence

_ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_CLOSED = {"line", "rect"}  # elements of a picture that have no content


class Html(str):
    """Finished HTML; any other string is text, and escaped where it meets an element."""

    __slots__ = ()


def element(name: str, *children: str, **attributes: str | float | None) -> Html:
    """One element.

    Args:
        children: text, which is escaped, or `Html`.
        attributes: None is left out; a final underscore is cut (`class_`), other underscores become
            hyphens (`stroke_width`).
    """
    opening = name + "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_plain(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _CLOSED:
        return Html(f"<{opening}/>")
    return Html(f"<{opening}>{join(*children)}</{name}>")


def join(*children: str, between: str = "") -> Html:
    """Children one after the other, texts escaped."""
    return Html(escape(between).join(map(escape, children)))


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: Iterable[int] = (),
    bars: Iterable[int] = (),
    class_: str | None = None,
) -> Html:
    """A table; `numbers` and `bars` are the columns that hold such."""
    classes = {**dict.fromkeys(numbers, "n"), **dict.fromkeys(bars, "barcell")}

    def row(kind: str, cells: Sequence[str]) -> Html:
        return element(
            "tr", *(element(kind, text, class_=classes.get(i)) for i, text in enumerate(cells))
        )

    body = element("tbody", *(row("td", cells) for cells in rows))
    found = element("table", element("thead", row("th", heads)), body, class_=class_)
    return element("div", found, class_="scroll")


def escape(text: str) -> str:
    """The text as HTML; characters that no page may hold become a visible sign."""
    if isinstance(text, Html):
        return text
    return html.escape(_ILLEGAL.sub("\N{REPLACEMENT CHARACTER}", text))


def _plain(value: str | float) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def escape_json(text: str) -> str:
    """JSON that may stand inside a script element: no tag can begin or end in it."""
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
