"""The configurations that come with tmt: found by name, printed to be edited."""

import os
from pathlib import Path

from transformer_mt.errors import ConfigError
from transformer_mt.messages.catalogue import tr

_IN_WHEEL = Path(__file__).parent / "bundled"  # pyproject.toml puts configs/ there
_IN_CHECKOUT = Path(__file__).parents[2] / "configs"


def preset_paths() -> dict[str, Path]:
    """The files of the bundled configurations by name."""
    directory = _IN_WHEEL if _IN_WHEEL.is_dir() else _IN_CHECKOUT
    return {path.stem: path for path in sorted(directory.glob("*.yaml"))}


def preset_path(name: str) -> Path:
    """The file of one bundled configuration."""
    paths = preset_paths()
    if name not in paths:
        raise ConfigError(
            tr("{}: no such configuration; tmt comes with {}", name, ", ".join(paths))
        )
    return paths[name]


def find_config(config: str | os.PathLike[str]) -> Path:
    """The file that a bundled configuration's bare name means, `tiny`; anything else is a path."""
    bundled = preset_paths() if isinstance(config, str) else {}
    return bundled.get(str(config), Path(config))


def describe_presets() -> list[str]:
    """A line per bundled configuration: its name, and its purpose from the first line of it."""
    paths = preset_paths()
    width = max(map(len, paths))
    firsts = {name: path.read_text(encoding="utf-8").split("\n")[0] for name, path in paths.items()}
    return [f"{name:{width}}  {first.removeprefix('# ')}" for name, first in firsts.items()]
