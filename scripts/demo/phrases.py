"""Phrases of the bundled corpus, Chinese and English side by side.

Comes in: words of the lexicon and a `Draw`. Goes out: a `Phrase`, who or what or where, with both
its sides. This file knows determiners, measure words and prepositions; it knows no verbs.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import NamedTuple, TypeVar

from lexicon import (
    Adjective,
    Noun,
    Word,
    fits,
    load_lexicon,
    plural,
    with_article,
)

T = TypeVar("T")
H = TypeVar("H", bound=Hashable)
Fact = tuple[str, ...]  # what a sentence says, in content words: (动物, 穿过, 街道)

LEXICON = load_lexicon()


class Draw:
    """Random choices, by the one method whose sequence Python promises to keep for a seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed).random
        self._used: Counter[tuple[str, Hashable]] = Counter()

    def chance(self, probability: float) -> bool:
        return self.random() < probability

    def choose(self, options: Sequence[T]) -> T:
        return options[int(self.random() * len(options))]

    def choose_rare(self, options: Sequence[H], purpose: str) -> H:
        """The least used of three options, so that words which fit few nouns are seen as well."""
        chosen = min((self.choose(options) for _ in range(3)), key=self._uses(purpose))
        self._used[purpose, chosen] += 1
        return chosen

    def _uses(self, purpose: str) -> Callable[[Hashable], int]:
        return lambda option: self._used[purpose, option]


@dataclass(frozen=True)
class Phrase:
    zh: str
    en: str
    head: str = ""  # its content word, for facts
    person: str = "it"  # I, you, he, she, it, we, they; "?": he or she, the noun does not say
    pronoun: str = ""  # the Chinese pronoun for it, where there is just one
    kinds: frozenset[str] = frozenset()
    counted: bool = False  # 三只狗, 一些狗: new to the hearer
    quality: str = ""  # the Chinese adjective before the noun, for facts

    @property
    def askable(self) -> bool:
        """Whether one asks about it: nobody says 我看了这本书吗."""
        return self.person not in ("I", "we") and not self.counted

    def as_object(self) -> "Phrase":
        return replace(self, en=AS_OBJECT.get(self.en, self.en))


class Determiner(NamedTuple):
    zh: str
    en: str
    measured: bool = False  # takes the measure word
    plural: bool = False
    counted: bool = False  # a number, or "a"


NOTHING = Phrase("", "")
NO_TIME = Word("", "")
NONE, GENERAL = Determiner("", ""), Determiner("", "", plural=True)  # 玛丽; 苹果, "apples"
THE, THE_BARE = Determiner("这", "the", measured=True), Determiner("", "the")
THE_MANY, THOSE = Determiner("这些", "the", plural=True), Determiner("那些", "those", plural=True)
THAT, SOME = Determiner("那", "that", measured=True), Determiner("一些", "some", plural=True)
A = Determiner("一", "a", measured=True, counted=True)
NUMBERS = tuple(Determiner(word.zh, word.en, True, True, True) for word in LEXICON.numbers)
OWNERS = tuple(
    Determiner(zh, en)
    for zh, en in (("我的", "my"), ("你的", "your"), ("他的", "his"), ("她的", "her"),
                   ("我们的", "our"), ("他们的", "their"))
)  # fmt: skip
PRONOUNS = tuple(
    Phrase(zh, en, zh, en, zh, frozenset(["person", en]))
    for zh, en in (("我", "I"), ("你", "you"), ("他", "he"), ("她", "she"), ("我们", "we"),
                   ("他们", "they"))
)  # fmt: skip
AS_OBJECT = {"I": "me", "you": "you", "he": "him", "she": "her", "we": "us", "they": "them"}
WRITTEN_ONE = {"she": "她", "he": "他", "it": "它", "?": ""}
WRITTEN_MANY = {"she": "她们", "he": "他们", "it": "它们", "?": "他们"}
WHO = Phrase("谁", "who", "谁", "he", kinds=frozenset(["person"]))


COLOURED = "clothing vehicle 花 雨伞 杯子 球 椅子 沙发"


def spaced(*words: str) -> str:
    return " ".join(word for word in words if word)


@cache
def noun_phrase(noun: Noun, determiner: Determiner, attribute: Word = NO_TIME) -> Phrase:
    """A noun with what stands before it; "a glass of water" where water itself has no number."""
    zh = determiner.zh + noun.measure * determiner.measured + attribute.zh + noun.zh
    en = spaced(attribute.en, noun.en)
    article, many, written = determiner.en, False, WRITTEN_ONE[noun.gender]
    if determiner.plural and noun.number == "count":
        en, many, written = plural(en), True, WRITTEN_MANY[noun.gender]
    elif determiner.counted and noun.unit:
        many, written = determiner.plural, ""
        en = f"{plural(noun.unit) if many else noun.unit} of {en}"
    elif noun.number == "pair":
        article, many, written = "those" if determiner is THAT else article, True, ""
    en = with_article(en) if determiner is A else spaced(article, en)
    person = "they" if many else noun.gender
    new = determiner.counted or determiner is SOME
    quality = attribute.zh.removesuffix("的")
    return Phrase(zh, en, noun.zh, person, written, noun.kinds, new, quality)


@cache
def nouns_for(wanted: str) -> tuple[Noun, ...]:
    """The nouns of one of the wanted kinds; see `fits`."""
    return tuple(noun for noun in LEXICON.nouns if fits(noun.kinds, wanted))


@cache
def adjectives_for(kinds: frozenset[str]) -> tuple[Adjective, ...]:
    """What can be said of something of these kinds."""
    return tuple(word for word in LEXICON.adjectives if fits(kinds, word.of))


@cache
def the_noun(zh: str) -> Noun | None:
    """The noun that is written so; None for names, kin and pronouns."""
    return next((noun for noun in LEXICON.nouns if noun.zh == zh), None)


def noun_in_use(draw: Draw, noun: Noun, *, counted: bool = False, one: bool = False) -> Phrase:
    """这只狗, 那只狗, 这些狗, 我的狗; with `counted` also 三只狗; just one of them if wanted."""
    determiners = [THE] * 6 + [THAT] * 2
    if noun.number == "count" and not one:
        determiners += [THE_MANY] * 4 + [THOSE]
        determiners += [draw.choose(NUMBERS), SOME] * counted
    if noun.kinds & {"owned", "mine", "pet"}:
        determiners += [draw.choose(OWNERS)] * 2
    if "always_mine" in noun.kinds:
        determiners = determiners[-2:]
    return noun_phrase(noun, draw.choose(determiners))


def person(draw: Draw, *, counted: bool = False) -> Phrase:
    """她, 玛丽, 我妈妈, 这位医生."""
    kind = draw.choose(("pronoun", "pronoun", "name", "kin", "noun", "noun", "noun"))
    if kind == "pronoun":
        return draw.choose(PRONOUNS)
    if kind == "name":
        return noun_phrase(draw.choose(LEXICON.names), NONE)
    if kind == "kin":  # 我妈妈, without 的
        kin = noun_phrase(draw.choose(LEXICON.kin), draw.choose(OWNERS[:4]))
        return replace(kin, zh=kin.zh.replace("的", ""))
    return noun_in_use(draw, draw.choose(nouns_for("person")), counted=counted)


def doer(draw: Draw, who: str, *, counted: bool = False) -> Phrase:
    """Somebody of the wanted kinds; with `counted` also 三只狗, which Chinese does not negate."""
    animals = nouns_for(f"{who} -person")
    if animals and not ("person" in who.split() and draw.chance(0.65)):
        return noun_in_use(draw, draw.choose(animals), counted=counted)
    while True:
        somebody = person(draw, counted=counted)
        if fits(somebody.kinds, who):
            return somebody


def thing(draw: Draw, noun: Noun, *, known: bool = False, one: bool = False) -> Phrase:
    """An object: 这本书; unless it must be known also 一本书, 三本书, 一些书, 一本新书."""
    if "bare" in noun.kinds and draw.chance(0.6):
        return noun_phrase(noun, THE_BARE)  # 穿过街道; now and then 穿过这条街道
    if known or noun.kinds & {"bare", "outside"} or draw.chance(0.3):
        return noun_in_use(draw, noun, one=one)
    fitting = attributes_for(noun)
    if fitting and draw.chance(0.35):
        return noun_phrase(noun, draw.choose((A, A, THE)), draw.choose(fitting))
    return noun_phrase(noun, A if one else some(draw, noun))


@cache
def attributes_for(noun: Noun) -> tuple[Word, ...]:
    """What can stand before the noun: 新, 红色的."""
    if noun.number != "count" or "bought" not in noun.kinds:
        return ()
    said = {adjective.zh for adjective in adjectives_for(noun.kinds)}
    colours = LEXICON.colours if fits(noun.kinds, COLOURED) else ()
    return (
        *(word for word in LEXICON.attributes if word.zh.removesuffix("的") in said),
        *(replace(colour, zh=f"{colour.zh}的") for colour in colours[:4]),
    )


def some(draw: Draw, noun: Noun) -> Determiner:
    """一, 三 or 一些, as far as the noun can be counted."""
    counts = [A, A] + [draw.choose(NUMBERS[:4])] * (noun.number == "count" or noun.unit != "")
    return draw.choose(counts + [SOME] * (noun.number != "pair"))


PLACES = (("in", "里", "in"), ("on", "上", "on"), ("over", "上", "in"), ("at", "", "at"))
IDIOMS = {"家": ("在家", "at home"), "学校": ("在学校里", "at school")}


def place(noun: Noun) -> Phrase:
    """Being there: 在公园里, "in the park"."""
    if noun.zh in IDIOMS:
        return Phrase(*IDIOMS[noun.zh], noun.zh)
    for kind, zh, preposition in PLACES:
        if kind in noun.kinds:
            return Phrase(f"在{noun.zh}{zh}", f"{preposition} the {noun.en}", noun.zh)
    return Phrase(f"在{noun.zh}旁边", f"next to the {noun.en}", noun.zh)
