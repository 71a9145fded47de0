"""A model written for CTranslate2 says there what it says here."""

from pathlib import Path

import pytest

from transformer_mt.errors import TmtError
from transformer_mt.export.ctranslate2 import save_ctranslate2
from transformer_mt.search.engine import Request
from transformer_mt.search.options import SearchOptions
from transformer_mt.translation.translator import Translator

ctranslate2 = pytest.importorskip("ctranslate2", reason="the extra export is not installed")


@pytest.mark.parametrize("beam", [1, 4])
def test_translations_and_scores_are_the_same(
    translator: Translator, toy_pairs: list[tuple[str, str]], tmp_path: Path, beam: int
) -> None:
    tokenizers = translator.src_tokenizer, translator.tgt_tokenizer
    save_ctranslate2(translator.model, tokenizers, tmp_path / "model")
    sentences = tokenizers[0].encode([zh for zh, _ in toy_pairs[:40]])
    options = SearchOptions(
        beam=beam, penalty="average", length_penalty=1.0, max_length=30, max_length_ratio=99
    )
    mine = translator.engine.search([Request(ids) for ids in sentences], options)
    theirs = ctranslate2.Translator(str(tmp_path / "model")).translate_batch(
        [tokenizers[0].pieces(ids) for ids in sentences],
        beam_size=beam, length_penalty=1.0, max_decoding_length=31, return_scores=True,
    )  # fmt: skip
    same = 0
    for (best, *_), other in zip(mine, theirs, strict=True):
        if tokenizers[1].pieces(best.ids) == other.hypotheses[0]:
            same += 1
            if best.complete:
                assert best.score == pytest.approx(other.scores[0], abs=2e-3)
    assert same >= (40 if beam == 1 else 37)
    assert len({tuple(best.ids) for best, *_ in mine}) > 3, "they must differ to tell much"


def test_an_existing_directory_is_not_touched(translator: Translator, tmp_path: Path) -> None:
    tokenizers = translator.src_tokenizer, translator.tgt_tokenizer
    (tmp_path / "mine").touch()
    with pytest.raises(TmtError, match="exists and was not written by tmt"):
        save_ctranslate2(translator.model, tokenizers, tmp_path)
