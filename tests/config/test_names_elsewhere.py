"""Names of other tools: each leads to a key that there is, or to words."""

import re

import pytest

from transformer_mt.config.experiment import Config, build_config
from transformer_mt.config.names_elsewhere import MEANINGS, meaning_of
from transformer_mt.config.problems import _keys
from transformer_mt.errors import ConfigError

KEYS = set(_keys(Config))
TREE = {"name": "x", "languages": {"src": "zh", "tgt": "en"}, "data": {"train": ["a"]}}


def test_every_name_leads_to_a_key_that_there_is() -> None:
    last = {key.rpartition(".")[2] for key in KEYS}
    for name, meant in MEANINGS.items():
        named = set(re.findall(r"\b(?:train|model|data|tokenizer|decode)\.\w+", meant))
        assert named <= KEYS and (" " in meant or meant in KEYS), name
        assert name not in last, f"{name} is a key"


def test_the_message_of_every_name_leads_there_from_every_section() -> None:
    for name, meant in MEANINGS.items():
        for section in ("", "train", "model"):
            tree = {**TREE, section: {name: 1}} if section else {**TREE, name: 1}
            with pytest.raises(ConfigError) as caught:
                build_config(tree, "x")
            (line,) = str(caught.value).split("\n")
            own = line.partition("unknown key")[2]
            # A key of the section itself that differs by a letter is nearer still.
            assert meant in own or own.startswith(f" (did you mean {section}"), line
            assert len(line) < 300


def test_other_spellings() -> None:
    assert meaning_of("Hidden-Size") == "model.d_model" and meaning_of("nonsense") is None
