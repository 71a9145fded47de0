"""Small experiments on files of toy pairs."""

from collections.abc import Callable
from typing import Any

import pytest
from pairs_of_text import write_sides

from transformer_mt.config.experiment import Config, build_config
from transformer_mt.corpus.sources.obtain import obtain_sources
from transformer_mt.pipeline.prepare import fingerprints, prepare
from transformer_mt.pipeline.run_dir import Run

Experiment = Callable[..., Config]


@pytest.fixture(scope="session")
def experiment(
    tmp_path_factory: pytest.TempPathFactory, toy_pairs: list[tuple[str, str]]
) -> Experiment:
    """Sources of the configuration, and what else it says, to the configuration.

    `a`, `b` and `dev` are corpora of 120, 60 and 20 pairs, of which cleaning drops none.
    """
    folder = tmp_path_factory.mktemp("corpora")
    for name, first, end in (("a", 0, 120), ("b", 120, 180), ("dev", 180, 200)):
        write_sides(folder / name, toy_pairs[first:end])
    rules = ("mismatch", "duplicate", "length_ratio", "numbers", "repeated", "overlap")

    def build(sources: list[Any], tokenizer: dict[str, Any], **sections: dict[str, Any]) -> Config:
        data = {
            "root": str(folder), "train": sources, "dev": ["dev"], "test": {"toy": "dev"},
            "clean": dict.fromkeys(rules, False), "workers": 1,
        }  # fmt: skip
        small = {"d_model": 16, "heads": 2, "ffn": 32, "encoder_layers": 1, "decoder_layers": 1}
        tree = {
            "name": "small", "languages": {"src": "zh", "tgt": "en"}, "data": data, "model": small,
            "tokenizer": {"vocab_size": 320, **tokenizer}, **sections,
        }  # fmt: skip
        return build_config(tree, "test")

    return build


@pytest.fixture(scope="module")
def real(cfg: Config, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """What preparing the experiment of a module gives."""
    run = Run(tmp_path_factory.mktemp("run"))
    local = obtain_sources(cfg, print)
    prepare(local, fingerprints(local), run, print)
    return run
