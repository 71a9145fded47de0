"""Imports run one way, and the command line starts without the heavy packages."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import transformer_mt

PACKAGE = Path(transformer_mt.__file__).parent
NAME = transformer_mt.__name__

# From the ground up. A file may import what lies lower, and its neighbours in the same folder.
LAYERS = [
    ["errors"],
    ["system"],
    ["environment", "child_python", "loopback", "messages"],
    [
        "languages",
        "runtime",
        "distributed",
        "launch",
        "plots",
        "run_dir",
        "yaml_text",
        "config_errors",
    ],
    ["config_data"],
    ["config"],
    ["model", "data", "recipes"],
    ["model_dir", "flops"],
    ["inference"],
    ["export"],
    ["training", "preparation"],
    ["scoring"],
    ["finishing"],
    ["experiment"],
    ["workbench", "survey"],
    ["trial"],
    ["plan", "bench", "bench_decode", "doctor", "tune"],
    ["cli_common"],
    ["cli_data", "cli_bench", "cli_eval", "cli_export", "cli_translate"],
    ["cli"],
    ["__main__"],
]
LAYER_OF = {name: height for height, names in enumerate(LAYERS) for name in names}


def modules() -> dict[str, Path]:
    """Dotted name below the package → file, without the `__init__` files."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if parts[-1] != "__init__":
            found[".".join(parts)] = path
    return found


def imported(path: Path) -> Iterator[str]:
    """Every module that a file names in an import, wherever it stands."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            assert node.module is not None
            # `from transformer_mt.inference import explain_command` names a module too.
            for alias in node.names:
                inner = f"{node.module}.{alias.name}".removeprefix(f"{NAME}.")
                yield f"{NAME}.{inner}" if inner in MODULES else node.module


MODULES = modules()


def of_the_package(path: Path) -> set[str]:
    return {name.removeprefix(f"{NAME}.") for name in imported(path) if name.startswith(f"{NAME}.")}


def foreign(path: Path) -> set[str]:
    """Packages from outside, without the standard library."""
    tops = {name.split(".")[0] for name in imported(path)}
    return tops - {NAME} - set(sys.stdlib_module_names)


def test_the_parser_sees_imports() -> None:
    assert len(MODULES) > 20
    assert {"config", "model.attention", "model.dropout"} <= of_the_package(
        MODULES["model.transformer"]
    )
    assert "experiment" in of_the_package(MODULES["cli"]), "those inside functions too"
    assert "torch" in foreign(MODULES["model.attention"])


@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_run_one_way(module: str) -> None:
    folder = module.split(".")[0]
    assert folder in LAYER_OF, f"{module} has no place in LAYERS yet"
    for other in of_the_package(MODULES[module]):
        other_folder = other.split(".")[0]
        same_folder = other_folder == folder and "." in module
        assert same_folder or LAYER_OF[other_folder] < LAYER_OF[folder], f"{module} ← {other}"


def test_no_cycles_within_a_folder() -> None:
    remaining = {module: of_the_package(path) for module, path in MODULES.items()}
    while remaining:
        free = [module for module, others in remaining.items() if not others & remaining.keys()]
        assert free, f"these import each other in a circle: {sorted(remaining)}"
        for module in free:
            del remaining[module]


@pytest.mark.parametrize("module", [m for m in sorted(MODULES) if m.startswith("model.")])
def test_the_model_knows_only_torch_and_its_sizes(module: str) -> None:
    own = {other for other in of_the_package(MODULES[module]) if not other.startswith("model.")}
    assert own <= {"config"}
    assert foreign(MODULES[module]) == {"torch"}
    everything = {name.split(".")[0] for name in imported(MODULES[module])}
    assert everything <= {NAME, "torch", "math", "collections", "dataclasses", "typing"}


@pytest.mark.parametrize("module", ["search", "token_rules", "loops", "sampling", "constrained"])
def test_search_knows_only_ids_and_torch(module: str) -> None:
    path = MODULES[f"inference.{module}"]
    low = {"inference.search", "inference.token_rules", "inference.loops"}
    assert of_the_package(path) <= low
    assert foreign(path) == {"torch"}


def test_the_trainer_knows_no_text() -> None:
    path = MODULES["training.trainer"]
    assert not any(other.startswith("inference") for other in of_the_package(path))
    assert {"sacrebleu", "sentencepiece"}.isdisjoint(foreign(path))


def test_nothing_imports_the_command_line() -> None:
    importers = [module for module, path in MODULES.items() if "cli" in of_the_package(path)]
    assert importers == ["__main__"]
    parts = {"cli_common", "cli_data", "cli_bench", "cli_eval", "cli_export", "cli_translate"}
    importers = [module for module, path in MODULES.items() if parts & of_the_package(path)]
    assert set(importers) <= {
        "cli",
        "cli_data",
        "cli_bench",
        "cli_eval",
        "cli_export",
        "cli_translate",
    }


@pytest.mark.parametrize("module", [*LAYERS[0], *LAYERS[2], *LAYERS[3]])
def test_leaves_know_errors_and_the_machine_only(module: str) -> None:
    ground = {*LAYERS[0], *LAYERS[1]} | ({*LAYERS[2]} if module in LAYERS[3] else set())
    assert {other.split(".")[0] for other in of_the_package(MODULES[module])} <= ground


@pytest.mark.parametrize("module", [m for m in sorted(MODULES) if m.startswith("system.")])
def test_the_system_knows_nothing_of_translation(module: str) -> None:
    others = of_the_package(MODULES[module])
    assert {other.split(".")[0] for other in others} <= {"errors", "system"}
    assert not foreign(MODULES[module])


def test_the_command_line_starts_light() -> None:
    """`tmt --help` must not wait for what only some commands need."""
    heavy = "torch datasets matplotlib sacrebleu sentencepiece numpy safetensors".split()
    code = f"import sys, {NAME}.cli; print([name for name in {heavy} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


@pytest.mark.parametrize("package", ["datasets", "matplotlib", "sacrebleu"])
def test_heavy_packages_are_imported_inside_functions_only(package: str) -> None:
    for module, path in MODULES.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        at_import = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        names = {alias.name for n in at_import if isinstance(n, ast.Import) for alias in n.names}
        names |= {n.module for n in at_import if isinstance(n, ast.ImportFrom) and n.module}
        assert package not in {name.split(".")[0] for name in names}, module
