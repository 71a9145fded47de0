"""What a plan is made with: sizes of sources, a fair sample of them, or the run's own corpus."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from transformer_mt.config.experiment import Config, build_config
from transformer_mt.encoding.encoded_corpus import open_corpus
from transformer_mt.errors import ConfigError, TokenizerError
from transformer_mt.pipeline.run_dir import Run
from transformer_mt.profiling import corpus_sample as survey
from transformer_mt.profiling.corpus_sample import (
    PlanningCorpus,
    measure_sources,
    planning_corpus,
)


@pytest.fixture(scope="module")
def cfg(experiment: Callable[..., Config]) -> Config:
    return experiment(["a", {"path": "b", "weight": 2.0}], {})


def planned(cfg: Config, run: Run, folder: Path) -> PlanningCorpus:
    folder.mkdir(exist_ok=True)
    return planning_corpus(cfg, run, *measure_sources(cfg), folder)


def n_tokens(run: Run) -> tuple[int, int]:
    corpus = open_corpus(run.encoded_dir / "train")
    return int(corpus.src.lengths.sum()), int(corpus.tgt.lengths.sum())


def test_sources_are_counted(cfg: Config) -> None:
    sizes, sample = measure_sources(cfg)
    assert [(size.role, size.pairs, size.weight) for size in sizes] == [
        ("train", 120, 1.0),
        ("train", 60, 2.0),
        ("dev", 20, 1.0),
        ("test.toy", 20, 1.0),
    ]
    assert len(sample.items) == 180, "of train alone"
    first = [pair for source, pair in sample.items if source == 0]
    assert sizes[0].src_characters == sum(len(src) for src, _ in first)
    assert sizes[0].tgt_characters == sum(len(tgt) for _, tgt in first)


def test_all_missing_sources_are_told_at_once(experiment: Callable[..., Config]) -> None:
    with pytest.raises(ConfigError, match=r"(?s)no-a.*no-b"):
        measure_sources(experiment(["no-a", "no-b"], {}))


def test_what_is_drawn_whole_is_prepared_as_training_would(
    cfg: Config, real: Run, tmp_path: Path
) -> None:
    corpus = planned(cfg, Run(tmp_path / "none"), tmp_path / "folder")
    assert corpus.scale == 1 and corpus.preparation_s > 0
    assert n_tokens(corpus.run) == n_tokens(real)
    assert corpus.dev_pairs == len(open_corpus(real.encoded_dir / "dev"))
    assert not (tmp_path / "none").exists()


def test_a_part_stands_for_the_whole(
    cfg: Config, real: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = [size for size in measure_sources(cfg)[0] if size.role == "train"]
    n_characters = sum(size.src_characters + size.tgt_characters for size in train)
    monkeypatch.setattr(survey, "MIN_DRAWN", n_characters // 2)
    monkeypatch.setattr(survey, "DRAWN_PER_PIECE", 0)
    corpus = planned(cfg, Run(tmp_path / "none"), tmp_path / "folder")
    assert 1.9 < corpus.scale < 2.6
    for guess, truth in zip(n_tokens(corpus.run), n_tokens(real), strict=True):
        assert corpus.scale * guess == pytest.approx(truth, rel=0.1)


@pytest.mark.parametrize("both", [False, True])
def test_a_large_corpus_has_a_thousand_pairs_held_out_for_each_direction(
    experiment: Callable[..., Config], tmp_path: Path, *, both: bool
) -> None:
    cfg = experiment(["a", "b"], {"joint": both})
    tree = cfg.model_dump()
    tree["languages"]["bidirectional"], tree["data"]["dev"] = both, []
    cfg = build_config(tree, "test")
    sizes, sample = measure_sources(cfg)
    many = [replace(sizes[0], pairs=10**7), *sizes[1:]]
    corpus = planning_corpus(cfg, Run(tmp_path / "none"), many, sample, tmp_path)
    assert corpus.dev_pairs == (2000 if both else 1000)


def test_workers_shorten_the_preparation_of_what_has_parts_for_them(
    cfg: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 60 parts for each of the sample, 16 workers prepare 16 at once, the sample's one alone."""
    sizes, sample = measure_sources(cfg)
    monkeypatch.setattr(survey, "SHARD_PAIRS", len(sample.items))
    folder = tmp_path / "folder"
    folder.mkdir()
    planning_corpus(cfg, Run(tmp_path / "none"), sizes, sample, folder)
    started = max(path.stat().st_mtime for path in folder.glob("*.jsonl"))

    def minutes(workers: int | str) -> float:
        return survey._preparation_seconds(Run(folder / "run"), sample, started, 60, workers)

    assert minutes("dask://there:8786") == minutes(1) > minutes(2) > 1.5 * minutes(16)
    assert minutes(60) == minutes(64)


def test_a_prepared_run_is_used_and_left_alone(cfg: Config, real: Run, tmp_path: Path) -> None:
    def state() -> dict[str, int]:
        return {str(path): path.stat().st_mtime_ns for path in real.directory.rglob("*")}

    before = state()
    corpus = planned(cfg, real, tmp_path / "folder")
    assert (corpus.run, corpus.scale, corpus.preparation_s) == (real, 1.0, 0.0)
    assert os.listdir(tmp_path / "folder") == []
    changed = cfg.model_copy(update={"data": cfg.data.model_copy(update={"max_length": 20})})
    corpus = planned(changed, real, tmp_path / "folder")
    assert corpus.run.directory != real.directory, "it was made with another limit"
    assert state() == before


def test_a_vocabulary_that_cannot_be_learned_is_told(cfg: Config, tmp_path: Path) -> None:
    tokenizer = cfg.tokenizer.model_copy(update={"vocab_size": 50_000})
    with pytest.raises(TokenizerError, match="too large for this zh text: the largest possible"):
        planned(cfg.model_copy(update={"tokenizer": tokenizer}), Run(tmp_path / "none"), tmp_path)
