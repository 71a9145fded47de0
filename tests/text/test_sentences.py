"""Where sentences end, and cutting long texts: nothing is lost, everything fits, in linear time."""

import itertools
import random
import time
from collections.abc import Callable

import pytest
from places import ROOT

from transformer_mt.text.sentences import join_translations, split_sentences, split_text

CORPORA = ROOT.parent / "shared/data"


@pytest.mark.parametrize(
    ("language", "marked", "why"),
    [
        ("en", "It rains. |We stay! |Why? |Because.", "marks and spaces"),
        ("en", "Mr. Smith and Dr. J. R. R. Jones saw St. Paul.", "titles and initials"),
        (
            "en",
            "Fruit, e.g. Apples, i.e. Food. |See Fig. 2 and No. 5. |He said no. |Then yes.",
            "more",
        ),
        (
            "en",
            "The U.S. Army came. |He lives in the U.S. |He likes it. |At 5 p.m. |We left.",
            "both",
        ),
        (
            "en",
            "Pi is 3.14. |Read file.txt at https://a.b/c.d?e=f!g. |Use v1.2.3 now.",
            "no spaces",
        ),
        ("en", "Wait... what? |Well… maybe. |So... |He left.", "ellipses"),
        ("en", 'I said "no." |He left. |"Go!" Tom said. |"Why?" |We left.', "straight quotes"),
        ("en", "He said “Go. Now.” and left. |“It rains.” |We stay.", "curly quotes"),
        ("en", "(It rains. We stay.) |He (i.e. Tom. Yes.) left. |So [1]. |Go.", "brackets"),
        ("en", "1. Do this. |2. Do that. |In 2020. |Then.", "numbers of a list"),
        ("en", "it rains. |we stay. |why? |e.g. this", "where nothing has a capital"),
        ("en", "It rains. we stay.", "a small letter goes on elsewhere"),
        ("en", "  One.  |Two.\n|Three\nfour.\n\n|Five\n \n|six", "white space, blank lines"),
        ("en", "Really?! |Yes!!! |No?", "several marks"),
        ("en", "Er sagte: 好。|Ja.", "mixed scripts"),
        ("en", "He is 5'10\". |She is 6'. |So.", "feet and inches"),
        ("de", "Am 3. Oktober kam Hr. Dr. Groß, d.h. spät. |Um 8 Uhr usw. |Er ging.", "German"),
        ("de", "„Komm!“ |Er kam. |Das ist z.B. Gut. |»Ja.« |Nein.", "German quotes"),
        ("fr", "« Bonjour. » |M. Dupont est là. |Vraiment\u00a0? |Oui\u00a0!", "French"),
        ("es", "¿Qué? |¡No! |El Sr. García vino. |Ud. Sabe.", "Spanish"),
        ("ru", "Он пришёл. |Она ушла! |Да?", "other alphabets"),
        ("hi", "वह आया। |वह गई। |क्या?", "Hindi"),
        ("ar", "هل جاء؟ |نعم.", "Arabic"),
        ("zh", "下雨了。|我们留下！|为什么？|真的！？|好；|走吧……|再见。", "Chinese"),
        ("zh", "他说：“好。我来了。”|她走了。", "a quotation stays whole"),
        ("zh", "“走吧！”他高兴地说。|“好。”|她走了。", "the sentence goes on after it, or not"),
        ("zh", "他问的“为什么？”很难回答。|他喊：「走！」|他走了。", "within a sentence"),
        ("zh", "他（是个好人。）走了。|（他来了。）|她走了。", "brackets"),
        ("zh", "“什么？”，他问。|《你好！》、《再见。》都好。", "commas after the quote"),
        ("zh", "我……我不知道。|价格是3.5元。|他来了.|她走了", "hesitation, numbers, ASCII"),
        ("ja", "彼は「はい。」と言った。|雨です。", "Japanese"),
    ],
)
def test_where_sentences_end(language: str, marked: str, why: str) -> None:
    sentences = marked.split("|")
    assert split_sentences("".join(sentences), language) == sentences, why


@pytest.mark.parametrize("language", ["en", "zh", "de", "fr", "th"])
def test_sentences_joined_are_the_text(language: str) -> None:
    for seed in range(100):
        generator = random.Random(seed)
        alphabet = "aBC12好。！？；，…. .!?;:\"'“”‘’„«»()（）「」\n\n \t\u2028\xa0😀\ud800"
        text = "".join(generator.choices(alphabet, k=generator.randint(0, 200)))
        sentences = split_sentences(text, language)
        assert "".join(sentences) == text
        assert all(sentences)
        assert not any(sentence[0].isspace() for sentence in sentences[1:])


def test_a_quotation_that_is_not_closed_hides_nothing() -> None:
    assert len(split_sentences("他说：“好。" + "我走了。" * 10, "zh")) == 11
    assert len(split_sentences("“" + "我走了。" * 100 + "”", "zh")) == 100, "nor a very long one"


@pytest.mark.parametrize("name", ["tatoeba-zh-en/test.zh", "tatoeba-zh-en/test.en"])
def test_sentences_of_a_corpus_are_found_again(name: str) -> None:
    """Most lines are one sentence each: joined, they must come apart in the same places."""
    path = CORPORA / name
    if not path.is_file():
        pytest.skip(f"{path} is not here")
    language = path.suffix[1:]
    marks = tuple(".!?") if language == "en" else tuple("。！？")
    lines = path.read_text(encoding="utf-8").split("\n")
    lines = [line for line in lines if line.endswith(marks)]
    whole = [line for line in lines if len(split_sentences(line, language)) == 1]
    assert len(whole) > 0.9 * len(lines) > 100
    separator = " " if language == "en" else ""
    text = separator.join(whole)
    found = [sentence.strip() for sentence in split_sentences(text, language)]
    assert len(set(whole) & set(found)) > 0.97 * len(set(whole))


HOSTILE = [*'.!。…a"()“”\n (', "“。”", "字“字。”", ". ", "A. ", "a.b", "\n ", "etc. ", ".)", "3. "]


@pytest.mark.parametrize("unit", HOSTILE)
def test_splitting_takes_linear_time(unit: str) -> None:
    """Quadratic time would be minutes."""
    text = unit * (100_000 // len(unit))
    before = time.process_time()
    assert "".join(split_sentences(text, "en")) == text
    assert "".join(split_sentences(text, "zh")) == text
    assert time.process_time() - before < 5


def at_most(n: int) -> Callable[[str], bool]:
    return lambda text: len(text.strip()) <= n


@pytest.mark.parametrize(
    ("text", "limit", "pieces", "why"),
    [
        ("One. Two.", 20, ["One. Two."], "nor cut at sentence ends without need"),
        ("", 5, [""], "nothing stays nothing"),
        ("It rains. We stay. Why?", 18, ["It rains. We stay. ", "Why?"], "neighbours together"),
        ("下雨了。我们留下。为什么？", 5, ["下雨了。", "我们留下。", "为什么？"], "no spaces"),
        ("真的！？好。", 4, ["真的！？", "好。"], "between two marks is no end"),
        ("他说：“好。”她走了。", 8, ["他说：“好。”", "她走了。"], "a closing quote goes along"),
        ('I said "no." He left us.', 15, ['I said "no." ', "He left us."], "an English quote"),
        ("Pi is 3.14159 today. Yes.", 22, ["Pi is 3.14159 today. ", "Yes."], "not in a number"),
        ("Wait… what? No.", 11, ["Wait… what?", " No."], "an ellipsis"),
        ("one two, three four", 10, ["one two, ", "three four"], "clauses when a sentence is long"),
        ("如果下雨，我们就留下", 6, ["如果下雨，", "我们就留下"], "full-width clauses"),
        ("aaa bbb ccc", 7, ["aaa bbb ", "ccc"], "words when a clause is long"),
        ("abcdefgh", 4, ["abcd", "efgh"], "anywhere when nothing else is left"),
        ("ab", 0, ["a", "b"], "one character is the least, even if it does not fit"),
    ],
)
def test_where_a_text_is_cut(text: str, limit: int, pieces: list[str], why: str) -> None:
    found = split_text(text, at_most(limit))
    assert [piece.strip() for piece in found] == [piece.strip() for piece in pieces], why
    assert "".join(found) == text


@pytest.mark.parametrize("seed", range(30))
def test_pieces_fit_and_joined_are_the_text(seed: int) -> None:
    generator = random.Random(seed)
    text = "".join(generator.choices("ab好。！？，、. ,!?;:\"'”’)」… \n\t😀", k=300))
    for limit in (1, 2, 7, 40, 299):
        pieces = split_text(text, lambda part, limit=limit: len(part) <= limit)
        assert "".join(pieces) == text
        assert all(pieces)
        assert all(len(piece) <= limit for piece in pieces)
        for left, right in itertools.pairwise(pieces):
            assert len(left + right) > limit, "pieces are not smaller than they must be"


@pytest.mark.parametrize(
    "unit", ["字", "a", "word ", "他说，", "Hello there. ", "。", "“", f"{'x' * 700} Hi. So. "]
)
def test_a_long_text_is_cut_with_few_questions(unit: str) -> None:
    text = unit * (200_000 // len(unit))
    asked = []

    def fits(part: str) -> bool:
        asked.append(len(part))
        return len(part) <= 600

    pieces = split_text(text, fits)
    assert "".join(pieces) == text
    assert max(map(len, pieces)) <= 600
    assert len(pieces) < 3 * len(text) / 600, "and pieces are not much smaller than they can be"
    assert len(asked) < 25 * len(pieces)
    assert sum(asked) < 40 * len(text)


def test_joining() -> None:
    assert join_translations(["一。", "", "二。"], "zh-Hant") == "一。二。"
    assert join_translations(["Eins.", "", "Drei."], "de") == "Eins. Drei."
    assert join_translations([], "en") == ""
