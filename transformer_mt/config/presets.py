"""The configurations that come with tmt: found by name, printed to be edited.

Comes in: what a user calls a configuration. Goes out: the path of a file. This file knows where the
bundled files lie, and nothing of their content but the first line.
"""

import os
from pathlib import Path

from transformer_mt.errors import ConfigError

_IN_WHEEL = Path(__file__).parent / "bundled"  # pyproject.toml puts configs/ there
_IN_CHECKOUT = Path(__file__).parents[2] / "configs"


def preset_paths() -> dict[str, Path]:
    """The files of the bundled configurations by name."""
    directory = _IN_WHEEL if _IN_WHEEL.is_dir() else _IN_CHECKOUT
    return {path.stem: path for path in sorted(directory.glob("*.yaml"))}


def preset_path(name: str) -> Path:
    """The file of one bundled configuration.

    Raises:
        ConfigError: there is none of that name.
    """
    paths = preset_paths()
    if name not in paths:
        raise ConfigError(f"{name}: no such configuration; tmt comes with {', '.join(paths)}")
    return paths[name]


def find_config(config: str | os.PathLike[str]) -> Path:
    """The file that a configuration's name or path means.

    Args:
        config: the bare name of a bundled configuration, `tiny`; anything else is a path. A text
            with a folder or an ending is always a path: `./tiny`, `tiny.yaml`.
    """
    bundled = preset_paths() if isinstance(config, str) else {}
    return bundled.get(str(config), Path(config))


def describe_presets() -> list[str]:
    """A line per bundled configuration: its name, and its purpose from the first line of it."""
    paths = preset_paths()
    width = max(map(len, paths))
    lines = []
    for name, path in paths.items():
        with path.open(encoding="utf-8") as file:
            lines.append(f"{name:{width}}  {file.readline().removeprefix('# ').strip()}")
    return lines
