"""Configuration: YAML as people mean it, every mistake with place, finding and remedy."""

import os
from pathlib import Path
from typing import Any

import pydantic
import pytest

from transformer_mt.config.data import Source
from transformer_mt.config.experiment import Config, build_config, load_config
from transformer_mt.config.yaml_text import parse_yaml
from transformer_mt.errors import ConfigError

_HEAD = "name: x\nlanguages: {src: zh, tgt: en}\n"
_LEAST = _HEAD + "data: {train: [a/b]}\n"


def _load(tmp_path: Path, text: str, overrides: list[str] | None = None) -> Config:
    path = tmp_path / "x.yaml"
    path.write_text(text, encoding="utf-8")
    return load_config(path, overrides or [])


def _problems(tmp_path: Path, text: str, overrides: list[str] | None = None) -> list[str]:
    """The lines of the error, without the folder."""
    with pytest.raises(ConfigError) as caught:
        _load(tmp_path, text, overrides)
    return str(caught.value).replace(f"{tmp_path}/", "").splitlines()


@pytest.mark.parametrize(
    ("text", "value", "why"),
    [
        ("1e-4", 1e-4, "PyYAML reads text"),
        ("1E5", 1e5, "capital exponent, no point"),
        ("-2.5e+3", -2500.0, "signs"),
        (".5", 0.5, "no digit before the point"),
        ("012", 12, "PyYAML reads octal"),
        ("1_000", 1000, "grouped digits"),
        ("+5", 5, "a sign"),
        ("no", "no", "a language code, not False"),
        ("yes", "yes", "text in YAML 1.2"),
        ("on", "on", "text in YAML 1.2"),
        ("true", True, "the two real booleans"),
        ("False", False, "the two real booleans"),
        ("1:30", "1:30", "PyYAML reads 90"),
        ("2026-01-01", "2026-01-01", "no dates"),
        ("0x10", "0x10", "no hexadecimal"),
        ("1.2.3", "1.2.3", "a version"),
        ("'1'", "1", "quoted is text"),
        ("null", None, "nothing"),
        ("~", None, "nothing"),
        ("", None, "nothing"),
        ("[a, 1, null]", ["a", 1, None], "a list"),
    ],
)
def test_scalars_are_read_as_people_mean_them(text: str, value: Any, why: str) -> None:
    found = parse_yaml(f"key: {text}", "x.yaml")["key"]
    assert (found, type(found)) == (value, type(value)), why


BAD_YAML = [
    ("a: 1\na: 2", "x.yaml: line 2, column 1: not valid YAML: key 'a' appears twice"),
    ("a: {b: 1, b: 2}", "x.yaml: line 1, column 11: not valid YAML: key 'b' appears twice"),
    ("? [a]\n: 1", "x.yaml: line 1, column 3: not valid YAML: a key must be text"),
    ("a: [1", "x.yaml: line 1, column 4: [ is never closed: type ] after the last entry"),
    ("a: 1\n\tb: 2", "x.yaml: line 2, column 1: a tab (U+0009): type spaces"),
    ("a: 1\n---\nb: 2", "x.yaml: line 2, column 1: not valid YAML: but found another document"),
    ("a: !!python/name:os.system x", "x.yaml: line 1, column 4: not valid YAML: the tag tag:y"),
    ("a: *b", "x.yaml: line 1, column 4: a text that begins with * must stand in quotes: '*b'"),
    ("a: \x01", "x.yaml: not valid YAML: unacceptable character #x0001"),
    ("a: &a [x, x]\nb: &b [*a, *a]\n" + "".join(
        f"k{i}: &{chr(99 + i)} [{', '.join([f'*{chr(98 + i)}'] * 9)}]\n" for i in range(12)
    ), "more than 100,000 values, with aliases written out"),
    ("a: &a [*a]", "nested more than 50 levels deep, or part of itself"),
    ("a: " + "[" * 5000, "nested more than 50 levels deep"),
    ("a: &a " + "[" * 30 + "]" * 30 + "\nb: " + "[" * 30 + "*a" + "]" * 30, "nested more than 50"),
    ("a: !!binary aGk=", "the tag tag:yaml.org,2002:binary has no meaning here"),
    ("a: !!timestamp 2001-01-01", "the tag tag:yaml.org,2002:timestamp has no meaning here"),
    ("a: !!set {b}", "the tag tag:yaml.org,2002:set has no meaning here"),
    ("a: !!omap [b: 1]", "the tag tag:yaml.org,2002:omap has no meaning here"),
    ("a: !!int {b: 1}", "x.yaml: line 1, column 4: not valid YAML: expected a scalar node"),
    ("a: !!int x", "x.yaml: line 1, column 4: not valid YAML: 'x' is no value of the tag tag:y"),
    ("a: !!float ''", "'' is no value of the tag tag:yaml.org,2002:float"),
    ("a: !!map [1]", "expected a mapping node, but found sequence"),
    ("a: !!map x", "expected a mapping node, but found scalar"),
    ("!!bool x: 1", "'x' is no value of the tag tag:yaml.org,2002:bool"),
    ("a: " + "9" * 5000, "9' is no value of the tag tag:yaml.org,2002:int"),
    ('a: "\\0"', "a text with a NUL or half a character"),
    ('a: "\\ud800"', "a text with a NUL or half a character"),
    ('a: "\\U00110000"', "not valid YAML"),
    ("a: \ud800", "not valid YAML: unacceptable character #xd800"),
    ("x" * (1 << 20) + "x", "more than 1 MiB of YAML; is it the right file?"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), BAD_YAML)
def test_bad_and_hostile_yaml_give_one_message(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_yaml(text, "x.yaml")
    first, *rest = str(caught.value).split("\n")
    assert message in first
    assert [line[:4] for line in rest] in ([], ["    ", "    "]), "the line of the file, a caret"
    assert all(len(line) < 300 for line in rest)


def test_honest_aliases_and_tags_are_taken() -> None:
    text = "a: &a [1, x]\nb: *a\nc: !!str 5\nd: !!float 5\ne: ! 7"
    assert parse_yaml(text, "x") == {"a": [1, "x"], "b": [1, "x"], "c": "5", "d": 5.0, "e": 7}


def test_the_least_configuration_has_the_papers_defaults(tmp_path: Path) -> None:
    cfg = _load(tmp_path, _LEAST)
    assert (cfg.model.d_model, cfg.model.heads, cfg.model.ffn) == (512, 8, 2048)
    assert (cfg.model.encoder_layers, cfg.model.decoder_layers) == (6, 6)
    assert (cfg.train.adam_betas, cfg.train.adam_eps) == ([0.9, 0.98], 1e-9)
    assert (cfg.train.warmup_updates, cfg.train.label_smoothing) == (4000, 0.1)
    # Section 5.3 of the paper: 512^-0.5 · 4000^-0.5.
    assert cfg.train.peak_lr(512) == pytest.approx(6.9877e-4, rel=1e-4)
    assert _load(tmp_path, _LEAST + "train: {warmup_updates: 0}").train.peak_lr(256) == 1 / 16
    assert _load(tmp_path, _LEAST + "train: {lr: 1e-4}").train.peak_lr(512) == 1e-4
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        cfg.__setattr__("seed", 3)


@pytest.mark.parametrize(
    ("model", "norm", "why"),
    [
        ("", "post", "the paper is the default"),
        ("architecture: paper", "post", "and its norm"),
        ("architecture: modern", "pre", "modern has no other"),
        ("architecture: modern, norm: pre", "pre", "and may say so"),
        ("architecture: paper, norm: pre", "pre", "pre-norm alone is an option"),
    ],
)
def test_the_architecture_decides_the_default_norm(
    model: str, norm: str, why: str, tmp_path: Path
) -> None:
    cfg = _load(tmp_path, f"{_LEAST}model: {{{model}}}")
    assert (cfg.model.norm, cfg.model.modern) == (norm, "modern" in model), why
    assert _load(tmp_path, cfg.to_yaml()) == cfg


def _mistakes() -> list[tuple[str, str]]:
    """Settings and messages by turns, as mistakes.txt has them."""
    lines = Path(__file__).with_name("mistakes.txt").read_text(encoding="utf-8").splitlines()
    lines = [line for line in lines[1:] if line and not line.startswith("#")]
    return [(setting, line.strip()) for setting, line in zip(lines[::2], lines[1::2], strict=True)]


@pytest.mark.parametrize(("setting", "problem"), _mistakes())
def test_each_mistake_gives_one_line(setting: str, problem: str, tmp_path: Path) -> None:
    key = setting.partition(":")[0]
    others = [line for line in _LEAST.splitlines() if line.partition(":")[0] != key]
    (line,) = _problems(tmp_path, "\n".join([*others, setting]))
    assert line == f"x.yaml: {problem}"


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("corpus/train", "corpus/train"),
        ("{path: corpus/train}", "corpus/train"),
        ("{files: [a.zh, b.en]}", "a.zh + b.en"),
        ("{tsv: a.tsv.gz}", "a.tsv.gz"),
        ("{jsonl: a.jsonl}", "a.jsonl"),
        ("{hf: opus-100, config: en-zh, split: train}", "hf:opus-100/en-zh/train"),
        ("'hf:Helsinki-NLP/opus-100/en-zh'", "hf:Helsinki-NLP/opus-100/en-zh"),
        ("'opus:NewsCommentary/v16'", "opus:NewsCommentary/v16"),
        ("'sacrebleu:wmt17'", "sacrebleu:wmt17"),
        ("'mtdata:Statmt-news_commentary-16-eng-zho'", "mtdata:Statmt-news_commentary-16-eng-zho"),
        ("'https://example.org/a.zip'", "https://example.org/a.zip"),
        ("'url:https://example.org/a.zip'", "https://example.org/a.zip"),
        ("C:/corpora/train", "C:/corpora/train"),
        ("{demo: true}", "the bundled corpus"),
    ],
)
def test_every_kind_of_source_is_read_and_named(source: str, shown: str, tmp_path: Path) -> None:
    cfg = _load(tmp_path, f"{_HEAD}data: {{train: [{source}], test: {{t-1: {source}}}}}")
    assert [str(part) for part in cfg.data.train] == [shown]
    assert str(cfg.data.test["t-1"]) == shown


def test_all_problems_come_in_one_report(tmp_path: Path) -> None:
    lines = _problems(
        tmp_path,
        "nam: x\nlanguages: {src: xx, tgt: en}\ndata: {train: [a], dev: b}\n"
        "model: {heads: 7}\ntrain: {lr: x, warmup: 3}\n",
    )
    keys = {line.split(": ")[1] for line in lines}
    assert keys == {
        "name", "nam", "languages.src", "data.dev", "model", "train.lr", "train.warmup",
    }  # fmt: skip
    assert len(lines) == len(keys)
    assert all(line.startswith("x.yaml: ") for line in lines)


@pytest.mark.parametrize(
    ("overrides", "path", "value"),
    [
        (["train.lr=1e-3"], "train.lr", 1e-3),
        (["train.patience=null"], "train.patience", None),
        (["train.patience="], "train.patience", None),
        (["languages.src=no"], "languages.src", "no"),
        (["data.root=../x y"], "data.root", "../x y"),
        (["train.adam_betas=[0.9, 0.999]"], "train.adam_betas", [0.9, 0.999]),
        (["model={heads: 4}"], "model.heads", 4),
        (["seed=2", "seed=3"], "seed", 3),  # the last one wins
        (["data.test.new=d"], "data.test", {"new": Source(path="d")}),
        (["data.train=[{demo: true}, c]"], "data.train", [Source(demo=True), Source(path="c")]),
    ],
)
def test_set_replaces_a_value(overrides: list[str], path: str, value: Any, tmp_path: Path) -> None:
    found: Any = _load(tmp_path, _LEAST + "seed: 1", overrides)
    for part in path.split("."):
        found = getattr(found, part)
    assert found == value


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ("seed", "--set seed: expected section.key=value, e.g. train.max_updates=500"),
        ("=3", "--set =3: expected section.key=value"),
        ("train.lr = 3", "--set train.lr = 3: expected section.key=value"),
        ("train..lr=3", "--set train..lr=3: expected section.key=value"),
        ("name.x=3", "--set name.x=3: name is text, not a section"),
        ("data.train.0=x", "--set data.train.0=x: train is a list, not a section"),
        ("train.lr=[1", "--set train.lr=[1: line 1, column 1: [ is never closed: type ] after"),
        ("model.d_mdel=8", "--set model.d_mdel: unknown key (did you mean model.d_model?)"),
        ("train.lr=fast", "--set train.lr: expected a number or 'paper', found 'fast' (text)"),
        *((odd, "") for odd in (
            "", "=", "a", "=1", "a=[", "a.b.c" * 1000 + "=1", ".=1", "\udcff=1", "name=\udcff",
            "x" * 10**6, "name=" + "[" * 1000, "name=&a [*a]", "name=\x00", "a..b=1",
        )),
    ],
)  # fmt: skip
def test_a_bad_set_gives_one_short_message(override: str, problem: str, tmp_path: Path) -> None:
    line, *rest = _problems(tmp_path, _LEAST, [override])
    assert line.startswith(problem) and len(line) < 1000
    assert not any(map(str.strip, rest)) or rest[-1].strip(" ^") == "", "the text, with a caret"


@pytest.mark.parametrize(
    "extra",
    [
        "",
        "train: {patience: null, max_minutes: 1.5, lr: 1e-4, adam_eps: 1e-9}",
        "tokenizer: {joint: true, character_coverage: 0.9995}\nmodel: {tie_embeddings: all}",
    ],
)
@pytest.mark.parametrize("name", ["x", "no", "'012'", "'08'", "'1e5'", "'1_0'", "'true'", "'1.'"])
def test_the_resolved_configuration_reads_back_equal(extra: str, name: str, tmp_path: Path) -> None:
    text = (
        f"name: {name}\nlanguages: {{src: no, tgt: zh_Hans}}\n"
        f"data: {{train: [读/写, {{files: [a, b]}}, {{hf: x, split: 'on'}}]}}\n{extra}"
    )
    cfg = _load(tmp_path, text)
    assert (cfg.languages.src, cfg.languages.tgt) == ("no", "zh"), "in one spelling"
    assert _load(tmp_path, cfg.to_yaml()) == cfg
    assert "读/写" in cfg.to_yaml()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "expected keys and values, found nothing"),
        ("# all comments", "expected keys and values, found nothing"),
        ("- a", "expected keys and values, found a list"),
        ("just text", "is text, no configuration; tmt init FILES > my.yaml writes one"),
    ],
)
def test_a_file_must_have_keys_and_values(text: str, problem: str, tmp_path: Path) -> None:
    assert _problems(tmp_path, text) == [f"x.yaml: {problem}"]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "latin.yaml").write_bytes("name: ü".encode("latin-1"))
    (tmp_path / "large.yaml").write_bytes(b" " * (5 << 20))
    special = "is a pipe or a device; write it to a file"
    problems = {
        tmp_path / "none.yaml": "none.yaml: no such file; tmt comes with .*: base, big",
        tmp_path: "cannot be read: Is a directory",
        tmp_path / "latin.yaml": r"latin.yaml: not UTF-8 text \(byte 7\); save it as",
        tmp_path / "pipe.yaml": special,
        Path("/dev/zero"): special,
        tmp_path / "large.yaml": "more than 1 MiB",
        tmp_path / ("x" * 300): "cannot be read: File name too long",
        tmp_path / "a\udcff.yaml": "no such file",
    }
    for path, problem in problems.items():
        with pytest.raises(ConfigError, match=problem):
            load_config(path)


@pytest.mark.parametrize("change", [("\n", "\r\n"), ("name", "\ufeffname")])
def test_files_from_other_systems_are_read(change: tuple[str, str], tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(_LEAST.replace(*change).encode("utf-8"))
    assert load_config(path).name == "x"


def _fields(section: type[pydantic.BaseModel], before: str = "") -> list[str]:
    """Every key of the configuration, with its sections."""
    found = []
    for name, field in section.model_fields.items():
        kind: Any = field.annotation
        if isinstance(kind, type) and issubclass(kind, pydantic.BaseModel):
            found += _fields(kind, f"{before}{name}.")
        found.append(before + name)
    return found


ODD_VALUES = (
    ".nan", ".inf", "-.inf", "1e308", "-1e308", "1e999", "-1", "0", "1e-300", "1" + "0" * 30,
    "x" * 10_000, "[]", "{}", "[[[[[1]]]]]", "{a: {b: [1]}}", "[{}]", "true", "null", '"\\t"',
    "~nosuchuser/x", "[.nan, 1e308]", "{a: x, b: ~}", "2001-01-01",
)  # fmt: skip


@pytest.mark.parametrize("key", [*_fields(Config), *_fields(Source, "source.")])
def test_any_value_of_any_key(key: str) -> None:
    """Either a configuration that survives writing and reading, or a short message."""
    *sections, last = key.split(".")
    for text in ODD_VALUES:
        tree = parse_yaml(_LEAST, "least")
        section = tree
        for name in sections:
            section = section.setdefault(name, {})
        section[last] = parse_yaml(text, "odd")
        if sections == ["source"]:
            tree["data"]["train"] = [{"path": "a"} | tree.pop("source")]
        try:
            cfg = build_config(tree, "x")
        except ConfigError as error:
            assert all(len(line) < 2000 for line in str(error).splitlines()), text
        else:
            assert build_config(parse_yaml(cfg.to_yaml(), "again"), "again") == cfg


def test_no_more_problems_than_anybody_reads() -> None:
    with pytest.raises(ConfigError, match="metadata: 903 more such problems") as caught:
        build_config({f"key{i}": 1 for i in range(1000)}, "metadata")
    assert len(str(caught.value).splitlines()) == 101


@pytest.mark.parametrize(("value", "told"), [("false", False), ("true", True)])
def test_runs_and_models_that_name_shard_optimizer_open(
    value: str, told: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cfg = _load(tmp_path, _LEAST + f"train: {{shard_optimizer: {value}, lr: 0.5}}")
    assert cfg.train.lr == 0.5 and "shard_optimizer" not in cfg.to_yaml()
    assert ("Remove the key; if memory is short, lower train.max_tokens" in caplog.text) == told


@pytest.mark.parametrize(
    ("overrides", "schedule", "told"),
    [
        ([], (500, 80, 440), False),
        (["train.max_updates=50"], (50, 8, 44), True),
        (["train.max_updates=4"], (4, 1, 4), True),
        (["train.max_updates=450"], (450, 80, 440), False),
        (["train.max_updates=5000"], (5000, 80, 440), False),
        (["train.max_updates=50", "train.cooldown_updates=10"], (50, 80, 10), False),
    ],
)
def test_a_shorter_training_has_a_shorter_schedule(
    overrides: list[str],
    schedule: tuple[int, int, int],
    told: bool,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    text = f"{_LEAST}train: {{max_updates: 500, warmup_updates: 80, cooldown_updates: 440}}"
    train = _load(tmp_path, text, overrides).train
    assert (train.max_updates, train.warmup_updates, train.cooldown_updates) == schedule
    assert ("shrink" in caplog.text) == told


def test_a_schedule_that_does_not_fit_by_itself_is_still_a_mistake(tmp_path: Path) -> None:
    text = f"{_LEAST}train: {{max_updates: 5, cooldown_updates: 9}}"
    for overrides in ([], ["train.max_updates=4"], ["train.max_updates=-4"]):
        assert _problems(tmp_path, text, overrides)


def test_a_folder_of_a_dataset_has_no_configuration_in_its_name(tmp_path: Path) -> None:
    for name in ("/data/set", "./my/set", "~/my/set"):
        cfg = _load(tmp_path, f"{_HEAD}data: {{train: ['hf:{name}']}}")
        assert (cfg.data.train[0].hf, cfg.data.train[0].config) == (name, None)
