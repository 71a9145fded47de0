"""Sentences of the bundled corpus, and the families that tell what somebody does.

Comes in: phrases and clauses, and a `Draw`. Goes out: `Sentence`, and functions that each draw one:
statements, two clauses, travel, giving, opinions, requests. This file does not
know which sentence is for training and which for a test.
"""

from dataclasses import replace
from typing import NamedTuple

from clauses import (
    ASPECTS,
    DISTANT,
    Aspect,
    Clause,
    activity,
    agree,
    at_some_time,
    clash,
    described,
    event,
    feeling,
    marked,
)
from lexicon import Word
from phrases import (
    LEXICON,
    NO_TIME,
    NONE,
    NOTHING,
    THE_BARE,
    WHO,
    Draw,
    Fact,
    Phrase,
    adjectives_for,
    noun_phrase,
    nouns_for,
    person,
    spaced,
    the_noun,
    thing,
)


class Sentence(NamedTuple):
    zh: str
    en: str
    facts: tuple[Fact, ...]  # what it says, in content words; decides where it may be used
    pronoun: str = ""  # the English pronoun, where no Chinese word tells it but a noun does
    rivals: tuple[str, ...] = ()  # `en` with each wrong pronoun


def finish(zh: str, en: str, *facts: Fact, mark: str = "。") -> Sentence:
    """Both sides with their capital and their full stop or other mark."""
    end = {"。": ".", "？": "?", "！": "!"}[mark]
    return Sentence(zh + mark, en[0].upper() + en[1:] + end, facts)


def ask(clause: Clause | None, word: Word, end: str = "") -> Sentence | None:
    """A question about a clause, by a question word and what ends it; None if nobody asks that."""
    if clause is None or not clause.subject.askable:
        return None
    en = spaced(word.en, clause.en(asked=True))
    return finish(clause.zh(word.zh) + end, en, *clause.facts, mark="？")


def be(draw: Draw, who: Phrase, zh: str, en: str, fact: Fact) -> Sentence:
    """Somebody is something or somewhere, or is not, or is he?"""
    kind = draw.random()
    if kind < 0.2:
        return finish(f"{who.zh}不{zh}", spaced(who.en, agree("isn't", who.person), en), fact)
    if kind < 0.4 and who.askable:
        en = spaced(agree("be", who.person), who.en, en)
        return finish(f"{who.zh}{zh}吗", en, fact, mark="？")
    return finish(who.zh + zh, spaced(who.en, agree("be", who.person), en), fact)


YES_OR_NO = Word("", "")
STATED = (
    *("past",) * 5, *("didn't",) * 3, *("now",) * 4, *("habit",) * 4, "often", "always",
    "sometimes", "will", "will", "won't", "going", "want", "not want", "can", "can't", "should",
    "must",
)  # fmt: skip
STATED_ACTIVITY = (*STATED, *("habit",) * 4, "often", "always", "sometimes")
STATED_EVENT = (*STATED, "doesn't", "before", "never", "already", "not yet")


def statement(draw: Draw) -> Sentence | None:
    """她昨天买了一本书。"""
    kind = draw.random()
    if kind < 0.12:
        clause: Clause | None = feeling(draw, draw.choose(("present", "present", "doesn't")))
    else:
        clause = activity(draw, STATED_ACTIVITY) if kind < 0.36 else event(draw, STATED_EVENT)
    if clause is None:
        return None
    aspect = clause.aspect
    if aspect is ASPECTS["present"] and clause.subject.person in ("we", "they"):
        if draw.chance(0.4):
            clause = replace(clause, aspect=Aspect("都", "", "do", adverb="all"))
    elif not aspect.known and not aspect.tail and draw.chance(0.08):
        return finish(clause.zh("也"), f"{clause.en()}, too", *clause.facts)
    clause = replace(clause, fronted=draw.chance(0.25))
    return finish(clause.zh(), clause.en(), *clause.facts)


# Two clauses.


def sequence(draw: Draw) -> Sentence | None:
    """她吃了一个苹果，然后喝了一杯水。"""
    one = event(draw, ["past"])
    two = event(draw, ["past"], one.subject) if one else None
    if one is None or two is None or one.facts == two.facts:
        return None
    then = replace(two, subject=NOTHING, time=NO_TIME)
    en = f"{one.en()} and then {then.en()}"
    return finish(f"{one.zh()}，然后{then.zh()}", en, *one.facts, *two.facts)


def meanwhile(draw: Draw) -> Sentence | None:
    """玛丽看书的时候，汤姆打开了门。"""
    one = event(draw, ["now"]) if draw.chance(0.5) else activity(draw, ["now"])
    two = event(draw, ["past"])
    if one is None or two is None or clash(one.subject, two.subject):
        return None
    two = replace(two, time=NO_TIME)
    one = replace(one, aspect=ASPECTS["while"])
    en = f"while {one.en()}, {two.en()}"
    return finish(f"{one.zh()}的时候，{two.zh()}", en, *one.facts, *two.facts)


def unlike(draw: Draw) -> Sentence | None:
    """玛丽喜欢苹果，但是汤姆不喜欢。"""
    one, other = feeling(draw, "present"), person(draw)
    if clash(one.subject, other) or clash(other, one.object):
        return None
    two = replace(one, subject=other, aspect=ASPECTS["doesn't"], object=NOTHING)
    doesnt = agree("don't", other.person)
    en = f"{one.en()}, but {other.en} {doesnt}"
    again = replace(one, subject=other)
    return finish(f"{one.zh()}，但是{two.zh()}", en, *one.facts, *again.facts)


def joined(draw: Draw) -> Sentence | None:
    return draw.choose((sequence, sequence, sequence, meanwhile, meanwhile, unlike))(draw)


# Going places.

TRAVELLED = (
    *("past",) * 4, "didn't", "habit", "often", "will", "will", "won't", "going", "want",
    "not want", "can't", "should", "must",
)  # fmt: skip
BY = [("坐火车", "by train"), ("开车", "by car"), ("坐公共汽车", "by bus"), ("坐出租车", "by taxi"),
      ("骑自行车", "by bicycle"), ("走路", "on foot")]  # fmt: skip
BY_FAR = [("坐火车", "by train"), ("开车", "by car"), ("坐飞机", "by plane"), ("坐船", "by ship")]


def destination(draw: Draw, *, daily: bool) -> tuple[Word, Phrase]:
    """The verb and where it leads: 坐火车去 + 北京, "go" + "to Beijing by train"."""
    kind, ways = draw.random(), BY
    if kind < 0.12:
        return Word("回", "go"), Phrase("家", "home", "家")
    if kind < 0.4 and not daily:
        town, ways = draw.choose(LEXICON.towns), BY_FAR
        to = Phrase(town.zh, f"to {town.en}", town.zh)
    else:
        wanted = "building 公园 市场 车站 机场 海滩 农场 村子 广场 操场 游泳池 -房子"
        noun = draw.choose(nouns_for(wanted))
        to = Phrase(noun.zh, "to school" if noun.zh == "学校" else f"to the {noun.en}", noun.zh)
        if kind < 0.5:
            return Word("来", "come"), to
        if kind < 0.6:
            return Word("离开", "leave"), replace(to, en=f"the {noun.en}")
    if draw.chance(0.35):
        zh, en = draw.choose(ways)
        return Word(f"{zh}去", "go"), replace(to, en=f"{to.en} {en}")
    return Word("去", "go"), to


def travel(draw: Draw) -> Sentence | None:
    """他昨天坐火车去了北京。 你明天要去哪里？ 她住在上海。"""
    who, name, kind = person(draw), draw.choose(TRAVELLED), draw.random()
    if kind < 0.1:
        town = draw.choose(LEXICON.towns)
        home = Clause(who, ASPECTS["present"], Word("住在", "live"),
                      Phrase(town.zh, f"in {town.en}", town.zh))  # fmt: skip
        return finish(home.zh(), home.en(), *home.facts)
    verb, to = destination(draw, daily=ASPECTS[name].mark == "habit")
    clause = Clause(who, ASPECTS[name], verb, to)
    if draw.chance(0.25):
        friend = noun_phrase(draw.choose(LEXICON.names), NONE)
        if draw.chance(0.6):
            friend = person(draw).as_object()
        if clash(who, friend):
            return None
        clause = replace(clause, place=Phrase(f"和{friend.zh}一起", f"with {friend.en}"))
    clause = at_some_time(draw, clause, name, clause.aspect.times + DISTANT.get(name, ()) * 3)
    if kind < 0.25 and name in ("past", "will", "going", "want", "should"):
        return ask(clause, YES_OR_NO, "吗")
    if kind < 0.32 and name in ("past", "will", "going", "want"):
        clause = replace(clause, object=Phrase("哪里", "", "哪里"), verb=Word("去", "go"))
        return ask(clause, Word("", "where"))
    clause = replace(clause, fronted=draw.chance(0.25))
    return finish(clause.zh(), clause.en(), *clause.facts)


# Giving, thinking, asking for something.


def giving(draw: Draw) -> Sentence | None:
    """他给了玛丽一本书。"""
    verb = draw.choose(LEXICON.transfers)
    name = draw.choose(("past", "past", "past", "didn't", "will", "won't", "going", "want", "can"))
    aspect, who, to = ASPECTS[name], person(draw), person(draw).as_object()
    if clash(who, to):
        return None
    what = thing(draw, draw.choose(nouns_for(verb.what)), known=aspect.known)
    handed = replace(what, zh=to.zh + what.zh, en=f"{to.en} {what.en}")
    clause = at_some_time(draw, Clause(who, aspect, verb, handed), name, aspect.times)
    if draw.chance(0.15) and not aspect.known:
        return ask(clause, YES_OR_NO, "吗")
    return finish(clause.zh(), clause.en(), *clause.facts)


OPINIONS = (  # and the aspects of what is known, hoped or said
    (Word("知道", "know"), ("now", "want", "can")),
    (Word("希望", "hope"), ("will",)),
    (Word("说", "say"), ("will", "now", "want", "can't", "must")),
)


def opinion(draw: Draw) -> Sentence | None:
    """我觉得这本书很有趣。 她说他明天会来。"""
    if draw.chance(0.4):
        drawn = described(draw)
        if drawn is None:
            return None
        what, how = drawn
        verb = Word("觉得", "think")
        facts: tuple[Fact, ...] = ((what.head, "是", how.zh),)
        en = spaced(what.en, agree("be", what.person), how.en)
        inner = Phrase(f"{what.zh}很{how.zh}", en, what.head)
    else:
        verb, names = draw.choose(OPINIONS)
        clause = (event if draw.chance(0.6) else activity)(draw, names)
        if clause is None:
            return None
        facts = clause.facts
        inner = Phrase(clause.zh(), clause.en(), clause.subject.head)
    outer = Clause(person(draw), ASPECTS["present"], verb, inner)
    return None if clash(outer.subject, inner) else finish(outer.zh(), outer.en(), *facts)


def relative_clause(draw: Draw) -> Sentence | None:
    """我昨天买的汽车很贵。"""
    clause = event(draw, ["past"])
    noun = the_noun(clause.object.head) if clause else None
    if clause is None or noun is None or clause.time is NO_TIME or not marked(clause, "that"):
        return None
    if clause.subject.counted or clause.subject.en.startswith("that "):
        return None
    options = adjectives_for(noun.kinds)
    if not options:
        return None
    how = draw.choose_rare(options, "quality")
    zh, degree = draw.choose((("很", ""), ("很", ""), ("非常", "very")))
    what = noun_phrase(noun, THE_BARE)
    that = replace(clause, object=Phrase("", "", noun.zh), aspect=ASPECTS["told"])
    en = spaced(what.en, "that", that.en(), agree("be", what.person), degree, how.en)
    fact = (noun.zh, "是", how.zh)
    return finish(f"{that.zh()}的{noun.zh}{zh}{how.zh}", en, *that.facts, fact)


REQUESTS = (
    ("请{}", "please"), ("请{}", "please"), ("别{}", "don't"), ("请不要{}", "please don't"),
    ("我们{}吧", "let's"),
)  # fmt: skip


def request(draw: Draw) -> Sentence | None:
    """请打开窗户。 别在教室里睡觉。 玛丽，请关上门。"""
    you = Phrase("", "", "请", "you", kinds=WHO.kinds)
    clause = (event if draw.chance(0.7) else activity)(draw, ["can't"], you)
    zh, en = draw.choose(REQUESTS)
    if clause is None or not ("don't" in en or willing(clause)):
        return None
    clause = replace(clause, aspect=ASPECTS["request"])
    zh, en = zh.format(clause.zh()), spaced(en, clause.en())
    if "我们" not in zh and draw.chance(0.3):
        name = draw.choose(LEXICON.names)
        zh, en = f"{name.zh}，{zh}", f"{name.en}, {en}"
    return finish(zh, en, *clause.facts)


def willing(clause: Clause) -> bool:
    """Whether one could be asked to do it."""
    return clause.verb.zh not in ("看见", "找到", "弄丢", "打破", "偷", "哭")
