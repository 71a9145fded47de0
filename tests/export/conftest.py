"""A trained translator of each architecture."""

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


@pytest.fixture(scope="session", params=KINDS)
def translator(
    request: pytest.FixtureRequest,
    translator: Translator,
    toy_config: Config,
    tokenizers: tuple[Tokenizer, Tokenizer],
    toy_pairs: list[tuple[str, str]],
) -> Translator:
    model = toy_config.model_copy(
        update={"model": toy_config.model.model_copy(update=KINDS[request.param])}
    )
    return translator if model == toy_config else trained(model, tokenizers, toy_pairs)
