"""Questions of the bundled corpus: 吗, 为什么, 什么时候, 在哪里, 什么, 谁, 哪, 多少钱.

Comes in: phrases and clauses, and a `Draw`. Goes out: functions that each draw one question. This
file does not know the answers.
"""

from dataclasses import replace

from clauses import (
    ASPECTS,
    Clause,
    activity,
    agree,
    event,
    feeling,
    in_person,
    marked,
)
from lexicon import (
    Word,
)
from phrases import (
    NO_TIME,
    WHO,
    Draw,
    Phrase,
    noun_in_use,
    nouns_for,
    person,
    place,
    the_noun,
)
from sentences import YES_OR_NO, Sentence, ask, finish

ASKED = ("past", "past", "now", "now", "will", "going", "want", "can", "should")
ASKED_EVENT = (*ASKED, "before", "already")
WHAT = Word("", "what")
ASKED_WHY = ("past", "didn't", "didn't", "now", "want", "not want", "can't", "going")


def yes_no_question(draw: Draw) -> Sentence | None:
    """你昨天看了这本书吗？"""
    kind = draw.random()
    if kind < 0.15:
        clause: Clause | None = feeling(draw, "present")
    else:
        clause = activity(draw, ASKED) if kind < 0.35 else event(draw, ASKED_EVENT)
    return ask(clause, YES_OR_NO, "吗")


def why_question(draw: Draw) -> Sentence | None:
    """他为什么没有打开门？"""
    clause = (event if draw.chance(0.75) else activity)(draw, ASKED_WHY)
    return ask(clause, Word("为什么", "why"))


def when_question(draw: Draw) -> Sentence | None:
    """你是什么时候买这本书的？ 你什么时候会买这本书？"""
    name = draw.choose(("past", "will", "going"))
    clause = (event if draw.chance(0.8) else activity)(draw, [name])
    if clause is None:
        return None
    if name == "past":
        clause = replace(clause, time=NO_TIME, aspect=ASPECTS["told"])
        return ask(clause, Word("是什么时候", "when"), "的")
    return ask(replace(clause, time=NO_TIME), Word("什么时候", "when"))


def where_question(draw: Draw) -> Sentence | None:
    """你是在哪里买这本书的？ 这只猫在哪里？"""
    if draw.chance(0.4):
        noun = draw.choose(nouns_for("person animal small vehicle"))
        who = in_person(draw, noun)
        en = f"where {agree('be', who.person)} {who.en}"
        fact = (who.head, "在", "哪里")
        return finish(f"{who.zh}在哪里", en, fact, mark="？") if who.askable else None
    clause = event(draw, ["past"])
    if clause is None or not marked(clause, "where"):
        return None
    clause = replace(clause, time=NO_TIME, aspect=ASPECTS["told"])
    return ask(clause, Word("是在哪里", "where"), "的")


def what_question(draw: Draw) -> Sentence | None:
    """他昨天买了什么？ 她正在厨房里做什么？"""
    if draw.chance(0.4):
        where = place(draw.choose(nouns_for("place -市场")))
        clause = Clause(person(draw), ASPECTS["now"], Word("做什么", "do"), place=where)
        return ask(clause, WHAT)
    drawn = event(draw, ("past", "past", "now", "want", "will", "going"))
    if drawn is None or not marked(drawn, "what"):
        return None
    return ask(replace(drawn, object=Phrase("什么", "", "什么")), WHAT)


def who_question(draw: Draw) -> Sentence | None:
    """谁打开了窗户？ 谁在公园里？"""
    kind = draw.random()
    if kind < 0.2:
        where = place(draw.choose(nouns_for("place 家")))
        return finish(f"谁{where.zh}", f"who is {where.en}", ("谁", "在", where.head), mark="？")
    if kind < 0.35:
        clause: Clause | None = feeling(draw, "present", WHO)
    elif kind < 0.6:
        clause = activity(draw, ("past", "now", "now", "want"), WHO)
    else:
        clause = event(draw, ("past", "past", "now", "want", "can", "will", "before"), WHO)
    return finish(clause.zh(), clause.en(), *clause.facts, mark="？") if clause else None


def which_question(draw: Draw) -> Sentence | None:
    """你喜欢哪本书？ 你昨天看见了谁？"""
    if draw.chance(0.35):
        clause = event(draw, ("past", "past", "now"))
        if clause is None or clause.verb.zh not in ("看见", "帮助", "等"):
            return None
        return ask(replace(clause, object=Phrase("谁", "", "谁")), Word("", "who"))
    clause = feeling(draw, "present") if draw.chance(0.5) else event(draw, ("past", "want"))
    noun = the_noun(clause.object.head) if clause else None
    if clause is None or noun is None or noun.number != "count" or "bought" not in noun.kinds:
        return None
    wanted = Phrase(f"哪{noun.measure}{noun.zh}", "", noun.zh)
    return ask(replace(clause, object=wanted), Word("", f"which {noun.en}"))


def thing_question(draw: Draw) -> Sentence | None:
    """这本书多少钱？ 这是谁的书？ 这辆汽车是什么颜色的？"""
    noun, kind = draw.choose(nouns_for("bought")), draw.random()
    what = noun_in_use(draw, noun)
    question = f"{agree('be', what.person)} {what.en}"
    if kind < 0.4 and "owned" not in noun.kinds:
        fact, zh, en = (noun.zh, "是", "钱"), f"{what.zh}多少钱", f"how much {question}"
    elif kind < 0.7 and noun.number == "count":
        pointer = draw.choose((Word("这", "this"), Word("那", "that")))
        fact = (noun.zh, "是", "谁的")
        zh, en = f"{pointer.zh}是谁的{noun.zh}", f"whose {noun.en} is {pointer.en}"
    elif noun.kinds & {"clothing", "vehicle", "furniture"}:
        fact, zh = (noun.zh, "是", "颜色"), f"{what.zh}是什么颜色的"
        en = f"what color {question}"
    else:
        return None
    return finish(zh, en, fact, mark="？")


def wh_question(draw: Draw) -> Sentence | None:
    """One of the questions above; 谁 twice as often."""
    kinds = (why_question, when_question, where_question, what_question, who_question,
             who_question, which_question, thing_question)  # fmt: skip
    return draw.choose(kinds)(draw)
