"""Cleaning: what goes, what stays, what is held out, and that it is written as a whole."""

import json
import random
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from transformer_mt.config import Config, Languages, build_config
from transformer_mt.data import clean
from transformer_mt.data.check import check_files
from transformer_mt.data.clean import prepare_corpus, read_clean
from transformer_mt.data.corpus import Pair
from transformer_mt.data.report import CorpusReport
from transformer_mt.data.rules import comparison_key, normalise, reason_to_drop
from transformer_mt.errors import DataError

SHARED_DATA = Path(__file__).parents[2] / ".." / "shared" / "data"
ZH_EN = Languages(src="zh", tgt="en")
HAN = "天地人你我他山水火木金土日月上下左右大小多少来去开关东西南北"


def some_pairs(n: int, seed: int = 0) -> list[Pair]:
    """Distinct pairs whose lengths fit, with no side in common."""
    rng = random.Random(seed)
    pairs = []
    for i in range(n):
        size = rng.randrange(4, 40)
        src = f"{seed}号{i}" + "".join(rng.choices(HAN, k=size))
        pairs.append((src, (f"no {seed} {i} " + "abc " * size).strip()))
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
    report = prepare_corpus(cfg, root / "clean")
    return report, list(zip(*read_clean(root / "clean", "train"), strict=True))


DEV, TEST = some_pairs(5, seed=7), some_pairs(5, seed=8)


@pytest.mark.parametrize(
    ("text", "expected", "why"),
    [
        ("  a \t b\u3000\u00a0c ", "a b c", "white space of all kinds"),
        ("a\u2028b\u0085c\x0bd\x0ce\nf\x1cg", "a b c d e f g", "one sentence is one line"),
        ("\ufeffa\u200bb\x00c\u00add\x7f\u200e", "abcd", "invisible characters"),
        ("e\u0301", "é", "NFC"),
        ("e\u200b\u0301", "é", "NFC after removal"),
        ("“你好”，ＡＢＣ！？（１）：", "“你好”，ＡＢＣ！？（１）：", "full width stays"),
        ("می\u200cخواهم 👩\u200d👧", "می\u200cخواهم 👩\u200d👧", "joiners are spelling"),
        ("\ud800x", "x", "half a character"),
        (" \u3000\u200b ", "", "nothing visible"),
    ],
)
def test_normalise(text: str, expected: str, why: str) -> None:
    assert normalise(text) == expected, why


def test_normalise_twice_is_once() -> None:
    rng = random.Random(1)
    pool = [chr(code) for code in range(0x3100) if unicodedata.category(chr(code)) != "Cn"]
    for _ in range(300):
        text = normalise("".join(rng.choices(pool, k=30)))
        assert normalise(text) == text
        assert unicodedata.is_normalized("NFC", text)
        assert "\n" not in text
        text.encode()  # can be written


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("Hello, World!", "hello world", True),
        ("他走了。", "他 走 了", True),
        ("Ｐｙｔｈｏｎ３", "python3", True),
        ("Straße", "STRASSE", True),
        ("C", "C++", False),
        ("...", "?!", False),
        ("किताब", "कताब", False),
        ("1.5", "2.5", False),
    ],
)
def test_comparison_key(one: str, other: str, equal: bool) -> None:
    assert (comparison_key(one) == comparison_key(other)) is equal


@pytest.mark.parametrize(
    ("src", "tgt", "reason"),
    [
        ("", "a", "empty"),
        ("好", "", "empty"),
        ("", "", "empty"),
        ("好" * 2001, "a", "too_long"),
        ("好" * 2000, "a" * 2000, None),
        ("kubectl get pods --all-namespaces --watch -o wide", "kubectl get pods "
         "--all-namespaces --watch -o wide", "identical"),
        ("Kubernetes", "Kubernetes", None),
        ("1 + 1 = 2; " * 9, "1 + 1 = 2; " * 9, None),
        ("@@", "Young girls weave corn stalks into elaborate designs.", "no_words"),
        ("！？", "?!", None),
        ("！", "What!", None),
        ("100%", "one hundred per cent of the people in the room", None),
    ],
)  # fmt: skip
def test_reason_to_drop(src: str, tgt: str, reason: str | None) -> None:
    assert reason_to_drop(src, tgt) == reason


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
        "report.json",
    }  # fmt: skip


def test_every_drop_is_counted_with_its_line(tmp_path: Path) -> None:
    good = some_pairs(50)
    long_src, long_tgt = "长" * 40, "word " * 200
    bad = {
        "empty": ("", "nothing on the other side"),
        "too_long": ("好" * 2001, "good"),
        "duplicate": (good[3][0] + "\u200b ", good[3][1]),
        "overlap": (DEV[0][0], "another translation"),
        "length_ratio": (long_src, long_tgt + long_tgt),
    }
    report, left = prepare(tmp_path, [*good, *bad.values(), good[0]], DEV, TEST)
    part = report.parts["train"]
    assert left == good
    assert part.dropped == {rule: 1 + (rule == "duplicate") for rule in bad}
    for number, (rule, pair) in enumerate(bad.items(), len(good) + 1):
        sample = part.samples[rule][0]
        assert sample.where == f"train:{number}"
        assert sample.src == normalise(pair[0])[:200]
    assert part.read == part.kept + sum(part.dropped.values()) == 56


def test_ten_samples_at_most(tmp_path: Path) -> None:
    report, _ = prepare(tmp_path, [*some_pairs(20), *[("", "x")] * 30], DEV, TEST)
    assert report.parts["train"].dropped == {"empty": 30}
    lines = [sample.where for sample in report.parts["train"].samples["empty"]]
    assert lines == [f"train:{number}" for number in range(21, 31)]


def test_same_source_with_another_target_is_no_duplicate(tmp_path: Path) -> None:
    train = [*some_pairs(20), ("你好", "Hi"), ("你好", "Hello"), ("您好", "Hello")]
    _, left = prepare(tmp_path, train, DEV, TEST)
    assert left == train


def test_switches(tmp_path: Path) -> None:
    train = [*some_pairs(20), some_pairs(20)[4], (TEST[1][0], "seen in test")]
    report, left = prepare(
        tmp_path, train, DEV, TEST, remove_duplicates=False, remove_overlap=False
    )
    assert left == train
    assert report.notes == [
        "train: 1 pairs share a side with dev or test and stay (data.remove_overlap is false): "
        "scores will look better than they are"
    ]


@pytest.mark.parametrize(
    ("src", "tgt", "gone"),
    [
        ("这是测试。", "new", True),
        ("这 是测试！", "new", True),
        ("新", "This is a test.", True),
        ("新", "THIS is, a test", True),
        ("新", "This is a test too.", False),
        ("This is a test.", "这是测试。", False),
    ],
)
@pytest.mark.parametrize("part", ["dev", "test"])
def test_overlap_on_either_side(tmp_path: Path, src: str, tgt: str, gone: bool, part: str) -> None:
    pair = ("这是测试。", "This is a test.")
    dev, test = ([*DEV, pair], TEST) if part == "dev" else (DEV, [*TEST, pair])
    report, left = prepare(tmp_path, [*some_pairs(20), (src, tgt)], dev, test)
    assert ((src, tgt) not in left) is gone
    assert report.parts["train"].dropped == ({"overlap": 1} if gone else {})


def test_dev_is_normalised_and_test_stays_raw(tmp_path: Path) -> None:
    odd = [(" e\u0301\u2028好  ", "a\tb "), ("", "empty source"), *DEV]
    raw = b"\xef\xbb\xbf" + "".join(f"{src}\r\n" for src, _ in odd).encode()
    write_pairs(tmp_path, "dev", odd)
    write_pairs(tmp_path, "test", odd)
    (tmp_path / "test.zh").write_bytes(raw)
    train = write_pairs(tmp_path, "train", some_pairs(20))
    cfg = config(tmp_path, train=[train], dev=["dev"], test={"a": "test"})
    report = prepare_corpus(cfg, tmp_path / "clean")
    dev_src, dev_tgt = read_clean(tmp_path / "clean", "dev")
    assert (dev_src[0], dev_tgt[0]) == ("é 好", "a b")
    assert list(zip(*read_clean(tmp_path / "clean", "test.a"), strict=True)) == odd
    assert report.parts["dev"].kept == report.parts["test.a"].kept == len(odd)
    assert report.notes == [
        "dev: 1 of 7 pairs have an empty side and stay",
        "test.a: 1 of 7 pairs have an empty side and stay",
        "dev: 7 pairs share a side with test and stay",
    ]


def test_line_ends_inside_a_test_sentence_cannot_shift_the_others(tmp_path: Path) -> None:
    rows = [{"zh": "一\n二\r\n三", "en": "a\nb"}, {"zh": "四\r", "en": "c"}]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    train, dev = write_pairs(tmp_path, "train", some_pairs(20)), write_pairs(tmp_path, "dev", DEV)
    cfg = config(tmp_path, train=[train], dev=[dev], test={"t": {"jsonl": "t.jsonl"}})
    prepare_corpus(cfg, tmp_path / "clean")
    assert read_clean(tmp_path / "clean", "test.t") == (["一 二 三", "四"], ["a b", "c"])


def test_several_sources_are_joined(tmp_path: Path) -> None:
    pairs = some_pairs(60)
    names = [write_pairs(tmp_path, f"t{i}", pairs[i * 20 : i * 20 + 20]) for i in range(3)]
    names.append(write_pairs(tmp_path, "again", pairs[10:12]))
    dev, test = write_pairs(tmp_path, "dev", DEV), write_pairs(tmp_path, "test", TEST)
    cfg = config(tmp_path, train=names, dev=[dev, dev], test={"b": test, "a": test})
    report = prepare_corpus(cfg, tmp_path / "clean")
    assert list(zip(*read_clean(tmp_path / "clean", "train"), strict=True)) == pairs
    samples = report.parts["train"].samples["duplicate"]
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
    if "dev" in given:
        keys["dev"] = [write_pairs(tmp_path, "dev", DEV)]
    if "test" in given:
        keys["test"] = {"news": write_pairs(tmp_path, "test", TEST)}
    report = prepare_corpus(config(tmp_path, **keys), tmp_path / "clean")
    assert report.held_out == expected
    assert report.parts["train"].kept == n - sum(expected.values())
    assert clean.test_names(tmp_path / "clean") == ["news" if "test" in given else "held_out"]
    for role, size in expected.items():
        part = "dev" if role == "dev" else "test.held_out"
        assert len(read_clean(tmp_path / "clean", part)[0]) == size
        assert report.parts[part].kept == size


def held_out_pairs(tmp_path: Path, train: list[Pair], seed: int) -> dict[str, list[Pair]]:
    cfg = config(tmp_path, seed, train=[write_pairs(tmp_path, "train", train)])
    prepare_corpus(cfg, tmp_path / "clean")
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
        prepare_corpus(config(tmp_path, **keys), tmp_path / "clean")
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
    held_out = prepare_corpus(config(tmp_path, train=[write_pairs(tmp_path, "b", some_pairs(100))]),
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

    for broken, expected in ((disk_full, DataError), (interrupted, KeyboardInterrupt)):
        monkeypatch.setattr(clean, "_part_reports", broken)
        with pytest.raises(expected) as caught:
            prepare(tmp_path, some_pairs(40, seed=3), DEV, TEST)
        after = {path.name: path.read_bytes() for path in (tmp_path / "clean").iterdir()}
        assert after == before
        assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["clean"]
        if expected is DataError:
            assert str(caught.value).endswith("clean: cannot be written: No space left on device")
    monkeypatch.undo()
    _, left = prepare(tmp_path, some_pairs(40, seed=3), DEV, TEST)
    assert left == some_pairs(40, seed=3)


def test_a_leftover_of_a_killed_run_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "clean.tmp").mkdir()
    (tmp_path / "clean.tmp" / "train.src").write_text("half", encoding="utf-8")
    prepare(tmp_path, some_pairs(30), DEV, TEST)
    assert not (tmp_path / "clean.tmp").exists()


def test_a_directory_of_somebody_else_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "clean").mkdir()
    (tmp_path / "clean" / "thesis.txt").touch()
    with pytest.raises(DataError, match="clean: exists and was not written by tmt; name a dir"):
        prepare(tmp_path, some_pairs(30), DEV, TEST)
    assert (tmp_path / "clean" / "thesis.txt").exists()


def test_read_clean_mistakes(tmp_path: Path) -> None:
    prepare(tmp_path, some_pairs(30), DEV, TEST)
    with pytest.raises(DataError, match=r"test\.nws\.src: no such file; near names in .*news\.src"):
        read_clean(tmp_path / "clean", "test.nws")
    (tmp_path / "clean" / "dev.src").write_text("one\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"dev\.src has 1 lines but dev\.tgt has 5: delete the dir"):
        read_clean(tmp_path / "clean", "dev")


def check(root: Path, pairs: list[Pair], languages: Languages = ZH_EN) -> CorpusReport:
    write_pairs(root, "c", pairs)
    return check_files(root / "c.zh", root / "c.en", languages)


def test_check_counts_without_writing(tmp_path: Path) -> None:
    pairs = [*some_pairs(300), ("", "x"), some_pairs(1)[0]]
    report = check(tmp_path, pairs)
    assert report.parts["pairs"].read == 302
    assert report.parts["pairs"].kept == 300
    assert report.parts["pairs"].dropped == {"empty": 1, "duplicate": 1}
    assert report.parts["pairs"].samples["duplicate"][0].where.endswith("c.en:302")
    assert report.problems == []
    assert [note.split(" characters per line")[0][:4] for note in report.notes] == ["zh: ", "en: "]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.en", "c.zh"]


def test_check_finds_swapped_sides(tmp_path: Path) -> None:
    swapped = [(tgt, src) for src, tgt in some_pairs(50)]
    (problem,) = check(tmp_path, swapped).problems
    assert "only 0% of the letters on the zh side are Chinese, " in problem
    assert problem.endswith("on the en side: they look swapped")
    english = [(tgt, tgt + " too") for _, tgt in some_pairs(50)]
    (problem,) = check(tmp_path, english).problems
    assert problem.endswith("only 0% of the letters on the zh side are Chinese")
    assert check(tmp_path, english, Languages(src="de", tgt="en")).problems == []


def test_check_finds_lines_shifted_in_files_of_equal_length(tmp_path: Path) -> None:
    pairs = some_pairs(1000)
    src, tgt = [src for src, _ in pairs], [tgt for _, tgt in pairs]
    del src[432]
    src.insert(780, "多出来的一行")
    (problem,) = check(tmp_path, list(zip(src, tgt, strict=True))).problems
    assert "lines 401-500 (and 3 more blocks of 100 lines) fit better one line apart" in problem


def test_check_reports_what_it_cannot_read_to_the_end(tmp_path: Path) -> None:
    write_pairs(tmp_path, "c", some_pairs(100))
    with (tmp_path / "c.en").open("ab") as file:
        file.write(b"one more\n")
    report = check_files(tmp_path / "c.zh", tmp_path / "c.en", ZH_EN)
    assert f"c.zh has 100 lines but {tmp_path}/c.en has 101" in report.problems[0]
    assert report.parts["pairs"].kept == 100
    assert "problem: " in report.summary()[-1]
    with pytest.raises(DataError, match=r"c\.de: no such file"):
        check_files(tmp_path / "c.zh", tmp_path / "c.de", ZH_EN)


@pytest.mark.skipif(not SHARED_DATA.is_dir(), reason=f"no real corpora in {SHARED_DATA}")
@pytest.mark.parametrize(
    ("corpus", "codes"),
    [("tatoeba-zh-en", "zh en"), ("k8s-docs-zh-en", "zh en"), ("multi30k", "de en")],
)
def test_good_pairs_of_real_corpora_stay(corpus: str, codes: str) -> None:
    src, tgt = codes.split()
    directory = SHARED_DATA / corpus
    languages = Languages(src=src, tgt=tgt)
    report = check_files(directory / f"train.{src}", directory / f"train.{tgt}", languages)
    part = report.parts["pairs"]
    assert part.read > 20_000
    assert part.read - part.kept <= 5  # multi30k: three duplicates and two lines of "@@"
    assert report.problems == []
