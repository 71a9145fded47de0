"""Cleaning: what goes, what stays, what is held out, and that it is written as a whole."""

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from transformer_mt.config.experiment import build_config
from transformer_mt.corpus import clean
from transformer_mt.corpus.clean import read_clean
from transformer_mt.corpus.cleaning import rules
from transformer_mt.corpus.cleaning import score as scoring
from transformer_mt.corpus.cleaning.rules import comparison_key
from transformer_mt.corpus.readers.pairs import Pair
from transformer_mt.corpus.report.report import CorpusReport
from transformer_mt.corpus.sources.obtain import obtain_sources
from transformer_mt.errors import DataError, TmtError
from transformer_mt.pipeline.prepare import clean_stage, fingerprints, read_report

WORDS = [first + last for first in "ba do ke li mu no".split() for last in "rt st ng".split()] * 2
WORDS = [f"{word}{ending}" for word, ending in zip(WORDS, "aeio" * 9, strict=True)]
HAN = "天地人你我他山水火木金土日月上下左右大小多少来去开关东西南北"


def some_pairs(n: int, seed: int = 0) -> list[Pair]:
    """Distinct pairs, word for word translations of each other, with no side in common."""
    rng = random.Random(seed)
    names = random.Random(99).sample(WORDS, len(HAN))
    pairs = []
    for i in range(n):
        chosen = rng.sample(range(len(HAN)), k=rng.randrange(4, len(HAN)))
        src = f"{seed}号{i}" + "".join(HAN[word] for word in chosen)
        pairs.append((src, f"no {seed} {i} " + " ".join(names[word] for word in chosen)))
    return pairs


def write_pairs(root: Path, name: str, pairs: list[Pair]) -> str:
    for code, side in (("zh", 0), ("en", 1)):
        text = "".join(pair[side] + "\n" for pair in pairs)
        (root / f"{name}.{code}").write_text(text, encoding="utf-8", newline="\n")
    return name


def run_cleaning(root: Path, pairs: list[Pair], seed: int = 1, **data: Any) -> CorpusReport:
    data = {"root": str(root), "train": [write_pairs(root, "train", pairs)], **data}
    languages = {"src": "zh", "tgt": "en"}
    cfg = build_config({"name": "t", "seed": seed, "languages": languages, "data": data}, "t.yaml")
    local = obtain_sources(cfg, print)
    clean_stage(local, fingerprints(local), root / "clean", root / "work", print)
    return read_report(root / "clean")


def pairs_of(root: Path, part: str) -> list[Pair]:
    return list(zip(*read_clean(root / "clean", part), strict=True))


def prepare(
    root: Path, train: list[Pair], dev: list[Pair], test: list[Pair], **data: Any
) -> tuple[CorpusReport, list[Pair]]:
    """The report, and the training pairs that are left."""
    parts = {"dev": [write_pairs(root, "dev", dev)]}
    report = run_cleaning(
        root, train, **parts, test={"news": write_pairs(root, "test", test)}, **data
    )
    return report, pairs_of(root, "train")


TOO_LITTLE = (
    "train: too little text to learn which sides belong together; the rule mismatch is not applied"
)
DEV, TEST = some_pairs(5, seed=7), some_pairs(5, seed=8)


def test_clean_pairs_all_stay_in_order(tmp_path: Path) -> None:
    train = [*some_pairs(300), ("你好", "Hi"), ("你好", "Hello"), ("您好", "Hello")]
    report, left = prepare(tmp_path, train, DEV, TEST)
    assert left == train
    assert report.parts["train"].dropped == report.held_out == {}
    assert report.problems == []
    assert clean.test_names(tmp_path / "clean") == ["news"]
    assert {path.name for path in (tmp_path / "clean").iterdir()} == {
        "train.src", "train.tgt", "dev.src", "dev.tgt", "test.news.src", "test.news.tgt",
        "report.json", "report.html", "train.sources.npy", "fates.npy", "stage.json",
    }  # fmt: skip


def test_every_drop_is_counted_with_its_line(tmp_path: Path) -> None:
    good = some_pairs(50)
    long_src, long_tgt = HAN[:20], " ".join(f"{a}{b}" for a in WORDS[:8] for b in WORDS)
    bad = {
        "empty": ("", "nothing on the other side"),
        "too_long": ("好" * 2001, "good"),
        "duplicate": (good[3][0] + "\u200b ", good[3][1]),
        "overlap": (DEV[0][0], "another translation"),
        "length_ratio": (long_src, long_tgt[:1900]),
    }
    report, left = prepare(tmp_path, [*good, *bad.values(), *[("", "x")] * 30], DEV, TEST)
    part = report.parts["train"]
    assert left == good
    assert part.dropped == {rule: 31 if rule == "empty" else 1 for rule in bad}
    for number, (rule, pair) in enumerate(bad.items(), len(good) + 1):
        sample = part.rules[rule].nearest_dropped[0]
        assert sample.where == f"train:{number}"
        assert sample.src.rstrip("…") == pair[0].strip("\u200b ")[:300]
    samples = [sample.where for sample in part.rules["empty"].nearest_dropped]
    assert samples == ["train:51", *(f"train:{number}" for number in range(56, 65))]
    assert part.read == part.kept + sum(part.dropped.values()) == 85


def test_switches(tmp_path: Path) -> None:
    train = [*some_pairs(20), some_pairs(20)[4], (TEST[1][0], "seen in test")]
    report, left = prepare(tmp_path, train, DEV, TEST, clean={"duplicate": False, "overlap": False})
    assert left == train
    assert report.notes[0].startswith("train: 1 pairs share a side with dev or test and stay (data")
    assert report.notes[1:] == [TOO_LITTLE]


def test_notes_count_only_what_stays(tmp_path: Path) -> None:
    """Pairs that are dropped share nothing, and two empty sides are not the same text."""
    train = [*some_pairs(20), DEV[0]]
    dev, test = [*DEV, ("天气好", "")], [*TEST, ("天气不好", "")]
    report, left = prepare(tmp_path, train, dev, test)
    assert left == some_pairs(20)
    assert not [note for note in report.notes if "share a side" in note], report.notes


@pytest.mark.parametrize("part", ["dev", "test"])
def test_overlap_on_either_side(tmp_path: Path, part: str) -> None:
    pair = ("这是测试。", "This is a test.")
    dev, test = ([*DEV, pair], TEST) if part == "dev" else (DEV, [*TEST, pair])
    gone = [
        ("这是测试。", "new"),
        ("这 是测试！", "new"),
        ("新", "This is a test."),
        ("新", "THIS is, a test"),
    ]
    good = [*some_pairs(20), ("新", "This is a test too."), ("This is a test.", "这是测试。")]
    off = {"swapped": False, "script": False, "duplicate": False}
    report, left = prepare(tmp_path, [*good, *gone], dev, test, clean=off)
    assert left == good
    assert report.parts["train"].dropped == {"overlap": len(gone)}


def test_dev_is_normalised_and_test_stays_raw(tmp_path: Path) -> None:
    odd = [(" e\u0301\u2028好  ", "a\tb "), ("", "empty source"), *DEV]
    raw = b"\xef\xbb\xbf" + "".join(f"{src}\r\n" for src, _ in odd).encode()
    write_pairs(tmp_path, "dev", odd)
    write_pairs(tmp_path, "test", odd)
    (tmp_path / "test.zh").write_bytes(raw)
    rows = [{"zh": "一\n二\r\n三", "en": "a\nb"}, {"zh": "四\r", "en": "c"}]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    tests = {"a": "test", "t": {"jsonl": "t.jsonl"}}
    report = run_cleaning(tmp_path, some_pairs(20), dev=["dev"], test=tests)
    assert pairs_of(tmp_path, "dev")[0] == ("é 好", "a b")
    assert pairs_of(tmp_path, "test.a") == odd
    assert pairs_of(tmp_path, "test.t") == [("一 二 三", "a b"), ("四", "c")], "one line each"
    assert report.parts["dev"].kept == report.parts["test.a"].kept == len(odd)
    assert report.notes == [
        TOO_LITTLE,
        "dev: 1 of 7 pairs have an empty side and stay",
        "test.a: 1 of 7 pairs have an empty side and stay",
        "dev: 7 pairs share a side with test and stay",
    ]


def test_several_sources_are_joined(tmp_path: Path) -> None:
    pairs = some_pairs(60)
    names = [write_pairs(tmp_path, f"t{i}", pairs[i * 20 : i * 20 + 20]) for i in range(3)]
    names.append(write_pairs(tmp_path, "again", pairs[10:12]))
    dev, test = write_pairs(tmp_path, "dev", DEV), write_pairs(tmp_path, "test", TEST)
    report = run_cleaning(tmp_path, [], train=names, dev=[dev, dev], test={"b": test, "a": test})
    assert pairs_of(tmp_path, "train") == pairs
    samples = report.parts["train"].rules["duplicate"].nearest_dropped
    assert [sample.where for sample in samples] == ["again:1", "again:2"]
    assert [(source.read, source.kept) for source in report.sources] == [(20, 20)] * 3 + [(2, 0)]
    assert report.parts["dev"].read == 2 * len(DEV)
    assert clean.test_names(tmp_path / "clean") == ["a", "b"]
    assert list(report.parts) == ["train", "dev", "test.a", "test.b"]


@pytest.mark.parametrize(
    ("n", "given", "expected"),
    [
        (100, [], {"dev": 5, "test.held_out": 5}),
        (600, [], {"dev": 30, "test.held_out": 30}),
        (6000, [], {"dev": 60, "test.held_out": 60}),
        (100, ["dev"], {"test.held_out": 10}),
        (2000, ["test"], {"dev": 50}),
    ],
)
def test_sizes_held_out(tmp_path: Path, n: int, given: list[str], expected: dict[str, int]) -> None:
    named: dict[str, Any] = {"dev": [write_pairs(tmp_path, "dev", DEV)], "test": {"news": "dev"}}
    off = {"mismatch": False}  # nothing to learn: all pairs are good
    report = run_cleaning(
        tmp_path, some_pairs(n), clean=off, **{role: named[role] for role in given}
    )
    assert list(report.held_out.values()) == list(expected.values())
    assert report.parts["train"].kept == n - sum(expected.values())
    assert clean.test_names(tmp_path / "clean") == ["news" if "test" in given else "held_out"]
    for part, size in expected.items():
        assert len(pairs_of(tmp_path, part)) == report.parts[part].kept == size


def held_out_pairs(root: Path, train: list[Pair], seed: int) -> dict[str, list[Pair]]:
    run_cleaning(root, train, seed)
    return {part: pairs_of(root, part) for part in ("train", "dev", "test.held_out")}


def test_held_out_is_a_function_of_text_and_seed(tmp_path: Path) -> None:
    train = some_pairs(800)
    first = held_out_pairs(tmp_path, train, seed=1)
    backwards = held_out_pairs(tmp_path, train[::-1], seed=1)
    assert {part: set(pairs) for part, pairs in backwards.items()} == {
        part: set(pairs) for part, pairs in first.items()
    }
    other = held_out_pairs(tmp_path, train, seed=2)
    assert len(set(other["dev"]) & set(first["dev"])) < len(first["dev"]) / 2
    assert sorted(pair for pairs in first.values() for pair in pairs) == sorted(train)


@pytest.mark.parametrize("n_targets", [900, 80])
def test_parts_share_no_side(tmp_path: Path, n_targets: int) -> None:
    rng = random.Random(4)
    base = some_pairs(n_targets)
    train = [(base[i % n_targets][0], rng.choice(base)[1].upper()) for i in range(900)]
    parts = held_out_pairs(tmp_path, train, seed=1)
    keys = {
        part: [{comparison_key(pair[side]) for pair in pairs} for side in (0, 1)]
        for part, pairs in parts.items()
    }
    assert len(parts["train"]) > 650  # of about 830 without duplicates
    for one, other in (("train", "dev"), ("train", "test.held_out"), ("dev", "test.held_out")):
        assert min(len(parts[one]), len(parts[other])) >= 2
        for side in (0, 1):
            assert not keys[one][side] & keys[other][side]


SAME = [(src, "the same answer to everything") for src, _ in some_pairs(200)]
GIVEN = {"dev": ["dev"], "test": {"news": "test"}}


@pytest.mark.parametrize(
    ("train", "keys", "message"),
    [
        (some_pairs(99), {}, "train: 99 usable pairs; to hold out dev and test there must be 100: "
                             "give more data, or data.dev and data.test"),
        (some_pairs(99), {"dev": ["dev"]}, "hold out test there .*: give more data, or data.test"),
        (SAME, {}, "repeat so often that nothing can be held out .* or data.dev and data.test"),
        ([("", "")] * 30, {}, "^nothing is kept: 30 pairs read; dropped: empty 30; the rule "),
        ([("", "a"), DEV[0]], GIVEN, "^nothing is kept: 2 pairs read; dropped: empty 1, o"),
        ([], GIVEN, "^nothing is kept: 0 pairs read; dropped: nothing$"),
        (SAME, {"test": {"a": "gap"}}, r"data\.test\.a: no pair with text on both sides \(2 read"),
        (SAME, {"dev": ["none"]}, r"data\.dev: no pair with text on both sides \(0 read\)"),
    ],
)  # fmt: skip
def test_nothing_left(
    tmp_path: Path, train: list[Pair], keys: dict[str, Any], message: str
) -> None:
    for name, pairs in {
        "dev": DEV,
        "test": TEST,
        "gap": [(" ", "a"), ("b", "")],
        "none": [],
    }.items():
        write_pairs(tmp_path, name, pairs)
    with pytest.raises(DataError, match=message):
        run_cleaning(tmp_path, train, **keys)


def test_swapped_sides_are_told_before_too_few_pairs(tmp_path: Path) -> None:
    zh = ["我们来学习汉语", "这个问题很难", "他们开车回来了。"]
    en = ["We learn.", "It is hard.", "They left."]
    rounds = range(60)
    swapped = [(f"{tgt} {i}", f"{src}{i}") for i in rounds for src, tgt in zip(zh, en, strict=True)]
    with pytest.raises(DataError) as caught:
        run_cleaning(tmp_path, [*swapped, ("你好", "Hello.")])
    first, second, last = str(caught.value).split("\n")
    assert first.startswith("train: looks swapped: the zh side is English and the en side is")
    assert (
        "We learn. 0 | 我们来学习汉语0; They left. 1 | 他们开车回来了。1; write {files: [" in first
    )
    assert second.startswith("180 of 181 pairs are dropped: swapped 180; the rule swapped")
    assert last.startswith("train: 1 usable pairs; to hold out dev and test there must be 100")


def test_a_failed_run_leaves_the_old_directory_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(tmp_path, some_pairs(30), DEV, TEST)
    before = {path.name: path.read_bytes() for path in (tmp_path / "clean").iterdir()}

    def disk_full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    for broken, expected in ((disk_full, TmtError), (interrupted, KeyboardInterrupt)):
        monkeypatch.setattr(clean, "build_report", broken)
        with pytest.raises(expected) as caught:
            prepare(tmp_path, some_pairs(40, seed=3), DEV, TEST)
        after = {path.name: path.read_bytes() for path in (tmp_path / "clean").iterdir()}
        assert after == before
        assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"clean", "work"}
        if expected is TmtError:
            assert "clean: the disk is full" in str(caught.value)
    monkeypatch.undo()
    _, left = prepare(tmp_path, some_pairs(40, seed=3), DEV, TEST)
    assert left == some_pairs(40, seed=3)


def test_other_thresholds_score_nothing_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = [*some_pairs(60), ("一" * 90, "a long one " * 9)]
    _, left = prepare(tmp_path, train, DEV, TEST, clean={"repeated": False})
    assert len(left) == 61
    monkeypatch.setattr(scoring, "score_part", None)  # cannot be called
    report, left = prepare(tmp_path, train, DEV, TEST, clean={"repeated": False, "too_long": 80})
    assert left == [pair for pair in train if max(map(len, pair)) <= 80] != train
    assert report.parts["train"].dropped == {"too_long": len(train) - len(left)}
    with pytest.raises(TypeError):
        prepare(tmp_path, train[:30], DEV, TEST)


def test_a_second_process_waits_and_reuses(tmp_path: Path) -> None:
    for name, pairs in (("train", some_pairs(2000)), ("dev", DEV), ("test", TEST)):
        write_pairs(tmp_path, name, pairs)
    cfg = "{name: t, languages: {src: zh, tgt: en}, data: {root: ., train: [train], dev: [dev], "
    (tmp_path / "c.yaml").write_text(cfg + "test: {news: test}}}", encoding="utf-8")
    command = [sys.executable, "-m", "transformer_mt", "data", "clean", "c.yaml", "out"]
    both = [
        subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    said = [process.communicate(timeout=300) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert said[0][0] == said[1][0] != b""
    errors = sorted(stderr.decode() for _, stderr in said)
    assert sum("making" in text for text in errors) == 1
    assert sum("up to date" in text for text in errors) == 1


def test_read_clean_mistakes(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"test\.nws\.src: no such file"):
        read_clean(tmp_path, "test.nws")
    (tmp_path / "dev.src").write_text("one\n", encoding="utf-8")
    (tmp_path / "dev.tgt").write_text("one\ntwo\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"dev\.src has 1 lines but dev\.tgt has 2: delete the dir"):
        read_clean(tmp_path, "dev")


def test_a_pair_that_a_rule_fails_on_is_dropped_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug is planted in one rule; the other pairs must not feel it."""
    numbers_apart = rules.numbers_apart

    def fails_on_one(src: str, *others: str) -> int:
        if "火火" in src:
            raise ZeroDivisionError("a bug")
        return numbers_apart(src, *others)

    monkeypatch.setattr(rules, "numbers_apart", fails_on_one)
    good = some_pairs(30)
    report, left = prepare(tmp_path, [*good[:20], ("火火好", "a fire"), *good[20:]], DEV, TEST)
    assert left == good
    part = report.parts["train"]
    assert part.dropped == {"rule_error": 1}
    assert part.rules["rule_error"].nearest_dropped[0].where == "train:21"
    assert report.problems == [
        "1 of 31 pairs are dropped as rule_error: ZeroDivisionError in fails_on_one, first at "
        "train:21; that is a bug of tmt: please report it, with this pair"
    ]
    with pytest.raises(DataError, match=r"(?s)rule_error 1;.*1 of 1 pairs .* ZeroDivisionError in"):
        run_cleaning(tmp_path, [("火火好", "a fire")])
