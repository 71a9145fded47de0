"""What things are in the bundled corpus: where, of what quality, who, whose, how old.

Comes in: phrases, and a `Draw`. Goes out: functions that each draw one such sentence: stated,
denied or asked. This file knows no verbs but to be and to have.
"""

from functools import cache

from clauses import (
    agree,
    clash,
    described,
    in_person,
)
from lexicon import (
    Noun,
    Word,
    comparative,
    fits,
    with_article,
)
from phrases import (
    GENERAL,
    LEXICON,
    NUMBERS,
    OWNERS,
    SOME,
    A,
    Draw,
    Phrase,
    adjectives_for,
    noun_in_use,
    noun_phrase,
    nouns_for,
    person,
    place,
    spaced,
)
from sentences import Sentence, be, finish

# Where things are, what there is, what one has.

SCENES = (  # who or what; how it is placed; where
    ("person", "at", "place"), ("person", "at", "place"), ("person", "at", "家 学校"),
    ("pet", "at", "room 花园 院子 公园 床 沙发 街道"), ("farm", "at", "农场 草地 田野 河 山"),
    ("wild", "at", "wild_home 河 山"), ("small", "at", "surface holder -冰箱"),
    ("small", "at", "surface holder -冰箱"), ("eaten drunk", "at", "桌子 冰箱 厨房"),
    ("furniture", "at", "room"), ("vehicle", "at", "街道 车库 院子 广场 农场 车站 桥"),
    ("container", "at", "room 桌子"), ("clothing", "at", "床 沙发 柜子 行李箱 箱子 袋子 卧室"),
    ("pet small", "under", "furniture -书架 -柜子 -冰箱"),
    ("person pet vehicle", "behind", "building 树 围墙 塔 卡车"),
    ("person pet", "next to", "河 湖 树 汽车 桌子 桥 门 塔"),
    ("person pet vehicle", "in front of", "building 门 大门 塔"),
    ("树 花", "at", "公园 花园 院子 山"),
)  # fmt: skip
SIDES = {"under": "下面", "behind": "后面", "next to": "旁边", "in front of": "前面"}


def scene(draw: Draw) -> tuple[Noun, Phrase]:
    """Something, and where it may well be."""
    found, how, where = draw.choose(SCENES)
    noun, spot = draw.choose(nouns_for(found)), draw.choose(nouns_for(where))
    if how == "at":
        return noun, place(spot)
    return noun, Phrase(f"在{spot.zh}{SIDES[how]}", f"{how} the {spot.en}", spot.zh)


def being_there(draw: Draw) -> Sentence:
    """这只狗在花园里。 她昨天在图书馆里。"""
    noun, where = scene(draw)
    who = in_person(draw, noun)
    fact = (who.head, "在", where.head)
    if draw.chance(0.2):
        time = draw.choose(LEXICON.past)
        en = spaced(who.en, agree("was", who.person), where.en, time.en)
        return finish(f"{who.zh}{time.zh}{where.zh}", en, fact)
    return be(draw, who, where.zh, where.en, fact)


def existence(draw: Draw) -> Sentence | None:
    """公园里有三只狗。 桌子上没有水。 公园里有几只狗？"""
    noun, where = scene(draw)
    if where.head == "家":
        return None
    spot, fact, kind = where.zh.removeprefix("在"), (noun.zh, "在", where.head), draw.random()
    things = noun_phrase(noun, GENERAL)
    are = agree("be", things.person)
    if kind < 0.15:
        return finish(f"{spot}没有{noun.zh}", f"there {are} no {things.en} {where.en}", fact)
    if kind < 0.3:
        en = f"{are} there any {things.en} {where.en}"
        return finish(f"{spot}有{noun.zh}吗", en, fact, mark="？")
    if kind < 0.42 and noun.number == "count":
        en = f"how many {things.en} are there {where.en}"
        return finish(f"{spot}有几{noun.measure}{noun.zh}", en, fact, mark="？")
    what = noun_phrase(noun, draw.choose((A, A, draw.choose(NUMBERS))))
    if noun.number != "pair" and draw.chance(0.25):
        what = noun_phrase(noun, SOME)
    en = f"there {agree('be', what.person)} {what.en} {where.en}"
    return finish(f"{spot}有{what.zh}", en, fact)


def possession(draw: Draw) -> Sentence:
    """我有一把雨伞。 她没有自行车。 你有钥匙吗？"""
    noun = draw.choose(nouns_for("owned pet 花 票 礼物 玩具 钥匙 朋友 邻居 钢笔 铅笔"))
    who, kind = person(draw), draw.random()
    fact = (who.head, "有", noun.zh)
    one = with_article(noun.en) if noun.number == "count" else noun.en
    if kind < 0.25:
        en = spaced(who.en, agree("don't", who.person), "have", one)
        return finish(f"{who.zh}没有{noun.zh}", en, fact)
    if kind < 0.45 and who.askable:
        en = f"{agree('do', who.person)} {who.en} have {one}"
        return finish(f"{who.zh}有{noun.zh}吗", en, fact, mark="？")
    what = noun_phrase(noun, draw.choose((A, A, NUMBERS[0], NUMBERS[1])))
    return finish(f"{who.zh}有{what.zh}", f"{who.en} {agree('have', who.person)} {what.en}", fact)


def location(draw: Draw) -> Sentence | None:
    return draw.choose((being_there, being_there, existence, existence, possession))(draw)


# What things are like.

SORTS = frozenset(  # what is compared with its like
    "person animal fruit eaten drunk dish read spoken watched heard vehicle furniture container "
    "clothing device tool opened room building place crossed passed climbed way swum".split()
)


def quality(draw: Draw) -> Sentence | None:
    """这只狗很大。 这个苹果太酸了。 这条河不宽。 你为什么这么累？"""
    drawn = described(draw)
    if drawn is None:
        return None
    who, how = drawn
    are, fact, kind = agree("be", who.person), (who.head, "是", how.zh), draw.random()
    if kind < 0.24:
        zh, question, so = draw.choose((("{}{}吗", "", ""), ("{}为什么这么{}", "why", "so")))
        en = spaced(question, are, who.en, so, how.en)
        return None if not who.askable else finish(zh.format(who.zh, how.zh), en, fact, mark="？")
    if kind < 0.32 and who.person in ("we", "they") and not who.kinds & {"pair"}:
        return finish(f"{who.zh}都很{how.zh}", f"{who.en} {are} all {how.en}", fact)
    degrees = [("很{}", ""), ("很{}", ""), ("非常{}", "very"), ("太{}了", "too"), ("不{}", "")]
    zh, degree = draw.choose(degrees + [("有点{}", "a little")] * (how.leaning == "-"))
    verb = agree("isn't", who.person) if zh == "不{}" else are
    return finish(who.zh + zh.format(how.zh), spaced(who.en, verb, degree, how.en), fact)


@cache
def likes(noun: Noun, of: str) -> tuple[Noun, ...]:
    """The nouns that it can be compared with in a quality `of` these kinds."""
    return tuple(other for other in nouns_for(of) if other.kinds & noun.kinds & SORTS)


def comparison(draw: Draw) -> Sentence | None:
    """这只狗比那只猫大。 这条河和那条河一样宽。"""
    compared = [word for word in LEXICON.adjectives if word.zh not in LEXICON.passing]
    how = draw.choose_rare(compared, "comparison")
    noun = draw.choose(nouns_for(how.of))
    others = likes(noun, how.of)
    if not others:
        return None
    one, two = (in_person(draw, noun), in_person(draw, draw.choose(others)))
    if clash(one, two) or not (fits(one.kinds, how.of) and fits(two.kinds, how.of)):
        return None
    are, than = agree("be", one.person), two.as_object().en
    facts = ((one.head, "是", how.zh), (one.head, how.zh, two.head))
    if draw.chance(0.3):
        en = f"{one.en} {are} as {how.en} as {than}"
        return finish(f"{one.zh}和{two.zh}一样{how.zh}", en, *facts)
    en = f"{one.en} {are} {comparative(how.en)} than {than}"
    return finish(f"{one.zh}比{two.zh}{how.zh}", en, *facts)


def two_qualities(draw: Draw) -> Sentence | None:
    """这辆汽车很旧，但是很快。 这个苹果又大又甜。"""
    drawn = described(draw)
    if drawn is None:
        return None
    (who, one), two = drawn, draw.choose_rare(adjectives_for(drawn[0].kinds), "quality")
    if one == two or {one.zh, two.zh} in LEXICON.opposites or "0" in (one.leaning, two.leaning):
        return None
    are, facts = agree("be", who.person), ((who.head, "是", one.zh), (who.head, "是", two.zh))
    if one.leaning == two.leaning:
        en = f"{who.en} {are} both {one.en} and {two.en}"
        return finish(f"{who.zh}又{one.zh}又{two.zh}", en, *facts)
    if who.person == "?":
        return None
    zh, degree = draw.choose((("很", ""), ("非常", "very")))
    en = f"{who.en} {are} {one.en}, but {spaced(who.person, are, degree, two.en)}"
    return finish(f"{who.zh}很{one.zh}，但是{zh}{two.zh}", en, *facts)


def state(draw: Draw) -> Sentence | None:
    """这只狗生病了。 这扇门锁着。"""
    how = draw.choose(LEXICON.states)
    noun = draw.choose(nouns_for(how.of))
    who = in_person(draw, noun)
    if not fits(who.kinds, how.of):
        return None
    en = f"{who.en} {agree('be', who.person)} {how.en}"
    return finish(who.zh + how.zh, en, (who.head, "是", how.zh))


def coloured(draw: Draw) -> Sentence:
    """这辆汽车是红色的。"""
    noun = draw.choose(nouns_for("clothing vehicle opened 花 雨伞 杯子 球 椅子 沙发"))
    who, colour = noun_in_use(draw, noun), draw.choose(LEXICON.colours)
    return be(draw, who, f"是{colour.zh}的", colour.en, (noun.zh, "是", colour.zh))


def description(draw: Draw) -> Sentence | None:
    kinds = (quality, quality, quality, comparison, comparison, two_qualities, coloured, state)
    return draw.choose(kinds)(draw)


# Who somebody is, whose something is, how old somebody is.


def identity(draw: Draw) -> Sentence | None:
    """他是医生。 这是我的书。 她十岁。"""
    who, kind = person(draw), draw.random()
    if kind < 0.3:
        noun = draw.choose(nouns_for("job"))
        many = who.person in ("we", "they")
        en = noun_phrase(noun, GENERAL if many else A).en
        if who.kinds & {"job", "young", "royal"}:
            return None
        return be(draw, who, f"是{noun.zh}", en, (who.head, "是", noun.zh))
    if kind < 0.6:
        noun = draw.choose(nouns_for("owned mine bought animal"))
        owned = noun.kinds & {"owned", "mine", "pet"} and draw.chance(0.7)
        what = noun_phrase(noun, draw.choose(OWNERS) if owned else A)
        pointer = draw.choose((Word("这", "this"), Word("那", "that")))
        if what.person == "they":
            return None
        fact = (pointer.zh, "是", noun.zh)
        return be(draw, Phrase(pointer.zh, pointer.en), f"是{what.zh}", what.en, fact)
    if draw.chance(0.8):
        kinds = draw.choose(("young pet", "job", "job", "job"))
        who = noun_in_use(draw, draw.choose(nouns_for(kinds)))
    if who.person in ("we", "they") or who.kinds & {"royal", "always_mine"}:
        return None
    grown_up = who.kinds & {"adult", "job"}
    number = draw.choose(LEXICON.ages if grown_up else LEXICON.numbers[1:])
    en = f"{who.en} {agree('be', who.person)} {number.en} years old"
    return finish(f"{who.zh}{number.zh}岁", en, (who.head, "岁", number.zh))
