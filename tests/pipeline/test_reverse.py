"""`--reverse`: the same experiment the other way round, with a name and a directory of its own."""

import json
from pathlib import Path

import pytest

from transformer_mt.config.experiment import Config
from transformer_mt.corpus.sources.obtain import obtain_sources
from transformer_mt.errors import ConfigError


def with_sources(cfg: Config, root: Path, sources: list[object], **test: object) -> Config:
    tree = cfg.model_dump()
    tree["data"] |= {"root": str(root), "train": sources, "test": test}
    return Config.model_validate(tree)


@pytest.mark.parametrize(
    ("name", "reversed_name"),
    [("toy", "toy-reversed"), ("zh-en", "en-zh"), ("my-zh-en-big", "my-en-zh-big")],
)
def test_the_name_is_another(toy_config: Config, name: str, reversed_name: str) -> None:
    cfg = toy_config.model_copy(update={"name": name}).reversed()
    assert (cfg.name, cfg.languages.src, cfg.languages.tgt) == (reversed_name, "en", "zh")


@pytest.mark.parametrize(
    "source", ["a", {"files": ["a.zh", "a.en"]}, {"tsv": "a.tsv"}, {"jsonl": "a.jsonl"}]
)
def test_every_kind_of_source_gives_its_pairs_swapped(
    toy_config: Config, source: object, tmp_path: Path
) -> None:
    """Also those whose text does not say which side is which."""
    row = json.dumps({"src": "猫", "tgt": "cat"})
    for ending, text in (("zh", "猫"), ("en", "cat"), ("tsv", "猫\tcat"), ("jsonl", row)):
        (tmp_path / f"a.{ending}").write_text(f"{text}\n", encoding="utf-8")
    cfg = with_sources(toy_config, tmp_path, [source], wmt={"sacrebleu": "wmt20"})
    assert cfg.reversed().data.test["wmt"].direction is None, "the one of the new direction"
    cfg = with_sources(toy_config, tmp_path, [source])
    found = []
    for way in (cfg, cfg.reversed(), cfg.reversed().reversed()):
        found += obtain_sources(way, print).train[0].read()
    assert found == [("猫", "cat"), ("cat", "猫"), ("猫", "cat")]


def test_two_tokenizers_are_not_those_of_the_other_direction(toy_config: Config) -> None:
    tree = toy_config.model_dump()
    tree["tokenizer"] |= {"path": "other/model", "joint": False}
    with pytest.raises(ConfigError, match=r"tokenizer\.path other/model holds a tokenizer"):
        Config.model_validate(tree).reversed()
    tree["tokenizer"] |= {"joint": True}
    assert Config.model_validate(tree).reversed().tokenizer.path == "other/model"
