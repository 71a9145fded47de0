"""The words of the bundled Chinese–English corpus, and how English bends them.

Comes in: `lexicon.yaml`, the tables that lie next to this file. Goes out: one `Lexicon` of
typed words, and functions for English plurals, verb forms and comparatives. This file knows single
words and which of them go together; it does not know how words make a sentence.
"""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from transformer_mt.config.yaml_text import parse_yaml

Form = Literal["base", "third", "past", "done", "ing"]

PRINCIPAL_PARTS = {
    "eat": ("ate", "eaten"), "drink": ("drank", "drunk"), "buy": ("bought", "bought"),
    "sell": ("sold", "sold"), "read": ("read", "read"), "write": ("wrote", "written"),
    "drive": ("drove", "driven"), "ride": ("rode", "ridden"), "put": ("put", "put"),
    "find": ("found", "found"), "lose": ("lost", "lost"), "break": ("broke", "broken"),
    "make": ("made", "made"), "bring": ("brought", "brought"), "leave": ("left", "left"),
    "throw": ("threw", "thrown"), "steal": ("stole", "stolen"), "cut": ("cut", "cut"),
    "see": ("saw", "seen"), "feed": ("fed", "fed"), "take": ("took", "taken"),
    "swim": ("swam", "swum"), "run": ("ran", "run"), "sing": ("sang", "sung"),
    "sleep": ("slept", "slept"), "go": ("went", "gone"), "come": ("came", "come"),
    "give": ("gave", "given"), "lend": ("lent", "lent"), "draw": ("drew", "drawn"),
    "have": ("had", "had"), "know": ("knew", "known"), "think": ("thought", "thought"),
    "send": ("sent", "sent"), "say": ("said", "said"), "do": ("did", "done"),
}  # fmt: skip
PLURALS = {
    "child": "children", "goose": "geese", "mouse": "mice", "wolf": "wolves", "knife": "knives",
    "potato": "potatoes", "tomato": "tomatoes", "bookshelf": "bookshelves", "scarf": "scarves",
}  # fmt: skip
PLAIN_TABLES = (
    "attributes", "colours", "towns", "numbers", "ages", "past", "distant_past", "future",
    "distant_future", "habit",
)  # fmt: skip
UNITS = {
    "piece": "piece", "bowl": "bowl", "glass": "glass", "cup": "cup", "kind_of": "kind",
    "pair_of": "pair",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Word:
    """A dictionary entry. Entries are told apart by identity, which makes them quick keys."""

    zh: str
    en: str


@dataclass(frozen=True, eq=False)
class Noun(Word):
    measure: str  # the Chinese measure word; empty where none is used (names)
    kinds: frozenset[str]  # what it is and what can be done with it; holds its own Chinese word

    @property
    def number(self) -> Literal["count", "mass", "pair"]:
        """`mass`: water, never plural; `pair`: trousers, always plural."""
        return "mass" if "mass" in self.kinds else "pair" if "pair" in self.kinds else "count"

    @property
    def unit(self) -> str:
        """What one counts where the thing itself has no number: a *glass* of water; or empty."""
        return next((unit for kind, unit in UNITS.items() if kind in self.kinds), "")

    @property
    def gender(self) -> Literal["she", "he", "it", "?"]:
        """The English pronoun of one of them; `?` where the noun does not tell (a doctor)."""
        if "she" in self.kinds:
            return "she"
        if "he" in self.kinds:
            return "he"
        return "?" if "person" in self.kinds else "it"


@dataclass(frozen=True, eq=False)
class Adjective(Word):
    leaning: str  # "+" welcome, "-" unwelcome, "0" neither; empty for a state
    of: str  # the noun kinds it can be said of


@dataclass(frozen=True, eq=False)
class Verb(Word):
    who: str
    what: str = ""
    thing_against: str = ""  # reasons not to do it that lie in the thing: 太宽
    doer_against: str = ""  # … and in the doer: 太累
    thing_for: str = ""  # reasons to do it
    doer_for: str = ""
    marks: str = ""

    def allows(self, mark: str) -> bool:
        return mark in self.marks.split()


@dataclass(frozen=True, eq=False)
class Activity(Word):
    who: str
    where: str


@dataclass(frozen=True)
class Lexicon:
    nouns: tuple[Noun, ...]
    names: tuple[Noun, ...]  # people by name, no measure word
    kin: tuple[Noun, ...]  # 妈妈 …, said with an owner
    adjectives: tuple[Adjective, ...]
    states: tuple[Adjective, ...]  # reasons without 太
    opposites: frozenset[frozenset[str]]  # pairs of adjectives that exclude each other
    passing: frozenset[str]  # adjectives for a passing state, not compared: nobody is "fuller"
    attributes: tuple[Word, ...]
    colours: tuple[Word, ...]
    verbs: tuple[Verb, ...]
    feelings: tuple[Verb, ...]
    activities: tuple[Activity, ...]
    transfers: tuple[Verb, ...]  # 给 …: `what` is handed over
    towns: tuple[Word, ...]
    numbers: tuple[Word, ...]
    ages: tuple[Word, ...]
    past: tuple[Word, ...]
    distant_past: tuple[Word, ...]
    future: tuple[Word, ...]
    distant_future: tuple[Word, ...]
    habit: tuple[Word, ...]

    def words(self) -> list[Word]:
        """Every entry of the lexicon."""
        return [
            *self.nouns, *self.names, *self.kin, *self.adjectives, *self.states, *self.attributes,
            *self.colours, *self.verbs, *self.feelings, *self.activities, *self.transfers,
            *self.towns, *self.numbers, *self.ages, *self.past, *self.distant_past, *self.future,
            *self.distant_future, *self.habit,
        ]  # fmt: skip


@cache
def fits(kinds: frozenset[str], wanted: str) -> bool:
    """Whether one of the wanted kinds is there, and none of those wanted with a minus."""
    wishes = wanted.split()
    refused = [wish[1:] for wish in wishes if wish.startswith("-")]
    return not kinds.isdisjoint(wishes) and kinds.isdisjoint(refused)


@cache
def load_lexicon() -> Lexicon:
    """Read the bundled tables."""
    path = Path(__file__).with_name("lexicon.yaml")
    tables: dict[str, Any] = parse_yaml(path.read_text(encoding="utf-8"), path.name)
    feelings = (line.split(" | ") for line in tables["feelings"].splitlines())
    transfers = (line.split(" | ") for line in tables["transfers"].splitlines())
    activities = (line.split(" | ") for line in tables["activities"].splitlines())
    return Lexicon(
        nouns=tuple(
            _noun(line, group["kinds"])
            for group in tables["nouns"]
            for line in group["words"].splitlines()
        ),
        names=tuple(_noun(_unmeasured(line), "person") for line in tables["names"].split(",")),
        kin=tuple(_noun(_unmeasured(line), "person") for line in tables["kin"].split(",")),
        adjectives=tuple(_adjective(line) for line in tables["adjectives"].splitlines()),
        states=tuple(_adjective(line) for line in tables["states"].splitlines()),
        opposites=frozenset(frozenset(pair.split()) for pair in tables["opposites"].split(",")),
        passing=frozenset(tables["passing"].split()),
        verbs=tuple(_verb(row) for row in tables["verbs"]),
        feelings=tuple(Verb(*_split(word), who, what) for word, who, what in feelings),
        activities=tuple(Activity(*_split(word), who, where) for word, who, where in activities),
        transfers=tuple(Verb(*_split(word), "person", what) for word, what in transfers),
        **{key: _words(tables[key]) for key in PLAIN_TABLES},
    )


def _split(entry: str) -> tuple[str, str]:
    zh, en = entry.split()
    return zh, en.replace("_", " ")


def _words(entries: str) -> tuple[Word, ...]:
    return tuple(Word(*_split(entry)) for entry in entries.split(","))


def _unmeasured(entry: str) -> str:
    zh, en, *kinds = entry.split()
    return f"{zh} {en} - {' '.join(kinds)}"


def _noun(line: str, shared_kinds: str) -> Noun:
    zh, en, measure, *kinds = line.split()
    return Noun(
        *_split(f"{zh} {en}"),
        measure="" if measure == "-" else measure,
        kinds=frozenset([zh, *kinds, *shared_kinds.split()]),
    )


def _adjective(line: str) -> Adjective:
    word, of = line.split(" | ")
    zh, en, *leaning = word.split()
    return Adjective(*_split(f"{zh} {en}"), leaning="".join(leaning), of=of)


def _verb(row: dict[str, str]) -> Verb:
    fields = dict(row)
    zh, en = _split(fields.pop("word"))
    return Verb(zh, en, **fields)


def with_article(noun_phrase: str) -> str:
    """Put "a" or "an" in front; no word of the lexicon sounds other than it is spelled."""
    return f"{'an' if noun_phrase[0] in 'aeiou' else 'a'} {noun_phrase}"


@cache
def plural(noun: str) -> str:
    """The plural of an English noun; only the last word of several changes."""
    *front, last = noun.split()
    if last.endswith("man"):
        last = last[:-2] + "en"
    else:
        last = PLURALS.get(last) or _add_s(last)
    return " ".join([*front, last])


@cache
def inflect(verb: str, form: Form) -> str:
    """A form of an English verb; only the first word of several changes: "swims across"."""
    first, *rest = verb.split()
    if form == "third":
        first = _add_s(first) if first != "have" else "has"
    elif form == "ing":
        first = _stem(first) + "ing"
    elif form in ("past", "done"):
        regular = first[:-1] + "ied" if _ends_in_consonant_y(first) else _stem(first) + "ed"
        past, done = PRINCIPAL_PARTS.get(first, (regular, regular))
        first = past if form == "past" else done
    return " ".join([first, *rest])


@cache
def comparative(adjective: str) -> str:
    """ "bigger", "happier", "more expensive"."""
    if _ends_in_consonant_y(adjective):
        return adjective[:-1] + "ier"
    if adjective in ("quiet", "narrow") or _n_syllables(adjective) == 1:
        return _stem(adjective) + "er"
    return f"more {adjective}"


def _add_s(word: str) -> str:
    if _ends_in_consonant_y(word):
        return word[:-1] + "ies"
    hisses = word.endswith(("s", "x", "z", "ch", "sh")) or word in ("go", "do")
    return word + ("es" if hisses else "s")


def _ends_in_consonant_y(word: str) -> bool:
    return re.search(r"[^aeiou]y$", word) is not None


def _n_syllables(word: str) -> int:
    return len(re.findall(r"[aeiouy]+", word.removesuffix("e"))) or 1


def _stem(word: str) -> str:
    """The word as it stands before a vowel: "mak-ing", "chatt-ing", "bigg-er"."""
    if word.endswith("e") and not word.endswith("ee"):
        return word.removesuffix("e")
    if _n_syllables(word) == 1 and re.search(r"[^aeiou][aeiou][^aeiouwxy]$", word):
        return word + word[-1]
    return word
