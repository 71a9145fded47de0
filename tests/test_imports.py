"""Imports run one way, between folders and within, and the command line starts light."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import transformer_mt

PACKAGE = Path(transformer_mt.__file__).parent
NAME = transformer_mt.__name__

# Folders, and modules of the top level, from the ground up: each imports from lower ones only. A
# module belongs to the innermost folder; "corpus" are the modules beside corpus's folders.
ORDER = [
    "messages",
    "errors",
    "system",
    "system.processes",
    "text",
    "rendering",
    "config",
    "corpus.readers",
    "corpus.sources",
    "corpus.diagnostics",
    "corpus.cleaning",
    "corpus.report",
    "corpus",
    "encoding",
    "model",
    "kernels",
    "training",
    "search",
    "model_dir",
    "translation.documents",
    "translation",
    "evaluation",
    "explain",
    "export",
    "pipeline",
    "profiling",
    "serve",
    "cli",
    "__main__",
]
GROUND = {"errors", "system", "text"}
# What a folder knows besides itself: more than one way down is a decision, and stands here.
KNOWN = {
    "errors": set(),
    "system": {"errors"},
    "system.processes": {"errors", "system"},
    "text": {"errors"},
    "rendering": {"errors", "system"},
    "config": {"errors", "text"},
    "model": {"config"},
    "kernels": {"model"},
    "training": {"config", "encoding", "errors", "kernels", "model", "system", "system.processes"},
    "search": {"config", "encoding", "errors", "model", "system.processes"},
    "encoding": {*GROUND, "config", "corpus.readers", "corpus.report", "system.processes"},
    "model_dir": {"config", "encoding", "errors", "model", "system", "text"},
}


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
            # `from transformer_mt.translation import output_checks` names a module too.
            for alias in node.names:
                inner = f"{node.module}.{alias.name}".removeprefix(f"{NAME}.")
                yield f"{NAME}.{inner}" if inner in MODULES else node.module


MODULES = modules()


def of_the_package(path: Path) -> set[str]:
    return {name.removeprefix(f"{NAME}.") for name in imported(path) if name.startswith(f"{NAME}.")}


def folder_of(module: str) -> str:
    """The folder that a module lies in; itself, if that is the package."""
    return module.rpartition(".")[0] or module


def foreign(path: Path) -> set[str]:
    """Packages from outside, without the standard library."""
    tops = {name.split(".")[0] for name in imported(path)}
    return tops - {NAME} - set(sys.stdlib_module_names)


def test_the_parser_sees_imports() -> None:
    assert len(MODULES) > 100
    assert {"config.model", "model.attention", "model.dropout"} <= of_the_package(
        MODULES["model.transformer"]
    )
    assert "pipeline.start" in of_the_package(MODULES["cli.train"]), "those inside functions too"
    assert "torch" in foreign(MODULES["model.attention"])


def test_the_top_level_is_short() -> None:
    assert {module for module in MODULES if "." not in module} == {
        "__main__",
        "errors",
        "model_dir",
    }
    assert {folder_of(module) for module in MODULES} == set(ORDER)


@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_go_down(module: str) -> None:
    folder = folder_of(module)
    others = {folder_of(other) for other in of_the_package(MODULES[module])} - {folder}
    above = [other for other in others if ORDER.index(other) > ORDER.index(folder)]
    assert not above, f"{module} knows {above}"
    if folder in KNOWN:
        assert others <= KNOWN[folder] | {"messages"}


def test_no_cycles_within_a_folder() -> None:
    remaining = {module: of_the_package(path) for module, path in MODULES.items()}
    while remaining:
        free = [module for module, others in remaining.items() if not others & remaining.keys()]
        assert free, f"these import each other in a circle: {sorted(remaining)}"
        for module in free:
            del remaining[module]


@pytest.mark.parametrize("module", [m for m in sorted(MODULES) if m.startswith("model.")])
def test_the_model_knows_only_torch_and_its_sizes(module: str) -> None:
    assert foreign(MODULES[module]) == {"torch"}
    everything = {name.split(".")[0] for name in imported(MODULES[module])}
    assert everything <= {NAME, "torch", "abc", "math", "collections", "dataclasses", "typing"}


@pytest.mark.parametrize(
    "name", ["beam_search", "token_rules", "loop_detection", "sampling", "constrained_search"]
)
def test_search_algorithms_know_only_ids_and_torch(name: str) -> None:
    path = MODULES[f"search.{name}"]
    assert of_the_package(path) <= {
        "search.beam_search",
        "search.token_rules",
        "search.loop_detection",
    }
    assert foreign(path) == {"torch"}


def test_training_scores_no_text() -> None:
    for module, path in MODULES.items():
        if module.startswith("training."):
            assert {"sacrebleu", "sentencepiece"}.isdisjoint(foreign(path)), module


@pytest.mark.parametrize(
    "module", [m for m in sorted(MODULES) if folder_of(m) in {"errors", "system"}]
)
def test_files_and_locks_need_the_standard_library_only(module: str) -> None:
    allowed = {"torch", "numpy"} if module in {"system.device", "system.arrays"} else set()
    assert foreign(MODULES[module]) <= allowed


def test_the_command_line_starts_light() -> None:
    """`tmt --help` must not wait for what only some commands need."""
    heavy = "torch datasets matplotlib sacrebleu sentencepiece numpy safetensors".split()
    code = f"import sys, {NAME}.cli.main; print([name for name in {heavy} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


def test_what_reads_no_weights_waits_for_no_torch() -> None:
    """`tmt data prepare`, `tmt runs` and `tmt info`: torch alone would take two seconds."""
    light = (
        "model_dir pipeline.prepare pipeline.run_comparison evaluation.test_sets encoding.mixing"
    )
    light += " export.hub"
    names = ", ".join(f"{NAME}.{module}" for module in light.split())
    code = f"import sys, {names}; print('torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"


@pytest.mark.parametrize("package", ["datasets", "jinja2", "matplotlib", "sacrebleu"])
def test_heavy_packages_are_imported_inside_functions_only(package: str) -> None:
    for module, path in MODULES.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        at_import = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        names = {alias.name for n in at_import if isinstance(n, ast.Import) for alias in n.names}
        names |= {n.module for n in at_import if isinstance(n, ast.ImportFrom) and n.module}
        assert package not in {name.split(".")[0] for name in names}, module
