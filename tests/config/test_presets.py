"""The bundled configurations: found by name, explained key by key, with the paper's sizes."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pydantic
import pytest
import torch

from transformer_mt.config.data import Source
from transformer_mt.config.experiment import Config, load_config, load_experiment
from transformer_mt.config.presets import (
    describe_presets,
    find_config,
    preset_path,
    preset_paths,
)
from transformer_mt.config.yaml_text import parse_yaml
from transformer_mt.errors import ConfigError
from transformer_mt.model.encoder_decoder import resolve_tying
from transformer_mt.model.transformer import Transformer

OTHERS = sorted({*preset_paths()} - {"base"})


def keys_of(section: type[pydantic.BaseModel]) -> dict[str, Any]:
    """Every key of the configuration with its default, sections within sections."""
    return {
        name: keys_of(field.annotation)
        if isinstance(field.annotation, type) and issubclass(field.annotation, pydantic.BaseModel)
        else field.default
        for name, field in section.model_fields.items()
    }


def flat(tree: Any, schema: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(key, value, default) of everything in a tree."""
    for key, value in tree.items():
        if isinstance(schema[key], dict) and key != "test":
            yield from flat(value, schema[key], f"{before}{key}.")
        else:
            yield f"{before}{key}", value, schema[key]


def text_of(name: str) -> str:
    return preset_path(name).read_text(encoding="utf-8")


def written(name: str) -> list[tuple[str, Any, Any]]:
    return list(flat(parse_yaml(text_of(name), name), keys_of(Config)))


@pytest.mark.parametrize("name", preset_paths())
def test_every_value_has_a_comment(name: str) -> None:
    lines = text_of(name).splitlines()
    assert f"{name} " in describe_presets()[[*preset_paths()].index(name)]
    assert re.fullmatch(r"# (One model|[A-Z]\w+ to|The \w+ model).*\.", lines[0]), "its purpose"
    keys = [line for line in lines if re.match(r"\s*(\w[\w-]*): *[^#\s]", line)]
    assert [line for line in keys if "#" not in line] == []
    assert max(map(len, lines)) <= 100


def test_base_is_the_manual_of_all_keys() -> None:
    every = keys_of(Config)
    assert {key for key, _, _ in written("base")} == {key for key, _, _ in flat(every, every)}
    comments = " ".join(re.findall(r"#(.*)", text_of("base")))
    assert {key for key in Source.model_fields if f"{key}: " not in comments} == set()


@pytest.mark.parametrize("name", OTHERS)
def test_the_others_write_down_only_differences(name: str) -> None:
    same = [
        key
        for key, value, default in written(name)
        if value == default and isinstance(value, bool) == isinstance(default, bool)
    ]
    assert same == []


def test_a_bare_name_is_a_bundled_file_and_everything_else_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = text_of("tiny").replace("name: tiny ", "name: mine ")
    for path in ("tiny", "tiny.yaml", "own"):
        Path(path).write_text(text, encoding="utf-8")
    for config, found in (
        ("tiny", "tiny"), ("tiny.yaml", "mine"), ("./tiny", "mine"), (Path("tiny"), "mine"),
        (str(tmp_path / "tiny"), "mine"), ("own", "mine"),
    ):  # fmt: skip
        assert load_experiment(config).name == found, config
    assert find_config("absent") == Path("absent")
    with pytest.raises(ConfigError, match=r"absent: no such file; tmt comes with .* base, big, "):
        load_experiment("absent")
    with pytest.raises(ConfigError, match=r"tiny\.yaml: no such configuration; tmt comes with"):
        preset_path("tiny.yaml")


@pytest.mark.parametrize(
    ("name", "millions", "heads", "ffn", "dropout", "average", "peak_lr"),
    [("base", 65, 8, 2048, 0.1, 5, 6.99e-4), ("big", 213, 16, 4096, 0.3, 20, 4.94e-4)],
)
def test_base_and_big_are_the_paper_s(
    name: str, millions: float, heads: int, ffn: int, dropout: float, average: int, peak_lr: float
) -> None:
    """Source: Vaswani et al. 2017, table 3 (parameters with a shared vocabulary of 37,000)."""
    cfg = load_config(preset_path(name))
    model, train = cfg.model, cfg.train
    assert (model.heads, model.ffn, model.dropout) == (heads, ffn, dropout)
    assert (model.encoder_layers, model.decoder_layers, model.norm) == (6, 6, "post")
    assert (train.average, train.warmup_updates, train.label_smoothing) == (average, 4000, 0.1)
    assert (train.adam_betas, train.adam_eps, train.tokens_per_update) == ([0.9, 0.98], 1e-9, 25000)
    assert (cfg.decode.beam, cfg.decode.length_penalty) == (4, 0.6)
    assert train.peak_lr(model.d_model) == pytest.approx(peak_lr, rel=1e-2)
    with torch.device("meta"):
        network = Transformer(resolve_tying(model, joint=True), 37_000, 37_000)
    n_parameters = sum(parameter.numel() for parameter in network.parameters())
    assert n_parameters == pytest.approx(millions * 1e6, rel=0.04)
