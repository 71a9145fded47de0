"""What a driver tells: one JSON line per update with its end and its real tokens.

Comes in: tensors of ids. Goes out: lines that `watch.py` reads. Knows no toolkit.
"""

import json
import time
from pathlib import Path
from typing import Any


class UpdateLog:
    """Writes {"time", "src", "tgt"}: seconds since the epoch and counts, padding left out."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._src = self._tgt = 0

    def count(self, src: int, tgt: int) -> None:
        """Add a batch to the update that is being made."""
        self._src += src
        self._tgt += tgt

    def end_update(self) -> None:
        line = {"time": time.time(), "src": self._src, "tgt": self._tgt}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        self._src = self._tgt = 0


def count_real(ids: Any, padding: int) -> int:
    """Tokens of a tensor or array of ids that are not padding; EOS is one."""
    return int((ids != padding).sum())
