"""`--help`: groups, and an example for each command that would be understood."""

import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from transformer_mt.cli.main import EXAMPLES, app


def commands(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    for own, child in getattr(command, "commands", {}).items():
        whole = f"{name} {own}".strip()
        if hasattr(child, "commands"):
            yield from commands(child, whole)
        elif not child.hidden:  # what tmt starts itself
            yield whole, child


COMMANDS = dict(commands(typer.main.get_command(app)))


def test_every_command_has_an_example_and_every_example_a_command() -> None:
    assert set(EXAMPLES) == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_example_is_understood_and_shown(name: str) -> None:
    command, words = COMMANDS[name], shlex.split(EXAMPLES[name])
    context = command.make_context(name, words)
    assert context.params and not context.args
    shown = CliRunner().invoke(app, [*name.split(), "--help"], env={"COLUMNS": "200"}).output
    assert f"Example: tmt {name} {EXAMPLES[name]}" in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_says_what_it_does(name: str) -> None:
    for parameter in COMMANDS[name].params:
        if parameter.param_type_name == "option":
            assert parameter.help, f"{name} {parameter.opts}"


def test_commands_stand_in_groups() -> None:
    top: Any = typer.main.get_command(app)
    groups = [one.rich_help_panel for one in top.commands.values() if not one.hidden]
    assert all(groups)
    assert groups[0] == "Train" and len({*groups}) == 4


WITH_MODEL = [
    "train", "plan", "translate", "explain", "export", "eval", "score",
    "bench train", "bench decode", "data backtranslate", "data distill",
]  # fmt: skip


@pytest.mark.parametrize("name", WITH_MODEL)
def test_commands_that_use_a_model_take_a_device(name: str) -> None:
    (option,) = [own for own in COMMANDS[name].params if own.name == "device"]
    assert option.default == "auto" and option.rich_help_panel == "This machine"
