"""The records of a run, read from `metrics.jsonl`; `log.py` writes them.

This file knows nothing of training, so that what only shows runs need not load torch.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformer_mt.system.state import read_records


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Records of a run so far; lines that are damaged, or cut short by a crash, are left out."""
    return [record for record in read_records(path) if is_metric(record)]


def is_metric(record: Mapping[str, Any]) -> bool:
    """Whether an object is a record of a training."""
    return (
        isinstance(record.get("event"), str)
        and isinstance(record.get("update"), int)
        and isinstance(record.get("samples", []), list)
        and all(
            isinstance(v, int | float | None)
            for k, v in record.items()
            if k not in ("event", "samples")
        )
    )
