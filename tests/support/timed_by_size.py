"""Updates that are timed without being made."""

from typing import Any

import pytest

from transformer_mt.config.model import ModelConfig
from transformer_mt.profiling import timed_start


def time_by_size(monkeypatch: pytest.MonkeyPatch) -> list[ModelConfig]:
    """An update takes a second for each 1,000 tokens; the models that are timed, as they come."""
    timed: list[ModelConfig] = []

    def seconds(work: Any, *_: object) -> list[float]:
        timed.append(work.args[0].model)
        return [size / 1000 for size in work.keywords["sizes"]]

    monkeypatch.setattr(timed_start, "in_new_processes", seconds)
    return timed
