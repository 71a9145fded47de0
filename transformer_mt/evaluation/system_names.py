"""What is judged, a model or a file of translations, and a short name for each."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path


@dataclass(frozen=True)
class System:
    """A model directory, or a file with one translation per line."""

    name: str
    path: Path
    is_model: bool


def name_systems(paths: Sequence[tuple[Path, bool]]) -> list[System]:
    """Short names that differ: of the run or the file, or else the differing part of the path.

    Args:
        paths: of each system, and whether it is a model directory.
    """
    short = [_short_name(path) for path, _ in paths]
    seen: Counter[str] = Counter()
    systems = []
    for (path, is_model), name in zip(paths, short, strict=True):
        alike = [other for (other, _), its in zip(paths, short, strict=True) if its == name]
        if len(alike) > 1:
            name = _difference(path, alike) or name
        seen[name] += 1
        numbered = f"{name} #{seen[name]}" if seen[name] > 1 else name
        systems.append(System(numbered, path, is_model))
    return systems


def _short_name(path: Path) -> str:
    return path.absolute().parent.name if path.name == "model" else path.name


def _difference(path: Path, others: Sequence[Path]) -> str:
    """The path without the parts that all paths begin and end with."""
    every, parts = [other.absolute().parts for other in others], path.absolute().parts
    n_behind = _count_shared([own[::-1] for own in every])
    return "/".join(parts[_count_shared(every) : len(parts) - n_behind])


def _count_shared(paths: Sequence[Sequence[str]]) -> int:
    """The parts that all paths begin with."""
    levels = zip(*paths, strict=False)
    return sum(1 for _ in takewhile(lambda level: len(set(level)) == 1, levels))
