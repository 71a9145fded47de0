"""From a user's own files to a configuration: languages, sizes, a schedule that ends."""

from dataclasses import replace
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from command import tmt_here
from timed_by_size import time_by_size

from transformer_mt.config.data import Languages
from transformer_mt.config.experiment import DecodeConfig, load_config
from transformer_mt.config.recipes import Budget, starting_point
from transformer_mt.corpus.readers.demo import build_demo
from transformer_mt.errors import ConfigError, DataError
from transformer_mt.profiling import quick_start, timed_start
from transformer_mt.profiling.quick_start import (
    Counts,
    check_is_of,
    follows,
    make_start,
    read_own_text,
)
from transformer_mt.rendering.progress import ShownStages

PAIRS = build_demo().train[:300]


def write(path: Path, side: int) -> Path:
    path.write_text("".join(f"{pair[side]}\n" for pair in PAIRS), encoding="utf-8")
    return path


def test_two_files_by_their_endings(tmp_path: Path) -> None:
    own = read_own_text([write(tmp_path / "my.zh", 0), write(tmp_path / "my.en", 1)])
    assert (own.name, own.languages.pair, own.counts.pairs) == ("my", "zh-en", 300)
    assert own.note.endswith("Chinese → English, sentence pairs: 300")
    assert own.counts.characters[0] > 2 * own.counts.characters[1] > 40


def test_two_files_by_their_text(tmp_path: Path) -> None:
    own = read_own_text([write(tmp_path / "english.txt", 1), write(tmp_path / "other.txt", 0)])
    assert (own.name, own.languages.pair) == ("english", "en-zh")


def test_few_pairs_have_pieces_for_the_words_of_both_languages(tmp_path: Path) -> None:
    """700 words three times, 100 twice, in each of two languages that share a vocabulary."""
    lines = [f"The brown{i % 800:03} dog is here" for i in range(2300)]
    translations = [f"Der braune{i % 800:03} Hund ist hier" for i in range(2300)]
    files = tmp_path / "my.en", tmp_path / "my.de"
    for path, texts in zip(files, (lines, translations), strict=True):
        path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    own = read_own_text(files)
    assert own.counts.words == (704, 704)
    start = tmp_path / "start.yaml"
    start.write_text(make_start(own, minutes=None, processes=1), encoding="utf-8")
    assert load_config(start).tokenizer.vocab_size == 1408


@pytest.mark.parametrize(
    ("n_pairs", "sizes", "longer"), [(5_000, [4_300, 1_200], True), (50_000, 7_000, False)]
)
def test_few_pairs_are_translated_by_characters_and_at_length(
    n_pairs: int, sizes: int | list[int], longer: bool
) -> None:
    """Chinese has pieces for its characters and the 256 bytes, and hardly any of several."""
    usual = DecodeConfig().length_penalty
    advice = starting_point(
        n_pairs, 10 * n_pairs, characters=(4_000, 60), words=(0, 500), device="cpu",
        languages=Languages(src="zh", tgt="en"), budget=Budget(10, 3e6),
    )  # fmt: skip
    found = {a.key: a.value for a in advice}
    assert found["tokenizer.vocab_size"] == sizes
    assert (found.get("decode.length_penalty", usual) > usual) is longer


def test_lines_that_carriage_returns_end_are_not_one_pair(tmp_path: Path) -> None:
    files = tmp_path / "my.zh", tmp_path / "my.en"
    for path, texts in zip(files, zip(*PAIRS[:9], strict=True), strict=True):
        path.write_bytes("\r".join(texts).encode())
    with pytest.raises(DataError, match=r"holds 8 carriage returns \(CR\), more than it has lines"):
        read_own_text(files)


def test_a_name_with_a_colon_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "opus:2024.tsv"
    path.write_text("".join(f"{en}\t{zh}\n" for zh, en in PAIRS), encoding="utf-8")
    own = read_own_text([path])
    assert own.source == {"path": str(path)} and own.counts.pairs == 300


@pytest.mark.parametrize("name", ["Export, 2024", "data[1]", "中文，英文", "中、英", "“上”，a：b"])
def test_configurations_take_the_names_that_files_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    start = Path("start.yaml")
    for names in ([f"{name}.tsv"], [f"{name}.zh", f"{name}.en"]):
        columns = ["\t".join(pair) for pair in PAIRS], *zip(*PAIRS, strict=True)
        for file, lines in zip(names, columns[len(names) - 1 :], strict=False):
            Path(file).write_text("\n".join(lines) + "\n", encoding="utf-8")
        own = read_own_text([Path(file) for file in names])
        start.write_text(make_start(own, minutes=None, processes=1), encoding="utf-8")
        cfg = check_is_of(own, start)
        start.write_text(cfg.to_yaml(), encoding="utf-8")
        assert check_is_of(own, start) == cfg


def test_a_table_with_and_without_a_header(tmp_path: Path) -> None:
    rows = "".join(f"{en}\t{zh}\n" for zh, en in PAIRS)
    for header, expected in (("", 300), ("English\tChinese\n", 300)):
        path = tmp_path / "lines.tsv"
        path.write_text(header + rows, encoding="utf-8")
        own = read_own_text([path])
        assert (own.languages.pair, own.counts.pairs, own.source) == ("en-zh", expected, str(path))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["my.en", "my.zh"], "the sides look swapped: what is called en is Chinese"),
        (["a.txt", "b.txt"], "both sides are English; name them: .*Chinese, English"),
    ],
)
def test_languages_that_are_wrong_or_not_clear(
    tmp_path: Path, names: list[str], message: str
) -> None:
    side = 0 if names[0] == "my.en" else 1
    with pytest.raises(DataError, match=message):
        read_own_text([write(tmp_path / names[0], side), write(tmp_path / names[1], 1)])


def write_memory(path: Path, *languages: str) -> Path:
    """A TMX whose units have the first pair's sides in turn."""
    units = (
        "<tu>"
        + "".join(
            f'<tuv xml:lang="{code}"><seg>{escape(pair[i % 2])}</seg></tuv>'
            for i, code in enumerate(languages)
        )
        + "</tu>"
        for pair in PAIRS
    )
    path.write_text(f'<tmx version="1.4"><body>{"".join(units)}</body></tmx>', encoding="utf-8")
    return path


def test_a_translation_memory(tmp_path: Path) -> None:
    path = write_memory(tmp_path / "memory.tmx", "zh-CN", "en-US")
    own = read_own_text([path])
    assert (own.languages.pair, own.counts.pairs, own.source) == ("zh-en", 300, str(path))
    assert own.note == f"{path}: Chinese → English, sentence pairs: 300"
    start = tmp_path / "start.yaml"
    start.write_text(make_start(own, minutes=None, processes=1), encoding="utf-8")
    check_is_of(own, start)


@pytest.mark.parametrize(
    ("languages", "message"),
    [
        (["zh-CN", "en-US", "zh-TW"], "its texts are in zh, en, zh-Hant; name two of these"),
        (["en-US", "en-GB"], "the languages cannot be told"),
        ([], "the languages cannot be told"),
    ],
)
def test_a_memory_of_other_than_two_languages(
    tmp_path: Path, languages: list[str], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        read_own_text([write_memory(tmp_path / "memory.tmx", *languages)])


def test_a_file_of_both_sides_stands_alone(tmp_path: Path) -> None:
    for names in (("my.xlsx", "my.en"), ("my.zh", "my.csv"), ("a.tsv", "b.tsv"), ("a.tmx", "b.en")):
        with pytest.raises(ConfigError, match="holds both sides; give it alone"):
            read_own_text([tmp_path / name for name in names])


def test_neither_two_files_nor_a_table(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="two text files, or one with both sides"):
        read_own_text([tmp_path / "a", tmp_path / "b", tmp_path / "c"])


@pytest.mark.parametrize("minutes", [None, 3.0])
@pytest.mark.parametrize("seconds", [0.01, 20.0])
def test_the_settings_are_a_configuration_whose_warm_up_ends(
    tmp_path: Path, minutes: float | None, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On fast machines and on slow ones, where three minutes are ten updates."""
    monkeypatch.setattr(
        quick_start,
        "measure_budget",
        lambda cfg, minutes, *_: Budget(minutes, 60 * minutes * 1_500 / seconds),
    )
    own = read_own_text([write(tmp_path / "my.zh", 0), write(tmp_path / "my.en", 1)])
    text = make_start(own, minutes=minutes, processes=1)
    assert all(len(line) <= 120 for line in text.partition("\ntokenizer:")[2].splitlines())
    path = tmp_path / "my.yaml"
    path.write_text(text, encoding="utf-8")
    cfg = load_config(path)
    assert cfg.languages == own.languages
    assert cfg.tokenizer.vocab_sizes[0] > own.counts.characters[0] + 260
    assert (cfg.train.cooldown_updates, cfg.train.patience) == ("auto", None)
    assert cfg.train.max_minutes == minutes
    updates = cfg.train.max_updates
    if minutes is not None:
        updates = 60 * minutes * 1_500 / seconds / cfg.train.tokens_per_update
    assert cfg.train.warmup_updates <= updates / 5
    assert cfg.train.validate_every <= max(1, updates / 7)


@pytest.mark.parametrize(
    ("stem", "name"), [("语料", "my"), ("my corpus", "my-corpus"), (".x", "my"), ("-a-", "a")]
)
def test_the_run_has_a_name_that_configurations_take(tmp_path: Path, stem: str, name: str) -> None:
    own = read_own_text([write(tmp_path / f"{stem}.zh", 0), write(tmp_path / f"{stem}.en", 1)])
    assert own.name == name
    path = tmp_path / "start.yaml"
    path.write_text(make_start(own, minutes=None, processes=1), encoding="utf-8")
    assert load_config(path).name == name


def test_both_directions_are_no_more_text(tmp_path: Path) -> None:
    """6,000 pairs are few, whether they are read one way or both."""
    own = read_own_text([write(tmp_path / "my.zh", 0), write(tmp_path / "my.en", 1)])
    counts = Counts(6000, 60_000, characters=(2000, 80), words=(0, 1500))
    own = replace(own, counts=counts)
    both = ["languages.bidirectional=true", "tokenizer.joint=true"]
    found = []
    for overrides in ([], both):
        path = tmp_path / "start.yaml"
        text = make_start(own, minutes=None, processes=1, overrides=overrides)
        path.write_text(text, encoding="utf-8")
        found.append(load_config(path))
    one, two = found
    assert (one.train.lr, one.decode) == (two.train.lr, two.decode)
    assert (one.tokenizer.vocab_size, two.tokenizer.vocab_size) == ([2300, 1500], 3800)


def test_the_model_that_will_be_trained_is_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed = time_by_size(monkeypatch)
    own = read_own_text([write(tmp_path / "my.zh", 0), write(tmp_path / "my.en", 1)])
    settings = ["model.d_model=64", "model.norm=post", "languages.bidirectional=true",
                "tokenizer.joint=true", "train.max_minutes=4", "seed=7"]  # fmt: skip
    path = tmp_path / "start.yaml"
    text = make_start(own, minutes=3, processes=1, overrides=settings)
    path.write_text(text, encoding="utf-8")
    cfg = load_config(path)
    assert (cfg.train.max_minutes, cfg.model.d_model, cfg.model.norm) == (3, 64, "post")
    assert cfg.model.model_copy(update={"dropout": timed[0].dropout}) == timed[0]
    n_updates = 0.8 * 180 / max(1.0, cfg.train.tokens_per_update / 1000)
    assert 8 * cfg.train.validate_every == pytest.approx(n_updates, abs=5)
    assert follows(cfg, settings) and not follows(cfg, ["model.d_model=32"])


def test_settings_of_another_text_are_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owns = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        files = [
            write(tmp_path / folder / f"train.{code}", i) for i, code in enumerate(("zh", "en"))
        ]
        owns.append(read_own_text(files))
    start = tmp_path / "start.yaml"
    start.write_text(make_start(owns[0], minutes=None, processes=1), encoding="utf-8")
    check_is_of(owns[0], start)
    monkeypatch.chdir(tmp_path / "a")
    check_is_of(read_own_text([Path("train.zh"), Path("train.en")]), start)  # named from elsewhere
    with pytest.raises(ConfigError, match=r"start.yaml: is of another text: .*--run-dir DIR"):
        check_is_of(owns[1], start)


def test_the_command_line_is_judged_before_updates_are_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quick_start, "measure_budget", lambda *_: pytest.fail("timed"))
    write(tmp_path / "my.zh", 0), write(tmp_path / "my.en", 1)
    for more, told in (
        (["--run-dir", "my.zh"], "my.zh: is not a folder; name another"),
        (["--run-dir", "."], "is not a run of tmt, and holds my.en, my.zh; name a new directory"),
        (["--set", "train.lr", "1"], "--set train.lr: expected section.key=value"),
    ):
        words = ["train", "my.zh", "my.en", "--minutes", "1", "--processes", "1", *more]
        assert told in tmt_here(*words, cwd=tmp_path, code=2).stderr


def test_somebody_who_waits_sees_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    monkeypatch.setattr(timed_start, "in_new_processes", lambda *_: [0.2, 0.4])
    monkeypatch.setattr(ShownStages, "begin", lambda _, name, *__: begun.append(name))
    own = read_own_text([write(tmp_path / "my.zh", 0), write(tmp_path / "my.en", 1)])
    make_start(own, minutes=3.0, processes=1)
    assert begun == ["measuring updates"]
