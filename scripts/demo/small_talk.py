"""Weather and greetings of the bundled corpus.

Comes in: clauses, and a `Draw`. Goes out: functions that each draw one such sentence. This file
does not know which sentence is for training and which for a test.
"""

from dataclasses import replace

from clauses import ASPECTS, Clause, activity, event
from lexicon import Word, inflect
from phrases import LEXICON, NO_TIME, NOTHING, PRONOUNS, Draw, noun_in_use, nouns_for, spaced
from sentences import Sentence, finish


def weather(draw: Draw) -> Sentence | None:
    """昨天北京很冷。 如果明天下雨，她就不会去公园。"""
    fall = draw.choose((Word("下雨", "rain"), Word("下雪", "snow")))
    town, kind = draw.choose(LEXICON.towns), draw.random()
    if kind < 0.5:
        clause = (event if draw.chance(0.5) else activity)(draw, ["will", "won't"])
        if clause is None:
            return None
        clause, when = replace(clause, time=NO_TIME), draw.choose(LEXICON.future)
        then = clause.subject.zh + "就" + replace(clause, subject=NOTHING).zh()
        en = f"if it {inflect(fall.en, 'third')} {when.en}, {clause.en()}"
        return finish(f"如果{when.zh}{fall.zh}，{then}", en, *clause.facts)
    if kind < 0.75:
        cold = draw.choose((Word("冷", "cold"), Word("热", "hot"), Word("暖和", "warm")))
        zh, degree = draw.choose((("很{}", ""), ("非常{}", "very")))
        time = draw.choose((*LEXICON.past, *(Word("今天", "today"),) * 4))
        is_was = "is" if time.en == "today" else "was"
        en = spaced("it", is_was, degree, cold.en, "in", town.en, time.en)
        return finish(f"{town.zh}{time.zh}{zh.format(cold.zh)}", en, (town.zh, time.zh, cold.zh))
    tomorrow = draw.chance(0.5)
    time = draw.choose(LEXICON.future if tomorrow else LEXICON.past)
    zh = f"会{fall.zh}" if tomorrow else f"{fall.zh}了"
    verb = f"will {fall.en}" if tomorrow else inflect(fall.en, "past")
    en = f"it {verb} in {town.en} {time.en}"
    return finish(f"{town.zh}{time.zh}{zh}", en, (town.zh, time.zh, fall.zh))


GREETINGS = tuple(
    Word(zh, en)
    for zh, en in (("你好", "hello"), ("早上好", "good morning"), ("下午好", "good afternoon"),
                   ("晚上好", "good evening"), ("晚安", "good night"), ("再见", "goodbye"),
                   ("谢谢你", "thank you"), ("对不起", "I'm sorry"), ("欢迎", "welcome"),
                   ("生日快乐", "happy birthday"))
)  # fmt: skip
TITLES = tuple(
    Word(zh, en)
    for zh, en in (("老师", "teacher"), ("医生", "doctor"), ("先生", "sir"), ("女士", "madam"),
                   ("妈妈", "Mom"), ("爸爸", "Dad"))
)  # fmt: skip
HOW_ARE_YOU = ("累", "忙", "饿", "渴", "困", "高兴", "紧张")


def greeting(draw: Draw) -> Sentence | None:
    """早上好，玛丽！ 你好，汤姆！你今天忙吗？ 对不起，老师！我弄丢了你的书。"""
    hello, you = draw.choose(GREETINGS), draw.choose((*LEXICON.names, *TITLES))
    start = finish(f"{hello.zh}，{you.zh}", f"{hello.en}, {you.en}", (hello.zh, you.zh), mark="！")
    more = after_greeting(draw, hello.zh)
    if more is None or draw.chance(0.5):
        return start
    return Sentence(start.zh + more.zh, f"{start.en} {more.en}", start.facts + more.facts)


def after_greeting(draw: Draw, hello: str) -> Sentence | None:
    """What one goes on with: 你今天忙吗？ after 你好, 我喜欢这本书。 after 谢谢你."""
    if hello.endswith("好"):
        how = draw.choose([word for word in LEXICON.adjectives if word.zh in HOW_ARE_YOU])
        fact = ("你", "是", how.zh)
        return finish(f"你今天{how.zh}吗", f"are you {how.en} today", fact, mark="？")
    clause: Clause | None = None
    if hello == "谢谢你":
        present = noun_in_use(draw, draw.choose(nouns_for("bought")))
        clause = Clause(PRONOUNS[0], ASPECTS["present"], Word("喜欢", "like"), present)
    elif hello == "对不起":
        clause = event(draw, ["past"], PRONOUNS[0])
        clause = clause if clause and clause.verb.zh in ("弄丢", "打破") else None
    elif hello == "再见":
        clause = event(draw, ["will"], PRONOUNS[0])
    return finish(clause.zh(), clause.en(), *clause.facts) if clause else None
