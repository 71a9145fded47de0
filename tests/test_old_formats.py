"""A run directory made by tmt 0.1 before its modules moved still opens, translates and resumes.

`fixtures/run-0.1.tar.xz`: two small text files, their configuration and the run of three updates,
without curves and reports.
"""

import json
import tarfile
from functools import partial
from itertools import islice
from pathlib import Path

import pytest

import transformer_mt as tmt
from transformer_mt.config.experiment import load_config
from transformer_mt.encoding import mixing
from transformer_mt.encoding.encoded_corpus import open_corpus
from transformer_mt.encoding.mixing import Place, epoch_block
from transformer_mt.training.batches import plan_updates, planned_blocks
from transformer_mt.training.checkpoint import CheckpointStore

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
        found = model.translate(["猫看见狗。", ""], max_length=5)
        assert [one.text for one in found] == ["bo bo bosss", ""], "as when it was made"
        (score,) = model.score([("猫看见狗。", "the cat sees the dog.")])
        assert score.log_prob == pytest.approx(-59.7186, abs=1e-3) and score.n_tokens == 12
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


def test_a_checkpoint_that_knows_no_blocks_stands_where_it_stood(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of its epoch is that of a plan of the whole corpus; blocks begin with the next."""
    found = CheckpointStore(run_dir / "checkpoints", {}).load_newest(print)
    assert found is not None
    written = json.loads((run_dir / "checkpoints/00000003/progress.json").read_text())["progress"]
    progress = found.progress
    assert (progress.epoch, progress.block) == (written["epoch"], 0)
    assert progress.next_in_block == written["next_in_epoch"] > 0
    cfg, corpus = load_config(Path("old.yaml")), open_corpus(run_dir / "data/encoded/train")
    monkeypatch.setattr(mixing, "BLOCK_ENTRIES", 8)
    monkeypatch.setattr(mixing, "CHUNK_ROWS", 2)
    place = Place(progress.epoch, progress.block, progress.block_entries)
    block_of = partial(epoch_block, corpus, [1.0], seed=cfg.seed)
    blocks = planned_blocks(cfg, lambda place: block_of(place=place), place)
    (_, plan), (after, _) = islice(blocks, 2)
    lengths, train = (corpus.src.lengths, corpus.tgt.lengths), cfg.train
    whole = plan_updates(
        *lengths, max_tokens=train.batch_tokens, tokens_per_update=train.tokens_per_update,
        seed=cfg.seed, epoch=progress.epoch,
    )  # fmt: skip
    assert plan.rows.tolist() == whole.rows.tolist()
    assert after.place == Place(progress.epoch + 1, 0, 8) and after.n_blocks > 1
