"""A source as a whole: what a person is told, and what not."""

import random

import pytest
from places import ROOT

from transformer_mt.config.data import Languages
from transformer_mt.corpus.diagnostics.source_watch import SourceWatch
from transformer_mt.corpus.readers.pairs import Pair

SHARED_DATA = ROOT.parent / "shared/data"
needs_corpora = pytest.mark.skipif(not SHARED_DATA.is_dir(), reason=f"none in {SHARED_DATA}")
ZH_EN = Languages(src="zh", tgt="en")
SIMPLIFIED = ["我们来学习汉语", "这个问题很难", "他们已经开车回来了", "今天的天气真热"]
TRADITIONAL = ["我們來學習漢語", "這個問題很難", "他們已經開車回來了", "今天的天氣真熱"]
ENGLISH = ["We learn Chinese", "This question is hard", "They have driven back", "It is hot today"]


def watched(
    pairs: list[Pair], languages: Languages = ZH_EN, *, converts: bool = False
) -> list[str]:
    watch = SourceWatch("corpus", languages, lambda: "{files: [b, a]}", converts=converts)
    assert list(watch.observe(iter(pairs))) == pairs
    return [*watch.findings, *watch.problems()]


def corpus(name: str, part: str, codes: str) -> list[list[str]]:
    paths = [SHARED_DATA / name / f"{part}.{code}" for code in codes.split()]
    return [path.read_text(encoding="utf-8").split("\n")[:-1] for path in paths]


def good_pairs(n: int, zh: list[str] = SIMPLIFIED) -> list[Pair]:
    draw = random.Random(n)
    return [(zh[i], ENGLISH[i]) for i in draw.choices(range(len(zh)), k=n)]


@pytest.mark.parametrize("n", [0, 399, 400, 2001, 12_345])
def test_pairs_pass_unchanged_and_good_ones_are_no_problem(n: int) -> None:
    assert watched(good_pairs(n)) == []


def test_whole_sides_swapped() -> None:
    swapped = [(tgt, src) for src, tgt in good_pairs(50)]
    (problem,) = watched(swapped)
    samples = "; ".join(f"{src} | {tgt}" for src, tgt in swapped[:3:2])
    assert problem == (
        "corpus: looks swapped: the zh side is English and the en side is Chinese, e.g. "
        f"{samples}; write {{files: [b, a]}} under data.train, or give tmt data check --src en "
        "--tgt zh"
    )


GERMAN = ["Wir lernen Deutsch", "Diese Frage ist schwer", "Sie sind gefahren", "Es ist sehr heiß"]


@pytest.mark.parametrize(
    ("src", "tgt", "languages", "found"),
    [
        (ENGLISH, GERMAN, "de en", "looks swapped: the de side is English and the en side is Germ"),
        (GERMAN, ENGLISH, "de en", None),
        (SIMPLIFIED, ENGLISH, "en zh-Hant", "looks swapped"),
        (ENGLISH, ENGLISH, "zh en", "zh side looks English: only 0% of its letters are of Chinese"),
        (SIMPLIFIED, ENGLISH, "ru en", "the ru side looks Chinese: only 0% of its letters are of"),
        (ENGLISH, SIMPLIFIED, "en ko", "the ko side looks Chinese"),
        (ENGLISH, SIMPLIFIED, "en ja", "the ja side looks Chinese, e.g. We "),
        (GERMAN, ENGLISH, "fr en", "the fr side looks German, e.g. Wir "),
        (GERMAN, ENGLISH, "tlh en", None),
        (SIMPLIFIED, TRADITIONAL, "zh zh-Hant", None),
        (TRADITIONAL, SIMPLIFIED, "zh zh-Hant", "looks swapped"),
        (["1 2"], ["3 4"], "zh en", None),
        ([""], ["x"], "zh en", None),
    ],
)
def test_sides_in_other_languages(
    src: list[str], tgt: list[str], languages: str, found: str | None
) -> None:
    codes = dict(zip(("src", "tgt"), languages.split(), strict=True))
    watch = SourceWatch("corpus", Languages(**codes))
    list(watch.observe(list(zip(src, tgt, strict=True)) * 5))
    assert len(watch.findings) == bool(found)
    assert not found or found in watch.findings[0]


def test_some_lines_swapped() -> None:
    pairs = good_pairs(3000)
    for line in (17, 204, 2999):
        pairs[line - 1] = pairs[line - 1][::-1]
    (problem,) = watched(pairs)
    assert problem == (
        "corpus: 3 of 3,000 lines look swapped, en on the zh side and the other way round: "
        "lines 17, 204, 2999"
    )


@pytest.mark.parametrize("code", ["zh", "zh-Hant"])
def test_mixed_scripts(code: str) -> None:
    usual, odd = (SIMPLIFIED, TRADITIONAL) if code == "zh" else (TRADITIONAL, SIMPLIFIED)
    pairs = good_pairs(5000, usual)
    for line in range(100, 5000, 700):
        pairs[line - 1] = (odd[line % 4], ENGLISH[line % 4])
    (problem,) = watched(pairs, Languages(src=code, tgt="en"))
    name, wanted = ("Traditional", "simplified") if code == "zh" else ("Simplified", "traditional")
    assert problem.startswith(
        f"corpus: 7 of 5,000 lines on the {code} side are in {name} characters: "
        "lines 100, 800, 1500, 2200, 2900 …; data.clean.chinese_script: " + wanted
    )
    assert watched(pairs, Languages(src=code, tgt="en"), converts=True) == []
    pairs = good_pairs(5000, usual)
    pairs[7] = (odd[0], ENGLISH[0])  # one line is not worth a person's time
    assert watched(pairs, Languages(src=code, tgt="en")) == []


def test_japanese_and_korean_lines() -> None:
    pairs = good_pairs(600)
    pairs[9] = ("今日はとても暑いですね", ENGLISH[3])
    pairs[19] = ("오늘은 정말 덥네요", ENGLISH[3])
    pairs[29] = ("これは難しい問題です", ENGLISH[1])
    pairs[39] = ("品牌名称叫做の物专营店是来自中国的一家商店", ENGLISH[1])  # a quotation
    told = "corpus: 3 of 600 lines on the zh side look Japanese or Korean: lines 10, 20, 30"
    assert told in watched(pairs)


@needs_corpora
def test_a_run_of_shifted_lines_is_named_with_its_direction() -> None:
    zh, en = (texts[:20_000] for texts in corpus("tatoeba-zh-en", "train", "zh en"))
    del zh[14_999]  # zh of line n is that of en line n + 1 from here …
    zh.insert(15_099, "多出来的一行")  # … up to here
    (problem,) = watched(list(zip(zh, en, strict=True)))
    place, rest = problem.removeprefix("corpus: lines ").split(" fit better one line apart (", 1)
    first, last = map(int, place.split("-"))
    assert abs(first - 15_000) <= 4
    assert abs(last - 15_100) <= 4
    assert rest.startswith(f"zh of line {first} with en of line {first + 1}, and so on): ")
    assert f"near line {first} for a line too many in en or missing in zh" in rest


@needs_corpora
@pytest.mark.parametrize(
    ("name", "part", "codes"),
    [
        ("tatoeba-zh-en", "train", "zh en"),
        ("python-docs-zh-en", "train", "zh en"),
        ("multi30k", "train", "en de"),
        ("flores-sib-zh-en", "test", "zh en"),
    ],
)
def test_good_corpora_have_no_problems(name: str, part: str, codes: str) -> None:
    src, tgt = codes.split()
    pairs = list(zip(*corpus(name, part, codes), strict=True))
    assert watched(pairs, Languages(src=src, tgt=tgt)) == []
