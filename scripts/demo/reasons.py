"""The reference-resolution family of the bundled corpus: 这只动物没有穿过街道，因为它太累了。

Comes in: the reasons that the lexicon has for each verb, in the doer or in the thing, and a `Draw`.
Goes out: sentences that give one of them. Chinese refers back with a pronoun, with the noun again,
or not at all. Then only the adjective and the two nouns tell the English pronoun, and the sentence
carries its rivals: the same English with each wrong pronoun. This file does not know what is done
with the rivals.
"""

from dataclasses import replace
from typing import NamedTuple

from clauses import (
    ASPECTS,
    Clause,
    agree,
)
from lexicon import (
    Verb,
    fits,
)
from phrases import (
    LEXICON,
    NO_TIME,
    THE,
    THE_BARE,
    THE_MANY,
    Draw,
    Phrase,
    adjectives_for,
    doer,
    noun_in_use,
    noun_phrase,
    nouns_for,
    thing,
)
from sentences import Sentence, finish

REASONED = tuple(verb for verb in LEXICON.verbs if verb.thing_against)
CROSSING = tuple(verb for verb in REASONED if verb.en == "cross")
UNABLE = frozenset("累 虚弱 老 年轻 困 饿 生病了 受伤了 喝醉了".split())  # 不能, rather than 不想
PRONOUNS_TOLD = ("she", "he", "it", "they")


class Reason(NamedTuple):
    zh: str
    en: str
    word: str  # the adjective, for the fact
    of_doer: bool  # else of the thing


def reasons(verb: Verb, clause: Clause, *, of_doer: bool) -> list[Reason]:
    """Why it was done or not: what can be said of the doer, or of the thing."""
    done = clause.aspect is ASPECTS["past"]
    if of_doer:
        words, kinds = verb.doer_for if done else verb.doer_against, clause.subject.kinds
    else:
        words, kinds = verb.thing_for if done else verb.thing_against, clause.object.kinds
    wanted = set(words.split())
    if of_doer and clause.aspect is ASPECTS["can't"]:
        wanted &= UNABLE
    degrees = (("很{}", ""), ("非常{}", "very ")) if done else (("太{}了", "too "),)
    found = [
        Reason(zh.format(word.zh), degree + word.en, word.zh, of_doer)
        for word in adjectives_for(kinds)
        if word.zh in wanted
        for zh, degree in degrees
    ]
    states = (word for word in LEXICON.states if word.zh in wanted and fits(kinds, word.of))
    return found + [Reason(word.zh, word.en, word.zh, of_doer) for word in states]


def reason(draw: Draw) -> Sentence | None:
    """这只动物没有穿过街道，因为它太累了。"""
    verb = draw.choose(CROSSING if draw.chance(0.12) else REASONED)
    name = draw.choose(("didn't",) * 7 + ("not want", "can't", "past"))
    subject = doer(draw, verb.who)
    if "animal" in subject.kinds and draw.chance(0.1):
        subject = noun_in_use(draw, nouns_for("动物")[0])
        if not fits(subject.kinds, verb.who):
            return None
    noun = draw.choose(nouns_for(verb.what))
    target = thing(draw, noun, known=True, one=verb.allows("one"))
    clause = Clause(subject, ASPECTS[name], verb, target)
    why = reasons(verb, clause, of_doer=draw.chance(0.5))
    if not why:
        return None
    if draw.chance(0.12):
        clause = replace(clause, time=draw.choose((NO_TIME, *clause.aspect.times)))
    back = draw.choose(("dropped",) * 5 + ("written",) * 4 + ("repeated",))
    order = therefore if name == "didn't" and draw.chance(0.15) else because
    return order(draw, clause, draw.choose_rare(why, "reason"), back)


def referred(draw: Draw, referent: Phrase, back: str) -> tuple[str, str] | None:
    """How both languages refer back: (它, "it"), or with the Chinese pronoun dropped ("", "it")."""
    if back == "repeated":
        return (referent.zh, referent.en) if referent.en.startswith("the ") else None
    if back == "dropped":
        return None if referent.person == "?" else ("", referent.person)
    if referent.person == "?":
        return draw.choose((("他", "he"), ("她", "she")))
    return (referent.pronoun, referent.person) if referent.pronoun else None


def because(draw: Draw, clause: Clause, why: Reason, back: str) -> Sentence | None:
    """… 因为(它)太累了: the reason after what it explains."""
    who, what = clause.subject, clause.object
    referent = who if why.of_doer else what
    if back == "repeated" and why.of_doer:
        return None
    again = referred(draw, referent, back)
    if again is None:
        return None
    tense = "was" if clause.aspect.auxiliary in ("did", "didn't") else "be"

    def english(pronoun: str, person: str) -> str:
        return f"{clause.en()} because {pronoun} {agree(tense, person)} {why.en}"

    facts = (*clause.facts, (referent.head, "是", why.word))
    zh = f"{clause.zh()}，因为{again[0]}{why.zh}"
    sentence = finish(zh, english(again[1], referent.person), *facts)
    if back != "dropped" or who.person == what.person or who.person not in PRONOUNS_TOLD:
        return sentence
    rivals = [person for person in PRONOUNS_TOLD if person != referent.person]
    wrong = tuple(finish("", english(person, person)).en for person in rivals)
    return sentence._replace(pronoun=referent.person, rivals=wrong)


def therefore(draw: Draw, clause: Clause, why: Reason, back: str) -> Sentence | None:
    """这个女孩太累了，所以没有穿过街道。"""
    who = clause.subject
    again = referred(draw, who, back)
    if again is None or back == "repeated" or not why.of_doer:
        return None
    zh, pronoun = again
    then = replace(clause, subject=replace(who, zh=zh, en=pronoun), time=NO_TIME)
    en = f"{who.en} {agree('was', who.person)} {why.en}, so {then.en()}"
    facts = (*clause.facts, (who.head, "是", why.word))
    return finish(f"{who.zh}{why.zh}，所以{then.zh()}", en, *facts)


def well_known() -> list[Sentence]:
    """The sentences that people know, to be translated without having been seen."""
    animal, girl, street = (nouns_for(zh)[0] for zh in ("动物", "女孩", "街道"))
    told = (
        (animal, THE, "太累了", "written"), (animal, THE, "太宽了", "written"),
        (animal, THE_MANY, "太累了", "dropped"), (girl, THE, "太累了", "dropped"),
        (girl, THE, "太宽了", "dropped"),
    )  # fmt: skip
    sentences = []
    for noun, determiner, zh, back in told:
        subject, target = noun_phrase(noun, determiner), noun_phrase(street, THE_BARE)
        clause = Clause(subject, ASPECTS["didn't"], CROSSING[0], target)
        whys = [why for of in (True, False) for why in reasons(CROSSING[0], clause, of_doer=of)]
        why = next(why for why in whys if why.zh == zh)
        sentences.append(because(Draw(0), clause, why, back))
    return [sentence for sentence in sentences if sentence]
