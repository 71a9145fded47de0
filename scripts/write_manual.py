"""Write docs/configuration.md, docs/cli.md and the manual page docs/tmt.1 from the code.

    python scripts/write_manual.py [--check]

The line that explains a key is the comment behind it in configs/base.yaml, or the comment of its
field in transformer_mt/config/; types, defaults and ranges are the schema's. Exit status 1: a key
has neither comment, or, with --check, a page is not what the code says.
"""

import argparse
import inspect
import math
import re
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import typer
from pydantic import BaseModel

from transformer_mt import __version__
from transformer_mt.cli.main import app
from transformer_mt.config.data import Source
from transformer_mt.config.experiment import Config

ROOT = Path(__file__).parents[1]
NOTE = "<!-- Written by scripts/write_manual.py; change the code, then run it again. -->"
_FIELD = re.compile(r"^    (\w+):")
_YAML_KEY = re.compile(r"^( *)([a-z_0-9]+):")
_COMMENT = re.compile(r"(?:^|\s)#\s+(.*)$")
_METAVARS = {
    "int": "N", "int range": "N", "float": "X", "float range": "X", "path": "PATH",
    "list[Path]": "PATH", "str": "TEXT", "list[str]": "TEXT",
}  # fmt: skip


_ABOUT = (
    "Results go to standard output, everything else to standard error. Exit status 2 is a mistake "
    "that the message names; `--debug` with any command shows where it was noticed. "
    "`--install-completion` has the shell complete commands and options."
)
_VARIABLES = {
    "TMT_LANG": "en or zh: the language of messages and help; without it LANG decides",
    "TMT_CACHE": "the folder of downloads; default: ~/.cache/tmt",
    "HF_TOKEN, HF_ENDPOINT, HF_HUB_OFFLINE": "those of huggingface_hub, for push, pull and hf:",
    "HTTPS_PROXY": "a proxy for downloads",
}
_FILES = {
    "runs/NAME": "the run directory of a training; runs/NAME/model is its model",
    "~/.cache/tmt": "downloads, and models of the Hub",
}

# Comments


def yaml_comments(text: str) -> dict[str, str]:
    """The comments of a YAML file by dotted key: behind the key, or else right above it."""
    found: dict[str, str] = {}
    parents: list[tuple[int, str]] = []
    above: list[str] = []
    for line in text.splitlines():
        comment = _COMMENT.search(line)
        key = _YAML_KEY.match(line)
        if key:
            indent = len(key[1])
            parents = [parent for parent in parents if parent[0] < indent] + [(indent, key[2])]
            words = [comment[1]] if comment else above
            if words:
                found[".".join(name for _, name in parents)] = " ".join(words)
        above = [*above, comment[1]] if comment and not key else []
    return found


def field_comments(model: type[BaseModel]) -> dict[str, str]:
    """The comments of a class's fields by name: behind the field, or else right above it."""
    found: dict[str, str] = {}
    above: list[str] = []
    for line in inspect.getsource(model).splitlines():
        comment, field = _COMMENT.search(line), _FIELD.match(line)
        if field and (comment or above):
            found[field[1]] = comment[1] if comment else " ".join(above)
        above = [*above, comment[1]] if comment and line.lstrip().startswith("#") else []
    return found


# Cells


def table_row(*cells: str) -> str:
    """A Markdown row; only cells of code may hold `<`."""
    lines = [" ".join(cell.split()).replace("|", "\\|") for cell in cells]
    escaped = [line if line.startswith("`") else line.replace("<", "&lt;") for line in lines]
    return f"| {' | '.join(escaped)} |"


def shown(value: Any) -> str:
    """A value as YAML writes it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float) and value == int(value):
        return f"{value:g}"
    return str(value)


def large(value: float) -> str:
    """1000000000000 → 10^12."""
    for base in (2, 10):
        power = round(math.log(value, base)) if value >= 1 << 20 or value == 10**6 else 0
        if power and value == base**power:
            return f"{base}^{power}"
    return f"{value:,g}"


def type_of(schema: dict[str, Any]) -> str:
    """What a key may be, with its range."""
    if "anyOf" in schema:
        return " or ".join(type_of(part) for part in schema["anyOf"])
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2].lower()
    if "enum" in schema:
        return ", ".join(f"`{shown(value)}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{shown(schema['const'])}`"
    kind = schema["type"]
    if kind == "array":
        return f"list of {type_of(schema['items'])}"
    if kind == "object":
        inner = schema.get("additionalProperties")
        return f"name: {type_of(inner)}" if isinstance(inner, dict) else "keys and values"
    words = {"integer": "whole number", "number": "number", "string": "text", "null": "`null`"}
    limits = [
        f"{sign} {large(schema[key])}"
        for key, sign in (
            ("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤"), ("exclusiveMaximum", "<")
        )
        if key in schema
    ]  # fmt: skip
    return " ".join([words.get(kind, "`true` or `false`"), ", ".join(limits)]).strip()


# Configuration


def rows_of(model: type[BaseModel], prefix: str, comments: dict[str, str]) -> Iterator[str]:
    """A row for each key of a section.

    Raises:
        ValueError: keys without a comment, by name.
    """
    schema = model.model_json_schema()["properties"]
    own = field_comments(model)
    missing = []
    for name, field in model.model_fields.items():
        key = f"{prefix}{name}"
        annotation = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            continue  # a section of its own
        if key not in comments and name not in own:
            missing.append(key)
            continue
        default = "required" if field.is_required() else f"`{shown(schema[name]['default'])}`"
        comment = (comments.get(key) or own[name]).removesuffix(".")
        yield table_row(f"`{key}`", type_of(schema[name]), default, comment)
    if missing:
        raise ValueError(
            f"{', '.join(missing)}: no comment in configs/base.yaml, nor at the field in "
            "transformer_mt/config/"
        )


def sections(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, type[BaseModel]]]:
    """The section itself, then those in it, depth first."""
    yield prefix, model
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from sections(field.annotation, f"{prefix}{name}.")


def configuration_page() -> str:
    comments = yaml_comments((ROOT / "configs/base.yaml").read_text(encoding="utf-8"))
    lines = [
        "# Configuration: every key", NOTE,
        "One YAML file describes one experiment. A key that a file leaves out has its default. "
        "`tmt train CONFIG --set section.key=value` changes one for this run. Unknown keys, wrong "
        "types and values out of range are told all at once, before anything is done. "
        "[configs/base.yaml](../configs/base.yaml) writes out every key that has a default.",
    ]  # fmt: skip
    head = ["| key | type and range | default | meaning |", "|---|---|---|---|"]
    for prefix, model in sections(Config):
        title = f"## {prefix[:-1]}" if prefix else "## The experiment"
        lines.append(title)
        if about := comments.get(prefix[:-1]):
            lines.append(f"{about[0].upper()}{about[1:]}.")
        lines.append("\n".join([*head, *rows_of(model, prefix, comments)]))
    lines += [
        "## A source",
        "An entry of `data.train`, `data.dev` or `data.test` is a text "
        "([sources.md](sources.md)) or these keys, of which exactly one says where the text is:",
        "\n".join([*head, *rows_of(Source, "", {})]),
    ]  # fmt: skip
    return "\n\n".join(lines) + "\n"


# Command line


def commands(command: Any, names: tuple[str, ...] = ("tmt",)) -> Iterator[tuple[str, Any]]:
    """Every command with its whole name; without groups, and what is not for people."""
    if not hasattr(command, "commands"):
        yield " ".join(names), command
        return
    for name, child in command.commands.items():
        if not child.hidden:
            yield from commands(child, (*names, name))


def usage_of(name: str, command: Any) -> str:
    context = command.make_context(name, [], resilient_parsing=True)
    usage = " ".join(command.collect_usage_pieces(context)).replace("[OPTIONS]", "[options]")
    return f"{name} {usage}"


def options_of(name: str, command: Any) -> Iterator[tuple[str, str]]:
    """Names and help of each option and argument."""
    context = command.make_context(name, [], resilient_parsing=True)
    for parameter in command.get_params(context):
        if parameter.name != "help" and not getattr(parameter, "hidden", False):
            names, text = parameter.get_help_record(context)
            metavars = partial(
                re.sub, r"<(.*?)>", lambda kind: _METAVARS.get(kind[1], kind[1].upper())
            )
            yield metavars(names), text


def command_section(name: str, command: Any) -> str:
    parts = [
        f"## {name}",
        inspect.cleandoc(command.help),
        f"```text\n{usage_of(name, command)}\n```",
    ]
    if command.epilog:
        parts.append(command.epilog.replace("Example: ", "Example: `", 1) + "`")
    rows = [table_row(f"`{names}`", text) for names, text in options_of(name, command)]
    parts.append("\n".join(["| option | does |", "|---|---|", *rows]))
    return "\n\n".join(parts if rows else parts[:-1])


def cli_page() -> str:
    lines = [
        "# The command line: every option", NOTE,
        f"{_ABOUT} The same as a manual page: `man tmt`. A table of the commands by "
        "purpose: [README.md](../README.md).",
    ]  # fmt: skip
    found = commands(typer.main.get_command(app))
    return "\n\n".join([*lines, *(command_section(*entry) for entry in found)]) + "\n"


# Manual page


def roff(text: str) -> str:
    """Text in the language of man(7): nothing in it is a command, hyphens can be copied."""
    plain = " ".join(text.replace("`", "").split()).replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(?=[.'])", r"\\&", plain)


def man_section(name: str, command: Any) -> Iterator[str]:
    yield f".SS {roff(name)}"
    yield f".B {roff(usage_of(name, command))}"
    for paragraph in inspect.cleandoc(command.help).split("\n\n"):
        yield f".PP\n{roff(paragraph)}"
    for names, text in options_of(name, command):
        yield f".TP\n.B {roff(names)}\n{roff(text)}"
    if command.epilog:
        yield f".PP\n{roff(command.epilog)}"


def man_page() -> str:
    command = typer.main.get_command(app)
    lines = [
        '.\\" Written by scripts/write_manual.py; change the code, then run it again.',
        f'.TH TMT 1 "" "tmt {__version__}" "User Commands"',
        f".SH NAME\ntmt \\- {roff(command.help[0].lower() + command.help[1:].removesuffix('.'))}",
        ".SH SYNOPSIS\n.B tmt\n.I COMMAND\n[options]",
        f".SH DESCRIPTION\n{roff(_ABOUT)}",
        ".SH COMMANDS",
        *(line for entry in commands(command) for line in man_section(*entry)),
        ".SH ENVIRONMENT",
        *(f".TP\n.B {name}\n{roff(text)}" for name, text in _VARIABLES.items()),
        ".SH FILES",
        *(f".TP\n.I {name}\n{roff(text)}" for name, text in _FILES.items()),
    ]
    return "\n".join(lines) + "\n"


PAGES = {"configuration.md": configuration_page, "cli.md": cli_page, "tmt.1": man_page}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    stale = []
    for name, page in PAGES.items():
        try:
            path, text = ROOT / "docs" / name, page()
        except ValueError as error:
            sys.exit(str(error))
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(f"docs/{name}")
            if not check:
                path.write_text(text, encoding="utf-8")
    if check and stale:
        sys.exit(f"{', '.join(stale)}: not as the code is; run python scripts/write_manual.py")


if __name__ == "__main__":
    main()
