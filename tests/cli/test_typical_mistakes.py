"""Typical mistakes of five kinds of users, and what tmt says to them in English and in Chinese.

The table is `typical_mistakes.yaml`; the commands are typed in a folder with a model and files.
"""

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from many_commands import said

from transformer_mt.config.experiment import Config
from transformer_mt.corpus.readers.demo import build_demo
from transformer_mt.encoding.tokenizer import Tokenizer
from transformer_mt.model_dir import build_model, save_model_dir, weights_of

TABLE = Path(__file__).with_suffix("").with_name("typical_mistakes.yaml")
CONFIG = """name: my
languages: {src: zh, tgt: en}
data: {root: ., train: [my], workers: 1}
tokenizer: {vocab_size: 900}
model: {d_model: 32, heads: 2, ffn: 32, encoder_layers: 1, decoder_layers: 1}
train: {max_updates: 3}
"""
CONFIGS = {
    "my": CONFIG,
    "epochs": CONFIG.replace("max_updates", "max_epochs"),
    "batch": CONFIG.replace("max_updates: 3", "batch_size: 64"),
    "device": f"{CONFIG}device: cuda\n",
    "optimizer": CONFIG.replace("max_updates: 3", "optimizer: sgd"),
    "heads": CONFIG.replace("heads: 2", "heads: 3"),
    "vocabulary": CONFIG.replace("vocab_size: 900", "vocab_size: 90000"),
    "small": CONFIG.replace("vocab_size: 900", "vocab_size: 20"),
    "rate": CONFIG.replace("max_updates: 3", "lr: fast"),
    "list": CONFIG.replace("[my]", "[my.zh, my.en]"),
    "colon": CONFIG.replace("name: my", "name：my"),
    "nospace": CONFIG.replace("name: my", "name:my"),
    "comma": CONFIG.replace("src: zh, tgt", "src: zh，tgt"),
    "quotes": CONFIG.replace("name: my", "name: “my"),
    "tab": CONFIG.replace("train: {max_updates: 3}", "train:\n\tmax_updates: 3"),
    "indent": CONFIG.replace("train: {max_updates: 3}", "train:\n  max_updates: 3\n lr: 1"),
    "martian": CONFIG.replace("src: zh", "src: 火星语"),
    "same": CONFIG.replace("tgt: en", "tgt: zh"),
    "twice": f"{CONFIG}name: other\n",
    "digits": CONFIG.replace("max_updates: 3", "max_updates: ３"),
}


def fill(place: Path) -> None:
    """Write what the commands of the table name, besides the model."""
    pairs = build_demo().train[:300]
    texts = {code: [pair[side] for pair in pairs] for side, code in enumerate(("zh", "en"))}
    for name, lines in {
        "my.zh": texts["zh"],
        "my.en": texts["en"],
        "short.en": texts["en"][:-1],
        "turned.zh": texts["en"],
        "turned.en": texts["zh"],
        "one.zh": texts["zh"][:1],
        "one.en": texts["en"][:1],
        "input.zh": texts["zh"][:3],
        "list.csv": texts["zh"],
        "terms.tsv": ["动物", "街道\tstreet"],
        "pairs.jsonl": ["{oops"],
    }.items():
        (place / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    for name in ("empty.zh", "empty.en"):
        (place / name).write_text("")
    (place / "gbk.zh").write_bytes("".join(f"{line}\n" for line in texts["zh"]).encode("gbk"))
    (place / "notes.pdf").write_bytes(b"%PDF-1.7\n\x00")
    (place / "old.doc").write_bytes(bytes.fromhex("d0cf11e0a1b11ae1") + bytes(600))
    (place / "page.docx").write_text("no archive")
    for name, text in CONFIGS.items():
        (place / f"{name}.yaml").write_text(text, encoding="utf-8")


@pytest.fixture
def place(
    tmp_path: Path,
    toy_config: Config,
    tokenizers: tuple[Tokenizer, Tokenizer],
    tokenizer_dir: Path,
) -> Path:
    root = tmp_path / "place"
    root.mkdir()
    fill(root)
    weights = weights_of(build_model(toy_config, tokenizers))
    save_model_dir(root / "model", toy_config, weights, tokenizer_dir, {})
    return root


def rows() -> list[dict[str, Any]]:
    return yaml.safe_load(TABLE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_mistake_gets_the_message_of_the_table(language: str, place: Path) -> None:
    table = rows()
    found = said([shlex.split(row["command"])[1:] for row in table], language, place)
    for row, (status, words) in zip(table, found, strict=True):
        assert status in (1, 2), row["command"]
        assert words.strip().split("\n") == row[language].strip().split("\n"), row["command"]


def test_each_kind_of_user_has_ten() -> None:
    users = [row["user"] for row in rows()]
    assert len(set(users)) == 5
    assert all(users.count(user) >= 10 for user in users)
    assert len({row["command"] for row in rows()}) == len(users)
