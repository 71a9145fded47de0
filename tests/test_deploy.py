"""The templates in deploy/ can be read by the programs they are for, and name what there is."""

import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from places import ROOT
from torch.distributed.run import get_args_parser
from typer.main import get_command

from transformer_mt.cli.main import app

DEPLOY = ROOT / "deploy"
COMMANDS: Any = get_command(app)


def shell_words(text: str) -> list[str]:
    return shlex.split(text.replace("\\\n", " "), comments=True)


def documents(name: str) -> list[Any]:
    return [found for found in yaml.safe_load_all((DEPLOY / name).read_text()) if found]


def template(name: str) -> list[str]:
    """The words of its torchrun."""
    if name == "train.sbatch":
        words = shell_words((DEPLOY / name).read_text())
    elif name == "sky.yaml":
        words = shell_words(documents(name)[0]["run"])
    else:
        container = documents(name)[0]["spec"]["template"]["spec"]["containers"][0]
        words = [*container["command"], *container["args"]]
    return words[words.index("torchrun") + 1 :]


def test_every_file_is_of_a_kind_that_is_looked_at() -> None:
    names = {path.name for path in DEPLOY.iterdir()}
    assert {"train.sbatch", "kubernetes-train.yaml", "sky.yaml"} <= names
    assert {Path(name).suffix for name in names} == {".yaml", ".sbatch"}
    assert all(documents(path.name) for path in DEPLOY.glob("*.yaml"))


@pytest.mark.parametrize("script", [*DEPLOY.glob("*.sbatch"), documents("sky.yaml")[0]])
def test_scripts_are_shell(script: Path | dict[str, str]) -> None:
    texts = [script.read_text()] if isinstance(script, Path) else [script["setup"], script["run"]]
    for text in texts:
        subprocess.run(["bash", "-n"], input=text, text=True, check=True, timeout=10)


@pytest.mark.parametrize("name", ["train.sbatch", "kubernetes-train.yaml", "sky.yaml"])
def test_torchrun_starts_tmt_on_several_machines(name: str) -> None:
    words = template(name)
    found = get_args_parser().parse_args(words)
    assert found.nnodes != "1:1" and (found.rdzv_backend, found.nproc_per_node) == ("c10d", "gpu")
    assert found.rdzv_endpoint and found.module and found.training_script == "transformer_mt"
    command, *arguments = found.training_script_args
    parsed = COMMANDS.commands[command].make_context(command, arguments)
    assert command == "train" and parsed.params["config"], name


@pytest.mark.parametrize("name", ["kubernetes.yaml", "compose.yaml"])
def test_servers_are_started_with_options_that_exist(name: str) -> None:
    found = documents(name)[0]
    if name == "kubernetes.yaml":
        words = found["spec"]["template"]["spec"]["containers"][0]["args"]
    else:
        words = found["services"]["one"]["command"].split()
    assert words[0] == "serve"
    assert COMMANDS.commands["serve"].make_context("serve", words[1:]).params["glossaries"]
