"""Sources, translations, references → COMET, computed by another Python that has unbabel-comet.

The versions and the size of COMET's own needs do not fit beside ours, so it is never imported here:
a short script runs in its own environment and talks JSON over standard input and output.
"""

import errno
import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformer_mt.errors import ConfigError, TmtError
from transformer_mt.evaluation.metrics import Score
from transformer_mt.evaluation.test_sets import EvaluationSet
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.processes.child_python import child_environment

MODEL = "Unbabel/wmt22-comet-da"
_N_SAMPLES, _SEED = 1000, 12345
# Runs where tmt is not installed. Output of the libraries must not mix with the answer. Its
# path has no current folder: Pythons before 3.11 do not know PYTHONSAFEPATH.
_SCRIPT = """
import sys
sys.path[:] = [place for place in sys.path if place]
import contextlib, json
request, answer = json.load(sys.stdin), sys.stdout
with contextlib.redirect_stdout(sys.stderr):
    import comet
    import torch
    model = comet.load_from_checkpoint(comet.download_model(request["model"]))
    gpus = 1 if torch.cuda.is_available() else 0
    found = [model.predict(rows, batch_size=16, gpus=gpus) for rows in request["systems"]]
version = getattr(comet, "__version__", "unknown")
json.dump({"version": version, "scores": [list(map(float, one.scores)) for one in found]}, answer)
"""


def score_comet(
    python: Path, test: EvaluationSet, outputs: Mapping[str, Sequence[str]]
) -> dict[str, Score]:
    """COMET of each system, times 100, compared with the first by paired bootstrap.

    Raises:
        ConfigError: the interpreter cannot be started, or has no COMET.
        TmtError: the test set has no sources; COMET failed, or answered something else.
    """
    if not test.src:
        raise TmtError(tr("--comet reads the sources, too, but {} has none: give --src", test.name))
    systems = [
        [{"src": src, "mt": hyp, "ref": ref} for src, hyp, ref in rows]
        for rows in (zip(test.srcs, hyps, test.refs, strict=True) for hyps in outputs.values())
    ]
    answer = _ask(python, {"model": MODEL, "systems": systems})
    try:
        version = str(answer["version"])
        values = 100 * np.array(answer["scores"], np.float64).reshape(len(systems), len(test.refs))
    except (KeyError, TypeError, ValueError) as error:
        raise TmtError(tr("--comet {}: an answer of another form: {!r}", python, error)) from error
    signature = f"model:{MODEL}|version:{version}|scale:100|bs:{_N_SAMPLES}|seed:{_SEED}"
    return dict(zip(outputs, _compare(values, signature), strict=True))


def check_python(python: Path) -> None:
    """Raises: ConfigError: there is no such program."""
    if shutil.which(python) is None:
        raise _no_start(python, os.strerror(errno.ENOENT))


def _no_start(python: Path, reason: str | None) -> ConfigError:
    return ConfigError(
        tr(
            "--comet {}: cannot be started: {}; name the Python of an environment "
            "with unbabel-comet, such as comet/bin/python",
            python,
            reason,
        )
    )


def _ask(python: Path, request: dict[str, Any]) -> dict[str, Any]:
    try:
        result = subprocess.run(
            [str(python), "-c", _SCRIPT],
            env=child_environment(),
            input=json.dumps(request),
            capture_output=True,
            text=True,
            encoding="utf-8",
        )
    except OSError as error:
        raise _no_start(python, error.strerror) from error
    if "No module named 'comet'" in result.stderr:
        raise ConfigError(
            tr(
                "--comet {}: has no COMET; {} -m pip install unbabel-comet, or name "
                "the Python of an environment that has it",
                python,
                python,
            )
        )
    if result.returncode != 0:
        last = "\n".join(result.stderr.strip().split("\n")[-5:])
        raise TmtError(
            tr("--comet {}: failed with status {}:\n{}", python, result.returncode, last)
        )
    try:
        answer: dict[str, Any] = json.loads(result.stdout)
    except ValueError as error:
        raise TmtError(
            tr("--comet {}: expected JSON, found {!r}", python, result.stdout[:100])
        ) from error
    return answer


def _compare(values: NDArray[np.float64], signature: str) -> list[Score]:
    """Means with interval, difference and p-value, computed as by sacreBLEU for its own metrics.

    Args:
        values: (systems, sentences); the first system is the baseline.
    """
    from sacrebleu.significance import estimate_ci

    n = values.shape[1]
    drawn = np.random.default_rng(_SEED).choice(n, size=(_N_SAMPLES, n), replace=True)
    means = np.stack([row[drawn].mean(axis=1) for row in values])  # (systems, samples)
    scores: list[Score] = []
    for row, samples in zip(values, means, strict=True):
        mean, half = map(float, estimate_ci(samples))
        score = Score("COMET", float(row.mean()), signature, mean - half, mean + half)
        if scores:
            difference = float(row.mean() - values[0].mean())
            apart = np.abs(samples - means[0])
            n_larger = int((apart - apart.mean() > abs(difference)).sum())
            same = bool((row == values[0]).all())
            p_value = 1.0 if same else (n_larger + 1) / (_N_SAMPLES + 1)
            score = replace(score, difference=difference, p_value=p_value)
        scores.append(score)
    return scores
