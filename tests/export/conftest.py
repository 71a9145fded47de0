"""A trained translator of each architecture."""

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from toy_translator import trained

from transformer_mt.config.experiment import Config
from transformer_mt.encoding.tokenizer import Tokenizer
from transformer_mt.translation.translator import Translator

KINDS: dict[str, dict[str, Any]] = {
    "pre-norm": {"norm": "pre"},
    "post-norm": {"norm": "post"},
    "modern": {"architecture": "modern", "norm": "pre"},
}


@pytest.fixture(scope="session")
def translator_of(
    toy_config: Config,
    tokenizers: tuple[Tokenizer, Tokenizer],
    toy_pairs: list[tuple[str, str]],
) -> Callable[[str], Translator]:
    """Name of an architecture → a translator, trained once: pytest would do so for each file."""

    @cache
    def train(kind: str) -> Translator:
        sizes = toy_config.model.model_copy(update=KINDS[kind])
        cfg = toy_config.model_copy(update={"model": sizes})
        return trained(cfg, tokenizers, toy_pairs)

    return train


@pytest.fixture(scope="session", params=KINDS)
def translator(
    request: pytest.FixtureRequest, translator_of: Callable[[str], Translator]
) -> Translator:
    return translator_of(request.param)
