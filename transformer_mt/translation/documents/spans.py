"""Parts of a text that a translation must keep: web and e-mail addresses, placeholders.

Knows characters only. The patterns begin at rare characters and are bounded where they could run
long, so that time is linear whatever the text is.
"""

import re
from collections.abc import Iterable, Iterator

_STOP = r"\s<>\"`\\^|\u2000-\u206f\u2e80-\ud7ff\uf900-\uffff\x00-\x1f\x7f"  # ends an address
_BEGIN = r"(?<![A-Za-z0-9])(?:(?:https?|ftps?|file)://|www\.(?=\w))"  # of an address
_URL_START = re.compile(_BEGIN)
_URL = rf"{_BEGIN}[^{_STOP}]+"
_EMAIL = (
    r"(?<![A-Za-z0-9_.+-])[A-Za-z0-9_.+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}"
    r"(?![A-Za-z0-9-])"
)
# Templates, and names of headings and paragraphs: {% include a %}, {: .note}, {#overview}.
_COMMANDS = r"\{%(?:(?!%\})[^\n]){0,1000}%\}|\{:[^{}\n]{0,200}\}|\{#[\w.:-]{1,100}\}"
_BRACES = r"\{\{[^{}\n]{0,200}\}\}|[$%#]?\{[\w.-]{0,60}(?:[:!,][^{}\s]{0,60})?\}"
_PERCENT = (
    r"(?<![\d%])%(?:\(\w{1,60}\))?(?:\d{1,2}\$)?[-+#0]{0,3}(?:\d{1,4}|\*)?(?:\.\d{1,4})?"
    r"(?:hh?|ll?|z)?[diouxXeEfFgGcsr@](?![A-Za-z])"
)
_VARIABLE = r"\$[A-Za-z_][A-Za-z0-9_]{0,60}"
_TAG = r"</?[A-Za-z][^<>\n]{0,200}>"
_PROTECTED = re.compile("|".join((_URL, _EMAIL, _COMMANDS, _BRACES, _PERCENT, _VARIABLE, _TAG)))

_PARTNER = {")": "(", "]": "[", "}": "{"}
_AFTER_URL = ".,;:!?'*_~)]}"


def protected_spans(text: str) -> list[tuple[int, int]]:
    """Where URLs, e-mail addresses, placeholders and tags stand: (start, end) in rising order.

    Punctuation at the end of a URL belongs to the sentence, and so does a bracket that was not
    opened in it.
    """
    spans: list[tuple[int, int]] = []
    for match in _PROTECTED.finditer(text):
        if "://" in match[0][:8] or match[0].startswith("www."):
            spans += _addresses(text, *match.span())
        else:
            spans.append(match.span())
    return spans


def url_spans(text: str) -> list[tuple[int, int]]:
    """Where URLs and e-mail addresses stand."""
    return [(start, end) for start, end in protected_spans(text) if text[start] not in "{$%#<"]


def _addresses(text: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Those of a stretch without spaces; a bracket that was not opened in one ends it."""
    found: re.Match[str] | None
    while True:
        end = start + _url_length(text[start : _unopened(text, start, stop)])
        yield start, end
        if (found := _URL_START.search(text, end, stop)) is None:
            return
        start = found.start()


def _url_length(url: str) -> int:
    end = len(url)
    surplus = {closer: url.count(closer) - url.count(opener) for closer, opener in _PARTNER.items()}
    while end and url[end - 1] in _AFTER_URL and surplus.get(url[end - 1], 1) > 0:
        if url[end - 1] in surplus:
            surplus[url[end - 1]] -= 1
        end -= 1
    return end


def _unopened(text: str, start: int, stop: int) -> int:
    """Where the first bracket stands that was not opened in the address, such as that of a link."""
    n_open = {")": 0, "]": 0}
    for place in range(start, stop):
        character = text[place]
        if character in "([":
            n_open[")" if character == "(" else "]"] += 1
        elif character in n_open:
            if not n_open[character]:
                return place
            n_open[character] -= 1
    return stop


def has_words(text: str) -> bool:
    """Whether a text has a letter outside of protected spans: anything to translate."""
    pieces = parted(text, protected_spans(text))
    return any(any(map(str.isalpha, piece)) for piece, protected in pieces if not protected)


def parted(text: str, spans: Iterable[tuple[int, int]]) -> Iterator[tuple[str, bool]]:
    """The pieces of a text that are not empty, and whether each is one of the spans."""
    position = 0
    for start, end in (*spans, (len(text), len(text))):
        if position < start:
            yield text[position:start], False
        if start < end:
            yield text[start:end], True
        position = end
