"""A beam is ranked by the words of the source as well, and what has no words is not."""

from typing import Any

import pytest
from toy_translator import configured

from transformer_mt.errors import ConfigError
from transformer_mt.text.word_translations import WordTranslations
from transformer_mt.translation.translator import Translator


@pytest.fixture(scope="module")
def knowing(translator: Translator, toy_pairs: list[tuple[str, str]]) -> Translator:
    """The trained toy model with the words of the text that it was trained on."""
    words = WordTranslations.of(*map(list, zip(*toy_pairs, strict=True)))
    tokenizers = (translator.src_tokenizer, translator.tgt_tokenizer)
    return Translator(translator.model, tokenizers, translator.cfg, words=words)


@pytest.fixture(scope="module")
def text(knowing: Translator, toy_pairs: list[tuple[str, str]]) -> str:
    """A source that is translated otherwise if its words count."""
    srcs, refs = zip(*toy_pairs[:100], strict=True)
    plain, ranked = (knowing.translate(srcs, beam=6, channel=weight) for weight in (0.0, 20.0))
    differ = [i for i in range(len(srcs)) if plain[i].text != ranked[i].text]
    right = [
        sum(one.text == ref for one, ref in zip(found, refs, strict=True))
        for found in (plain, ranked)
    ]
    assert right[1] > right[0], "it chooses better"
    return srcs[differ[0]]


def test_hypotheses_are_ranked_by_the_words_of_the_source(knowing: Translator, text: str) -> None:
    """Of all of a beam, whatever the number of alternatives."""
    assert knowing.words is not None
    (plain,) = knowing.translate([text], beam=6, n_best=6)
    (ranked,) = knowing.translate([text], beam=6, n_best=3, channel=20.0)
    texts = [one.text for one in plain.alternatives]
    gains = knowing.words.log_probs([text] * len(texts), texts)
    expected = {
        one.text: one.score + 20.0 * gain
        for one, gain in zip(plain.alternatives, gains, strict=True)
    }
    best = sorted(expected, key=lambda one: -expected[one])[:3]
    assert [one.text for one in ranked.alternatives] == best != texts[:3]
    assert [one.score for one in ranked.alternatives] == pytest.approx(
        [expected[text] for text in best], abs=1e-4
    )
    assert (ranked.text, ranked.score) == (best[0], ranked.alternatives[0].score)


def test_texts_of_one_call_are_ranked_each_by_its_own(knowing: Translator, text: str) -> None:
    texts = [text, "", "狗看见猫。", text]
    together = knowing.translate(texts, beam=6, channel=20.0)
    alone = [knowing.translate([text], beam=6, channel=20.0)[0] for text in texts]
    assert [one.text for one in together] == [one.text for one in alone]


def test_what_is_explained_is_what_is_translated(knowing: Translator, text: str) -> None:
    translator = configured(knowing, beam=6, channel=20.0)
    (translated,) = translator.translate([text])
    assert translated.text != translator.translate([text], channel=0.0)[0].text
    _, ids = translator.forced_ids(text, None)
    assert translator.tgt_tokenizer.decode([ids]) == [translated.text]


def test_another_engine_keeps_the_words(knowing: Translator, text: str) -> None:
    other = knowing.with_engine(knowing.engine)
    (expected,) = knowing.translate([text], beam=6, channel=20.0)
    assert other.translate([text], beam=6, channel=20.0)[0].text == expected.text


def test_a_model_without_words_is_ranked_by_none(knowing: Translator, text: str) -> None:
    """As those of older model directories; who asks for it is told."""
    translator = configured(knowing, beam=6, channel=20.0)
    old = Translator(
        translator.model, (translator.src_tokenizer, translator.tgt_tokenizer), translator.cfg
    )
    with pytest.raises(ConfigError, match="channel: this model is older and has no words"):
        old.translate([text], channel=1.0)
    assert old.translate([text])[0] == translator.translate([text], channel=0.0)[0]


@pytest.mark.parametrize(
    "options", [{"beam": 1}, {"beam": 4, "diverse": True, "n_best": 2}, {"mbr": 4}]
)
def test_what_is_no_beam_is_not_ranked(knowing: Translator, text: str, options: Any) -> None:
    """Who asks for both is told; a configuration may have a channel for its beams."""
    with pytest.raises(ConfigError, match="channel: it ranks a beam of 2 or more"):
        knowing.translate([text], channel=1.0, **options)
    plain, ranked = (configured(knowing, beam=6, channel=weight) for weight in (0.0, 20.0))
    assert ranked.translate([text], **options) == plain.translate([text], **options)
