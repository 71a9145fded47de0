"""Clauses of the bundled corpus, Chinese and English side by side.

Comes in: phrases, words of the lexicon and a `Draw`. Goes out: a `Clause`, who does what, when and
where, with both its sides. This file knows tense and agreement; it does not know which sentences
the corpus has.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from lexicon import (
    Adjective,
    Form,
    Noun,
    Verb,
    Word,
    fits,
    inflect,
)
from phrases import (
    GENERAL,
    LEXICON,
    NO_TIME,
    NOTHING,
    Draw,
    Fact,
    Phrase,
    doer,
    noun_in_use,
    noun_phrase,
    nouns_for,
    person,
    place,
    spaced,
    thing,
)


class Aspect(NamedTuple):
    """How a verb is used: what stands around it in Chinese, and what English makes of that."""

    before: str
    after: str
    auxiliary: str
    form: Form = "base"
    lead: str = ""  # English words before the verb, inflected in its place: "want to"
    adverb: str = ""
    tail: str = ""  # English words after the object
    times: tuple[Word, ...] = ()
    known: bool = False  # needs a known object: Chinese does not say 没有吃一个苹果
    mark: str = ""  # the mark that a verb needs for it


ASPECTS = {
    "past": Aspect("", "了", "did", times=LEXICON.past),
    "didn't": Aspect("没有", "", "didn't", times=LEXICON.past, known=True),
    "now": Aspect("正在", "", "be", "ing", mark="now"),
    "habit": Aspect("", "", "do", times=LEXICON.habit, mark="habit"),
    "often": Aspect("经常", "", "do", adverb="often", mark="habit"),
    "always": Aspect("总是", "", "do", adverb="always", mark="habit"),
    "sometimes": Aspect("有时候", "", "do", adverb="sometimes", mark="habit"),
    "present": Aspect("", "", "do"),
    "told": Aspect("", "", "did"),  # the past without 了: 我昨天买的书, 你是在哪里买的
    "while": Aspect("", "", "was", "ing"),
    "doesn't": Aspect("不", "", "don't", known=True, mark="some"),
    "will": Aspect("会", "", "will", times=LEXICON.future),
    "won't": Aspect("不会", "", "won't", times=LEXICON.future, known=True),
    "going": Aspect("要", "", "be", lead="going to", times=LEXICON.future),
    "want": Aspect("想", "", "do", lead="want to"),
    "not want": Aspect("不想", "", "don't", lead="want to", known=True),
    "can": Aspect("能", "", "can"),
    "can't": Aspect("不能", "", "can't", known=True),
    "should": Aspect("应该", "", "should"),
    "must": Aspect("必须", "", "must"),
    "before": Aspect("以前", "过", "have", "done", tail="before", mark="guo"),
    "never": Aspect("从来没有", "过", "have", "done", adverb="never", known=True, mark="guo"),
    "already": Aspect("已经", "了", "have", "done", adverb="already"),
    "not yet": Aspect("还没有", "", "haven't", "done", tail="yet", known=True),
    "request": Aspect("", "", ""),
}
DISTANT = {
    "past": LEXICON.distant_past, "will": LEXICON.distant_future, "going": LEXICON.distant_future,
}  # fmt: skip
# How often a thing is spoken of in general (吃苹果), with verbs that have the mark "some".
IN_GENERAL = {
    "doesn't": 1.0, "habit": 0.6, "often": 0.8, "always": 0.8, "sometimes": 0.8, "never": 0.5,
    "want": 0.3, "not want": 0.3,
}  # fmt: skip
AUXILIARIES = {  # with I; with he, she, it; with you, we, they
    "be": ("am", "is", "are"), "was": ("was", "was", "were"),
    "isn't": ("am not", "isn't", "aren't"),
    "do": ("do", "does", "do"), "don't": ("don't", "doesn't", "don't"),
    "have": ("have", "has", "have"), "haven't": ("haven't", "hasn't", "haven't"),
}  # fmt: skip
MERGED: dict[str, Form] = {"do": "base", "does": "third", "did": "past"}  # "did go" is "went"


def agree(auxiliary: str, person: str) -> str:
    """The form of an auxiliary for a subject."""
    forms = AUXILIARIES.get(auxiliary, (auxiliary,) * 3)
    return forms[0 if person == "I" else 2 if person in ("you", "we", "they") else 1]


@dataclass(frozen=True)
class Clause:
    subject: Phrase
    aspect: Aspect
    verb: Word
    object: Phrase = NOTHING
    place: Phrase = NOTHING
    time: Word = NO_TIME
    fronted: bool = False  # the time stands first

    @property
    def facts(self) -> tuple[Fact, ...]:
        what = self.object.head or self.place.head or self.time.zh
        fact = (self.subject.head, self.verb.zh.replace("·", ""), what)
        if self.object.quality:
            return (fact, (what, "是", self.object.quality))
        return (fact,)

    def zh(self, insert: str = "") -> str:
        """The Chinese side; `insert` (也, 为什么) goes before the aspect's own words."""
        start = self.subject.zh + self.time.zh
        if self.fronted:
            start = self.time.zh + self.subject.zh
        middle = (self.aspect.before + self.place.zh).replace("正在在", "正在")
        front, _, back = self.verb.zh.partition("·")
        verb = front + self.aspect.after + back
        return start + insert + middle + verb + self.object.zh

    def en(self, *, asked: bool = False) -> str:
        """The English side: "she read the book"; asked: "did she read the book"."""
        auxiliary = agree(self.aspect.auxiliary, self.subject.person)
        verb = spaced(self.aspect.lead, inflect(self.verb.en, self.aspect.form))
        if auxiliary in MERGED and not asked:
            auxiliary, verb = "", inflect(verb, MERGED[auxiliary])
        first, second = (auxiliary, self.subject.en) if asked else (self.subject.en, auxiliary)
        front, back = (self.time.en, "") if self.fronted else ("", self.time.en)
        rest = (self.object.en, self.place.en, self.aspect.tail, back)
        return spaced(front, first, second, self.aspect.adverb, verb, *rest)


def clash(subject: Phrase, target: Phrase) -> bool:
    """Whether somebody would do it to himself, or I to us."""
    return subject.head == target.head or ("我" in subject.head and "我" in target.head)


def event(draw: Draw, names: Sequence[str], who: Phrase | None = None) -> Clause | None:
    """Somebody does something to something; `names` are aspects. None: the draw makes no sense."""
    verb, name = draw.choose(LEXICON.verbs), draw.choose(names)
    aspect = ASPECTS[name]
    if (aspect.mark and not verb.allows(aspect.mark)) or (who and not fits(who.kinds, verb.who)):
        return None
    subject = who or doer(draw, verb.who, counted=not aspect.known)
    target = event_object(draw, verb, name)
    if clash(subject, target):
        return None
    times = aspect.times + (DISTANT.get(name, ()) if verb.allows("long") else ())
    return at_some_time(draw, Clause(subject, aspect, verb, target), name, times)


def event_object(draw: Draw, verb: Verb, name: str) -> Phrase:
    noun = draw.choose(nouns_for(verb.what))
    if "person" in noun.kinds:
        return person(draw).as_object()
    if verb.allows("some") and draw.chance(IN_GENERAL.get(name, 0.0)):
        return noun_phrase(noun, GENERAL)
    regular = ASPECTS[name].mark == "habit" and not noun.kinds & {"eaten", "drunk"}
    known = regular or ASPECTS[name].known
    return thing(draw, noun, known=known, one=verb.allows("one"))


def at_some_time(draw: Draw, clause: Clause, name: str, times: Sequence[Word]) -> Clause:
    """The clause with a time or not; a habit always has one."""
    if not times or not (name == "habit" or draw.chance(0.5)):
        return clause
    return replace(clause, time=draw.choose(times))


def activity(draw: Draw, names: Sequence[str], who: Phrase | None = None) -> Clause | None:
    """Somebody does something somewhere."""
    word, name = draw.choose(LEXICON.activities), draw.choose(names)
    if who and not fits(who.kinds, word.who):
        return None
    aspect = ASPECTS[name]
    subject = who or doer(draw, word.who, counted=not aspect.known)
    clause = Clause(subject, aspect, word, place=place(draw.choose(nouns_for(word.where))))
    meal = word.zh.startswith("吃")  # nobody has breakfast in the evening
    times = [time for time in aspect.times if not meal or len(time.zh) == 2]
    return at_some_time(draw, clause, name, times)


def feeling(draw: Draw, name: str, who: Phrase | None = None) -> Clause:
    """Somebody likes, wants, needs or knows something."""
    verb = draw.choose(LEXICON.feelings)
    noun = draw.choose(nouns_for(verb.what))
    subject, likes = who or person(draw), verb.en == "like"
    if "person" in noun.kinds:
        target = person(draw).as_object()
        while clash(subject, target):
            target = person(draw).as_object()
    elif verb.en == "love" or (likes and "place" not in noun.kinds and draw.chance(0.6)):
        target = noun_phrase(noun, GENERAL)
    elif likes or ASPECTS[name].known:
        target = noun_in_use(draw, noun)
    else:
        target = thing(draw, noun)
    return Clause(subject, ASPECTS[name], verb, target)


def marked(clause: Clause, mark: str) -> bool:
    return isinstance(clause.verb, Verb) and clause.verb.allows(mark)


def in_person(draw: Draw, noun: Noun) -> Phrase:
    """The noun in use; for a person also a name, a pronoun, somebody's mother …"""
    return person(draw) if "person" in noun.kinds else noun_in_use(draw, noun)


def described(draw: Draw) -> tuple[Phrase, Adjective] | None:
    """Somebody or something, and an adjective that can be said of it."""
    how = draw.choose_rare(LEXICON.adjectives, "quality")
    noun = draw.choose(nouns_for(how.of))
    who = in_person(draw, noun)
    return (who, how) if fits(who.kinds, how.of) else None
