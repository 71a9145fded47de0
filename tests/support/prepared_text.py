"""The prepared corpus of a run, for another run: tests of training need not make it again."""

import shutil
from pathlib import Path

from transformer_mt.pipeline.run_dir import Run


def copy_prepared(run: Run, directory: Path) -> Run:
    """A run in `directory` that has the prepared corpus of `run`, and nothing else."""
    other = Run(directory)
    other.claim()
    shutil.copytree(run.directory / "data", other.directory / "data")
    return other
