"""An experiment's sources on this machine: what is read, and how often."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from loopback import Server

from transformer_mt.config.experiment import Config
from transformer_mt.corpus.clean import prepare_corpus
from transformer_mt.corpus.cleaning.score import _made_from
from transformer_mt.corpus.sources import obtain
from transformer_mt.errors import DataError
from transformer_mt.pipeline.prepare import fingerprints


def experiment(toy_config: Config, root: Path) -> Config:
    tree = toy_config.model_dump()
    train = ["a", {"tsv": "b.tsv", "weight": 2}]
    tree["data"] |= {"root": str(root), "train": train, "dev": ["a"], "test": {"t": "a"}}
    return Config.model_validate(tree)


def write_files(root: Path) -> None:
    (root / "a.zh").write_text("猫很小\n", encoding="utf-8")
    (root / "a.en").write_text("The cat is small\n", encoding="utf-8")
    (root / "b.tsv").write_text("狗很大\tThe dog is big\n", encoding="utf-8")


def test_each_file_of_a_source_is_read_and_hashed_once(
    toy_config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path)
    hashed = Counter[str]()

    def counting(path: Path, sha256: Callable[[Path], str] = obtain.sha256) -> str:
        hashed[path.name] += 1
        return sha256(path)

    monkeypatch.setattr(obtain, "sha256", counting)
    cfg = experiment(toy_config, tmp_path)
    local = obtain.obtain_sources(cfg, print)
    fingerprints(local)
    prepare_corpus(local, tmp_path / "clean", work_dir=tmp_path / "work", say=print)
    assert hashed == {"a.zh": 3, "a.en": 3, "b.tsv": 1}, "a is a source of train, dev and test"
    assert [source.name for source in local.train] == [str(source) for source in cfg.data.train]
    cat, dog = [("猫很小", "The cat is small")], [("狗很大", "The dog is big")]
    assert [list(source.read()) for source in local.sources] == [cat, dog, cat, cat]
    assert [name for name, _ in local.train[0].digests] == ["a.zh", "a.en"]
    assert local.train[0].digests == local.dev[0].digests
    assert all(len(digest) == 64 for source in local.sources for _, digest in source.digests)


@pytest.mark.parametrize("by_setting", [True, False])
def test_a_cache_that_is_named_from_here(
    toy_config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server,
    by_setting: bool,
) -> None:  # fmt: skip
    """Its files are not looked for below data.root."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMT_CACHE", "mine")
    tree = toy_config.model_dump()
    tree["data"] |= {"root": "elsewhere", "train": [server.serve("/a.tsv", "猫\tcat\n".encode())]}
    tree["data"] |= {"cache": "mine"} if by_setting else {}
    (source, *_) = obtain.obtain_sources(Config.model_validate(tree), print).train
    assert [*source.read()] == [("猫", "cat")]
    assert (tmp_path / "mine").is_dir()


def test_how_a_source_is_used_scores_nothing_anew(toy_config: Config) -> None:
    prints = set()
    for use in ({}, {"weight": 2.0}, {"tag": "bt"}, {"clean": {"too_long": 100}}):
        tree = toy_config.model_dump()
        tree["data"] |= {"train": [{"demo": True, **use}], "dev": [], "test": {}}
        local = obtain.obtain_sources(Config.model_validate(tree), print)
        prints.add(_made_from(local, local.train[0]))
    assert len(prints) == 1


def test_a_missing_file_is_told_when_it_is_looked_at(toy_config: Config, tmp_path: Path) -> None:
    local = obtain.obtain_sources(experiment(toy_config, tmp_path), print)
    with pytest.raises(DataError, match="no zh side"):
        fingerprints(local)
