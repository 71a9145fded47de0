"""What the decoding drivers share: the task, the clock, and the line that they print.

A task is a JSON file: sentences (source ids without EOS) and pieces (the same as text), batch,
beam, length (tokens that every translation has), threads, model (sizes), and what the tool reads:
tmt, ctranslate2 or marian (directories). A driver prints one JSON object with `Timed`'s fields.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from watch import memory_mib


def read_task() -> dict[str, Any]:
    return json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))


def batches(rows: Sequence[Any], size: int) -> list[Sequence[Any]]:
    """Rows, longest first, `size` at a time."""
    ordered = sorted(rows, key=len, reverse=True)
    return [ordered[start : start + size] for start in range(0, len(ordered), size)]


def report(task: dict[str, Any], rows: Sequence[Any], translate: Callable[[Any], int]) -> None:
    """Translate everything once and print how long it took.

    Args:
        translate: one batch; returns the tokens written, EOS left out.
    """
    parts = batches(rows, task["batch"])
    translate(parts[-1])  # to warm up
    started = time.monotonic()
    n_tokens = sum(translate(part) for part in parts)
    content = {
        "seconds": time.monotonic() - started,
        "sentences": len(rows),
        "tokens": n_tokens,
        # Not getrusage: it starts with the size of the process that started this one.
        "peak_mib": memory_mib(os.getpid()),
    }
    print(json.dumps(content), flush=True)
