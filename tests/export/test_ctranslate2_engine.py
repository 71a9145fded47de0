"""CTranslate2 behind a `Translator`, and `tmt export` through its command."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from transformer_mt.cli.main import app
from transformer_mt.errors import ConfigError, TmtError
from transformer_mt.export.ctranslate2 import save_ctranslate2
from transformer_mt.export.ctranslate2_engine import CTranslate2Engine, EitherEngine
from transformer_mt.export.proof import Agreement, compare_engines
from transformer_mt.model_dir import save_model_dir, weights_of
from transformer_mt.search.beam_search import Hypothesis
from transformer_mt.search.engine import Engine, Request
from transformer_mt.search.options import SearchOptions
from transformer_mt.search.sampling import SamplingOptions
from transformer_mt.translation.lexical_constraints import LexicalConstraints
from transformer_mt.translation.translator import Translator

pytest.importorskip("ctranslate2", reason="the extra export is not installed")
Pairs = list[tuple[str, str]]


@pytest.fixture
def exported(translator: Translator, tmp_path: Path) -> Translator:
    tokenizers = translator.src_tokenizer, translator.tgt_tokenizer
    save_ctranslate2(translator.model, tokenizers, tmp_path / "model")
    engine = CTranslate2Engine(tmp_path / "model", tokenizers, threads=2)
    return Translator(translator.model, tokenizers, translator.cfg, engine=engine)


@pytest.mark.parametrize("beam", [1, 4])
def test_texts_come_back_the_same_and_in_order(
    translator: Translator, exported: Translator, toy_pairs: Pairs, beam: int
) -> None:
    texts = ["", *(zh for zh, _ in toy_pairs[:30]), "".join(zh for zh, _ in toy_pairs[:20])]
    mine, theirs = (
        t.translate(texts, beam=beam, penalty="average", length_penalty=1.0)
        for t in (translator, exported)
    )
    same = sum(one.text == two.text for one, two in zip(mine, theirs, strict=True))
    assert same >= len(texts) - (1 if beam == 1 else 4)
    assert theirs[0].text == "" and theirs[-1].pieces == mine[-1].pieces > 1
    for one, two in zip(mine, theirs, strict=True):
        if one.text == two.text and one.complete and one.pieces == 1:
            assert one.score == pytest.approx(two.score, abs=5e-3)


def test_constraints_that_it_has(exported: Translator, toy_pairs: Pairs) -> None:
    texts = [zh for zh, _ in toy_pairs[:10]]
    options = {"penalty": "average", "beam": 3}
    for found in exported.translate(
        texts, constraints=LexicalConstraints(prefix="the dog"), **options
    ):
        assert found.text.startswith("the dog")
    plain = " ".join(t.text for t in exported.translate(texts, **options))
    word = max(set(plain.split()), key=plain.split().count)
    for found in exported.translate(
        texts, constraints=LexicalConstraints(banned=[word]), **options
    ):
        assert word not in found.text.split()
    (alternatives,) = exported.translate(texts[:1], n_best=3, **options)
    scores = [alternative.score for alternative in alternatives.alternatives]
    assert len(scores) == 3 and scores == sorted(scores, reverse=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (SearchOptions(beam=4), "give --penalty average"),
        (SearchOptions(beam=1, sampling=SamplingOptions()), "own engine"),
        (SearchOptions(beam=1, mbr=4), "own engine"),
        (SearchOptions(beam=1, repetition_penalty=1.5), "own engine"),
    ],
)
def test_what_it_cannot_do_is_an_error(
    exported: Translator, options: SearchOptions, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        exported.engine.search([Request([5, 6])], options)


def test_without_an_export_it_says_what_to_do(translator: Translator, tmp_path: Path) -> None:
    tokenizers = translator.src_tokenizer, translator.tgt_tokenizer
    with pytest.raises(TmtError, match="no exported model; tmt export writes one"):
        CTranslate2Engine(tmp_path, tokenizers, threads=1)


class Careless(Engine):
    """Forgets the last word of every other sentence."""

    def search(self, requests: Sequence[Request], options: SearchOptions) -> list[list[Hypothesis]]:
        found = super().search(requests, options)
        return [
            [replace(h, ids=h.ids[:-1]) for h in hypotheses] if i % 2 else hypotheses
            for i, hypotheses in enumerate(found)
        ]


def test_the_proof_sees_a_difference(translator: Translator, toy_pairs: Pairs) -> None:
    texts = [zh for zh, _ in toy_pairs[:20]]
    silent = translator.tgt_tokenizer.silent_ids
    assert compare_engines(translator, Engine([translator.model], silent), texts).share == 1.0
    assert compare_engines(translator, Careless([translator.model], silent), texts).share <= 0.5


@pytest.fixture
def compute_in(monkeypatch: pytest.MonkeyPatch) -> Callable[[torch.dtype], None]:
    """Have tmt's own engine take a precision, whatever this machine is good at."""

    def set_precision(dtype: torch.dtype) -> None:
        monkeypatch.setattr(
            "transformer_mt.translation.translator.choose_precision", lambda *_: dtype
        )

    return set_precision


def test_export_and_translate_by_their_commands(
    translator: Translator,
    toy_pairs: Pairs,
    tokenizer_dir: Path,
    tmp_path: Path,
    compute_in: Callable[[torch.dtype], None],
) -> None:
    compute_in(torch.float32)
    model_dir = tmp_path / "model"
    save_model_dir(model_dir, translator.cfg, weights_of(translator.model), tokenizer_dir, {})
    texts = tmp_path / "texts.zh"
    texts.write_text("".join(f"{zh}\n" for zh, _ in toy_pairs[:20]), "utf-8")

    def tmt(*words: str | Path) -> str:
        done = CliRunner().invoke(app, [str(word) for word in words])
        if done.exception:
            raise done.exception
        return done.stdout

    with pytest.raises(TmtError, match="give --src FILE, texts to prove the export on"):
        tmt("export", "-m", model_dir)
    tmt("export", "-m", model_dir, "--src", texts)
    search = ["-m", model_dir, "-i", texts, "--beam", "1", "--no-retry"]
    own = tmt("translate", *search).split("\n")
    other = tmt("translate", *search, "--engine", "ctranslate2").split("\n")
    assert sum(a != b for a, b in zip(own, other, strict=True)) <= 1
    with pytest.raises(ConfigError, match="exists"):
        tmt("export", "-m", model_dir, "--src", texts)
    with pytest.raises(TmtError, match="expected auto, native or ctranslate2"):
        tmt("translate", *search, "--engine", "marian")


@pytest.fixture
def texts(toy_pairs: Pairs, tmp_path: Path) -> Path:
    path = tmp_path / "texts.zh"
    path.write_text("".join(f"{zh}\n" for zh, _ in toy_pairs[:20]), "utf-8")
    return path


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
    translator: Translator, exported: Translator, searches: list[SearchOptions], toy_pairs: Pairs
) -> None:
    assert isinstance(exported.engine, CTranslate2Engine)
    loaded: list[CTranslate2Engine] = []

    def load() -> CTranslate2Engine:
        assert isinstance(exported.engine, CTranslate2Engine)
        loaded.append(exported.engine)
        return exported.engine

    engine = EitherEngine(translator.engine, load)
    requests = [Request(ids) for ids in translator.src_tokenizer.encode([toy_pairs[0][0]])]
    options = SearchOptions(beam=3)
    assert engine.search(requests, options) == translator.engine.search(requests, options)
    assert not loaded, "what is not searched with is not loaded"
    for options in (SearchOptions(beam=1), SearchOptions(beam=2, penalty="average")):
        engine.search(requests, options)
        engine.search([replace(r, required=[[9]]) for r in requests], options)
    assert [o.beam for o in searches] == [1, 2] and len(loaded) == 1


def test_auto_takes_an_export_of_the_same_weights(
    translator: Translator,
    tokenizer_dir: Path,
    texts: Path,
    tmp_path: Path,
    searches: list[SearchOptions],
    compute_in: Callable[[torch.dtype], None],
) -> None:
    compute_in(torch.float32)
    model_dir = tmp_path / "model"
    save = partial(save_model_dir, model_dir, translator.cfg)
    weights = weights_of(translator.model)
    save(weights, tokenizer_dir, {})

    def tmt(*words: str | Path) -> tuple[str, int]:
        """What is printed, and how often CTranslate2 searched."""
        searches.clear()
        done = CliRunner().invoke(app, [str(word) for word in words])
        if done.exception:
            raise done.exception
        return done.stdout, len(searches)

    search = ["translate", "-m", model_dir, "-i", texts, "--no-retry"]
    own, n = tmt(*search, "--beam", "1")
    assert n == 0, "nothing is exported"
    tmt("export", "-m", model_dir, "--src", texts)
    found, n = tmt(*search, "--beam", "1")
    same = [a == b for a, b in zip(own.split("\n"), found.split("\n"), strict=True)]
    assert n == 1 and same.count(False) <= 1
    assert tmt(*search, "--beam", "1", "--engine", "native")[1] == 0
    assert tmt(*search, "--beam", "2", "--penalty", "gnmt")[1] == 0
    assert tmt(*search, "-m", model_dir, "--beam", "1")[1] == 0, "two models vote"
    compute_in(torch.bfloat16)
    assert tmt(*search, "--beam", "1")[1] == 0, "bf16 may differ"
    compute_in(torch.float32)

    shutil.rmtree(model_dir)
    save({name: weight * 1.01 for name, weight in weights.items()}, tokenizer_dir, {})
    assert tmt(*search, "--beam", "1")[1] == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("transformer_mt.export.proof.compare_engines", lambda *_: Agreement(100, 50))
        with pytest.raises(SystemExit):
            tmt("export", "-m", model_dir, "--src", texts)
    assert [*tmp_path.glob(".*")] == [], "what is not proven is not kept"
    with pytest.raises(TmtError, match="made from other weights; tmt export makes it anew"):
        tmt(*search, "--beam", "1", "--engine", "ctranslate2")
    tmt("export", "-m", model_dir, "--src", texts)
    assert tmt(*search, "--beam", "1")[1] == 1
    tmt("export", "-m", model_dir, "--src", texts, "--quantization", "int8")
    assert tmt(*search, "--beam", "1")[1] == 0, "int8 may differ"
    assert tmt(*search, "--beam", "1", "--engine", "ctranslate2")[1] == 1
