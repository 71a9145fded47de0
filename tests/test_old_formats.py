"""A run directory made by tmt 0.1 before its modules moved still opens, translates and resumes.

`fixtures/run-0.1.tar.xz`: two small text files, their configuration and the run of three updates,
without curves and reports.
"""

import json
import math
import tarfile
from pathlib import Path

import pytest

import transformer_mt as tmt

ARCHIVE = Path(__file__).parent / "fixtures" / "run-0.1.tar.xz"


@pytest.fixture
def run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path)
    return Path("runs/old")


@pytest.mark.parametrize("place", ["runs/old", "runs/old/model", "copy"])
def test_the_model_opens_and_translates(run_dir: Path, place: str) -> None:
    (run_dir / "model").rename("copy") if place == "copy" else None
    with tmt.load(place, precision="fp32") as model:
        assert len(model.translate(["猫看见狗。", ""], max_length=5)) == 2
        (score,) = model.score([("猫看见狗。", "the cat sees the dog.")])
        assert math.isfinite(score.log_prob) and score.n_tokens > 5
        assert model.config.name == "old"


def test_the_run_resumes(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trained = tmt.train("old.yaml", {"train.max_updates": 4}, processes=1)
    said = capsys.readouterr().err
    assert said.count("up to date") == 3 and "going on after update 3" in said
    assert trained.metadata["trained"]["updates"] == 4
    records = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    assert [r["update"] for r in records if r["event"] == "validation"] == [3, 4]


def test_the_finished_run_is_left_alone(run_dir: Path) -> None:
    before = (run_dir / "model" / "metadata.json").read_bytes()
    scores = tmt.train("old.yaml", processes=1).scores
    assert (run_dir / "model" / "metadata.json").read_bytes() == before
    assert {*scores} == {"test"}
