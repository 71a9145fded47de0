"""What is shown in Chinese, and what of it was left in English."""

import re

WORDS = r"\b[a-z]{3,} [a-z]{2,} [a-z]{2,}\b"  # three in a row
# Names, of which a line in Chinese may consist but for its Chinese words, and the words of texts.
NOT_ENGLISH = re.compile(
    r"nrefs:\S+|--[\w-]+|\bdata\.\w+|\btrain\.\w+|[\w./-]+/[\w./-]*|\w+=\S+|"
    r"tmt( \w+)?( -m \S+)?( TEXT)?|\[\w+\]|<[^>]*>|\w*[_▁]\w*"
)
OF_TEXTS = re.compile(r"^ +(原文|译文|参考) .*|^\s*\d+  .*", re.MULTILINE)


def english_lines(shown: str) -> list[str]:
    """Lines with an English sentence in them."""
    lines = OF_TEXTS.sub("", shown).split("\n")
    return [line for line in lines if re.search(WORDS, NOT_ENGLISH.sub("", line))]
