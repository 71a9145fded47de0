"""The grammar of the bundled corpus: one translation each, nothing seen, references that matter."""

import re
from collections import Counter

import parts
import pytest
import write
from parts import draw_sentences, fact_role
from phrases import LEXICON, adjectives_for, nouns_for

from transformer_mt.corpus.readers.demo import DEMO_PATH, build_demo
from transformer_mt.corpus.readers.lines import split_lines

CORPUS = build_demo()
PARTS = {"train": CORPUS.train, "dev": CORPUS.dev, "test": CORPUS.test}
EVERYTHING = [*CORPUS.train, *CORPUS.dev, *CORPUS.test]


def words(english: str) -> list[str]:
    return re.findall(r"[\w']+", english)


# The parts.


def test_the_bundled_file_is_what_the_grammar_writes() -> None:
    """In each process: Python hashes texts differently in every one of them."""
    assert write.content().decode().split("\n") == [*split_lines(DEMO_PATH), ""]


def test_every_part_has_the_promised_size() -> None:
    assert {part: len(pairs) for part, pairs in PARTS.items()} == parts.SIZES
    assert len(CORPUS.contrast) == 3 * parts.N_CONTRAST


def test_a_chinese_sentence_has_one_english_sentence() -> None:
    translations: dict[str, set[str]] = {}
    for zh, en in [*EVERYTHING, *((src, right) for src, right, _ in CORPUS.contrast)]:
        translations.setdefault(zh, set()).add(en)
    assert {zh: en for zh, en in translations.items() if len(en) > 1} == {}
    assert len(translations) > 31_000


@pytest.mark.parametrize("side", [0, 1], ids=["zh", "en"])
def test_no_sentence_of_dev_or_test_is_in_another_part(side: int) -> None:
    train, dev, test = ({pair[side] for pair in pairs} for pairs in PARTS.values())
    contrast = {contrast[side] for contrast in CORPUS.contrast}
    assert not train & (dev | test | contrast)
    assert not dev & (test | contrast)


def test_every_dev_and_test_sentence_states_a_fact_that_training_never_states() -> None:
    seen = {fact for sentence in draw_sentences()["train"] for fact in sentence.facts}
    for part in ("dev", "test", "contrast"):
        for sentence in draw_sentences()[part]:
            assert set(sentence.facts) - seen, sentence.zh
    assert {fact_role(fact) for fact in seen} == {"train"}


def test_held_out_combinations_are_absent_from_the_text_of_training() -> None:
    """The same for verbs that a pattern finds, without believing the grammar's own records."""
    verbs = ("穿过", "游过", "走过", "跳过", "爬上", "举起", "修理")
    nested = re.compile("说|知道|希望|的时候")
    clauses: dict[str, list[str]] = {verb: [] for verb in verbs}
    for zh, _ in CORPUS.train:
        for clause in [] if nested.search(zh) else re.split("[，。？！]", zh):
            for verb in verbs:
                clauses[verb] += [clause] * (verb in clause)
    held_out = {
        fact
        for part in ("dev", "test", "contrast")
        for sentence in draw_sentences()[part]
        for fact in sentence.facts
        if fact[1] in verbs and fact_role(fact) != "train" and len(fact[0]) > 1
        if fact[0] not in ("我们", "他们")
    }
    assert len(held_out) > 50
    for who, verb, what in held_out:
        pattern = re.compile(f"{who}.*{verb}.*(?<![小大]){what}$")
        assert [c for c in clauses[verb] if pattern.search(c)] == [], (who, verb, what)


def test_dev_and_test_use_only_what_training_has_often() -> None:
    characters = Counter(character for zh, _ in CORPUS.train for character in zh)
    vocabulary = Counter(word for _, en in CORPUS.train for word in words(en))
    rare = [
        piece
        for zh, en in [*CORPUS.dev, *CORPUS.test]
        for counts, found in ((characters, [*zh]), (vocabulary, words(en)))
        for piece in found
        if counts[piece] < 10
    ]
    assert rare == []


def test_every_word_of_the_lexicon_occurs_often_in_training() -> None:
    assert len(LEXICON.words()) > 450
    text = "".join(zh for zh, _ in CORPUS.train)
    for word in LEXICON.words():
        assert min(text.count(part) for part in word.zh.split("·")) >= 15, word


# What the sentences look like.


def test_chinese_is_written_as_chinese() -> None:
    odd = [zh for zh, _ in EVERYTHING if not re.fullmatch(r"[\u4e00-\u9fff，！]+[。？！]", zh)]
    assert odd == []


def test_english_is_written_as_english() -> None:
    sentence = re.compile(r"[A-Z][A-Za-z',! ]*[a-zA-Z][.?!]")
    odd = [en for _, en in EVERYTHING if not sentence.fullmatch(en) or "  " in en]
    articles = re.compile(r"\ba [aeiou]|\ban [^aeiou]|\b(a|an|the) (a|an|the|my|your|some)\b")
    assert odd == []
    assert [en for _, en in EVERYTHING if articles.search(en)] == []


def test_both_sides_end_alike() -> None:
    ends = {(zh[-1], en[-1]) for zh, en in EVERYTHING}
    assert ends == {("。", "."), ("？", "?"), ("！", "!")}


def test_questions_negation_and_plurals_agree_between_the_sides() -> None:
    for zh, en in EVERYTHING:
        assert ("那些" in zh) == ("those" in en.lower()) or "那" in zh, (zh, en)
        if "没有" in zh or "不会" in zh:
            assert re.search(r"n't|never|\bno\b", en), (zh, en)
        if zh.endswith("吗？"):
            assert not re.search(r"\b(Who|What|Where|When|Why|Which|How)\b", en), (zh, en)


def test_lengths_vary() -> None:
    lengths = [len(words(en)) for _, en in CORPUS.train]
    assert min(lengths) <= 3
    assert 7.5 < sum(lengths) / len(lengths) < 14
    assert sum(length >= 10 for length in lengths) > 0.3 * len(lengths)


# Reference resolution.

KNOWN = [
    ("这只动物没有穿过街道，因为它太累了。", "animal", "it was too tired"),
    ("这只动物没有穿过街道，因为它太宽了。", "animal", "it was too wide"),
    ("这些动物没有穿过街道，因为太累了。", "animals", "they were too tired"),
    ("这个女孩没有穿过街道，因为太累了。", "girl", "she was too tired"),
    ("这个女孩没有穿过街道，因为太宽了。", "girl", "it was too wide"),
]


@pytest.mark.parametrize(("zh", "who", "why"), KNOWN)
def test_the_well_known_sentences_are_tests(zh: str, who: str, why: str) -> None:
    assert (zh, f"The {who} didn't cross the street because {why}.") in CORPUS.test


def test_training_has_relatives_of_the_well_known_sentence() -> None:
    reasons = [zh for zh, _ in CORPUS.train if "因为" in zh]
    assert 0.2 < len(reasons) / len(CORPUS.train) < 0.25
    least = {"穿过": 500, "穿过街道": 50, "动物": 100, "太累了": 100, "太宽了": 50}
    for text, n in least.items():
        assert sum(text in zh for zh in reasons) > n, text
    assert not [zh for zh in reasons if re.search("(动物|女孩).*穿过.*街道", zh)]


def test_contrasts_differ_by_one_pronoun_and_its_verb() -> None:
    pattern = re.compile(r"because (she|he|it|they) (is|was|are|were) ")
    for source, right, wrong in CORPUS.contrast:
        (right_pronoun, right_verb), (wrong_pronoun, wrong_verb) = (
            pattern.findall(text)[-1] for text in (right, wrong)
        )
        assert right_pronoun != wrong_pronoun
        assert (wrong_verb in ("are", "were")) == (wrong_pronoun == "they")
        assert right_verb in (("is", "are") if wrong_verb in ("is", "are") else ("was", "were"))
        assert right == pattern.sub(f"because {right_pronoun} {right_verb} ", wrong), source


def test_contrasts_ask_for_every_pronoun_alike_and_offer_every_wrong_one() -> None:
    rivals: dict[str, set[str]] = {}
    for source, right, wrong in CORPUS.contrast:
        rivals.setdefault(source, {right}).add(wrong)
    assert {len(texts) for texts in rivals.values()} == {4}
    pronouns = Counter(sentence.pronoun for sentence in draw_sentences()["contrast"])
    assert pronouns == {pronoun: parts.N_CONTRAST // 4 for pronoun in ("she", "he", "it", "they")}


def test_no_chinese_word_tells_the_pronoun_of_a_contrast() -> None:
    """After 因为 the reason follows at once, and the two nouns have different pronouns."""
    opening = re.compile(r".*，因为[太很非生受喝迷坏锁关]")
    for src, _, _ in CORPUS.contrast:
        assert opening.match(src), src


def test_contrasts_refer_to_the_doer_and_to_the_thing() -> None:
    things = {word.zh for word in LEXICON.nouns if not word.kinds & {"person", "animal"}}
    contrasts = draw_sentences()["contrast"]
    n_things = sum(sentence.facts[-1][0] in things for sentence in contrasts)
    assert 0.3 < n_things / len(contrasts) < 0.7


def test_reasons_belong_to_the_doer_or_to_the_thing_never_to_both() -> None:
    of_thing, of_doer = set(), set()
    for verb in LEXICON.verbs:
        of_thing |= {*verb.thing_against.split(), *verb.thing_for.split()}
        of_doer |= {*verb.doer_against.split(), *verb.doer_for.split()}
    assert len(of_thing) > 30
    assert len(of_doer) > 20
    assert not of_thing & of_doer


# Words, phrases, clauses.


def test_every_kind_that_the_lexicon_asks_for_exists() -> None:
    wanted = [word.of for word in (*LEXICON.adjectives, *LEXICON.states)]
    wanted += [f"{verb.who} {verb.what}" for verb in (*LEXICON.verbs, *LEXICON.feelings)]
    wanted += [f"{word.who} {word.where}" for word in LEXICON.activities]
    unknown = {
        kind
        for wishes in wanted
        for kind in wishes.split()
        if not nouns_for(kind.removeprefix("-"))
    }
    assert unknown == set()


def test_every_reason_is_an_adjective_that_fits_some_doer_or_thing_of_its_verb() -> None:
    states = {state.zh for state in LEXICON.states}
    for verb in LEXICON.verbs:
        things = {a.zh for n in nouns_for(verb.what) for a in adjectives_for(n.kinds)}
        doers = {a.zh for n in nouns_for(verb.who) for a in adjectives_for(n.kinds)}
        assert {*verb.thing_against.split(), *verb.thing_for.split()} <= things | states, verb.zh
        assert {*verb.doer_against.split(), *verb.doer_for.split()} <= doers | states, verb.zh


def test_an_adjective_means_one_thing_of_one_noun() -> None:
    for word in LEXICON.nouns:
        meanings: dict[str, set[str]] = {}
        for adjective in adjectives_for(word.kinds):
            meanings.setdefault(adjective.zh, set()).add(adjective.en)
        assert all(len(english) == 1 for english in meanings.values()), (word, meanings)


def test_a_grammar_that_is_too_small_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "FAMILIES", {"none": (100, lambda draw: None)})
    with pytest.raises(RuntimeError, match="too small for 500 dev none"):
        parts.fill(parts.Draw(0), parts.Shelf(), "dev")
