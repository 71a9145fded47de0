"""Synthetic corpora: aligned, complete, the same after a kill, named for the next experiment."""

import json
import multiprocessing
import os
import signal
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from transformer_mt.config.data import Source
from transformer_mt.config.experiment import Config
from transformer_mt.config.yaml_text import parse_yaml
from transformer_mt.encoding.tokenizer import Tokenizer
from transformer_mt.errors import DataError, TmtError
from transformer_mt.model_dir import build_model, save_model_dir, weights_of
from transformer_mt.translation import backtranslate
from transformer_mt.translation.backtranslate import SyntheticCorpus, translate_corpus
from transformer_mt.translation.translator import Translation, Translator


@pytest.fixture(scope="module")
def model_dir(
    toy_config: Config,
    tokenizers: tuple[Tokenizer, Tokenizer],
    tokenizer_dir: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """Untrained, zh → en: what it says is long nonsense, but always the same."""
    torch.manual_seed(1)
    weights = weights_of(build_model(toy_config, tokenizers))
    path = tmp_path_factory.mktemp("models") / "model"
    save_model_dir(path, toy_config, weights, tokenizer_dir, {"name": "toy"})
    return path


@pytest.fixture(autouse=True)
def ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the model ended its sentences, but for one: it was never trained to."""
    translate = Translator.translate

    def translate_all(self: Translator, texts: list[str], **options: Any) -> list[Translation]:
        found = translate(self, texts, **options)
        return [
            replace(t, complete="房子" not in t.source, text=t.text and f"{t.source} {t.text}")
            for t in found
        ]

    monkeypatch.setattr(Translator, "translate", translate_all)


@pytest.fixture
def mono(tmp_path: Path, toy_pairs: list[tuple[str, str]]) -> Path:
    path = tmp_path / "mono.txt"
    lines = [zh for zh, _ in toy_pairs[:20]]
    lines[3:3] = ["", "  "]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def test_sides_are_aligned_and_what_failed_is_counted(
    model_dir: Path, mono: Path, tmp_path: Path
) -> None:
    corpus = translate_corpus(model_dir, mono, tmp_path / "bt" / "news", say=print)
    zh, en = (lines_of(tmp_path / "bt" / f"news.{code}") for code in ("zh", "en"))
    assert len(zh) == len(en) == corpus.pairs
    assert all(translation.startswith(f"{text} ") for text, translation in zip(zh, en, strict=True))
    wanted = [line for line in lines_of(mono) if line.strip() and "房子" not in line]
    assert zh == wanted, "in their order"
    n_cut = sum("房子" in line for line in lines_of(mono))
    assert (corpus.empty, corpus.cut) == (2, n_cut) and n_cut > 0
    assert corpus.languages == "zh-en"
    assert {path.suffix for path in (tmp_path / "bt").iterdir()} == {".zh", ".en", ".json"}


@pytest.mark.parametrize("tag", ["bt", None])
def test_the_line_for_the_next_configuration_is_a_source(tag: str | None) -> None:
    corpus = SyntheticCorpus("bt/news", "zh-en", 1, 0, 0, "")
    (tree,) = parse_yaml(corpus.source_line(tag), "line")
    source = Source.model_validate(tree)
    assert (source.path, source.tag) == (str(Path("bt/news").absolute()), tag)


def test_a_killed_process_goes_on_where_it_stopped(
    model_dir: Path, mono: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGKILL in the third chunk; the first two are not translated again."""
    monkeypatch.setattr(backtranslate, "CHUNK_LINES", 5)
    translate = Translator.translate
    seen: list[str] = []

    def watched(self: Translator, texts: list[str], **options: Any) -> list[Translation]:
        seen.extend(texts)
        if len(seen) == 15 and os.getpid() != own:
            os.kill(os.getpid(), signal.SIGKILL)
        return translate(self, texts, **options)

    monkeypatch.setattr(Translator, "translate", watched)
    own = os.getpid()
    child = multiprocessing.get_context("fork").Process(
        target=translate_corpus, args=(model_dir, mono, tmp_path / "bt"), kwargs={"say": print}
    )
    child.start()
    child.join(120)
    assert child.exitcode == -signal.SIGKILL
    assert not (tmp_path / "bt.zh").exists()
    translate_corpus(model_dir, mono, tmp_path / "bt", say=print)
    assert seen == lines_of(mono)[10:]
    translate_corpus(model_dir, mono, tmp_path / "whole", say=print)
    assert lines_of(tmp_path / "bt.zh")[-3:] == lines_of(tmp_path / "whole.zh")[-3:]
    assert not (tmp_path / "bt.shards").exists()


def test_the_time_left_is_that_of_the_lines_to_come(
    model_dir: Path, mono: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a minute for each chunk of five lines, of 22."""
    monkeypatch.setattr(backtranslate, "CHUNK_LINES", 5)
    clock = iter(range(0, 1000, 30))
    own_time = SimpleNamespace(monotonic=lambda: next(clock))
    monkeypatch.setattr(backtranslate, "time", own_time)
    told: list[str] = []
    translate_corpus(model_dir, mono, tmp_path / "bt", say=told.append)
    lefts = [
        f"{n} of 22 lines, 0 a second, {(22 - n) / 10:.1f} minutes left" for n in (5, 10, 15, 20)
    ]
    assert told == [f"{mono}: {left}" for left in lefts]


def test_the_same_again_does_nothing_and_other_settings_do_it_anew(
    model_dir: Path, mono: Path, tmp_path: Path
) -> None:
    told: list[str] = []
    first = translate_corpus(model_dir, mono, tmp_path / "bt", say=told.append)
    stamp = (tmp_path / "bt.en").stat().st_mtime_ns
    assert translate_corpus(model_dir, mono, tmp_path / "bt", say=told.append) == first
    assert told == [f"{tmp_path / 'bt'}: up to date"]
    assert (tmp_path / "bt.en").stat().st_mtime_ns == stamp
    other = translate_corpus(model_dir, mono, tmp_path / "bt", beam=2, say=told.append)
    assert other.made_from != first.made_from
    assert json.loads((tmp_path / "bt.json").read_text()) == other.to_json()


def test_files_of_the_user_are_not_overwritten(model_dir: Path, mono: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.en").write_text("precious\n")
    with pytest.raises(DataError, match=r"mine\.en: exists and was not written by tmt"):
        translate_corpus(model_dir, mono, tmp_path / "mine", say=print)
    assert (tmp_path / "mine.en").read_text() == "precious\n"
    (tmp_path / "mine.en").unlink()
    (tmp_path / "mine.shards").mkdir()
    (tmp_path / "mine.shards/aa.txt").write_text("precious\n")
    translate_corpus(model_dir, mono, tmp_path / "mine", say=print)
    assert [path.name for path in (tmp_path / "mine.shards").iterdir()] == ["aa.txt"]


def test_a_prefix_that_belongs_to_something_else_is_refused(
    model_dir: Path, mono: Path, tmp_path: Path
) -> None:
    text = tmp_path / "news.zh"
    text.write_bytes(mono.read_bytes())
    with pytest.raises(DataError, match=r"news\.zh: would be written over itself"):
        translate_corpus(model_dir, text, tmp_path / "news", say=print)
    other = SyntheticCorpus("news", "zh-de", 1, 0, 0, "")
    (tmp_path / "news.json").write_text(json.dumps(other.to_json()))
    with pytest.raises(DataError, match="tells of text in zh-de; name another prefix"):
        translate_corpus(model_dir, mono, tmp_path / "news", say=print)
    with pytest.raises(DataError, match=r"\.: is a folder; name a prefix in it: text"):
        translate_corpus(model_dir, mono, Path(), say=print)
    assert text.read_bytes() == mono.read_bytes()


def test_what_cannot_be_translated_is_said(model_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n\n房子\n")
    with pytest.raises(DataError, match="of 3 lines 2 are empty and 1 reached the length limit"):
        translate_corpus(model_dir, tmp_path / "empty", tmp_path / "bt", say=print)
    assert not (tmp_path / "bt.zh").exists()
    with pytest.raises(TmtError, match="--to zh: this model translates zh → en only"):
        translate_corpus(model_dir, tmp_path / "empty", tmp_path / "bt", to="zh", say=print)
