"""The card of a model and of its exports: what it says, and that no text breaks its form."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from command import tmt_here
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from transformer_mt.config.experiment import Config, load_config
from transformer_mt.export.card import export_card, licence_of, model_card
from transformer_mt.export.proof import ExportOrigin, Proof
from transformer_mt.model_dir import save_model_dir, weights_of
from transformer_mt.system.state import damages, read_manifest
from transformer_mt.translation.translator import Translator

SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"
ORIGIN = ExportOrigin("ab", "int8", proof=vars(Proof(500, 0.991, 1e-5, 30.1, 30.2)))


def split(card: str) -> tuple[dict[str, Any], str]:
    """Head and body, cut where the Hub cuts them."""
    match = re.match(r"^(---\n)(.*?\n)(---\n)", card, re.DOTALL)
    assert match, card[:200]
    return yaml.safe_load(match[2]), card[match.end() :]


def blocks(card: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", card, re.MULTILINE | re.DOTALL)


def cells(body: str) -> list[list[str]]:
    """The text of every row of every table, as Markdown shows it."""
    rows: list[list[str]] = []
    for token in MarkdownIt("commonmark").enable("table").parse(body):
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline" and rows and token.level == 4:
            rows[-1].append("".join(child.content for child in token.children or ()))
    return rows


@pytest.fixture(scope="module")
def save(translator_of: Callable[[str], Translator], tokenizer_dir: Path) -> Callable[..., Path]:
    """Write a model directory, with its configuration changed, and what its run knows."""
    plain = translator_of("pre-norm")

    def write(
        path: Path, cfg: Config | None = None, scores: Any = None, report: Any = None
    ) -> Path:
        metadata = {"trained": {}, "data": {}, "decode": {}, "scores": scores or {}}
        save_model_dir(
            path / "model", cfg or plain.cfg, weights_of(plain.model), tokenizer_dir, metadata
        )
        if report is not None:
            (path / "data" / "clean").mkdir(parents=True, exist_ok=True)
            (path / "data" / "clean" / "report.json").write_text(json.dumps(report))
        return path / "model"

    return write


def with_sources(cfg: Config, *train: dict[str, Any], name: str = "toy") -> Config:
    data = cfg.data.model_validate({**cfg.data.model_dump(), "train": list(train)})
    return cfg.model_copy(update={"data": data, "name": name})


def test_what_a_card_says(save: Callable[..., Path], toy_config: Config, tmp_path: Path) -> None:
    cfg = with_sources(
        toy_config,
        {"opus": "News/v16"},
        {"hf": "Helsinki-NLP/opus-100", "config": "en-zh"},
        {"path": "/home/ann/secret/own.tsv"},
        {"demo": True},
    )
    url = "https://corpora.example/a|b/News_*v16_*.zip"
    origin = {"name": "x", "url": url, "sha256": "", "size": 1, "licence": "CC-BY 4.0"}
    source = {"name": "opus:News/v16", "read": 2000, "kept": 1234, "origins": [origin]}
    scores = {"wmt17": {"bleu": {"score": 21.046, "signature": SIGNATURE}}}
    model_dir = save(tmp_path, cfg, scores, {"sources": [source]})
    head, body = split(model_card(model_dir, "ann/toy", "mit", {"ctranslate2-int8": ORIGIN}))
    assert head["language"] == ["zh", "en"] and head["license"] == "mit"
    assert head["pipeline_tag"] == "translation" and head["library_name"] == "transformer-mt"
    assert head["datasets"] == ["Helsinki-NLP/opus-100"]
    (entry,) = head["model-index"]
    (result,) = entry["results"]
    assert entry["name"] == "toy" and result["task"]["type"] == "translation"
    assert result["dataset"] == {"type": "wmt17", "name": "wmt17"}
    (metric,) = result["metrics"]
    assert (metric["type"], metric["value"]) == ("bleu", 21.05)
    assert metric["args"] == {"signature": SIGNATURE}
    rows = cells(body)
    assert ["wmt17", "bleu", "21.0", SIGNATURE] in rows
    assert ["opus:News/v16", "1,234", url, "CC-BY 4.0"] in rows
    assert f"<{url.replace('|', '%7C')}>" in body.replace("%2A", "*")
    assert ["own.tsv", "", "", "unknown"] in rows and "secret" not in body
    assert ["the bundled corpus", "", "", "Apache-2.0"] in rows
    assert "# toy: Chinese → English" in body and "-m hf:ann/toy" in body
    assert "99.1% of 500 translations are the same" in body
    from huggingface_hub import ModelCard

    (result,) = ModelCard(model_card(model_dir, "ann/toy")).data.eval_results or ()
    assert result.metric_value == 21.05, "the Hub's own reader understands it"


@pytest.mark.parametrize(
    ("architecture", "named"), [("paper", "(Vaswani et al. 2017)"), ("rnn", "recurrent")]
)
def test_a_card_names_the_architecture(
    save: Callable[..., Path], toy_config: Config, tmp_path: Path, architecture: str, named: str
) -> None:
    sizes = toy_config.model.model_copy(update={"architecture": architecture})
    model_dir = save(tmp_path, toy_config.model_copy(update={"model": sizes}))
    _, body = split(model_card(model_dir, "ann/toy"))
    assert named in body and ("Transformer of" in body) == (architecture == "paper")


def test_a_licence_is_unknown_unless_it_is_told(save: Callable[..., Path], tmp_path: Path) -> None:
    model_dir = save(tmp_path)
    assert split(model_card(model_dir, "ann/toy"))[0]["license"] == "unknown"
    head, body = split(export_card(model_dir, Path("toy.ct2"), ORIGIN))
    assert head["license"] == "unknown" and "Unknown here" in body
    assert head["library_name"] == "ctranslate2" and "model-index" not in head
    for licence, told in ((None, None), ("unknown", None), ("mit", "mit")):
        (model_dir / "README.md").write_text(model_card(model_dir, "ann/toy", licence))
        assert licence_of(model_dir) == told
        head, _ = split(export_card(model_dir, Path("toy.ct2"), ORIGIN))
        assert head["license"] == (told or "unknown")
    for text in (
        "",
        "---\n",
        "---\nlicense: [mit]\n---\n",
        "---\n- a\n---\n",
        "---\na: b: c\n---\n",
    ):
        (model_dir / "README.md").write_text(text)
        assert licence_of(model_dir) is None
    (model_dir / "README.md").write_bytes(b"---\nlicense: \xff\n---\n")
    assert licence_of(model_dir) is None


HOSTILE = [
    "a\n---\nlicense: mit", "'\"\\: {x} [y] # z", "- a", "---", "...", "| a | b |",
    "[x](http://y)", "<script>alert(1)</script>", "`a`", "```\nb\n```", "{{ 7 * 7 }}",
    "{% raw %}", "yes", "1e3", "~", "\x1b[2J", "\u202eabc", "\udcff", "&amp; *b* _c_",
    "!!python/object:os.system", "%TAG", "中文",
]  # fmt: skip


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=st.one_of(st.sampled_from(HOSTILE), st.text(min_size=1, max_size=40)))
def test_no_text_breaks_the_form(
    save: Callable[..., Path], toy_config: Config, tmp_path: Path, text: str
) -> None:
    shutil.rmtree(tmp_path / "model", ignore_errors=True)
    plain = text if text.isprintable() else "x"
    cfg = with_sources(toy_config, {"url": f"https://x.example/{plain}"}, name="N")
    origin = {"url": f"https://x.example/{text}", "licence": text}
    source = {"name": str(cfg.data.train[0]), "kept": 1, "origins": [origin]}
    scores = {text: {"bleu": {"score": 1.0, "signature": text}}}
    card = model_card(save(tmp_path, cfg, scores, {"sources": [source]}), "ann/toy")
    card.encode()
    head, body = split(card)
    tame, _ = split(model_card(save(tmp_path, toy_config), "ann/toy"))
    assert head["license"] == "unknown" and head.keys() == tame.keys() | {"model-index"}
    (result,) = head["model-index"][0]["results"]
    for found in (result["dataset"]["name"], result["metrics"][0]["args"]["signature"]):
        assert isinstance(found, str) and (text not in HOSTILE[-1:] or found == text)
    rows = cells(body)
    assert [len(row) for row in rows] == [4] * 4
    if text.isprintable() and "&" not in text:
        shown = " ".join(text.split())
        assert rows[1][0] == rows[1][3] == rows[3][3] == shown or not shown
    titles = re.findall(r"^#+ .*", body, re.MULTILINE)
    assert titles == ["# N: Chinese → English", "## Use", "## Scores", "## Training data",
                      "## Licence of the model", "## Limits"]  # fmt: skip
    tokens = MarkdownIt("commonmark").enable("table").parse(body)
    inner = [child.type for token in tokens for child in token.children or ()]
    assert "html_inline" not in inner and "html_block" not in {token.type for token in tokens}
    assert inner.count("link_open") <= 1, "the address, and no other"


def test_export_writes_a_card_that_works(
    save: Callable[..., Path], texts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its Python is run where it lies, and translates as tmt does."""
    pytest.importorskip("ctranslate2", reason="the extra export is not installed")
    model_dir, path = save(tmp_path), tmp_path / "toy.ct2"
    (tmp_path / "texts.zh").write_text("".join(f"{text}\n" for text in texts))
    tmt_here("export", "-m", model_dir, "--src", tmp_path / "texts.zh", "-o", path)
    card = (path / "README.md").read_text(encoding="utf-8")
    assert "float32" in card and "of the translations" not in card
    manifest = read_manifest(path, "made_from.json") or {}
    assert "README.md" in manifest["files"] and not damages(path, manifest)
    assert "% of " in split(card)[1].partition("## Proof")[2].partition("## Use")[0]
    for name in ("tokenizer.src.model", "tokenizer.tgt.model"):
        shutil.copy(model_dir / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    (code,) = blocks(card, "python")
    said: list[str] = []
    exec(code.replace('"…"', repr(texts[1])), {"print": said.append})
    search = "--beam 2 --penalty average --length-penalty 1 --no-retry".split()
    own = tmt_here("translate", "-m", model_dir, *search, texts[1])
    assert said == [own.stdout.strip()]
    assert load_config(model_dir / "config.yaml").name in card
