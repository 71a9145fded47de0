"""Cleaning: what goes, what stays, what is held out, and that it is written as a whole."""

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from transformer_mt.config.experiment import Config, build_config
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


def config(root: Path, seed: int = 1, **data: Any) -> Config:
    languages = {"src": "zh", "tgt": "en"}
    data = {"root": str(root), **data}
    return build_config({"name": "t", "seed": seed, "languages": languages, "data": data}, "t.yaml")


def prepare(
    root: Path, train: list[Pair], dev: list[Pair], test: list[Pair], **data: Any
) -> tuple[CorpusReport, list[Pair]]:
    """The report, and the training pairs that are left."""
    cfg = config(
        root,
        train=[write_pairs(root, "train", train)],
        dev=[write_pairs(root, "dev", dev)],
        test={"news": write_pairs(root, "test", test)},
        **data,
    )
    report = run_cleaning(cfg, root / "clean")
    return report, list(zip(*read_clean(root / "clean", "train"), strict=True))


def run_cleaning(cfg: Config, out_dir: Path) -> CorpusReport:
    local = obtain_sources(cfg, print)
    clean_stage(local, fingerprints(local), out_dir, out_dir.with_name("work"), print)
    return read_report(out_dir)


TOO_LITTLE = (
    "train: too little text to learn which sides belong together; the rule mismatch is not applied"
)
DEV, TEST = some_pairs(5, seed=7), some_pairs(5, seed=8)


def test_clean_pairs_all_stay_in_order(tmp_path: Path) -> None:
    train = some_pairs(300)
    report, left = prepare(tmp_path, train, DEV, TEST)
    assert left == train
    assert report.parts["train"].dropped == {}
    assert report.problems == []
    assert report.held_out == {}
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
    report, left = prepare(tmp_path, [*good, *bad.values(), good[0]], DEV, TEST)
    part = report.parts["train"]
    assert left == good
    assert part.dropped == {rule: 1 + (rule == "duplicate") for rule in bad}
    for number, (rule, pair) in enumerate(bad.items(), len(good) + 1):
        sample = part.rules[rule].nearest_dropped[0]
        assert sample.where == f"train:{number}"
        assert sample.src.rstrip("…") == pair[0].strip("\u200b ")[:300]
    assert part.read == part.kept + sum(part.dropped.values()) == 56


def test_ten_samples_at_most(tmp_path: Path) -> None:
    report, _ = prepare(tmp_path, [*some_pairs(20), *[("", "x")] * 30], DEV, TEST)
    assert report.parts["train"].dropped == {"empty": 30}
    lines = [sample.where for sample in report.parts["train"].rules["empty"].nearest_dropped]
    assert lines == [f"train:{number}" for number in range(21, 31)]


def test_same_source_with_another_target_is_no_duplicate(tmp_path: Path) -> None:
    train = [*some_pairs(20), ("你好", "Hi"), ("你好", "Hello"), ("您好", "Hello")]
    _, left = prepare(tmp_path, train, DEV, TEST)
    assert left == train


def test_switches(tmp_path: Path) -> None:
    train = [*some_pairs(20), some_pairs(20)[4], (TEST[1][0], "seen in test")]
    report, left = prepare(tmp_path, train, DEV, TEST, clean={"duplicate": False, "overlap": False})
    assert left == train
    assert report.notes == [
        "train: 1 pairs share a side with dev or test and stay (data.clean.overlap is false): "
        "scores will look better than they are",
        TOO_LITTLE,
    ]


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
    train = write_pairs(tmp_path, "train", some_pairs(20))
    cfg = config(tmp_path, train=[train], dev=["dev"], test={"a": "test"})
    report = run_cleaning(cfg, tmp_path / "clean")
    dev_src, dev_tgt = read_clean(tmp_path / "clean", "dev")
    assert (dev_src[0], dev_tgt[0]) == ("é 好", "a b")
    assert list(zip(*read_clean(tmp_path / "clean", "test.a"), strict=True)) == odd
    assert report.parts["dev"].kept == report.parts["test.a"].kept == len(odd)
    assert report.notes == [
        TOO_LITTLE,
        "dev: 1 of 7 pairs have an empty side and stay",
        "test.a: 1 of 7 pairs have an empty side and stay",
        "dev: 7 pairs share a side with test and stay",
    ]


def test_line_ends_inside_a_test_sentence_cannot_shift_the_others(tmp_path: Path) -> None:
    rows = [{"zh": "一\n二\r\n三", "en": "a\nb"}, {"zh": "四\r", "en": "c"}]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    train, dev = write_pairs(tmp_path, "train", some_pairs(20)), write_pairs(tmp_path, "dev", DEV)
    cfg = config(tmp_path, train=[train], dev=[dev], test={"t": {"jsonl": "t.jsonl"}})
    run_cleaning(cfg, tmp_path / "clean")
    assert read_clean(tmp_path / "clean", "test.t") == (["一 二 三", "四"], ["a b", "c"])


def test_several_sources_are_joined(tmp_path: Path) -> None:
    pairs = some_pairs(60)
    names = [write_pairs(tmp_path, f"t{i}", pairs[i * 20 : i * 20 + 20]) for i in range(3)]
    names.append(write_pairs(tmp_path, "again", pairs[10:12]))
    dev, test = write_pairs(tmp_path, "dev", DEV), write_pairs(tmp_path, "test", TEST)
    cfg = config(tmp_path, train=names, dev=[dev, dev], test={"b": test, "a": test})
    report = run_cleaning(cfg, tmp_path / "clean")
    assert list(zip(*read_clean(tmp_path / "clean", "train"), strict=True)) == pairs
    samples = report.parts["train"].rules["duplicate"].nearest_dropped
    assert [sample.where for sample in samples] == ["again:1", "again:2"]
    assert report.parts["dev"].read == 2 * len(DEV)
    assert clean.test_names(tmp_path / "clean") == ["a", "b"]
    assert list(report.parts) == ["train", "dev", "test.a", "test.b"]


@pytest.mark.parametrize(
    ("n", "given", "expected"),
    [
        (100, [], {"dev": 5, "test": 5}),
        (600, [], {"dev": 30, "test": 30}),
        (2000, [], {"dev": 50, "test": 50}),
        (6000, [], {"dev": 60, "test": 60}),
        (100, ["dev"], {"test": 10}),
        (2000, ["test"], {"dev": 50}),
    ],
)
def test_sizes_held_out(tmp_path: Path, n: int, given: list[str], expected: dict[str, int]) -> None:
    keys: dict[str, Any] = {"train": [write_pairs(tmp_path, "train", some_pairs(n))]}
    keys["clean"] = {"mismatch": False}  # nothing to learn: all pairs are good
    if "dev" in given:
        keys["dev"] = [write_pairs(tmp_path, "dev", DEV)]
    if "test" in given:
        keys["test"] = {"news": write_pairs(tmp_path, "test", TEST)}
    report = run_cleaning(config(tmp_path, **keys), tmp_path / "clean")
    assert report.held_out == expected
    assert report.parts["train"].kept == n - sum(expected.values())
    assert clean.test_names(tmp_path / "clean") == ["news" if "test" in given else "held_out"]
    for role, size in expected.items():
        part = "dev" if role == "dev" else "test.held_out"
        assert len(read_clean(tmp_path / "clean", part)[0]) == size
        assert report.parts[part].kept == size


def held_out_pairs(tmp_path: Path, train: list[Pair], seed: int) -> dict[str, list[Pair]]:
    cfg = config(tmp_path, seed, train=[write_pairs(tmp_path, "train", train)])
    run_cleaning(cfg, tmp_path / "clean")
    parts = ("train", "dev", "test.held_out")
    return {p: list(zip(*read_clean(tmp_path / "clean", p), strict=True)) for p in parts}


def test_held_out_is_a_function_of_text_and_seed(tmp_path: Path) -> None:
    train = some_pairs(800)
    first = held_out_pairs(tmp_path, train, seed=1)
    assert held_out_pairs(tmp_path, train, seed=1) == first
    backwards = held_out_pairs(tmp_path, train[::-1], seed=1)
    assert {part: set(pairs) for part, pairs in backwards.items()} == {
        part: set(pairs) for part, pairs in first.items()
    }
    other = held_out_pairs(tmp_path, train, seed=2)
    assert len(set(other["dev"]) & set(first["dev"])) < len(first["dev"]) / 2
    assert sorted(pair for pairs in first.values() for pair in pairs) == sorted(train)


@pytest.mark.parametrize("n_targets", [900, 200, 80])
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


def test_repeated_sides_are_kept_for_training(tmp_path: Path) -> None:
    greetings = [("你好", f"{word} hello") for word in ("oh", "well", "why", "now", "so")]
    parts = held_out_pairs(tmp_path, [*some_pairs(300), *greetings], seed=1)
    assert set(greetings) <= set(parts["train"])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "train: 99 usable pairs; to hold out dev and test there must be 100: "
             "give more data, or data.dev and data.test"),
        (["dev"], "to hold out test there must be 100: give more data, or data.test"),
    ],
)  # fmt: skip
def test_too_small_to_hold_out(tmp_path: Path, given: list[str], message: str) -> None:
    keys: dict[str, Any] = {"train": [write_pairs(tmp_path, "train", some_pairs(99))]}
    if given:
        keys["dev"] = [write_pairs(tmp_path, "dev", DEV)]
    with pytest.raises(DataError) as caught:
        run_cleaning(config(tmp_path, **keys), tmp_path / "clean")
    assert message in str(caught.value)


def test_nothing_to_hold_out(tmp_path: Path) -> None:
    train = [(src, "the same answer to everything") for src, _ in some_pairs(200)]
    with pytest.raises(DataError) as caught:
        held_out_pairs(tmp_path, train, seed=1)
    assert "repeat so often that nothing can be held out" in str(caught.value)
    assert str(caught.value).endswith("give more data, or data.dev and data.test")


def test_nothing_left(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        prepare(tmp_path, [("", "a"), DEV[0]], DEV, TEST)
    assert str(caught.value) == "train: no pair is left of 2 read; dropped: empty 1, overlap 1"
    with pytest.raises(DataError, match="train: no pair is left of 0 read; dropped: nothing"):
        prepare(tmp_path, [], DEV, TEST)
    with pytest.raises(DataError) as caught:
        prepare(tmp_path, some_pairs(9), DEV, [(" ", "a"), ("b", "")])
    assert str(caught.value).startswith("data.test.news: no pair with text on both sides (2 read)")
    with pytest.raises(DataError, match=r"data\.dev: no pair with text on both sides \(0 read\)"):
        prepare(tmp_path, some_pairs(9), [], TEST)


def test_report_survives_json_and_speaks(tmp_path: Path) -> None:
    report, _ = prepare(tmp_path, [*some_pairs(30), ("", "lonely"), *some_pairs(2)], DEV, TEST)
    text = (tmp_path / "clean" / "report.json").read_text(encoding="utf-8")
    assert CorpusReport.from_json(text) == report
    lines = report.summary()
    assert lines[0].split() == ["train", "33", "read", "30", "kept"]
    assert lines[1] == "  empty                   1 dropped, e.g. train:31   | lonely"
    assert lines[2].startswith("  duplicate               2 dropped, e.g. train:32  0号0")
    assert lines[3].split() == ["dev", "5", "read", "5", "kept"]
    assert len({line.index("dropped") for line in lines[1:3]}) == 1  # aligned
    held_out = run_cleaning(config(tmp_path, train=[write_pairs(tmp_path, "b", some_pairs(100))]),
                              tmp_path / "clean")  # fmt: skip
    assert "held out of train: 5 for dev, 5 for test" in held_out.summary()


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
    write_pairs(tmp_path, "train", train[:30])
    with pytest.raises(TypeError):
        prepare(tmp_path, train[:30], DEV, TEST)


def test_a_second_process_waits_and_reuses(tmp_path: Path) -> None:
    for name, pairs in (("train", some_pairs(2000)), ("dev", DEV), ("test", TEST)):
        write_pairs(tmp_path, name, pairs)
    cfg = config(tmp_path, train=["train"], dev=["dev"], test={"news": "test"})
    (tmp_path / "c.yaml").write_text(cfg.to_yaml(), encoding="utf-8")
    command = [sys.executable, "-m", "transformer_mt", "data", "clean", "c.yaml", "out"]
    both = [
        subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    said = [process.communicate(timeout=100) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert said[0][0] == said[1][0] != b""
    errors = sorted(stderr.decode() for _, stderr in said)
    assert sum("making" in text for text in errors) == 1
    assert sum("up to date" in text for text in errors) == 1


def test_a_directory_of_somebody_else_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "clean").mkdir()
    (tmp_path / "clean" / "thesis.txt").touch()
    with pytest.raises(TmtError, match="clean: exists and was not written by tmt; name a folder"):
        prepare(tmp_path, some_pairs(30), DEV, TEST)
    assert (tmp_path / "clean" / "thesis.txt").exists()


def test_read_clean_mistakes(tmp_path: Path) -> None:
    prepare(tmp_path, some_pairs(30), DEV, TEST)
    with pytest.raises(DataError, match=r"test\.nws\.src: no such file; near names in .*news\.src"):
        read_clean(tmp_path / "clean", "test.nws")
    (tmp_path / "clean" / "dev.src").write_text("one\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"dev\.src has 1 lines but dev\.tgt has 5: delete the dir"):
        read_clean(tmp_path / "clean", "dev")


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
    assert any("rule_error" in line and "1 dropped" in line for line in report.summary())


def test_a_rule_that_fails_on_all_pairs_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "urls_apart", lambda src, tgt: 1 // 0)
    cfg = config(tmp_path, train=[write_pairs(tmp_path, "train", some_pairs(30))])
    with pytest.raises(DataError, match=r"rule_error 30; 30 of 30 pairs .* ZeroDivisionError in"):
        run_cleaning(cfg, tmp_path / "clean")


def test_what_dropped_all_pairs_is_told_before_any_is_held_out(tmp_path: Path) -> None:
    cfg = config(tmp_path, train=[write_pairs(tmp_path, "train", [("", "")] * 30)])
    with pytest.raises(DataError, match="train: no pair is left of 30 read; dropped: empty 30"):
        run_cleaning(cfg, tmp_path / "clean")
