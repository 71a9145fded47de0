"""Stages: each is made once, again only when what it was made from changed, and survives kills."""

import gzip
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from clusters import dask_workers

from transformer_mt.config.experiment import Config, build_config
from transformer_mt.corpus import clean
from transformer_mt.corpus.cleaning import duplicates, score
from transformer_mt.corpus.readers.demo import build_demo
from transformer_mt.corpus.report.report import CorpusReport
from transformer_mt.corpus.sources.obtain import obtain_sources
from transformer_mt.encoding import encoded_corpus
from transformer_mt.errors import TokenizerError
from transformer_mt.pipeline import prepare as stages
from transformer_mt.pipeline.prepare import fingerprints, prepare, read_report
from transformer_mt.pipeline.run_dir import Run
from transformer_mt.system.processes import executors

PAIRS = build_demo().train[:3000]


def write_pairs(folder: Path, name: str, first: int, end: int) -> None:
    for code, side in (("zh", 0), ("en", 1)):
        lines = "".join(f"{pair[side]}\n" for pair in PAIRS[first:end])
        (folder / f"{name}.{code}").write_text(lines, encoding="utf-8")


def config(folder: Path, **data: Any) -> Config:
    tree = {
        "name": "t",
        "languages": {"src": "zh", "tgt": "en"},
        "data": {"root": str(folder), "train": ["one", {"path": "two", "weight": 2.0}], **data},
        "tokenizer": {"vocab_size": 1000},
    }
    return build_config(tree, "t.yaml")


def prepared(cfg: Config, run: Run) -> list[str]:
    """The stages that had to be made."""
    said: list[str] = []
    local = obtain_sources(cfg, said.append)
    prepare(local, fingerprints(local), run, said.append)
    return [line.split("]")[0].strip("[") for line in said if "] making" in line]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_pairs(tmp_path, "one", 0, 1000)
    write_pairs(tmp_path, "two", 1000, 1500)
    return tmp_path


def test_only_what_changed_is_made_again(folder: Path) -> None:
    run = Run(folder / "run")
    everything = ["data", "tokenizer", "encode"]
    assert prepared(config(folder), run) == everything
    report = CorpusReport.from_json(run.report_path.with_suffix(".json").read_text("utf-8"))
    assert report.vocabulary["tgt"].vocab_size == 1000
    assert [source.weight for source in report.sources] == [1, 2]
    assert "How the vocabulary covers dev" in run.report_path.read_text("utf-8")
    assert prepared(config(folder), run) == []
    assert prepared(config(folder, workers=2, cache=str(folder / "c"), offline=True), run) == []
    other_weights = config(folder, train=["one", {"path": "two", "weight": 0.5}])
    assert prepared(other_weights, run) == []
    report = CorpusReport.from_json(run.report_path.with_suffix(".json").read_text("utf-8"))
    assert [source.weight for source in report.sources] == [1, 0.5] and report.vocabulary
    assert prepared(config(folder, max_length=50), run) == ["encode"]
    tagged = config(folder, train=["one", {"path": "two", "tag": "bt"}])
    assert prepared(tagged, run) == ["tokenizer", "encode"]
    quick = {"mismatch": False}  # what it learns takes three seconds
    assert prepared(config(folder, clean=quick), run) == everything
    write_pairs(folder, "two", 1000, 1499)
    assert prepared(config(folder, clean=quick), run) == everything


def test_given_tokenizers_are_taken_wherever_they_lie(folder: Path, tokenizer_dir: Path) -> None:
    run, cfg = Run(folder / "run"), config(folder, train=["two"], clean={"mismatch": False})
    given = with_tokenizers(cfg, path=str(tokenizer_dir))
    assert prepared(given, run) == ["data", "tokenizer", "encode"]
    names = ("tokenizer.src.model", "tokenizer.tgt.model")
    for name in names:
        assert (run.tokenizer_dir / name).read_bytes() == (tokenizer_dir / name).read_bytes()
    shutil.copytree(tokenizer_dir, folder / "moved")
    assert prepared(with_tokenizers(cfg, path="moved"), run) == []
    (folder / "moved" / names[0]).write_bytes((tokenizer_dir / names[1]).read_bytes())
    assert prepared(with_tokenizers(cfg, path="moved"), run) == ["tokenizer", "encode"]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"path": "gone"}, r"gone/tokenizer\.src\.model: no such tokenizer"),
        (
            {"vocab_size": [320, 300]},
            r"tgt\.model: has 320 pieces, but .*vocab_size is 300",
        ),
        ({}, r"tokenizer\.src\.model: lacks <bt>, which"),
        (
            {"type": "unigram", "sampling": 0.2},
            r"src\.model: is bpe, but tokenizer\.type, by which sub-words are drawn, is unigram",
        ),
    ],
)
def test_given_tokenizers_that_do_not_fit_are_refused(
    folder: Path, tokenizer_dir: Path, settings: dict[str, Any], told: str
) -> None:
    tagged = config(folder, train=[{"path": "two", "tag": "bt"}])
    with pytest.raises(TokenizerError, match=told):
        prepared(with_tokenizers(tagged, **{"path": str(tokenizer_dir), **settings}), Run(folder))


def with_tokenizers(cfg: Config, **settings: Any) -> Config:
    return build_config(cfg.model_dump() | {"tokenizer": {"vocab_size": 320} | settings}, "t.yaml")


def digests(run: Run) -> dict[str, str]:
    """Of everything that training reads."""
    folders = (run.clean_dir, run.tokenizer_dir, run.encoded_dir)
    files = [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]
    # Reports hold seconds, and the manifest of their folder their digests.
    names = [path for path in files if not path.name.startswith(("report.", "stage."))]
    return {
        str(path.relative_to(run.directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in names
    }


def test_killed_anywhere_it_ends_with_the_same_bytes(folder: Path) -> None:
    """`scripts/bench/preparation.py --kills` does the same in every stage, at any size."""
    cfg = config(folder)
    prepared(cfg, Run(folder / "whole"))
    (folder / "t.yaml").write_text(cfg.to_yaml(), encoding="utf-8")
    command = [sys.executable, "-m", "transformer_mt", "data", "prepare", "t.yaml"]
    command += ["--run-dir", "killed", "--set", "data.workers=2"]
    generator = random.Random(3)
    n_killed = 0
    status = None
    while status != 0 and n_killed <= 3:
        process = subprocess.Popen(
            command, cwd=folder, stderr=subprocess.DEVNULL, start_new_session=True
        )
        try:
            status = process.wait(generator.uniform(0.5, 3.0) if n_killed < 3 else 100)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            n_killed += 1
            process.wait()
    assert status == 0
    assert n_killed > 0
    assert digests(Run(folder / "killed")) == digests(Run(folder / "whole"))
    assert not list((folder / "killed").rglob(".*.tmp"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with dask_workers(tmp_path_factory.mktemp("dask")) as address:
        yield address


def kill_one(cluster: str, folder: Path) -> None:
    """Kill a worker once the first shard is there."""
    victims = list(executors._connected(cluster).run(os.getpid).values())
    while not list(folder.glob("run/data/work/scored/*/*.arrow")):
        time.sleep(0.01)
    os.kill(victims[0], signal.SIGKILL)


def test_a_cluster_whose_worker_dies_makes_the_same_bytes(
    folder: Path, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Text in files that can be cut, and in one that cannot; the workers are in another folder."""
    lines = [f"{src}\t{tgt}\n" for src, tgt in PAIRS[700:1200] if "\t" not in src + tgt]
    (folder / "two.tsv.gz").write_bytes(gzip.compress("".join(lines).encode()))
    for module, name, value in (
        (score, "SHARD_PAIRS", 200), (score, "_MUCH_TEXT", 0), (encoded_corpus, "SHARD", 200),
        (duplicates, "KEYS_AT_ONCE", 500), (clean, "_MANY_SHARDS", 2), (stages, "_MUCH_TEXT", 0),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)
    monkeypatch.chdir(folder)
    data: dict[str, Any] = {"train": ["one", {"tsv": "two.tsv.gz"}]}
    data["clean"] = {"mismatch": False}  # what it learns takes ten seconds
    prepared(config(Path(), workers=1, **data), Run(Path("whole")))
    killer = threading.Thread(target=kill_one, args=(cluster, folder))
    killer.start()
    prepared(config(Path(), workers=cluster, **data), Run(Path("run")))
    killer.join()
    report = read_report(Run(Path("run")).clean_dir)
    assert report.parts["train"].dropped["duplicate"] > 200
    assert digests(Run(Path("run"))) == digests(Run(Path("whole")))
    assert not list((folder / "run/data/work").rglob("*.keys.npy"))
