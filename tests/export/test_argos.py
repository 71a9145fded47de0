"""Packages for Argos Translate: its own program installs them, reads, translates and writes."""

import json
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_translator import both_ways, other_way

from transformer_mt.config.experiment import Config
from transformer_mt.encoding.tokenizer import Tokenizer
from transformer_mt.export import argos
from transformer_mt.export.proof import ExportTask, prove
from transformer_mt.translation.translator import Translator

pytest.importorskip("ctranslate2", reason="the extra export is not installed")
argostranslate = pytest.importorskip("argostranslate", reason="the extra argos is not installed")
Pairs = list[tuple[str, str]]


def content(path: Path) -> dict[str, bytes]:
    with ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name[-1] != "/"}


def test_translations_with_two_vocabularies(
    translator_of: Callable[[str], Translator], toy_pairs: Pairs, tmp_path: Path
) -> None:
    from argostranslate import settings

    before = dict(vars(settings))
    srcs, refs = zip(*toy_pairs[:60], strict=True)
    task = ExportTask(translator_of("pre-norm"), "float32", srcs, refs)
    argos.write(task, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["translate-zh_en-1_0.argosmodel"]
    proof = prove(task, argos.load(task, tmp_path))
    assert proof.identical == 1.0 and proof.texts > 20 and proof.bleu_lost == 0.0
    assert proof.worst_log_prob is not None and proof.worst_log_prob < 1e-5
    assert dict(vars(settings)) == before, "a user's settings stay"


def test_two_directions_and_traditional_chinese(
    toy_config: Config, toy_pairs: Pairs, tmp_path: Path
) -> None:
    """Each package writes the tag of its own direction."""
    translator = both_ways(toy_config, toy_pairs, tmp_path / "joint", "zh-Hant", "en")
    srcs, tgts = zip(*toy_pairs[:9], *(pair[::-1] for pair in toy_pairs[9:18]), strict=True)
    folder = tmp_path / "packages"
    folder.mkdir()
    argos.write(ExportTask(translator, "float32", srcs), folder)
    for one in (translator, other_way(translator)):
        found = argos.load(ExportTask(one, "float32", srcs), folder).log_probs(srcs, tgts)
        scores = one.score_pairs(srcs, tgts, to=one.cfg.languages.tgt)
        assert found == pytest.approx([score.log_prob for score in scores], abs=1e-3)
    files = content(folder / "translate-zt_en-1_0.argosmodel")
    metadata = json.loads(files["translate-zt_en-1_0/metadata.json"])
    assert (metadata["from_code"], metadata["to_code"]) == ("zt", "en")
    assert metadata["to_name"] == "English" and "Chinese" in metadata["from_name"]
    assert (folder / "translate-en_zt-1_0.argosmodel").is_file()


@pytest.mark.parametrize("is_chinese_src", [True, False])
def test_the_tokenizer_of_the_source_decodes_the_target(
    tokenizers: tuple[Tokenizer, Tokenizer], tmp_path: Path, is_chinese_src: bool
) -> None:
    """Pieces that are in one vocabulary only, and characters that are in none."""
    from argostranslate.tokenizer import SentencePieceTokenizer

    src, tgt = tokenizers if is_chinese_src else tokenizers[::-1]
    (tmp_path / "sentencepiece.model").write_bytes(src.serialised)
    theirs = SentencePieceTokenizer(tmp_path / "sentencepiece.model")
    letters = st.sampled_from("猫看，。thecat龘😀é’</s>") | st.characters(
        exclude_categories=["Cs"], exclude_characters="▁_"
    )

    @settings(max_examples=200, deadline=None)
    @given(st.lists(letters | st.sampled_from(["the cat ", "朋友"]), max_size=20).map("".join))
    def check(text: str) -> None:
        (ids,) = tgt.encode([text])
        assert theirs.decode(tgt.pieces(ids)).strip() == tgt.decode([ids])[0].strip()
        assert theirs.encode(text) == src.pieces(src.encode([text])[0])

    check()
