"""COMET in an environment of its own: the process is real, the `comet` in it is a stand-in."""

import sys
from pathlib import Path

import pytest

from transformer_mt.errors import ConfigError, TmtError
from transformer_mt.evaluation.comet import MODEL, score_comet
from transformer_mt.evaluation.test_sets import EvaluationSet

PYTHON = Path(sys.executable)
TEST = EvaluationSet("news", "en", ["猫</s>", "狗", "鸟"], ["a cat", "a dog", "a bird"], "zh")
STAND_IN = """
print("Fetching 5 files")
__version__ = "9.9"
class Answer:
    def __init__(self, scores): self.scores = scores
class Model:
    def predict(self, rows, batch_size, gpus):
        print("Predicting")
        assert set(rows[0]) == {"src", "mt", "ref"} and gpus == 0 and rows[0]["src"] == "猫</s>"
        return Answer([1.0 if row["mt"] == row["ref"] else 0.25 for row in rows])
def download_model(name): return "/models/" + name
def load_from_checkpoint(path):
    assert path == "/models/MODEL"
    return Model()
"""


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages of that other Python; without `comet` yet."""
    torch = "class cuda:\n    is_available = staticmethod(lambda: False)\n"
    (tmp_path / "torch.py").write_text(torch)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


def install(environment: Path, code: str = STAND_IN) -> None:
    (environment / "comet.py").write_text(code.replace("MODEL", MODEL), encoding="utf-8")


def test_scores_are_means_in_hundredths(environment: Path) -> None:
    install(environment)
    outputs = {"bad": ["x", "y", "z"], "good": TEST.refs, "same": ["x", "y", "z"]}
    found = score_comet(PYTHON, TEST, outputs)
    assert [found[name].score for name in outputs] == [25, 100, 25]
    assert found["bad"].p_value is None
    assert found["good"].difference == 75
    assert found["same"].difference == 0 and found["same"].p_value == 1
    assert "version:9.9" in found["good"].signature and MODEL in found["good"].signature
    assert (found["good"].low, found["good"].high) == (100, 100)


@pytest.mark.parametrize(
    ("code", "error", "message"),
    [
        (None, ConfigError, "has no COMET; .* -m pip install unbabel-comet"),
        ("raise RuntimeError('no space')", TmtError, "status 1:(.|\n)*RuntimeError: no space"),
        ("import os\nos._exit(0)", TmtError, "expected JSON, found ''"),
        (STAND_IN.replace("for row in rows]", "for row in rows[1:]]"), TmtError,
         r"cannot reshape array of size 2 into shape \(1,3\)"),
        (STAND_IN.replace("0.25", "'x'"), TmtError, "could not convert string to float"),
    ],
)  # fmt: skip
def test_what_fails_over_there_is_told_here(
    code: str | None, error: type[Exception], message: str, environment: Path
) -> None:
    if code is not None:
        install(environment, code)
    with pytest.raises(error, match=message):
        score_comet(PYTHON, TEST, {"a": ["x", "y", "z"]})


def test_no_such_python_and_no_sources(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="none/python: cannot be started: No such file"):
        score_comet(tmp_path / "none/python", TEST, {"a": TEST.refs})
    without = EvaluationSet("news", "en", [""], ["a cat"])
    with pytest.raises(TmtError, match="news has none: give --src"):
        score_comet(PYTHON, without, {"a": ["a cat"]})
