"""What a user can ask of a translation, through a toy model with real tokenizers."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from sacrebleu.metrics import CHRF
from toy_translator import biased

from transformer_mt.config.data import Languages
from transformer_mt.encoding.tokenizer import EOS_ID, Tokenizer
from transformer_mt.errors import ConfigError, TmtError
from transformer_mt.model.incremental_decoder import IncrementalDecoder
from transformer_mt.model_dir import save_model_dir, weights_of
from transformer_mt.search import engine
from transformer_mt.search.beam_search import Hypothesis, SearchTask
from transformer_mt.search.constrained_search import constrained_beam_search
from transformer_mt.search.engine import Request
from transformer_mt.search.ensemble import Stepper
from transformer_mt.search.options import SearchOptions
from transformer_mt.search.sampling import SamplingOptions
from transformer_mt.translation.glossary import Glossary, Term
from transformer_mt.translation.lexical_constraints import ConstraintEncoder, LexicalConstraints
from transformer_mt.translation.output_checks import faults
from transformer_mt.translation.result import Translation, joined_translation
from transformer_mt.translation.segment_search import _better, _joined, most_agreed
from transformer_mt.translation.segment_translation import SegmentTranslation, find_faults
from transformer_mt.translation.segments import SourceSegment
from transformer_mt.translation.translator import Translator


def constrained(
    translator: Translator, texts: list[str], beam: int | None = None, **words: Any
) -> list[Translation]:
    return translator.translate(texts, constraints=LexicalConstraints(**words), beam=beam)


@pytest.mark.parametrize("beam", [1, 3])
def test_a_prefix_begins_every_translation(
    translator: Translator, texts: list[str], beam: int
) -> None:
    *found, long = constrained(translator, [*texts, "".join(texts[:20])], beam, prefix="the dog")
    assert long.pieces > 1
    assert all(translation.text.startswith("the dog") for translation in (*found, long))


def test_banned_words_do_not_occur(translator: Translator, texts: list[str]) -> None:
    plain = translator.translate(texts)
    word = max({w for t in plain for w in t.text.split()}, key=lambda w: sum(
        w in t.text.split() for t in plain))  # fmt: skip
    found = constrained(translator, texts, banned=[word])
    assert sum(word in t.text.split() for t in plain) > 2
    for translation in found:
        present = word.lower() in translation.text.lower().split()
        assert present == ("banned" in translation.faults)
    assert sum(word in t.text.split() for t in found) == 0


def test_a_part_of_another_word_is_not_banned() -> None:
    constraints = LexicalConstraints(banned=["art"])
    segment = SourceSegment("派对开始了。", [], Languages(src="zh", tgt="en"), constraints)
    assert find_faults(segment, "The party starts.", complete=True) == ()
    assert find_faults(segment, "The art starts.", complete=True) == ("banned",)


def test_a_glossary_puts_its_words_in(translator: Translator, texts: list[str]) -> None:
    glossary = Glossary([Term("猫", "a small tiger", 1), Term("老师", None, 2)])
    asked = [text for text in texts if "猫" in text]
    assert asked
    for found in constrained(translator, asked, 4, glossary=glossary):
        assert "a small tiger" in found.text
        assert "term" not in found.faults
    others = [text for text in texts if not glossary.required(text)]
    assert constrained(translator, others, glossary=glossary) == translator.translate(others)


def test_a_text_of_many_terms_widens_the_beam_of_no_other(
    translator: Translator, texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    searched = []

    def remember(task: SearchTask, *, beam: int, **options: Any) -> list[list[Hypothesis]]:
        searched.append((beam, len(task.max_lengths)))
        return constrained_beam_search(task, beam=beam, **options)

    monkeypatch.setattr(engine, "constrained_beam_search", remember)
    ids = translator.src_tokenizer.encode(texts[:12])
    requests = [Request(own, required=[[9]]) for own in ids[:-1]]
    requests.append(Request(ids[-1], required=[list(range(9, 39))]))
    found = translator.engine.search_batch(requests, SearchOptions(beam=4))
    assert [own[0].ids.count(9) > 0 for own in found] == [True] * 12
    assert sorted(searched) == [(4, 11), (31, 1)]


def test_diverse_alternatives_begin_differently(translator: Translator, texts: list[str]) -> None:
    options = SearchOptions.resolve(translator.cfg.decode, n_best=3, diverse=True, beam=2)
    requests = [Request(ids) for ids in translator.src_tokenizer.encode(texts[:6])]
    for found in translator.engine.search(requests, options):
        assert len({hypothesis.ids[0] for hypothesis in found}) == 3
        scores = [hypothesis.score for hypothesis in found]
        assert scores == sorted(scores, reverse=True)
    (prefixed,) = translator.translate(
        ["猫看见狗"], n_best=2, diverse=True, constraints=LexicalConstraints(prefix="the")
    )
    assert all(a.text.startswith("the") for a in prefixed.alternatives)


def test_draws_differ_and_repeat_with_their_seed(translator: Translator, texts: list[str]) -> None:
    def drawn(seed: int) -> list[list[str]]:
        sampling = SamplingOptions(temperature=2.0, seed=seed)
        found = translator.translate(texts, sampling=sampling, n_best=4)
        return [[alternative.text for alternative in t.alternatives] for t in found]

    assert drawn(1) == drawn(1) != drawn(2)
    assert max(len(set(texts)) for texts in drawn(1)) > 1


def test_mbr_takes_one_of_its_draws(translator: Translator, texts: list[str]) -> None:
    sampling = SamplingOptions(seed=7)
    drawn = translator.translate(texts[:5], sampling=sampling, n_best=8)
    chosen = translator.translate(texts[:5], sampling=sampling, mbr=8)
    for all_, one in zip(drawn, chosen, strict=True):
        assert one.text in [alternative.text for alternative in all_.alternatives]
        assert len(one.alternatives) == 1


@pytest.mark.parametrize(
    "drawn", ["nothing|a cat sat|a cat sits|a cat sat down", "x|the same|the same", "|a|", "alone"]
)
def test_the_most_agreed_has_the_highest_mean_chrf(drawn: str) -> None:
    chrf, texts = CHRF(), drawn.split("|")
    agreement = [
        sum(chrf.sentence_score(hyp, [ref]).score for i, ref in enumerate(texts) if i != own)
        for own, hyp in enumerate(texts)
    ]
    chosen = texts[most_agreed(texts)]
    assert agreement[texts.index(chosen)] == max(agreement) or texts.count(chosen) > 1
    assert texts.count(chosen) == max(map(texts.count, texts))


def test_an_ensemble_of_equals_is_the_model(translator: Translator, texts: list[str]) -> None:
    tokenizers, other = (translator.src_tokenizer, translator.tgt_tokenizer), translator.model
    twice = Translator(translator.model, tokenizers, translator.cfg, others=[copy.deepcopy(other)])
    for one, two in zip(translator.translate(texts), twice.translate(texts), strict=True):
        assert one.text == two.text
        assert one.score == pytest.approx(two.score, abs=1e-4)


@torch.inference_mode()
def test_an_ensemble_has_the_mean_probability(translator: Translator) -> None:
    other = copy.deepcopy(translator.model)
    for parameter in other.parameters():
        parameter.mul_(0.9)
    src = translator.pad([[5, 6, 7, EOS_ID]])
    decoders = [IncrementalDecoder(model) for model in (translator.model, other)]
    tokens = torch.tensor([[2, 2]])
    alone = [Stepper([decoder], src).step(tokens).exp() for decoder in decoders]
    together = Stepper(decoders, src).step(tokens).exp()
    torch.testing.assert_close(together, (alone[0] + alone[1]) / 2)


def endless(translator: Translator) -> Translator:
    """One that says the same word for ever, unless it may not."""
    (word,) = translator.tgt_tokenizer.encode(["the"])[0][:1]
    return biased(translator, [word], 9.0)


def test_loops_are_seen_and_searched_again(translator: Translator, texts: list[str]) -> None:
    looping = endless(translator)
    plain = looping.translate(texts[:8], beam=1)
    assert all("loop" in found.faults for found in plain)
    assert not any(found.retried for found in plain)
    again = looping.translate(texts[:8], beam=1, retry=True)
    assert all(len(b.faults) <= len(a.faults) for a, b in zip(plain, again, strict=True))
    better = [found for found in again if found.retried]
    assert better
    assert any("loop" not in found.faults for found in better)


def test_what_is_not_in_the_vocabulary_is_not_searched_again(
    translator: Translator, texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown = "\ue000\ue001\ue002\ue003\ue004\ue005"
    searched: list[tuple[int, bool]] = []
    looping = endless(translator)
    search = looping.engine.search

    def counting(requests: Any, options: Any, **others: Any) -> Any:
        searched.append((len(requests), options.end_loops))
        return search(requests, options, **others)

    monkeypatch.setattr(looping.engine, "search", counting)
    one, _ = looping.translate([unknown, texts[0]], beam=1, retry=True)
    assert one.faults and not one.retried
    first, second, *_ = searched
    assert first == (2, True)
    assert second[0] == 1, "the second search is for the other text alone"
    searched.clear()
    looping.translate([unknown, texts[0]], beam=1)
    assert searched == [(2, False)], "without a second search the first is exact"


@pytest.mark.parametrize(
    "how", [{"diverse": True, "beam": 2}, {"sampling": SamplingOptions(top_k=1)}]
)
def test_a_second_search_has_room_for_all_that_were_asked_for(
    translator: Translator, texts: list[str], how: dict[str, Any]
) -> None:
    (found,) = endless(translator).translate(texts[:1], n_best=12, retry=True, **how)
    assert len(found.alternatives) == 12


def test_diverse_alternatives_of_a_second_search_begin_differently(translator: Translator) -> None:
    segment = SourceSegment("猫。", [5], translator.cfg.languages, LexicalConstraints())

    def found(*texts: str) -> SegmentTranslation:
        hyps = [Hypothesis([ord(text[0]), 9], -1.0, -1.0, True) for text in texts]
        return SegmentTranslation(segment, list(texts), hyps)

    options = SearchOptions(beam=4, n_best=3, diverse=True)
    better = _better(found("a a a a a a a a", "b", "c", "d"), found("b b", "b c"), options)
    assert better.texts == ["b b", "a a a a a a a a", "c"]


def test_a_second_search_keeps_the_rule_of_the_first(
    translator: Translator, texts: list[str]
) -> None:
    """Two tokens occur once each, though three alone would be forbidden."""
    looping = endless(translator)
    for found in looping.translate(texts[:8], beam=1, retry=True, no_repeat_ngram=1):
        (ids,) = translator.tgt_tokenizer.encode([found.text])
        assert max(map(ids.count, ids), default=1) == 1


def test_the_mean_probability_of_sentences_searched_alone_counts_their_ends(
    translator: Translator,
) -> None:
    segment = SourceSegment("a. b.", [5], translator.cfg.languages, LexicalConstraints())
    parts = [SegmentTranslation(segment, ["x."], [Hypothesis([5, 6], -3.0, -1.0, True)])] * 2
    joined = _joined(segment, parts)
    assert joined_translation("a. b.", "en", [joined]).log_prob == pytest.approx(-6.0 / 6)


@pytest.mark.parametrize("beam", [1, 3])
def test_a_search_ends_loops_if_asked_to(translator: Translator, beam: int) -> None:
    request = Request(tuple(range(10, 40)))
    limit = 2 * 30 + 10

    def length(**options: Any) -> int:
        ((found, *_),) = endless(translator).engine.search(
            [request], SearchOptions(beam=beam, max_length_ratio=2.0, **options)
        )
        return len(found.ids)

    assert length() == length(end_loops=True, min_length=1) == limit
    assert 32 < length(end_loops=True) < 60


def test_faults_are_those_of_the_checks_and_without_them_a_second_search_changes_nothing(
    translator: Translator, texts: list[str]
) -> None:
    plain = translator.translate(texts)
    for text, found in zip(texts, plain, strict=True):
        expected = faults(text, found.text, src="zh", tgt="en", complete=found.complete)
        assert found.faults == expected
    clean = [found for found in plain if not found.faults]
    again = translator.translate([found.source for found in clean], retry=True)
    assert clean and [found.text for found in again] == [found.text for found in clean]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_best": 5, "beam": 4}, "n-best 5 needs a beam of at least 5, found 4"),
        ({"min_length": 9, "max_length": 3}, "at least 9 and at most 3 tokens does not exist"),
        ({"repetition_penalty": 0.5}, "repetition penalty 0.5: expected a number from 1 to 100"),
        ({"mbr": 1}, "give at least 2"),
        ({"mbr": 8, "n_best": 2}, "neither n-best nor diverse"),
        ({"diverse": True, "sampling": SamplingOptions()}, "leave one out"),
    ],
)
def test_what_does_not_go_together(
    translator: Translator, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        translator.translate(["猫"], **changes)


@pytest.mark.parametrize("length", [3, 8])
@pytest.mark.parametrize("beam", [1, 3])
def test_lengths_are_kept(translator: Translator, texts: list[str], beam: int, length: int) -> None:
    options = SearchOptions.resolve(
        translator.cfg.decode, beam=beam, min_length=length, max_length=length
    )
    requests = [Request(ids) for ids in translator.src_tokenizer.encode(texts)]
    for (best,) in translator.engine.search(requests, options):
        assert len(best.ids) in (length, length + 1)
        assert best.complete == (len(best.ids) == length)


def test_words_are_spelled_as_they_stand_in_sentences(
    tokenizers: tuple[Tokenizer, Tokenizer],
) -> None:
    zh, en = tokenizers
    inner = ConstraintEncoder(zh, "zh").required("猫")
    assert zh.decode([inner]) == ["猫"] and not zh.pieces(inner)[0].startswith("▁")
    spaced = ConstraintEncoder(en, "en").required("cat")
    assert en.pieces(spaced)[0].startswith("▁")
    spellings = [en.decode([ids])[0] for ids in ConstraintEncoder(en, "en").banned(["cat"])]
    assert {"cat", "Cat"} <= set(spellings)


@pytest.mark.parametrize(
    ("language", "typed", "learned"),
    [
        ("en", "the dog’s", "the dog's"),
        ("en", "cafe\u0301", "caf\u00e9"),
        ("zh", "ＡＢ１２", "AB12"),
    ],
)
def test_words_have_the_forms_of_the_training_text(
    tokenizers: tuple[Tokenizer, Tokenizer], language: str, typed: str, learned: str
) -> None:
    encoder = ConstraintEncoder(tokenizers[language == "en"], language)
    assert encoder.prefix(typed) == encoder.prefix(learned)
    assert encoder.required(typed) == encoder.required(learned)
    assert encoder.banned([typed]) == encoder.banned([learned])


def test_models_of_different_vocabularies_do_not_vote(
    translator: Translator, tmp_path: Path, tokenizer_dir: Path
) -> None:
    weights = weights_of(translator.model)
    cfg = translator.cfg
    save_model_dir(tmp_path / "a", cfg, weights, tokenizer_dir, {})
    languages = cfg.languages.model_copy(update={"src": "ja"})
    other = cfg.model_copy(update={"languages": languages})
    save_model_dir(tmp_path / "b", other, weights, tokenizer_dir, {})
    assert len(Translator.load(tmp_path / "a", tmp_path / "a").engine.models) == 2
    with pytest.raises(TmtError, match="has other languages or vocabularies than"):
        Translator.load(tmp_path / "a", tmp_path / "b")


def test_what_no_translation_has_room_for(translator: Translator) -> None:
    long, limit = "the dog " * 5000, translator.cfg.data.max_length
    for wish, asked in (("prefix", long), ("glossary", Glossary([Term("猫", long, 1)]))):
        message = rf"{wish}.* 'the dog .*…' has [0-9,]+ tokens, .* at most {limit} .*: shorten it"
        with pytest.raises(TmtError, match=message):
            constrained(translator, ["狗"], **{wish: asked})


def test_more_terms_than_a_translation_has_room_for(translator: Translator) -> None:
    """The search goes on with the first of them; the others are faults, if they are missing."""
    long = " ".join(["dog"] * (translator.cfg.data.max_length // 8))
    terms = [Term(character, long, i) for i, character in enumerate("猫狗鸟鱼马牛羊")]
    (found,) = constrained(translator, ["猫狗鸟鱼马牛羊" * 3], glossary=Glossary(terms))
    assert terms[0].target in found.text
    assert "term" in found.faults or all(term.target in found.text for term in terms)
