"""An experiment with all that the mixing of corpora offers: it resumes exactly, and is scored."""

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from prepared_text import copy_prepared
from safetensors.torch import load_file

from transformer_mt.config.data import Source
from transformer_mt.config.experiment import Config, build_config, load_config
from transformer_mt.errors import DataError, TrainingStopped
from transformer_mt.model_dir import load_model_dir
from transformer_mt.pipeline import train
from transformer_mt.pipeline.finish import average_run
from transformer_mt.pipeline.run_comparison import compare_runs
from transformer_mt.pipeline.run_dir import Run
from transformer_mt.pipeline.train import train_experiment


@pytest.fixture(autouse=True)
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing the curves would take as long as these trainings do."""
    monkeypatch.setattr(train, "write_curves", lambda records, path: path.write_bytes(b""))


@pytest.fixture(scope="module")
def corpus_dir(tmp_path_factory: pytest.TempPathFactory, toy_pairs: list[tuple[str, str]]) -> Path:
    """Three corpora of the toy language: train, back-translated, dev and test."""
    directory = tmp_path_factory.mktemp("corpus")
    parts = {"a": 3 * toy_pairs[:100], "b": 3 * toy_pairs[100:180], "dev": toy_pairs[180:]}
    for name, pairs in parts.items():
        for side, code in enumerate(("zh", "en")):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            (directory / f"{name}.{code}").write_text(text, encoding="utf-8")
    return directory


def configured(corpus_dir: Path, **train: Any) -> Config:
    """Both directions, weights, a tag and sub-word sampling at once; epochs of some 30 updates."""
    clean = dict.fromkeys(("mismatch", "duplicate", "length_ratio", "numbers", "repeated"), False)
    tree = {
        "name": "all",
        "languages": {"src": "zh", "tgt": "en", "bidirectional": True},
        "data": {
            "root": str(corpus_dir),
            "train": ["a", {"path": "b", "tag": "bt", "weight": 1.5}],
            "dev": ["dev"],
            "test": {"toy": "dev"},
            "clean": {**clean, "overlap": False},
            "workers": 1,
        },
        "tokenizer": {"joint": True, "vocab_size": 400, "sampling": 0.2},
        "model": {"d_model": 32, "heads": 4, "ffn": 64, "encoder_layers": 1, "decoder_layers": 1,
                  "norm": "pre", "dropout": 0.1},
        "train": {
            "max_tokens": 500, "tokens_per_update": 500, "lr": 1e-2, "warmup_updates": 10,
            "validate_every": 30, "log_every": 4, "keep_last": 2, "average": 0, "max_updates": 60,
            "precision": "fp32", "first_embeddings": "cooccurrence",
            "guided_attention": 0.2, **train,
        },
        "decode": {"beam": 1},
    }  # fmt: skip
    return build_config(tree, "test")


@pytest.fixture(scope="module")
def whole(corpus_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = Run(tmp_path_factory.mktemp("whole"))
    train_experiment(configured(corpus_dir), run, fresh=False, say=print)
    return run


def records(run: Run) -> list[dict[str, Any]]:
    clock = ("minutes", "eta_minutes", "tgt_tokens_per_s", "validation_s")
    lines = run.metrics_path.read_text(encoding="utf-8").splitlines()
    return [{k: v for k, v in json.loads(line).items() if k not in clock} for line in lines]


def test_dev_is_the_mean_of_both_directions_and_both_are_told(whole: Run) -> None:
    validations = [record for record in records(whole) if record["event"] == "validation"]
    assert len(validations) == 2
    for record in validations:
        for metric in ("bleu", "chrf"):
            both = [record[f"{metric}.{direction}"] for direction in ("zh-en", "en-zh")]
            assert record[metric] == pytest.approx(sum(both) / 2)
    assert validations[-1]["chrf.zh-en"] != validations[-1]["chrf.en-zh"]


def test_tests_are_scored_both_ways(whole: Run) -> None:
    metadata = json.loads((whole.model_dir / "metadata.json").read_text(encoding="utf-8"))
    assert list(metadata["scores"]) == ["toy.zh-en", "toy.en-zh"]
    assert "tok:zh" in metadata["scores"]["toy.en-zh"]["bleu"]["signature"]
    names = {path.name for path in whole.translations_dir.iterdir()}
    assert names == {"toy.zh-en.txt", "toy.en-zh.txt"}
    assert metadata["data"]["train_pairs"] == 540


def test_a_model_has_the_words_of_its_text_in_both_directions(
    whole: Run, toy_pairs: list[tuple[str, str]], tmp_path: Path
) -> None:
    """And so has the mean of its checkpoints."""
    words = load_model_dir(whole.model_dir).words
    assert words is not None
    zh, en = map(list, zip(*toy_pairs[180:], strict=True))
    for srcs, tgts in ((zh, en), (en, zh)):
        right, wrong = words.log_probs(srcs, tgts), words.log_probs(srcs, tgts[1:] + tgts[:1])
        assert (right >= wrong).mean() > 0.9 and right.mean() > wrong.mean() + 1
    average_run(whole, tmp_path / "mean", 2, print)
    one, other = (path / "word_translations.npz" for path in (whole.model_dir, tmp_path / "mean"))
    assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize("first", [5, 37])
def test_a_run_in_two_parts_is_the_run_in_one(
    whole: Run, corpus_dir: Path, tmp_path: Path, first: int
) -> None:
    """Bit for bit, in another epoch, and though the corpora of epochs were thrown away."""
    run = copy_prepared(whole, tmp_path / "run")
    train_experiment(configured(corpus_dir, max_updates=first), run, fresh=False, say=print)
    for path in sorted((run.encoded_dir / "epochs").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    train_experiment(configured(corpus_dir), run, fresh=False, say=print)
    ours, theirs = (
        load_file(r.checkpoints_dir / "00000060" / "weights.safetensors") for r in (run, whole)
    )
    assert ours.keys() == theirs.keys()
    assert all(ours[name].equal(weight) for name, weight in theirs.items())
    trained = [[r for r in records(r_) if r["event"] == "train"] for r_ in (run, whole)]
    assert trained[0][-1] == trained[1][-1]
    assert trained[1][-1]["epoch"] > 1


@pytest.mark.parametrize(
    ("cooldown", "losses", "expected"),
    [
        (0, [2.0, 1.9], "best on dev, update 30"),
        (20, [2.0, 1.9], "last, update 60"),
        (20, [2.0, 2.2], "best on dev, update 30"),
    ],
)
def test_weights_of_a_learning_rate_that_fell_to_0_are_taken_as_they_are(
    whole: Run, corpus_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    cooldown: int, losses: list[float], expected: str,
) -> None:  # fmt: skip
    """Though dev scored higher before, which may be chance; not where the model overfits."""
    dev = iter([{"loss": loss, "bleu": bleu} for loss, bleu in zip(losses, (16, 15), strict=True)])
    monkeypatch.setattr(train, "dev_validation", lambda *_: lambda: next(dev))
    run = copy_prepared(whole, tmp_path / "run")
    cfg = configured(corpus_dir, cooldown_updates=cooldown)
    train_experiment(cfg, run, fresh=False, say=print)
    metadata = json.loads((run.model_dir / "metadata.json").read_text(encoding="utf-8"))
    assert metadata["trained"]["weights"] == expected
    update = expected.rsplit(" ", 1)[1]
    kept = load_file(run.checkpoints_dir / f"{int(update):08}" / "weights.safetensors")
    chosen = load_file(run.model_dir / "model.safetensors")
    assert all(chosen[name].equal(weight) for name, weight in kept.items())


def test_a_training_that_was_ended_early_is_not_called_annealed(
    whole: Run, corpus_dir: Path, tmp_path: Path
) -> None:
    run = copy_prepared(whole, tmp_path / "run")
    said: list[str] = []

    def stop(update: int) -> None:
        if update == 30:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(TrainingStopped):
        cfg = configured(corpus_dir, cooldown_updates="auto")
        train_experiment(cfg, run, fresh=False, say=print, watch=stop)
    cfg = configured(corpus_dir, cooldown_updates="auto", max_updates=30)
    train_experiment(cfg, run, fresh=False, say=said.append)
    metadata = json.loads((run.model_dir / "metadata.json").read_text(encoding="utf-8"))
    assert metadata["trained"]["weights"].startswith("best on dev")
    assert not any("fallen to 0" in line or "fell to 0" in line for line in said)


def test_changed_settings_of_a_finished_training_are_said_to_have_no_effect(
    whole: Run, corpus_dir: Path, tmp_path: Path
) -> None:
    run = Run(shutil.copytree(whole.directory, tmp_path / "run"))
    said: list[str] = []
    train_experiment(configured(corpus_dir), run, fresh=False, say=said.append)
    assert not any("without effect" in line for line in said)
    train_experiment(configured(corpus_dir, lr=5e-3), run, fresh=False, say=said.append)
    assert any("without effect now: train.lr (train anew" in line for line in said)
    assert compare_runs([whole.directory, run.directory], n_samples=2).settings == {}


def test_a_fresh_start_that_cannot_be_leaves_the_old_training(
    whole: Run, corpus_dir: Path, tmp_path: Path
) -> None:
    run = Run(shutil.copytree(whole.directory, tmp_path / "run"))
    cfg = configured(corpus_dir)
    data = cfg.data.model_copy(update={"dev": [Source(path="mistyped")]})
    cfg = cfg.model_copy(update={"data": data})
    with pytest.raises(DataError, match="mistyped"):
        train_experiment(cfg, run, fresh=True, say=print)
    assert (run.model_dir / "metadata.json").is_file() and run.metrics_path.is_file()
    assert [path.name for path in run.checkpoints_dir.iterdir()]


def test_what_torchrun_starts_again_is_not_fresh(
    whole: Run, corpus_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(shutil.copytree(whole.directory, tmp_path / "run"))
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    cfg = configured(corpus_dir, max_updates=4)
    train_experiment(cfg, run, fresh=True, say=print)
    metadata = json.loads((run.model_dir / "metadata.json").read_text(encoding="utf-8"))
    assert metadata["trained"]["updates"] == 4, "what there was is gone"
    before = run.metrics_path.read_bytes()
    train_experiment(cfg, run, fresh=True, say=print)
    assert run.metrics_path.read_bytes() == before, "the same torchrun goes on"
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "another")
    train_experiment(cfg, run, fresh=True, say=print)
    assert run.metrics_path.read_bytes() != before


def test_a_machine_that_comes_to_a_fresh_training_forgets_nothing(tmp_path: Path) -> None:
    """Its process may be the first one of all, and only the others know that they have begun."""
    run = Run(tmp_path)
    assert not run.was_cleared_for(["a 1", "b 2"]) and not run.was_cleared_for([])
    run.remember_clearing(["b 2", "a 1"])
    assert run.was_cleared_for(["c 3", "b 2"]) and not run.was_cleared_for(["c 3"])
    run.remember_clearing([])
    assert run.was_cleared_for(["a 1"])


def test_auto_is_a_number_that_the_run_keeps(whole: Run, corpus_dir: Path, tmp_path: Path) -> None:
    """It decides what an update holds: taken up again, the run must not choose another one."""
    run, said = copy_prepared(whole, tmp_path / "run"), []
    cfg = configured(corpus_dir, max_tokens="auto", max_updates=4)
    train_experiment(cfg, run, fresh=False, say=said.append)
    (told,) = [line for line in said if "max_tokens: auto is" in line]
    chosen = json.loads(run.max_tokens_path.read_text(encoding="utf-8"))["max_tokens"]
    assert f"auto is {chosen} here" in told and chosen >= 500
    other = json.loads(run.max_tokens_path.read_text(encoding="utf-8")) | {"max_tokens": 64}
    run.max_tokens_path.write_text(json.dumps(other), encoding="utf-8")
    cfg = configured(corpus_dir, max_tokens="auto", max_updates=6)
    train_experiment(cfg, run, fresh=False, say=said.append)
    assert "[train] max_tokens: auto is 64 here" in said
    assert load_config(run.model_dir / "config.yaml").train.max_tokens == 64
    train_experiment(cfg, run, fresh=True, say=said.append)
    assert said.count(told) == 2, "--fresh chooses anew"
