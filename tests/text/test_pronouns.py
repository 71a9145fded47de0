"""Pronouns of the third person are found, and words that only hold one are not."""

import pytest

from transformer_mt.text.languages import canonical_code
from transformer_mt.text.pronouns import PRONOUNS, pronoun_spans


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("这只动物没有穿过街道，因为它太累了。", "zh", ["它"]),
        ("他们看见她，其他人没有看见它们。", "zh", ["他们", "她", "它们"]),
        ("她弹吉他，不管他人。", "zh", ["她"]),
        ("因為牠太累了，他們走了", "zh-Hant", ["牠", "他們"]),
        ("It was tired; with it, item and bitter.", "en", ["It", "it"]),
        ("they're there, theirs", "en", ["they"]),
        ("Das Tier … weil es zu müde war. Sie essen.", "de", ["es", "Sie"]),
        ("彼女はそれを見た。それから彼氏が来た。", "ja", ["彼女", "それ"]),
        ("그녀는 그것을 봤다.", "ko", ["그녀", "그것"]),
        ("Anh ấy thấy nó.", "vi", ["Anh ấy", "nó"]),
        ("Он устал. Потому", "ru", ["Он"]),
        ("it", "sw", []),
        ("", "zh", []),
    ],
)
def test_pronouns_of_a_text(text: str, language: str, expected: list[str]) -> None:
    assert [text[start:end] for start, end in pronoun_spans(text, language)] == expected


@pytest.mark.parametrize("language", PRONOUNS)
def test_the_data_are_words_of_known_languages(language: str) -> None:
    words = PRONOUNS[language]
    assert canonical_code(language) == language
    assert len(set(words)) == len(words)
    for word in words:
        assert pronoun_spans(f"{word}。" if language == "zh" else word, language) == [
            (0, len(word))
        ]
