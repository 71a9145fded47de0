"""A server with a toy model that has learned something, as `tmt serve` starts it."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from toy_translator import trained

from transformer_mt.config.experiment import Config
from transformer_mt.encoding.tokenizer import Tokenizer
from transformer_mt.model_dir import save_model_dir, weights_of

if TYPE_CHECKING:
    from served import Server

pytest.importorskip("fastapi", reason="needs the extra serve")

METADATA = {"finished": "", "trained": {}, "data": {}, "decode": {}, "scores": {}}


@pytest.fixture(scope="session")
def toy_model(
    tmp_path_factory: pytest.TempPathFactory,
    toy_config: Config,
    tokenizers: tuple[Tokenizer, Tokenizer],
    tokenizer_dir: Path,
    toy_pairs: list[tuple[str, str]],
) -> Path:
    translator = trained(toy_config, tokenizers, toy_pairs)
    path = tmp_path_factory.mktemp("served") / "model"
    save_model_dir(path, toy_config, weights_of(translator.model), tokenizer_dir, METADATA)
    return path


@pytest.fixture(scope="session")
def server(toy_model: Path) -> "Iterator[Server]":
    from served import serving

    # In fp32 a translation does not depend on the texts beside it.
    with serving("-m", toy_model, "--workers", "2", "--precision", "fp32") as found:
        yield found
