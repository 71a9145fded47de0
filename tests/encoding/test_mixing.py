"""Which rows an epoch holds: as often as weights say, all of them in turn, from seed and epoch."""

from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from encoded import encode_pairs

from transformer_mt.config.experiment import Config
from transformer_mt.encoding.encoded_corpus import EncodedCorpus, open_corpus
from transformer_mt.encoding.mixing import (
    describe_epoch,
    epoch_rows,
    sample_epoch,
    source_weights,
)
from transformer_mt.encoding.tags import Tagging
from transformer_mt.encoding.tokenizer import Tokenizer

SOURCES = np.random.default_rng(0).integers(0, 3, 1000).astype(np.uint16)


def rows_of(weights: list[float], epoch: int, seed: int = 1) -> list[int]:
    rows = epoch_rows(SOURCES, weights, seed=seed, epoch=epoch)
    assert rows is not None
    return rows.tolist()


def test_weights_of_one_are_no_mixing() -> None:
    assert epoch_rows(SOURCES, [1, 1.0, 1], seed=1, epoch=3) is None
    assert epoch_rows(None, [1], seed=1, epoch=0) is None


@pytest.mark.parametrize("weights", [[2, 1, 0.5], [0.1, 3.7, 1], [1, 1, 0.001], [0.999, 0.3, 12]])
def test_every_epoch_holds_its_share_and_no_row_more_than_once_too_often(
    weights: list[float],
) -> None:
    for epoch in (0, 1, 5, 1000):
        counts = Counter(rows_of(weights, epoch))
        for source, weight in enumerate(weights):
            rows = np.flatnonzero(source == SOURCES)
            of_rows = [counts[row] for row in rows.tolist()]
            assert abs(sum(of_rows) - weight * len(rows)) < 1
            assert set(of_rows) <= {int(weight), int(weight) + (weight % 1 > 0)}


@pytest.mark.parametrize("weight", [0.5, 0.3, 0.07, 1.9])
def test_epochs_go_through_all_rows_in_turn(weight: float) -> None:
    """After any number of epochs, no row has been seen more than once more than another."""
    counts = np.zeros(len(SOURCES), dtype=int)
    for epoch in range(40):
        np.add.at(counts, rows_of([weight, 1, 1], epoch), 1)
        seen = counts[SOURCES == 0]
        assert seen.max() - seen.min() <= 1
    assert seen.sum() == int(40 * Fraction(str(weight)) * len(seen))


def test_rows_are_a_function_of_seed_and_epoch() -> None:
    weights = [0.5, 1, 2]
    np.random.seed(3)
    first = rows_of(weights, 4)
    np.random.seed(4)
    assert rows_of(weights, 4) == first
    assert set(rows_of(weights, 5)) != set(first)
    assert set(rows_of(weights, 4, seed=2)) != set(first)


def test_a_share_of_a_source_is_not_its_beginning() -> None:
    rows = rows_of([0.5, 1, 1], 0)
    chosen = [row for row in rows if SOURCES[row] == 0]
    assert 400 < np.mean(chosen) < 600


def test_a_source_without_rows_gives_none() -> None:
    rows = epoch_rows(np.array([1, 1], np.uint16), [0.5, 2], seed=1, epoch=0)
    assert rows is not None and sorted(rows) == [0, 0, 1, 1]


@pytest.fixture
def mixed(
    toy_config: Config,
    tokenizers: tuple[Tokenizer, Tokenizer],
    toy_pairs: list[tuple[str, str]],
    tmp_path: Path,
) -> tuple[Config, EncodedCorpus]:
    """150 pairs of one source, 50 of another that counts thrice."""
    sources = (np.arange(200) >= 150).astype(np.uint16)
    tagging = Tagging(sources=((), ()))
    encode_pairs(
        toy_pairs, tokenizers, tmp_path / "c", max_length=None, tagging=tagging, sources=sources
    )
    tree: dict[str, Any] = toy_config.model_dump()
    tree["data"]["train"] = [{"demo": True}, {"path": "a/b", "weight": 3.0}]
    return Config.model_validate(tree), open_corpus(tmp_path / "c")


def test_an_epoch_described(mixed: tuple[Config, EncodedCorpus]) -> None:
    cfg, corpus = mixed
    assert source_weights(cfg.data) == [1, 3]
    first, second = describe_epoch(cfg, corpus, 0)
    assert (first.source, first.rows, first.rows_in_epoch) == ("the bundled corpus", 150, 150)
    assert (second.source, second.rows, second.rows_in_epoch) == ("a/b", 50, 150)
    assert first.tokens_in_epoch == corpus.tgt.lengths[:150].sum()
    assert second.tokens_in_epoch == 3 * corpus.tgt.lengths[150:].sum()
    assert (first.weight, second.weight) == (1, 3)


def test_examples_are_pairs_of_the_epoch(
    mixed: tuple[Config, EncodedCorpus],
    tokenizers: tuple[Tokenizer, Tokenizer],
    toy_pairs: list[tuple[str, str]],
) -> None:
    cfg, corpus = mixed
    examples = sample_epoch(cfg, corpus, tokenizers, 2, 10)
    assert len(examples) == 10
    for example in examples:
        n_first = toy_pairs[:150].count((example.src, example.tgt))
        n_second = toy_pairs[150:].count((example.src, example.tgt))
        assert n_first if example.source == "the bundled corpus" else n_second
        assert example.tags == ""
    assert sample_epoch(cfg, corpus, tokenizers, 2, 10) == examples
    assert sample_epoch(cfg, corpus, tokenizers, 3, 10) != examples
    assert len(sample_epoch(cfg, corpus, tokenizers, 0, 1000)) == 300
