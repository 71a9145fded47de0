"""Text in, text out, with a toy model: order, odd texts, scores, attention."""

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from toy_translator import biased, configured

from transformer_mt.encoding.tokenizer import BOS_ID, EOS_ID, PAD_ID, Tokenizer
from transformer_mt.errors import TmtError
from transformer_mt.search.engine import Request, SearchEngine
from transformer_mt.search.sampling import SamplingOptions
from transformer_mt.translation import pair_scores
from transformer_mt.translation.result import Alternative
from transformer_mt.translation.translator import Translator


def forced_log_prob(translator: Translator, src: list[int], tgt: list[int]) -> float:
    """Teacher forcing without batches, one step after the other; `tgt` ends as it is given."""
    model, total = translator.model, 0.0
    with torch.no_grad():
        for t, token in enumerate(tgt):
            hidden = model(torch.tensor([[*src, EOS_ID]]), torch.tensor([[BOS_ID, *tgt[:t]]]))
            total += model.project(hidden)[0, -1].double().log_softmax(-1)[token].item()
    return total


def ids_of(pieces: list[str], tokenizer: Tokenizer) -> list[int]:
    names = tokenizer.pieces(range(tokenizer.vocab_size))
    return [names.index(piece) for piece in pieces]


@pytest.mark.parametrize("beam", [1, 3])
def test_a_batch_equals_each_text_alone_and_keeps_the_order(
    translator: Translator, texts: list[str], beam: int
) -> None:
    together = translator.translate(texts, beam=beam)
    assert [translation.source for translation in together] == texts
    assert len({translation.text for translation in together}) > 15, "texts must differ"
    for text, translation in zip(texts, together, strict=True):
        (alone,) = translator.translate([text], beam=beam)
        assert alone.text == translation.text
        assert alone.score == pytest.approx(translation.score, abs=1e-4)
        assert alone == replace(translation, score=alone.score, alternatives=alone.alternatives)


def test_empty_texts_stay_empty_in_their_place(translator: Translator, texts: list[str]) -> None:
    mixed = ["", texts[0], "  \t\u3000", texts[1], "\u200b\ufeff", "\n"]
    found = translator.translate(mixed)
    assert [t.source for t in found] == mixed
    assert [bool(t.text) for t in found] == [False, True, False, True, False, False]
    assert found[0].score == 0 and found[0].complete and found[0].alternatives == []
    assert found[1].text == translator.translate([f"\u3000{texts[0]} \n"])[0].text
    assert translator.translate([]) == []
    assert [t.text for t in translator.translate(["", ""])] == ["", ""]


ODD = [
    "\x00\x01\x07\x1b[31m", "猫\x00看见狗", "😀👩‍👩‍👧‍👦🇨🇳", "\ud800 lone", "ﷺ ﷽", "a" * 500,
    "\u202ereversed", "<pad> <s> </s> <unk> ▁▁", "\u2028line\u2029paragraph\x85next",
    "e\u0301" * 40,
]  # fmt: skip


@pytest.mark.parametrize("beam", [1, 3])
def test_odd_texts_are_translated_like_others(
    translator: Translator, texts: list[str], beam: int
) -> None:
    before, *found, after = translator.translate([texts[0], *ODD, texts[1]], beam=beam)
    assert [t.source for t in found] == [text.replace("\ud800", "\ufffd") for text in ODD]
    assert not any("\n" in t.text for t in found)
    alone = translator.translate(texts[:2], beam=beam)
    assert [before.text, after.text] == [t.text for t in alone]


def test_a_very_long_text_comes_back(
    translator: Translator, toy_pairs: list[tuple[str, str]]
) -> None:
    generator = random.Random(1)
    text = ""
    while len(text) < 100_000:
        text += generator.choice(toy_pairs)[0]
    (found,) = configured(translator, max_length_ratio=0.01).translate([text], beam=1)
    assert found.source == text
    assert found.pieces > 1000
    assert found.alternatives == []
    assert len(found.text) > found.pieces


def test_a_long_text_is_the_translations_of_its_pieces(
    translator: Translator, texts: list[str]
) -> None:
    """No source character is left out, and each piece is what it is alone."""
    text = "".join(texts[:8])
    limit = translator.cfg.data.max_length
    pieces, lengths = [""], []
    for sentence in texts[:8]:
        if len(translator.src_tokenizer.encode([pieces[-1] + sentence])[0]) > limit:
            pieces.append("")
        pieces[-1] += sentence
    lengths = [len(ids) for ids in translator.src_tokenizer.encode(pieces)]
    assert len(pieces) > 1 and max(lengths) <= limit
    (found,) = translator.translate([text])
    parts = translator.translate(pieces)
    assert found.pieces == len(pieces)
    assert found.text == " ".join(part.text for part in parts if part.text)
    assert found.score == pytest.approx(sum(part.score for part in parts), abs=1e-3)
    assert found.complete == all(part.complete for part in parts)


def test_n_best(translator: Translator, texts: list[str]) -> None:
    found = [translator.translate(texts, beam=4, n_best=n) for n in (1, 4)]
    for best, translation in zip(*found, strict=True):
        alternatives = translation.alternatives
        assert 1 <= len(alternatives) <= 4
        assert alternatives[0] == Alternative(translation.text, translation.score)
        scores = [alternative.score for alternative in alternatives]
        assert scores == sorted(scores, reverse=True)
        assert translation.score >= best.score - 1e-4
    assert all(len(t.alternatives) == 1 for t in translator.translate(texts))


def test_settings_come_from_the_configuration_unless_given(
    translator: Translator, texts: list[str]
) -> None:
    configured_ones = configured(translator, beam=4, length_penalty=1.5, max_length_ratio=0.5)
    given = translator.translate(texts, beam=4, length_penalty=1.5, max_length_ratio=0.5)
    assert configured_ones.translate(texts) == given
    assert configured_ones.translate(texts) != translator.translate(texts)


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("ratio", [0.5, 3.0])
def test_the_length_limit_follows_the_source_and_is_told(
    translator: Translator, texts: list[str], beam: int, ratio: float
) -> None:
    """A model that never ends a sentence is stopped, and the result marked."""
    endless = configured(biased(translator, [EOS_ID], -1e4), beam=beam, max_length_ratio=ratio)
    for text, translation in zip(texts, endless.translate(texts), strict=True):
        n_source = len(translator.src_tokenizer.encode([text])[0])
        n_target = len(endless.attention(text).tgt_out_pieces) - 1
        assert n_target == math.ceil(ratio * n_source) + 10
        assert not translation.complete


def test_no_padding_and_no_second_beginning_is_ever_written(
    translator: Translator, texts: list[str]
) -> None:
    """Even where a model finds them most probable, at every step."""
    tempted = biased(translator, [PAD_ID, BOS_ID], 50.0)
    plain, found = (t.translate(texts, beam=1) for t in (translator, tempted))
    assert [t.text for t in found] == [t.text for t in plain]
    for text in texts[:5]:
        assert not {"<pad>", "<s>"} & set(tempted.attention(text).tgt_out_pieces)
        assert tempted.attention(text).top_words[0][0][0] in ("<pad>", "<s>")


def test_score_of_pairs_is_teacher_forcing_step_by_step(
    translator: Translator, toy_pairs: list[tuple[str, str]]
) -> None:
    """In one batch with padding, against one step after the other."""
    pairs = [*toy_pairs[:6], ("猫", ""), ("", "cat")]
    srcs, tgts = [src for src, _ in pairs], [tgt for _, tgt in pairs]
    for pair, found in zip(pairs, translator.score_pairs(srcs, tgts), strict=True):
        src = translator.src_tokenizer.encode([pair[0]])[0]
        tgt = translator.tgt_tokenizer.encode([pair[1]])[0]
        assert found.n_tokens == len(tgt) + 1
        expected = forced_log_prob(translator, src, [*tgt, EOS_ID])
        assert found.log_prob == pytest.approx(expected, abs=1e-3)
        assert found.log_prob < 0
    assert translator.score_pairs([], []) == []


@pytest.mark.parametrize("beam", [1, 3])
def test_score_of_a_translation_is_its_log_probability(
    translator: Translator, texts: list[str], beam: int
) -> None:
    """What search adds up is what teacher forcing says of the same tokens."""
    plain = configured(translator, beam=beam, length_penalty=0.0)
    n_complete = 0
    for text, translation in zip(texts, plain.translate(texts), strict=True):
        maps = plain.attention(text)
        tgt = ids_of(maps.tgt_out_pieces, plain.tgt_tokenizer)
        assert tgt[-1] == EOS_ID
        if not translation.complete:
            tgt.pop()
        n_complete += translation.complete
        src = plain.src_tokenizer.encode([text])[0]
        expected = forced_log_prob(plain, src, tgt)
        assert translation.score == pytest.approx(expected, rel=1e-4, abs=1e-3)
    assert n_complete > 0


def test_attention_maps(translator: Translator, texts: list[str]) -> None:
    maps = translator.attention(texts[0], top_k=4)
    (translation,) = translator.translate([texts[0]])
    assert (maps.source, maps.translation) == (texts[0], translation.text)
    n_src, n_tgt = len(maps.src_pieces), len(maps.tgt_in_pieces)
    assert maps.src_pieces[-1] == maps.tgt_out_pieces[-1] == "</s>"
    assert maps.tgt_in_pieces == ["<s>", *maps.tgt_out_pieces[:-1]]
    shapes = {"encoder": (n_src, n_src), "decoder": (n_tgt, n_tgt), "cross": (n_tgt, n_src)}
    for kind, shape in shapes.items():
        found = getattr(maps, kind)
        assert (found.dtype, found.shape) == (np.float32, (2, 4, *shape))
        np.testing.assert_allclose(found.sum(-1), 1, rtol=1e-5)
    assert (np.triu(maps.decoder, 1) == 0).all()
    assert len(maps.top_words) == n_tgt
    for words in maps.top_words:
        probs = [prob for _, prob in words]
        assert len(words) == 4
        assert probs == sorted(probs, reverse=True) and 0 < sum(probs) <= 1 + 1e-6


def test_attention_over_a_given_target(
    translator: Translator, toy_pairs: list[tuple[str, str]]
) -> None:
    text, target = toy_pairs[0]
    maps = translator.attention(text, target)
    tgt = translator.tgt_tokenizer.encode([target])[0]
    assert maps.tgt_out_pieces == [*translator.tgt_tokenizer.pieces(tgt), "</s>"]
    assert maps.translation == target
    log_prob = 0.0
    for piece, words in zip(
        maps.tgt_out_pieces, translator.attention(text, target, top_k=320).top_words, strict=True
    ):
        log_prob += math.log(dict(words)[piece])
    (score,) = translator.score_pairs([text], [target])
    assert log_prob == pytest.approx(score.log_prob, abs=1e-3)


def test_what_cannot_be_explained(translator: Translator) -> None:
    with pytest.raises(TmtError, match="the text is empty; give one sentence"):
        translator.attention(" \u200b")
    with pytest.raises(TmtError, match=r"the text is too long .*; give one sentence"):
        translator.attention("猫看见狗。" * 30)


def test_a_translation_as_json(translator: Translator) -> None:
    (translation,) = translator.translate(["猫看见狗"], n_best=2)
    content = translation.to_json()
    fields = {
        "source",
        "text",
        "score",
        "complete",
        "pieces",
        "alternatives",
        "faults",
        "retried",
        "input",
        "log_prob",
        "confidence",
    }
    assert set(content) == fields
    assert content["alternatives"][0] == {"text": translation.text, "score": translation.score}


class Counting:
    """An engine that knows what it was asked for."""

    def __init__(self, engine: SearchEngine) -> None:
        self.engine = engine
        self.asked: list[Request] = []

    def search(self, requests: Sequence[Request], *args: Any, **kwargs: Any) -> Any:
        self.asked += requests
        return self.engine.search(requests, *args, **kwargs)


def test_a_text_that_stands_many_times_is_searched_once(
    translator: Translator, texts: list[str]
) -> None:
    counting = Counting(translator.engine)
    repeated = translator.with_engine(counting)
    found = repeated.translate([texts[0], texts[1], *[texts[0]] * 5])
    assert len(counting.asked) == 2
    alone = translator.translate(texts[:2])
    assert [t.text for t in found] == [alone[0].text, alone[1].text, *[alone[0].text] * 5]
    counting.asked.clear()
    repeated.translate([texts[0]] * 3, sampling=SamplingOptions(seed=1))
    assert len(counting.asked) == 3, "draws differ"


def test_a_pair_too_long_for_attention_is_not_scored(
    translator: Translator, texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = translator.score_pairs(texts[:2], texts[:2])
    monkeypatch.setattr(pair_scores, "MOST_SCORED", 400)
    first, long, last = translator.score_pairs(
        [texts[0], "猫" * 500, texts[1]], [texts[0], "dog", texts[1]]
    )
    for found, expected in zip((first, last), usual, strict=True):
        assert found.log_prob == pytest.approx(expected.log_prob, abs=1e-3)
    assert math.isnan(long.log_prob) and long.n_tokens > 1
