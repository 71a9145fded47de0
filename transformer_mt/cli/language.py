"""The words of Typer in the language of the user: usage, help, mistakes of parsing.

Typer asks gettext for a part of its words only, so its commands are subclassed here. What a command
does is not known here.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from transformer_mt.messages.catalogue import tr, translation_of

# Typer has its parsing errors in a private module; this is the base of the public one.
_UsageError: type[Any] = typer.BadParameter.__mro__[1]

_OTHER_DASHES = re.compile("[‐‑‒–—―−－]{1,2}(?=[A-Za-z])")
# What Typer says of a command line, the longer form first; a value may be one of these, too.
PARSING_ERRORS = (
    "No such option: {} (Possible options: {})",
    "No such option: {}",
    "Missing argument {}.",
    "Missing option {}.",
    "Invalid value for {}: {}",
    "Invalid value: {}",
    "Option {} requires an argument.",
    "Option {} requires {} arguments.",
    "Option {} does not take a value.",
    "Argument {} takes {} values.",
    "Got unexpected extra argument(s) ({})",
    "{}. Did you mean {}?",
    "Input should be a valid integer, unable to parse string as an integer",
    "Input should be a valid number, unable to parse string as a number",
    "Input should be greater than or equal to {}",
    "Input should be less than or equal to {}",
    "Input should be greater than {}",
    "Input should be less than {}",
)


def translated_error(text: str) -> str:
    """An error of Typer, itself made of errors, in the user's language; other texts unchanged."""
    for form in PARSING_ERRORS:
        if found := re.fullmatch(re.escape(form).replace(r"\{\}", "(.+)"), text, re.DOTALL):
            return translation_of(form).format(*map(translated_error, found.groups()))
    return text


@contextmanager
def _errors_of(context: Any) -> Iterator[None]:
    try:
        yield
    except _UsageError as error:
        text = error.format_message()
        if text != (told := translated_error(text) + _remedy(context, text)):
            context.fail(told)
        raise


def _remedy(context: Any, text: str) -> str:
    """What to type instead of a model without its option."""
    extra = re.fullmatch(r"Got unexpected extra argument\(s\) \((\S+).*\)", text)
    if extra is None or "-m" not in _options_of(context.command):
        return ""
    is_model = extra[1].startswith("hf:") or Path(extra[1]).is_dir()
    return tr("; a model has an option: {} -m {}", context.command_path, extra[1]) * is_model


def _options_of(command: Any) -> set[str]:
    return {name for one in command.params for name in (*one.opts, *one.secondary_opts)}


def _refuse_other_dashes(context: Any, words: list[str]) -> None:
    """An option with the dashes of an input method or a word processor is no text."""
    options = _options_of(context.command)
    for word in takewhile(lambda word: word != "--", words):
        if dashes := _OTHER_DASHES.match(word):
            name, equals, value = word[dashes.end() :].partition("=")
            for option in {f"--{name}", f"-{name}"} & options:
                context.fail(tr("{}: type {}", word, f"{option}{equals}{value}"))


class Command(TyperCommand):
    """A command that speaks the user's language."""

    def get_usage(self, ctx: Any) -> str:
        return _usage(super().get_usage(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _refuse_other_dashes(ctx, args)
        with _errors_of(ctx):
            return super().parse_args(ctx, args)


class Group(TyperGroup):
    """A group of commands that speaks the user's language."""

    def get_usage(self, ctx: Any) -> str:
        return _usage(super().get_usage(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        with _errors_of(ctx):
            return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        with _errors_of(ctx):
            return super().resolve_command(ctx, args)


def _usage(text: str) -> str:
    return tr("Usage: {}", text.removeprefix("Usage: "))


def in_users_language(command: Any) -> Any:
    """A command whose help is translated."""
    _fold_help()
    for holder, name in help_texts(command):
        setattr(holder, name, translation_of(getattr(holder, name)))
    return command


def help_texts(command: Any, parent: Any = None) -> Iterator[tuple[Any, str]]:
    """Where help stands: attributes of a command, its parameters, and the commands below it."""
    context = typer.Context(command, parent=parent, **command.context_settings)
    for holder in (command, *command.params, command.get_help_option(context)):
        for name in ("help", "rich_help_panel", "options_metavar", "subcommand_metavar"):
            if isinstance(getattr(holder, name, None), str):
                yield holder, name
    for child in getattr(command, "commands", {}).values():
        yield from help_texts(child, context)


def _fold_help() -> None:
    """Let a long text without spaces go on below: tables of help would cut it."""
    import rich.columns
    import rich.table
    import typer.rich_utils

    class Table(rich.table.Table):
        def add_row(self, *cells: Any, **options: Any) -> None:
            super().add_row(*cells, **options)
            for column in self.columns:
                column.overflow = "fold"

    for module in (rich.columns, typer.rich_utils):
        vars(module)["Table"] = Table  # neither module can be told of another
