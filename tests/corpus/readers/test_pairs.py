"""Reading aligned text: every form gives the same pairs, every mistake a message that helps."""

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest
from places import ROOT

from transformer_mt.config.data import Languages, Source
from transformer_mt.corpus.readers import pairs as corpus
from transformer_mt.corpus.readers.pairs import read_pairs
from transformer_mt.errors import DataError

ZH_EN = Languages(src="zh", tgt="en")
PAIRS = [("你好！", "Hello!"), ("他走了。", "He left."), ("「好」", 'A "quoted" one')]
SWAPPED = [(tgt, src) for src, tgt in PAIRS]
SHARED_DATA = ROOT.parent / "shared" / "data"


def read(root: Path, **source: Any) -> list[tuple[str, str]]:
    return list(read_pairs(Source(**source), ZH_EN, root=root, role="train"))


def refusal(root: Path, **source: Any) -> str:
    with pytest.raises(DataError) as caught:
        read(root, **source)
    return str(caught.value)


def write_sides(root: Path, pairs: list[tuple[str, str]], zh: str, en: str) -> None:
    for name, side in ((zh, 0), (en, 1)):
        text = "".join(pair[side] + "\n" for pair in pairs)
        data = text.encode()
        (root / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)


def jsonl(root: Path, rows: list[Any], name: str = "t.jsonl") -> None:
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (root / name).write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("zh", "en"),
    [
        ("t.zh", "t.en"),
        ("t.zh.gz", "t.en"),
        ("t.zh-CN", "t.eng.gz"),
        ("t.cmn", "t.en_US"),
        ("t.zho_Hans", "t.eng_Latn"),
    ],
)
def test_prefix_finds_any_spelling(tmp_path: Path, zh: str, en: str) -> None:
    write_sides(tmp_path, PAIRS, zh, en)
    (tmp_path / "t.en-zh.tmx").touch()
    (tmp_path / "t.txt").touch()
    assert read(tmp_path, path="t") == PAIRS
    assert read(tmp_path, files=[zh, en]) == PAIRS
    assert read(Path("/nowhere"), path=str(tmp_path / "t")) == PAIRS  # absolute paths
    found = corpus.source_files(Source(path="t"), ZH_EN, tmp_path)
    assert found == [tmp_path / zh, tmp_path / en]


def test_prefix_prefers_the_canonical_and_the_plain_file(tmp_path: Path) -> None:
    write_sides(tmp_path, PAIRS, "t.zh", "t.en")
    write_sides(tmp_path, PAIRS[:1], "t.zh-CN", "t.en.gz")
    assert read(tmp_path, path="t") == PAIRS


def test_prefix_with_a_dot(tmp_path: Path) -> None:
    write_sides(tmp_path, PAIRS, "Tatoeba.en-zh.zh", "Tatoeba.en-zh.en")
    assert read(tmp_path, path="Tatoeba.en-zh") == PAIRS


def test_missing_files(tmp_path: Path) -> None:
    write_sides(tmp_path, PAIRS, "train.zh-TW", "train.de")
    lines = refusal(tmp_path, path="train").split("\n")
    assert len(lines) == 2  # both sides at once
    assert lines[0] == (
        f"{tmp_path}/train: no zh side: looked for train.zh, train.zh.gz and other spellings of "
        f"zh; near names in {tmp_path}: train.zh-TW, train.de"
    )
    assert "no en side: looked for train.en" in lines[1]
    assert f"{tmp_path}/train.xx: no such file; near names in {tmp_path}: train.de" in refusal(
        tmp_path, files=["train.xx", "train.de"]
    )
    assert refusal(tmp_path, tsv="no/t.tsv") == (
        f"{tmp_path}/no/t.tsv: no such file; the directory {tmp_path}/no does not exist "
        f"(relative paths start from data.root, here {tmp_path})"
    )
    (tmp_path / "empty").mkdir()
    assert "none, it is empty" in refusal(tmp_path, path="empty/t")


def test_a_file_of_no_known_form(tmp_path: Path) -> None:
    write_sides(tmp_path, PAIRS, "t.zh", "u.txt")
    message = refusal(tmp_path, path="u.txt")
    assert f"{tmp_path}/u.txt: is one file, of no form that is known by its ending (.tsv" in message
    assert "a prefix stands for u.txt.zh and its other side" in message
    assert "write {tsv: u.txt} or {jsonl: u.txt}" in message


def test_what_the_kind_says_goes_before_the_ending(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("好\tgood\n", encoding="utf-8")
    (tmp_path / "b.json").write_text('{"zh": "好", "en": "good"}\n', encoding="utf-8")
    assert read(tmp_path, tsv="a.txt") == read(tmp_path, jsonl="b.json") == [("好", "good")]


def test_direction_says_which_file_is_which(tmp_path: Path) -> None:
    write_sides(tmp_path, PAIRS, "a", "b")
    back = ZH_EN.reversed()
    for source, languages, files, pairs in (
        (Source(files=["a", "b"]), ZH_EN, ["a", "b"], PAIRS),
        (Source(files=["a", "b"], direction="zh-en"), ZH_EN, ["a", "b"], PAIRS),
        (Source(files=["b", "a"], direction="en-zh"), ZH_EN, ["a", "b"], PAIRS),
        (Source(files=["a", "b"], direction="zh-en"), back, ["b", "a"], SWAPPED),
    ):
        found = corpus.source_files(source, languages, tmp_path)
        assert [path.name for path in found] == files
        assert list(read_pairs(source, languages, root=tmp_path, role="train")) == pairs
    assert refusal(tmp_path, files=["a", "b"], direction="de-en") == (
        "a + b: direction is de-en, but languages are zh → en; write zh-en or en-zh"
    )


@pytest.mark.parametrize("limit", [1, 2, 3, 99])
def test_limit_cuts_the_stream(tmp_path: Path, limit: int) -> None:
    write_sides(tmp_path, PAIRS, "t.zh", "t.en")
    write_sides(tmp_path, PAIRS, "u.zh", "u.en")
    (tmp_path / "z.tsv").write_text("broken", encoding="utf-8")
    assert read(tmp_path, path="t", limit=limit) == PAIRS[:limit]
    if limit <= 6:
        assert read(tmp_path, path=".", limit=limit) == (PAIRS + PAIRS)[:limit]  # and no further
    first = list(read_pairs(Source(demo=True, limit=limit), ZH_EN, root=tmp_path, role="train"))
    assert len(first) == limit


def test_named_corpora_must_be_brought_here_first(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"opus:Books: .* kind opus must be made local first"):
        corpus.source_files(Source(opus="Books"), ZH_EN, tmp_path)


@pytest.mark.parametrize("name", ["tatoeba-zh-en", "multi30k"])
def test_real_corpora_are_read_as_they_are(name: str) -> None:
    folder = SHARED_DATA / name
    if not folder.is_dir():
        pytest.skip(f"{folder} is not here")
    codes = ("zh", "en") if "zh" in name else ("de", "en")
    pairs = read_pairs(
        Source(path="train"), Languages(src=codes[0], tgt=codes[1]), root=folder, role="train"
    )
    texts = [(folder / f"train.{code}").read_bytes().decode().split("\n")[:-1] for code in codes]
    assert list(pairs) == list(zip(*texts, strict=True))


def test_unequal_counts_name_a_line_near_the_missing_one(tmp_path: Path) -> None:
    words = random.Random(3)
    pairs = [("字" * n, "w " * n) for n in (words.randrange(3, 60) for _ in range(500))]
    write_sides(tmp_path, pairs, "dev.zh", "dev.en")
    english = (tmp_path / "dev.en").read_text().split("\n")
    for missing in (1, 260, 500):
        text = "\n".join(english[: missing - 1] + english[missing:])
        (tmp_path / "dev.en").write_text(text, encoding="utf-8")
        for order, found in (
            (("dev.zh", "dev.en"), "{0}/dev.zh has 500 lines but {0}/dev.en has 499"),
            (("dev.en", "dev.zh"), "{0}/dev.en has 499 lines but {0}/dev.zh has 500"),
        ):
            message = refusal(tmp_path, files=list(order))
            start, suspect = message.split("; first suspect line ")
            assert start == f"{found.format(tmp_path)}: the files must be line-aligned"
            assert abs(int(suspect) - missing) <= 3


def test_pairs_before_a_misalignment_are_streamed(tmp_path: Path) -> None:
    (tmp_path / "t.zh").write_text("一\n二\n", encoding="utf-8")
    (tmp_path / "t.en").write_text("one\n", encoding="utf-8")
    pairs = read_pairs(Source(path="t"), ZH_EN, root=tmp_path, role="train")
    assert next(pairs) == ("一", "one")
    with pytest.raises(DataError, match=r"t\.zh has 2 lines but .*t\.en has 1"):
        next(pairs)


@pytest.fixture
def hf_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hf-cache")


@pytest.mark.usefixtures("hf_cache")
@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_local_dataset_folder(tmp_path: Path, form: str) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    if form == "jsonl":
        rows = [{"translation": {"zh-CN": zh, "en": en}} for zh, en in PAIRS]
        jsonl(folder, rows, "train.jsonl")
        jsonl(folder, rows[:1], "validation.jsonl")
    else:
        import datasets

        for name, pairs in (("train", PAIRS), ("validation", PAIRS[:1])):
            columns = {"zho": [zh for zh, _ in pairs], "eng": [en for _, en in pairs]}
            datasets.Dataset.from_dict(columns).to_parquet(folder / f"{name}.parquet")
    source = Source(hf="set")
    assert list(read_pairs(source, ZH_EN, root=tmp_path, role="train")) == PAIRS
    assert list(read_pairs(source, ZH_EN, root=tmp_path, role="dev")) == PAIRS[:1]
    named = Source(hf="set", split="validation")
    assert list(read_pairs(named, ZH_EN, root=tmp_path, role="train")) == PAIRS[:1]
    assert len(corpus.source_files(source, ZH_EN, tmp_path)) == 2
    message = refusal(tmp_path, hf="set", split="nope")
    assert "hf:set/nope: cannot load the split 'nope'" in message


@pytest.mark.usefixtures("hf_cache")
def test_dataset_rows_without_the_languages(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    jsonl(tmp_path / "set", [{"text": "a", "label": 1}], "train.jsonl")
    assert "hf:set: row 1: found the keys text, label; expected" in refusal(tmp_path, hf="set")
    message = refusal(tmp_path, hf="set/train.jsonl")
    assert message.endswith("hf takes a dataset name or a folder; for a file write its path alone")


@pytest.mark.parametrize(
    "role",
    ["train", "test"],
)
def test_dataset_out_of_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, role: corpus.Role
) -> None:
    datasets = pytest.importorskip("datasets")

    def unreachable(*_: object, **__: object) -> None:
        raise ConnectionError("Couldn't reach the Hub\n(offline)")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    source = Source(hf="some/set", config="en-zh")
    with pytest.raises(DataError) as caught:
        list(read_pairs(source, ZH_EN, root=tmp_path, role=role))
    assert str(caught.value).split("\n") == [
        f"hf:some/set/en-zh: cannot load the split {role!r}: ConnectionError: Couldn't reach the "
        f"Hub (offline) (and there is no folder {tmp_path}/some/set)",
        "Files of your own work without network. These settings read my/text.zh and my/text.en "
        "under data.root, and hold dev and test out of them:",
        "  --set 'data.train=[my/text]' --set 'data.dev=[]' --set 'data.test={}'",
        "Other names: --set 'data.train=[{files: [my/source.txt, my/target.txt]}]'",
    ]
    assert isinstance(caught.value.__cause__.__cause__, ConnectionError)
    assert corpus.source_files(source, ZH_EN, tmp_path) == []


def test_bundled_corpus_in_both_directions(tmp_path: Path) -> None:
    source = Source(demo=True)
    assert corpus.source_files(source, ZH_EN, tmp_path) == []
    for role in ("train", "dev", "test"):
        pairs = list(read_pairs(source, ZH_EN, root=tmp_path, role=role))
        back = Languages(src="en", tgt="zh")
        swapped = read_pairs(source, back, root=tmp_path, role=role)
        assert [(zh, en) for en, zh in swapped] == pairs
        assert len(pairs) > 10
        assert all(en.isascii() and not zh.isascii() for zh, en in pairs)
    german = Languages(src="de", tgt="en")
    with pytest.raises(DataError, match="demo: the bundled corpus is zh-en; languages are de → en"):
        next(read_pairs(source, german, root=tmp_path, role="train"))
