"""Pairs of text as two files, line by line."""

from collections.abc import Sequence
from pathlib import Path


def write_sides(
    prefix: Path, pairs: Sequence[tuple[str, str]], endings: tuple[str, str] = ("zh", "en")
) -> None:
    """`prefix.zh` and `prefix.en`."""
    for side, ending in enumerate(endings):
        text = "".join(f"{pair[side]}\n" for pair in pairs)
        prefix.with_name(f"{prefix.name}.{ending}").write_text(text, encoding="utf-8")
