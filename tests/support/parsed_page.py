"""An HTML page as its elements, its text and its scripts; and texts that would break out of it."""

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

HOSTILE = [
    "</script><img src=x onerror=alert(1)>",
    "</td></table></body></html>",
    "\"><svg onload='x'>",
    "'><a href=javascript:x>",
    "&lt;b&gt; &amp; {{ title }} {% raw %} {# #}",
    "<!-- <script> <![CDATA[ ]]>",
    "\x00\x08\x7f\ud800\uffff\u2028\u202e😀",
]
_VOID = {"br", "col", "hr", "input", "line", "meta", "rect"}


class ParsedPage(HTMLParser):
    """Every element is closed in its turn; `text` is that outside of styles and scripts."""

    def __init__(self, path: Path) -> None:
        super().__init__(convert_charrefs=True)
        self.source = path.read_bytes().decode()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.scripts: list[str] = []
        self._open: list[str] = []
        self.feed(self.source)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open and self._open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data: str) -> None:
        if self._open[-1:] == ["script"]:
            self.scripts.append(data)
        elif self._open[-1:] != ["style"]:
            self.text += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a page has no comments: {data}")

    @property
    def data(self) -> Any:
        """The values of the first script."""
        return json.loads(self.scripts[0])

    def values_of(self, name: str) -> list[str | None]:
        """The values of an attribute, in order."""
        return [attributes[name] for _, attributes in self.elements if name in attributes]

    def shape(self) -> list[tuple[str, set[str]]]:
        """Elements and the names of their attributes, which no text may change."""
        return [(tag, set(attributes)) for tag, attributes in self.elements]

    def needs_nothing_else(self) -> bool:
        """No address is fetched, no event is handled in markup, and the policy forbids both."""
        names = {name for _, attributes in self.elements for name in attributes}
        policy = str(self.values_of("content"))
        return (
            not any(name == "src" or name.startswith("on") for name in names)
            and {"link", "img", "iframe", "object"}.isdisjoint(tag for tag, _ in self.elements)
            and "default-src 'none'" in policy
            and "@import" not in self.source
            and "url(" not in self.source
        )
