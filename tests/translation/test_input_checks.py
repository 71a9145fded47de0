"""Texts that a model cannot know are told of; usual ones are not."""

import pytest

from transformer_mt.corpus.readers.demo import build_demo
from transformer_mt.text.known_units import KnownUnits
from transformer_mt.translation.input_checks import check_inputs

DEMO = build_demo()
STRANGE = [
    ("I don't know what you mean.", "mostly Latin letters, and this model reads Chinese"),
    ("Ich weiß nicht, was du meinst.", "mostly Latin letters"),
    ("これは本です。", "mostly kana"),
    ("Где вокзал?", "mostly letters of another script"),
    ("안녕하세요", "mostly Hangul"),
    ("😀😀🎉", "holds no words"),
    ("……", "holds no words"),
    ("量子色動力學描述強交互作用。", "were never seen in training"),
    ("asdkfj qwoeiru zxcmv", "mostly Latin letters"),
]


@pytest.fixture(scope="module")
def known() -> KnownUnits:
    return KnownUnits.of([[zh for zh, _ in DEMO.train]], [zh for zh, _ in DEMO.dev])


def notes(texts: list[str], known: KnownUnits | None, language: str = "zh") -> list[list[str]]:
    found = check_inputs(texts, texts, [language] * len(texts), [0.0] * len(texts), known)
    return [list(check.notes) for check in found]


@pytest.mark.parametrize(("text", "expected"), STRANGE)
def test_strange_texts(text: str, expected: str, known: KnownUnits) -> None:
    (found,) = notes([text], known)
    assert any(expected in note for note in found), found


def test_usual_texts_have_no_notes(known: KnownUnits) -> None:
    found = notes([zh for zh, _ in DEMO.test], known)
    assert sum(map(bool, found)) <= 0.02 * len(DEMO.test)
    assert notes(["", "  "], known)[0] == []


def test_without_stored_words_the_script_still_tells() -> None:
    assert notes(["I don't know."], None)[0] and not notes(["量子力學"], None)[0]
    assert not notes(["Ich weiß"], None, "en")[0], "one script: only words could tell"


def test_shares_and_spelled_characters(known: KnownUnits) -> None:
    (check,) = check_inputs(["𪚥𪚥"], ["𪚥𪚥"], ["zh"], [1.0], known)
    assert check.unknown_characters == 1 and check.unknown_words == 1
    assert "100% of its tokens spell characters" in " ".join(check.notes)
    (check,) = check_inputs(["這個"], ["这个"], ["zh"], [0.0], known)
    assert check.notes == ("Traditional Chinese, read as Simplified",)
