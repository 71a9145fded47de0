"""CTranslate2 behind a `Translator`, and `tmt export` through its command."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from toy_translator import both_ways
from typer.testing import CliRunner

from transformer_mt.cli.main import app
from transformer_mt.config.experiment import Config
from transformer_mt.errors import ConfigError, TmtError
from transformer_mt.export import ctranslate2
from transformer_mt.export.ctranslate2_engine import CTranslate2Engine, EitherEngine
from transformer_mt.export.proof import ExportOrigin, ExportTask, Proof, prove
from transformer_mt.model_dir import save_model_dir, weights_of
from transformer_mt.search.beam_search import Hypothesis
from transformer_mt.search.engine import Engine, Request
from transformer_mt.search.options import SearchOptions
from transformer_mt.search.sampling import SamplingOptions
from transformer_mt.translation.lexical_constraints import LexicalConstraints
from transformer_mt.translation.translator import Translator

package = pytest.importorskip("ctranslate2", reason="the extra export is not installed")
Pairs = list[tuple[str, str]]


def with_export(translator: Translator, folder: Path) -> Translator:
    tokenizers = translator.src_tokenizer, translator.tgt_tokenizer
    folder.mkdir()
    ctranslate2.write(ExportTask(translator, "float32", []), folder)
    return translator.with_engine(CTranslate2Engine(folder, tokenizers, threads=2))


@pytest.fixture(scope="module")
def plain(translator_of: Callable[[str], Translator]) -> Translator:
    return translator_of("pre-norm")


@pytest.fixture(scope="module")
def exported(plain: Translator, tmp_path_factory: pytest.TempPathFactory) -> Translator:
    return with_export(plain, tmp_path_factory.mktemp("export") / "model")


@pytest.mark.parametrize("beam", [1, 4])
def test_texts_come_back_the_same_and_in_order(
    translator: Translator, toy_pairs: Pairs, tmp_path: Path, beam: int
) -> None:
    """Of every architecture."""
    texts = ["", *(zh for zh, _ in toy_pairs[:30]), "".join(zh for zh, _ in toy_pairs[:20])]
    mine, theirs = (
        t.translate(texts, beam=beam, penalty="average", length_penalty=1.0)
        for t in (translator, with_export(translator, tmp_path / "model"))
    )
    same = sum(one.text == two.text for one, two in zip(mine, theirs, strict=True))
    assert same >= len(texts) - (1 if beam == 1 else 4)
    assert len({one.text for one in mine}) > 3, "they must differ to tell much"
    assert theirs[0].text == "" and theirs[-1].pieces == mine[-1].pieces > 1
    for one, two in zip(mine, theirs, strict=True):
        if one.text == two.text and one.complete and one.pieces == 1:
            assert one.score == pytest.approx(two.score, abs=5e-3)


def test_constraints_that_it_has(exported: Translator, texts: list[str]) -> None:
    translate = partial(exported.translate, texts[:10], penalty="average", beam=3)
    for found in translate(constraints=LexicalConstraints(prefix="the dog")):
        assert found.text.startswith("the dog")
    said = " ".join(t.text for t in translate()).split()
    word = max(set(said), key=said.count)
    for found in translate(constraints=LexicalConstraints(banned=[word])):
        assert word not in found.text.split()
    for found in translate(n_best=3):
        scores = [alternative.score for alternative in found.alternatives]
        assert len(scores) == 3 and scores == sorted(scores, reverse=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (SearchOptions(beam=4), "give --penalty average"),
        (SearchOptions(beam=1, sampling=SamplingOptions()), "own engine"),
        (SearchOptions(beam=1, mbr=4), "own engine"),
        (SearchOptions(beam=1, repetition_penalty=1.5), "own engine"),
        (SearchOptions(beam=1, min_length=1024), "texts of over 1,024 tokens are tmt's own"),
    ],
)
def test_what_it_cannot_do_is_an_error(
    exported: Translator, options: SearchOptions, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        exported.engine.search([Request([5, 6])], options)


class Careless(Engine):
    """Forgets the last word of every other sentence."""

    def search(self, requests: Sequence[Request], options: SearchOptions) -> list[list[Hypothesis]]:
        found = super().search(requests, options)
        return [
            [replace(h, ids=h.ids[:-1]) for h in hypotheses] if i % 2 else hypotheses
            for i, hypotheses in enumerate(found)
        ]


class Of:
    """A translator as `ExportedModel`."""

    def __init__(self, translator: Translator) -> None:
        self._translator = translator

    def translate(self, texts: Sequence[str]) -> list[str]:
        return self._translator.translate_texts(texts, beam=1)

    def log_probs(self, srcs: Sequence[str], tgts: Sequence[str]) -> list[float]:
        return [score.log_prob for score in self._translator.score_pairs(srcs, tgts)]


def test_the_proof_sees_a_difference(
    plain: Translator, translator_of: Callable[[str], Translator], toy_pairs: Pairs
) -> None:
    srcs, refs = zip(*toy_pairs[:40], strict=True)
    task = ExportTask(plain, "float32", srcs, refs)
    proof = prove(task, Of(plain))
    assert proof.identical == 1.0 and not proof.problems(exact=True), proof
    assert proof.worst_log_prob == 0.0 and proof.bleu_lost == 0.0
    careless = Careless([plain.model], plain.tgt_tokenizer.silent_ids)
    proof = prove(task, Of(plain.with_engine(careless)))
    assert proof.identical < 0.6 and proof.bleu_lost > 1
    assert len(proof.problems(exact=True)) == 3 - (proof.worst_log_prob == 0)
    assert "BLEU" in proof.problems(exact=False)[0]
    proof = prove(task, Of(translator_of("post-norm")))
    assert any("log-probabilities" in text for text in proof.problems(exact=True))
    assert not any("log-probabilities" in text for text in proof.problems(exact=False))


def test_a_model_of_both_directions_is_proven_whatever_its_languages(
    toy_config: Config, toy_pairs: Pairs, tmp_path: Path
) -> None:
    translator = both_ways(toy_config, toy_pairs, tmp_path / "joint", "en", "de")
    task = ExportTask(translator, "float32", [zh for zh, _ in toy_pairs[:9]])
    (tmp_path / "model").mkdir()
    ctranslate2.write(task, tmp_path / "model")
    proof = prove(task, ctranslate2.load(task, tmp_path / "model"))
    assert proof.worst_log_prob is not None and not proof.problems(exact=True)


def test_the_proof_of_every_quantization(
    plain: Translator, toy_pairs: Pairs, tmp_path: Path
) -> None:
    srcs, refs = zip(*toy_pairs[:40], strict=True)
    for kind in ("float32", "int16", "int8"):
        task = ExportTask(plain, kind, srcs, refs)
        (tmp_path / kind).mkdir()
        before = {name: weight.clone() for name, weight in plain.model.state_dict().items()}
        ctranslate2.write(task, tmp_path / kind)
        after = plain.model.state_dict()
        assert all(torch.equal(weight, after[name]) for name, weight in before.items())
        if kind == "int16" and kind not in package.get_supported_compute_types("cpu"):
            continue  # CTranslate2 makes 8 bits of them when it loads the model
        proof = prove(task, ctranslate2.load(task, tmp_path / kind))
        assert proof.problems(exact=kind == "float32", most_bleu_lost=5) == [], (kind, proof)
        assert proof.worst_log_prob is not None and proof.worst_log_prob < 0.05
        assert (proof.worst_log_prob < 1e-4) == (kind == "float32")


@pytest.mark.parametrize("kind", ["pre-norm", "modern"])
def test_products_of_8_bits_fit_into_16(
    kind: str,
    translator_of: Callable[[str], Translator],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So that processors without VNNI, which add two of them there, cut nothing off."""
    specs: list[Any] = []
    monkeypatch.setattr(package.specs.ModelSpec, "save", lambda spec, _: specs.append(spec))
    for quantization in ("float32", "int8"):
        ctranslate2.write(ExportTask(translator_of(kind), quantization, []), tmp_path)
    exact, rounded = (spec.variables() for spec in specs)
    integers = [name for name in rounded if f"{name}_scale" in rounded and name in exact]
    assert len(integers) > 10
    for name in integers:
        whole, scale = rounded[name].numpy(), rounded[f"{name}_scale"].numpy()[:, None]
        assert whole.dtype == np.int8 and 2 * 255 * np.abs(whole.astype(int)).max() < 2**15
        assert (np.abs(whole / scale - exact[name].numpy()) <= 0.5001 / scale).all()


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[SearchOptions]:
    """What CTranslate2 was asked for."""
    seen: list[SearchOptions] = []
    search = CTranslate2Engine.search

    def noted(
        self: CTranslate2Engine, requests: Sequence[Request], options: SearchOptions
    ) -> list[list[Hypothesis]]:
        seen.append(options)
        return search(self, requests, options)

    monkeypatch.setattr(CTranslate2Engine, "search", noted)
    return seen


def test_of_two_engines_each_search_takes_one_that_has_it(
    plain: Translator, exported: Translator, searches: list[SearchOptions], texts: list[str]
) -> None:
    loaded: list[CTranslate2Engine] = []

    def load() -> CTranslate2Engine:
        assert isinstance(exported.engine, CTranslate2Engine)
        loaded.append(exported.engine)
        return exported.engine

    engine = EitherEngine(plain.engine, load)
    requests = [Request(ids) for ids in plain.src_tokenizer.encode(texts[:1])]
    options = SearchOptions(beam=3)
    assert engine.search(requests, options) == plain.engine.search(requests, options)
    assert not loaded, "what is not searched with is not loaded"
    for options in (SearchOptions(beam=1), SearchOptions(beam=2, penalty="average")):
        engine.search(requests, options)
        engine.search([replace(r, required=[[9]]) for r in requests], options)
        engine.search([Request([5] * 1024)], replace(options, max_length=2))
        for other in ({"banned": [[9]]}, {"no_repeat_ngram": 3}, {"min_length": 2}):
            engine.search(requests, replace(options, **other))
        engine.search([replace(r, prefix=[9]) for r in requests], options)
    alternatives = SearchOptions(beam=2, penalty="average", length_penalty=0, n_best=2)
    engine.search(requests, alternatives)
    assert [o.beam for o in searches] == [1, 2] and len(loaded) == 1


def run_tmt(searches: list[SearchOptions], *words: str | Path) -> tuple[list[str], int]:
    """The lines that are printed, and how often CTranslate2 searched."""
    searches.clear()
    done = CliRunner().invoke(app, [str(word) for word in words])
    if done.exception:
        raise done.exception
    return done.stdout.split("\n"), len(searches)


def test_auto_takes_an_export_of_the_same_weights(
    plain: Translator,
    tokenizer_dir: Path,
    texts: list[str],
    tmp_path: Path,
    searches: list[SearchOptions],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def compute_in(dtype: torch.dtype) -> None:
        """Have tmt's own engine take a precision, whatever this machine is good at."""
        name = "transformer_mt.translation.translator.search_precision"
        monkeypatch.setattr(name, lambda *_: (dtype, False))

    compute_in(torch.float32)
    tmt = partial(run_tmt, searches)
    path, model_dir = tmp_path / "texts.zh", tmp_path / "model"
    path.write_text("".join(f"{text}\n" for text in texts), "utf-8")
    save = partial(save_model_dir, model_dir, plain.cfg)
    weights = weights_of(plain.model)
    save(weights, tokenizer_dir, {})
    search = ["translate", "-m", model_dir, "-i", path, "--no-retry"]
    own, n = tmt(*search, "--beam", "1")
    assert n == 0, "nothing is exported"
    with pytest.raises(TmtError, match="no exported model; tmt export writes one"):
        tmt(*search, "--engine", "ctranslate2")
    with pytest.raises(TmtError, match="expected auto, native or ctranslate2"):
        tmt(*search, "--engine", "marian")
    with pytest.raises(TmtError, match="give --src FILE, texts to prove the export on"):
        tmt("export", "-m", model_dir)
    with pytest.raises(TmtError, match="exists and was not written by tmt"):
        tmt("export", "-m", model_dir, "--src", path, "-o", tmp_path)
    tmt("export", "-m", model_dir, "--src", path)
    written = (tmp_path / "model.ctranslate2/model.bin").stat().st_mtime_ns
    tmt("export", "-m", model_dir, "--src", path)
    assert (tmp_path / "model.ctranslate2/model.bin").stat().st_mtime_ns == written
    found, n = tmt(*search, "--beam", "1")
    assert n == 1 and sum(a != b for a, b in zip(own, found, strict=True)) <= 1
    assert tmt(*search, "--beam", "1", "--engine", "native") == (own, 0)
    assert tmt(*search, "--beam", "2", "--penalty", "gnmt")[1] == 0
    assert tmt(*search, "-m", model_dir, "--beam", "1")[1] == 0, "two models vote"
    compute_in(torch.bfloat16)
    assert tmt(*search, "--beam", "1")[1] == 0, "bf16 may differ"
    compute_in(torch.float32)

    shutil.rmtree(model_dir)
    save({name: weight * 1.01 for name, weight in weights.items()}, tokenizer_dir, {})
    assert tmt(*search, "--beam", "1")[1] == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("transformer_mt.export.proof.prove", lambda *_: Proof(10, 0.5, None))
        done = CliRunner().invoke(app, ["export", "-m", str(model_dir), "--src", str(path)])
        assert done.exit_code == 1 and "nothing was kept: 50" in done.stderr
    assert [*tmp_path.glob(".*")] == [], "what is not proven is not kept"
    with pytest.raises(TmtError, match="made from other weights; tmt export makes it anew"):
        tmt(*search, "--beam", "1", "--engine", "ctranslate2")
    tmt("export", "-m", model_dir, "--src", path)
    assert tmt(*search, "--beam", "1")[1] == 1
    origin = ExportOrigin.read(tmp_path / "model.ctranslate2")
    assert origin is not None and origin.proof["identical"] >= 0.99
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("transformer_mt.export.proof.prove", lambda *_: Proof(10, 0.9, None))
        words = "export", "-m", str(model_dir), "--src", str(path), "--quantization", "int8"
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 1 and "nothing was kept: 90" in done.stderr
    scored = "--ref", path, "--max-bleu-loss", "9", "--quantization", "int8"
    tmt("export", "-m", model_dir, "--src", path, *scored)
    assert tmt(*search, "--beam", "1")[1] == 0, "int8 may differ"
    assert tmt(*search, "--beam", "1", "--engine", "ctranslate2")[1] == 1
