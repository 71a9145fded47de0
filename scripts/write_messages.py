"""Bring the translations of messages up to date with the code, and compile them.

    python scripts/write_messages.py [--check]

Collected are the arguments of `tr` in the code and in the pages, the help of commands and options,
and the words of Typer that a user sees. A new message enters each `tmt.po` without a translation,
one that is gone leaves it; what stands in its places is noted above it. Exit status 1, with
--check: a message has no translation or other places than the original, or a file is not what this
script writes.
"""

import argparse
import ast
import string
import sys
from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from babel.messages.catalog import Catalog, Message
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po
from jinja2 import Environment
from typer.main import get_command

import transformer_mt
from transformer_mt.cli.language import PARSING_ERRORS, help_texts
from transformer_mt.cli.main import app
from transformer_mt.messages.catalogue import CATALOGUES, DOMAIN

PACKAGE = Path(transformer_mt.__file__).parent
SHOWN = 20  # problems that are told
# Words for which Typer asks gettext.
FROM_LIBRARIES = (
    "Options", "Arguments", "Commands", "Error", "Aborted.", "Missing command.", "[default: {}]",
    "[required]", "(dynamic)", "No such command {name!r}.",
    "Try [blue]'{command_path} {help_option}'[/] for help.",
)  # fmt: skip


class Found(NamedTuple):
    """A message in the code: what stands in its places, and where it is."""

    message: str
    values: list[str]
    place: str


def messages() -> Iterator[Found]:
    """Every message, file by file, in the order of the code."""
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE).as_posix()
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if _is_tr(node)]
        for call in sorted(calls, key=lambda call: (call.lineno, call.col_offset)):
            message, *values = call.args
            yield Found(ast.literal_eval(message), list(map(ast.unparse, values)), place)
    pages: Any = Environment(extensions=["jinja2.ext.i18n"])
    for path in sorted(PACKAGE.rglob("*.j2")):
        place = path.relative_to(PACKAGE).as_posix()
        for _, _, message in pages.extract_translations(path.read_text(), ("tr",)):
            text = message[0] if isinstance(message, tuple) else message
            yield Found(str(text), [], place)
    for holder, name in help_texts(get_command(app)):
        yield Found(getattr(holder, name), [], "--help")
    yield from (Found(text, [], "Typer") for text in (*FROM_LIBRARIES, *PARSING_ERRORS))


def _is_tr(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "tr"


def brought_up_to_date(old: Catalog) -> Catalog:
    """The messages of the code, with the translations that a catalogue has."""
    new = Catalog(
        locale=old.locale,
        domain=DOMAIN,
        project="tmt",
        version="messages",
        header_comment="# Written by scripts/write_messages.py, translated by hand.",
        msgid_bugs_address="see CONTRIBUTING.md",
        last_translator="the authors of tmt",
        language_team="the authors of tmt",
        creation_date=old.creation_date,
        revision_date=old.revision_date,
        fuzzy=False,
    )
    for message, values, place in messages():
        known = old.get(message)
        comments = [", ".join(values)] if values else []
        new.add(message, known.string if known else "", [(place, None)], auto_comments=comments)
    return new


def problem_of(message: Message) -> str | None:
    """What is wrong with a translation."""
    if not message.string:
        return "not translated"
    if len({name.isdigit() for name in names_of(str(message.string))}) > 1:
        return "some places are numbered, and some not"
    wanted, found = (sorted(places(str(text))) for text in (message.id, message.string))
    return None if wanted == found else f"places {found} instead of {wanted}"


def names_of(text: str) -> list[str]:
    """The numbers or names in the fields of a format; "" without one."""
    with suppress(ValueError):  # single braces: the message is taken as it stands
        return [name for _, name, _, _ in string.Formatter().parse(text) if name is not None]
    return []


def places(text: str) -> Iterator[str]:
    """The fields of a format, numbered, with conversion and form; none, where it is none.

    The form `.0` shows nothing of a text: so a translation leaves out the ending of a plural.
    """
    try:
        fields = list(string.Formatter().parse(text))
    except ValueError:  # single braces: the message is taken as it stands
        return
    numbers = count()
    for _, name, form, conversion in fields:
        if name is not None:
            shown = "" if form == ".0" else form
            yield f"{name or next(numbers)}!{conversion or ''}:{shown}"
            for _ in range((form or "").count("{}")):
                next(numbers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    wrong = []
    for po in sorted(CATALOGUES.glob(f"*/LC_MESSAGES/{DOMAIN}.po")):
        with po.open("rb") as file:
            catalog = brought_up_to_date(read_po(file, locale=po.parts[-3], domain=DOMAIN))
        for message in catalog:
            if message.id and (problem := problem_of(message)):
                wrong.append(f"{po.name}: {problem}: {message.id!r}")
        for path, write in ((po, write_po), (po.with_suffix(".mo"), write_mo)):
            made = BytesIO()
            options = {"width": 100, "include_lineno": False} if write is write_po else {}
            write(made, catalog, **options)
            if check and (not path.is_file() or path.read_bytes() != made.getvalue()):
                wrong.append(f"{path.name} is not up to date: run scripts/write_messages.py")
            elif not check:
                path.write_bytes(made.getvalue())
    for line in wrong[:SHOWN]:
        print(line, file=sys.stderr)
    if len(wrong) > SHOWN:
        print(f"and {len(wrong) - SHOWN} more", file=sys.stderr)
    sys.exit(bool(wrong) and check)


if __name__ == "__main__":
    main()
