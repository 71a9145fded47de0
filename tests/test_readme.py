"""The pages that people copy from: READMEs, CONTRIBUTING.md, SECURITY.md and docs/.

Every command is parsed by the real command line, every setting checked, every link followed; and
the walk-through with one's own two files is carried out.
"""

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
import write_manual
from command import tmt_here
from places import ROOT

from transformer_mt.cli.main import app
from transformer_mt.config.data import CleanConfig
from transformer_mt.config.experiment import Config, build_config, load_config
from transformer_mt.config.yaml_text import parse_yaml
from transformer_mt.corpus.cleaning.decide import ALL_RULES, RATIO_SMOOTHING
from transformer_mt.corpus.readers.demo import build_demo
from transformer_mt.encoding.tokenizer import PAD_ID
from transformer_mt.model.encoder_decoder import resolve_tying
from transformer_mt.model.transformer import Transformer
from transformer_mt.profiling import timed_start

READMES = ["README.md", "README.zh.md"]
MANUAL = [f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))]
CHINESE = [f"docs/zh/{path.name}" for path in sorted((ROOT / "docs/zh").glob("*.md"))]
TRANSLATED = [page for page in CHINESE if page != "docs/zh/terms.md"]
LAB = [f"docs/lab/{path.name}" for path in sorted((ROOT / "docs/lab").glob("*.md"))]
GENERATED = {f"docs/{name}" for name in write_manual.PAGES}
PAGES = [*READMES, "CONTRIBUTING.md", "SECURITY.md", "scripts/README.md", *MANUAL, *CHINESE]
MOST_WORDS = 1200
MOST_CHARACTERS = 2400  # Chinese ones, which are read about as fast as half as many words
HISTORY = re.compile(
    r"no longer|used to (?:be|have|take)|versions? before|as ever\b|since last time|"
    r"earlier version|present version|with the version|不再|曾经|以前|以往|旧版|之前的?版本",
    re.IGNORECASE,
)
SMALL = [
    "tokenizer.vocab_size=1000", "model.d_model=32", "model.heads=2", "model.ffn=64",
    "model.encoder_layers=1", "model.decoder_layers=1", "train.max_updates=6",
    "train.validate_every=3",
]  # fmt: skip

COMMAND_LINE: Any = typer.main.get_command(app)
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SETTING = re.compile(r"(?:languages|data|tokenizer|model|train|decode)(?:\.[a-z_0-9]+)+(?:=.*)?")
_OWN_PATH = re.compile(r"(?:configs|docs|scripts|tests|transformer_mt)/[\w./*-]*")
on_every_page = pytest.mark.parametrize("page", PAGES)


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    """The contents of a page's fenced blocks of one language."""
    return [content for kind, content in _FENCE.findall(text_of(page)) if kind == language]


def split_commands(script: str) -> Iterator[list[str]]:
    """Shell lines → commands as lists of words; comments are left out, && ends a command."""
    for line in script.splitlines():
        words = shlex.shlex(line, posix=True, punctuation_chars=True)
        words.whitespace_split = True
        command: list[str] = []
        for word in [*words, "&&"]:
            if word != "&&":
                command.append(word)
            elif command:
                yield command
                command = []


def fenced_commands(page: str) -> list[list[str]]:
    return [command for block in blocks(page, "bash") for command in split_commands(block)]


def spans(page: str) -> list[str]:
    """The `code` within the running text and the tables of a page."""
    return re.findall(r"`([^`\n]+)`", _FENCE.sub("", text_of(page)))


def tmt_commands(page: str) -> list[list[str]]:
    """Words after `tmt` of each command on a page, in blocks and in the text."""
    inline = [shlex.split(span) for span in spans(page) if span.startswith("tmt ")]
    found = [words[1:] for words in [*fenced_commands(page), *inline] if words[0] == "tmt"]
    return [words for words in found if words[0] != "--help"]


def parse(words: list[str]) -> tuple[str, dict[str, Any]]:
    """Let the real command line parse: (whole name of the command, its parameters).

    Commands, options and values it does not know, and required ones that are missing, raise.
    """
    command, names = COMMAND_LINE, []
    while hasattr(command, "commands"):
        names.append(words[len(names)])
        assert names[-1] in command.commands, f"tmt {' '.join(names)}: no such command"
        command = command.commands[names[-1]]
    context = command.make_context(" ".join(names), words[len(names) :])
    return " ".join(names), context.params


@on_every_page
def test_the_command_line_understands_every_command(page: str) -> None:
    for words in tmt_commands(page):
        name, parameters = parse(words)
        given = parameters.get("config")
        path = given if isinstance(given, str) else "".join(given or ())
        if name in ("train", "plan") and path.startswith("configs/"):
            load_config(ROOT / path, parameters["overrides"] or ())


def test_commands_that_do_not_exist_are_noticed() -> None:
    with pytest.raises(Exception, match="--sett"):
        parse(["train", "configs/tiny.yaml", "--sett", "a.b=c"])
    with pytest.raises(AssertionError, match="tmt data wash: no such command"):
        parse(["data", "wash"])


def test_every_command_is_in_the_readme() -> None:
    names = {name.removeprefix("tmt ") for name, _ in write_manual.commands(COMMAND_LINE)}
    assert {parse(words)[0] for words in tmt_commands("README.md")} == names


@on_every_page
def test_make_targets_exist(page: str) -> None:
    targets = re.findall(r"^([\w-]+):", text_of("Makefile"), re.MULTILINE)
    written = [*fenced_commands(page), *map(str.split, spans(page))]
    asked = {words[1] for words in written if words[0] == "make" and len(words) > 1}
    assert asked <= set(targets)
    assert asked or page not in READMES


@pytest.mark.parametrize("page", [*PAGES, *LAB])
def test_paths_and_links_lead_somewhere(page: str) -> None:
    words = [word for command in fenced_commands(page) for word in command]
    paths = [word for word in [*words, *spans(page)] if _OWN_PATH.fullmatch(word)]
    missing = [path for path in paths if not list(ROOT.glob(path.rstrip("/")))]
    for link in re.findall(r"\]\(([^)\s]+)\)", text_of(page)):
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        if not re.match(r"\w+:", link) and not (
            target.exists() and (not anchor or anchor in anchors(target))
        ):
            missing.append(link)
    assert not missing


def anchors(page: Path) -> set[str]:
    """The names of a page's headings in links, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@on_every_page
def test_settings_exist_and_fit_together(page: str) -> None:
    """Values that stand on one line are set together, on top of a bundled configuration."""
    for line in _FENCE.sub("", text_of(page)).splitlines():
        found = [span for span in re.findall(r"`([^`]+)`", line) if _SETTING.fullmatch(span)]
        if settings := [setting for setting in found if "=" in setting]:
            load_config(ROOT / "configs/base.yaml", settings)
        for setting in found:
            section: Any = Config
            for key in setting.partition("=")[0].split("."):
                assert key in section.model_fields, setting
                section = section.model_fields[key].annotation


@on_every_page
def test_yaml_on_the_page_is_valid(page: str) -> None:
    for block in blocks(page, "yaml"):
        tree = {"name": "x", "languages": {"src": "zh", "tgt": "en"}, **parse_yaml(block, page)}
        build_config(tree, page)


def test_both_languages_say_the_same() -> None:
    english, chinese = READMES
    assert fenced_commands(english) == fenced_commands(chinese)
    assert tmt_commands(english) == tmt_commands(chinese)
    parsed = [[parse_yaml(block, page) for block in blocks(page, "yaml")] for page in READMES]
    assert parsed[0] == parsed[1]
    pages = [text_of(english), text_of(chinese).replace("](docs/zh/", "](docs/")]
    for pattern in (r"^#+ ", r"^- ", r"^\|", r"\]\((?!README)([^)]+)\)", r"configs/[\w-]+\.yaml"):
        found = [re.findall(pattern, page, re.MULTILINE) for page in pages]
        assert found[0] == found[1] != [], pattern


@pytest.mark.parametrize("page", TRANSLATED)
def test_a_chinese_page_says_what_the_english_one_says(page: str) -> None:
    english = page.replace("/zh/", "/")
    name = Path(page).name
    assert text_of(english).split("\n")[2] == f"English · [中文](zh/{name})"
    assert text_of(page).split("\n")[2] == f"[English](../{name}) · 中文"
    assert fenced_commands(page) == fenced_commands(english)
    for language in ("yaml", "python"):
        assert blocks(page, language) == blocks(english, language)
    for pattern in (r"^#+ ", r"^!\[", r"^\|"):
        found = [re.findall(pattern, text_of(one), re.MULTILINE) for one in (english, page)]
        assert len(found[0]) == len(found[1]), pattern
    measured = re.compile(r"\d+\.\d+|\d{4}-\d\d-\d\d|\b[0-9a-f]{7}\b", re.ASCII)
    assert Counter(measured.findall(text_of(page))) == Counter(measured.findall(text_of(english)))
    assert linked(page) == linked(english)


@pytest.mark.parametrize("page", ["README.zh.md", *CHINESE])
def test_chinese_is_set_as_the_terms_say(page: str) -> None:
    """Full-width punctuation; a space between Chinese and Latin letters, numbers or code."""
    text = re.sub(r"\]\([^)\s]+\)", "]", _FENCE.sub("", text_of(page)))
    text = re.sub(r"`[^`\n]+`", "`x`", text)
    wrong = r"[\u4e00-\u9fff][A-Za-z0-9`,;:!?()]|[A-Za-z0-9%`,;:!?()][\u4e00-\u9fff]"
    assert not [text[m.start() - 9 : m.end() + 9] for m in re.finditer(wrong, text)]
    assert page.endswith("terms.md") or "您" not in text


def linked(page: str) -> set[Path]:
    """The files that a page leads to, without anchors; of a Chinese page, the English one."""
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text_of(page))
    paths = [((ROOT / page).parent / link).resolve().relative_to(ROOT) for link in links]
    return {Path(str(path).replace("docs/zh/", "docs/")) for path in paths} - {
        Path(page.replace("/zh/", "/"))
    }


def test_the_chinese_readme_leads_to_chinese_pages() -> None:
    links = re.findall(r"\]\((docs/[\w-]+\.md)\)", text_of("README.zh.md"))
    assert not {link.replace("docs/", "docs/zh/") for link in links} & set(TRANSLATED)


@pytest.mark.parametrize("page", sorted({*READMES, *MANUAL, *CHINESE, *LAB} - GENERATED))
def test_a_page_takes_five_minutes(page: str) -> None:
    chinese = re.compile(r"[\u4e00-\u9fff]")
    assert len(text_of(page).split()) <= MOST_WORDS
    if "zh" in page:
        words = chinese.sub(" ", text_of(page)).split()
        assert len(words) <= MOST_WORDS
        assert len(chinese.findall(text_of(page))) <= MOST_CHARACTERS


@pytest.mark.parametrize("page", [*READMES, *MANUAL, *CHINESE])
def test_history_stands_in_the_laboratory(page: str) -> None:
    assert not HISTORY.findall(text_of(page))


# Tables that repeat the code


def test_pages_written_from_the_code_are_current() -> None:
    for name, written in write_manual.PAGES.items():
        message = "run python scripts/write_manual.py"
        assert text_of(f"docs/{name}") == written(), message


def test_a_key_without_a_comment_is_named() -> None:
    comments = write_manual.yaml_comments("a:\n  b: 1  # two\n  # above\n  c:\n    - d\ne: 'x#y'\n")
    assert comments == {"a.b": "two", "a.c": "above"}
    with pytest.raises(ValueError, match=r"^name, seed: no comment in configs/base.yaml"):
        list(write_manual.rows_of(Config, "", {}))


def test_every_script_has_its_line() -> None:
    for path in (ROOT / "scripts").rglob("*.py"):
        own = path.parent / "README.md"
        listed = text_of("scripts/README.md") + (own.read_text("utf-8") if own.exists() else "")
        if "__main__" in path.read_text("utf-8"):
            assert path.name in listed, path


@pytest.mark.parametrize("page", ["docs/own-text.md", "docs/zh/own-text.md"])
def test_table_of_configurations_is_true(page: str) -> None:
    rows = [line for line in text_of(page).splitlines() if line.startswith("| [configs/")]
    names = [re.findall(r"\[(configs/.+?)\]", row)[0] for row in rows]
    assert sorted(names) == sorted(f"configs/{path.name}" for path in ROOT.glob("configs/*.yaml"))
    for name, row in zip(names, rows, strict=True):
        cfg = load_config(ROOT / name)
        sizes = cfg.model
        with torch.device("meta"):  # shapes without memory
            model = Transformer(
                resolve_tying(sizes, joint=cfg.tokenizer.joint),
                *cfg.tokenizer.vocab_sizes,
                pad_id=PAD_ID,
            )
        n_parameters = sum(parameter.numel() for parameter in model.parameters())
        layers = f"{sizes.encoder_layers} + {sizes.decoder_layers}"
        assert f"| {sizes.d_model} · {sizes.heads} · {sizes.ffn} · {layers} |" in row
        assert row.endswith(f"| {n_parameters / 1e6:.1f} M |")


def test_the_page_on_cleaning_has_every_rule_with_its_threshold() -> None:
    page = text_of("docs/cleaning.md")
    table = page.partition("\n| rule | ")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.+) \| `(\S+)` \| (.+) \|$", table, re.MULTILINE)
    assert [rule for rule, *_ in rows] == list(ALL_RULES)
    defaults = CleanConfig().model_dump()
    for rule, _, threshold, _ in rows:
        written = parse_yaml(threshold, rule)
        assert written == defaults[rule], rule
        assert isinstance(written, bool) == isinstance(defaults[rule], bool), rule  # 0 == False
    (reason,) = [why for rule, *_, why in rows if rule == "length_ratio"]
    assert f"{RATIO_SMOOTHING} characters" in reason


# The walk-through


def test_four_commands_go_from_two_files_to_a_score(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The walk-through as it is written, with a smaller model and six updates."""
    monkeypatch.setattr(timed_start, "_SIZES", (200, 400))  # of updates that are timed
    section = text_of("README.md").partition("## Your own two files")[2].partition("\n## ")[0]
    (script,) = [content for kind, content in _FENCE.findall(section) if kind == "bash"]
    pairs = build_demo().train[:1200]
    for code, side in (("zh", 0), ("en", 1)):
        lines = "".join(f"{pair[side]}\n" for pair in pairs)
        (tmp_path / f"my.{code}").write_text(lines, encoding="utf-8")
    overrides = [word for setting in SMALL for word in ("--set", setting)]
    said = {}
    for _, *words in split_commands(script):
        small = ["--processes", "1", *overrides] if words[0] == "train" else []
        said[words[0]] = tmt_here(*words, *small, cwd=tmp_path)
    assert list(said) == ["data", "train", "translate", "eval"]
    assert "1,200 read" in said["data"].stdout and "problem" not in said["data"].stdout
    assert "Chinese → English, sentence pairs: 1,200" in said["train"].stderr
    assert "next:  tmt translate -m runs/my TEXT" in said["train"].stderr
    assert said["translate"].stdout.count("\n") == 1
    assert "held_out  BLEU" in said["eval"].stdout and "tok:13a" in said["eval"].stdout
    report = json.loads((tmp_path / "runs/my/data/clean/report.json").read_text(encoding="utf-8"))
    assert report["held_out"] == {"dev": 50, "test": 50}, "at least 50 each, as the page says"
