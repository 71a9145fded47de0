"""Messages in the language of the user; English is the source.

A message stands in the code as `tr("{}: no such file", path)`, its translation in
`<language>/LC_MESSAGES/tmt.po`, which `scripts/write_messages.py` compiles to the `.mo` file that
is read here. A message without a translation stays English.

$TMT_LANG chooses the language, such as `zh` or `en`; without it gettext's variables do: $LANGUAGE,
$LC_ALL, $LC_MESSAGES, $LANG.
"""

import gettext
import os
from itertools import takewhile
from pathlib import Path

DOMAIN = "tmt"
CATALOGUES = Path(__file__).parent


def _languages() -> list[str]:
    """Those that the user reads, the best first. English ends them: it needs no catalogue."""
    if chosen := os.environ.get("TMT_LANG"):
        return [chosen]
    variables = map(os.environ.get, ("LC_ALL", "LC_MESSAGES", "LANG"))
    locale = next(filter(None, variables), "")
    if locale in ("C", "POSIX"):  # what programs read
        return ["en"]
    wanted = filter(None, (os.environ.get("LANGUAGE") or locale).split(":"))
    return [*takewhile(lambda language: language[:2] != "en", wanted), "en"]


_chosen = _languages()
_catalogue = gettext.translation(DOMAIN, CATALOGUES, languages=_chosen, fallback=True)
LANGUAGE: str = _catalogue.info().get("language", "en")


def tr(message: str, *values: object) -> str:
    """A message in the user's language, its places filled with values as by `str.format`.

    Args:
        message: a literal, which `scripts/write_messages.py` finds. Without values it is taken as
            it stands: its braces are braces.
    """
    text = translation_of(message)
    return text.format(*values) if values else text


def translation_of(text: str) -> str:
    """What the catalogue has for a text, such as the help of a command; else the text."""
    return _catalogue.gettext(text) if text else text


def translate_libraries() -> None:
    """Let libraries that ask Python's gettext, such as Typer, find their words here, too.

    To be called before they are imported.
    """
    os.environ["LANGUAGE"] = ":".join(_chosen)
    gettext.bindtextdomain(DOMAIN, str(CATALOGUES))
    gettext.textdomain(DOMAIN)
