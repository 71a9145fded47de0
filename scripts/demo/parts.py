"""The parts of the bundled corpus: which sentences are for training, dev, test and contrasts.

Comes in: functions that each draw a sentence of one family. Goes out: the sentences of each part,
the same on every machine. This file knows which combinations are held out of training; it knows
neither words nor grammar, nor how the corpus is stored.

Three promises, all tested:

- *One translation*: a Chinese sentence has exactly one English sentence. 这 and 这些 are always
  "the", 那 is "that", 那些 "those"; 很 before an adjective is nothing, 非常 is "very".
- *Nothing seen*: each sentence states facts such as (动物, 穿过, 街道) or (街道, 是, 宽). A hash
  deals the facts to train, dev and test, so a held-out fact occurs in no training sentence, in
  whatever tense, number or clause; nor does a held-out source or target sentence.
- *References matter*: Chinese may drop the pronoun (因为太累了, 因为太宽了). The English one, with
  was or were, follows from the noun that the adjective belongs to; the contrast set asks for that.
"""

import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from typing import Literal

from descriptions import description, identity, location
from phrases import Draw, Fact
from questions import wh_question, yes_no_question
from reasons import PRONOUNS_TOLD, reason, well_known
from sentences import (
    Sentence,
    giving,
    joined,
    opinion,
    relative_clause,
    request,
    statement,
    travel,
)
from small_talk import greeting, weather

Role = Literal["train", "dev", "test"]

SEED = 2017
SIZES: dict[Role, int] = {"train": 30_000, "dev": 500, "test": 500}
N_CONTRAST = 300  # sentences, each with three wrong pronouns
HELD_OUT_PERCENT = 6  # of all facts, for dev and for test each
FIXED_ROLES: dict[Fact, Role] = {  # the well-known example is a test, and a fair one
    ("动物", "穿过", "街道"): "test",
    ("女孩", "穿过", "街道"): "test",
    ("动物", "是", "累"): "train",
    ("女孩", "是", "累"): "train",
    ("街道", "是", "宽"): "train",
}
FAMILIES: dict[str, tuple[int, Callable[[Draw], Sentence | None]]] = {  # per cent of the corpus
    "reason": (24, reason),
    "statement": (16, statement),
    "question word": (11, wh_question),
    "description": (12, description),
    "two clauses": (8, joined),
    "location": (6, location),
    "yes or no": (6, yes_no_question),
    "travel": (5, travel),
    "giving": (3, giving),
    "identity": (2, identity),
    "opinion": (2, opinion),
    "relative clause": (1, relative_clause),
    "request": (1, request),
    "weather": (1, weather),
    "greeting": (2, greeting),
}
MIN_IN_TRAIN = 10  # a test of combinations, not of vocabulary: every word of dev and test is known
MAX_DRAWS = 50  # per sentence asked for, before we call the grammar too small


@cache
def fact_role(fact: Fact) -> Role:
    """The part that a fact belongs to, decided by its words alone."""
    if fact in FIXED_ROLES:
        return FIXED_ROLES[fact]
    bucket = zlib.crc32("|".join(fact).encode()) % 100
    if bucket >= 2 * HELD_OUT_PERCENT:
        return "train"
    return "dev" if bucket < HELD_OUT_PERCENT else "test"


def sentence_role(facts: Iterable[Fact]) -> Role | None:
    """The part that a sentence belongs to; None if dev and test would both hold it out."""
    held_out = {fact_role(fact) for fact in facts} - {"train"}
    if len(held_out) > 1:
        return None
    return held_out.pop() if held_out else "train"


class Shelf:
    """The sentences taken so far: none twice, and no English sentence in two parts."""

    def __init__(self) -> None:
        self.parts: dict[Role, list[Sentence]] = {role: [] for role in SIZES}
        self.count: Counter[tuple[Role, str]] = Counter()
        self._english: dict[str, str] = {}  # of each Chinese sentence
        self._role: dict[str, Role] = {}  # of each English sentence

    def take(self, sentence: Sentence, role: Role, family: str) -> None:
        """Keep a sentence, if it is new."""
        assert self._english.get(sentence.zh, sentence.en) == sentence.en, sentence
        if sentence.zh in self._english or self._role.get(sentence.en, role) != role:
            return
        self._english[sentence.zh], self._role[sentence.en] = sentence.en, role
        self.parts[role].append(sentence)
        self.count[role, family] += 1

    def common(self) -> frozenset[str]:
        """Words and Chinese characters that training has often enough to be learned."""
        seen = self.parts["train"]
        counts = Counter(piece for sentence in seen for piece in pieces(sentence))
        return frozenset(piece for piece, n in counts.items() if n >= MIN_IN_TRAIN)


def pieces(sentence: Sentence) -> list[str]:
    """What a sentence is made of: Chinese characters and English words."""
    return [*sentence.zh, *re.findall(r"[\w']+", sentence.en)]


def fill(draw: Draw, shelf: Shelf, role: Role, common: frozenset[str] | None = None) -> None:
    """Draw every family's share of a part; of `common` pieces only, where they are given."""
    for family, (percent, draw_sentence) in FAMILIES.items():
        wanted = SIZES[role] * percent // 100
        for _ in range(MAX_DRAWS * SIZES[role]):
            if shelf.count[role, family] == wanted:
                break
            sentence = draw_sentence(draw)
            if sentence is None or sentence_role(sentence.facts) != role:
                continue
            if common is None or common.issuperset(pieces(sentence)):
                shelf.take(sentence, role, family)
        else:
            raise RuntimeError(f"the demo grammar is too small for {wanted} {role} {family}")


def unseen_references(draw: Draw) -> list[Sentence]:
    """Held-out sentences whose pronoun only a noun tells, as many for each pronoun."""
    missing = dict.fromkeys(PRONOUNS_TOLD, N_CONTRAST // len(PRONOUNS_TOLD))
    taken: dict[str, Sentence] = {}
    while any(missing.values()):
        sentence = reason(draw)
        if sentence is None or not sentence.rivals or sentence.zh in taken:
            continue
        if missing[sentence.pronoun] and sentence_role(sentence.facts) == "test":
            taken[sentence.zh] = sentence
            missing[sentence.pronoun] -= 1
    return list(taken.values())


@cache
def draw_sentences() -> dict[str, list[Sentence]]:
    """The sentences of train, dev, test and contrast, with the facts they state."""
    draw, shelf = Draw(SEED), Shelf()
    fill(draw, shelf, "train")
    common = shelf.common()
    for sentence in well_known():
        shelf.take(sentence, "test", "reason")
    fill(draw, shelf, "dev", common)
    fill(draw, shelf, "test", common)
    drawn = {}
    for role, sentences in shelf.parts.items():
        keys = {sentence.zh: draw.random() for sentence in sentences}
        drawn[str(role)] = sorted(sentences, key=lambda sentence: keys[sentence.zh])
    return {**drawn, "contrast": unseen_references(draw)}
