"""Which rows an epoch holds: as often as weights say, all of them in turn, from seed and epoch."""

from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from encoded import encode_pairs

from transformer_mt.config.experiment import Config
from transformer_mt.encoding import encoded_corpus, mixing
from transformer_mt.encoding.encoded_corpus import (
    EncodedCorpus,
    EncodedSide,
    Sources,
    open_corpus,
)
from transformer_mt.encoding.mixing import (
    BLOCK_ENTRIES,
    Place,
    blocks_of_epoch,
    describe_epoch,
    epoch_block,
    sample_epoch,
    source_weights,
)
from transformer_mt.encoding.tags import Tagging
from transformer_mt.encoding.tokenizer import Tokenizer

SOURCES = np.repeat([0, 1, 2], [370, 280, 350]).astype(np.uint16)


@pytest.fixture(params=[BLOCK_ENTRIES, 128], ids=["one block", "blocks"], autouse=True)
def block_entries(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Every property holds of epochs in one block and in many."""
    monkeypatch.setattr(mixing, "BLOCK_ENTRIES", request.param)
    monkeypatch.setattr(mixing, "CHUNK_ROWS", 16)
    return request.param


def corpus_of(sources: Sources | None, n: int) -> EncodedCorpus:
    side = EncodedSide(np.empty(0, np.uint16), np.arange(n + 1))
    return EncodedCorpus(side, side, sources)


def rows_of(
    weights: list[float], epoch: int, seed: int = 1, sources: Sources | None = SOURCES
) -> list[int]:
    corpus = corpus_of(sources, 1000 if sources is None else len(sources))
    blocks = blocks_of_epoch(corpus, weights, seed=seed, epoch=epoch)
    return np.concatenate([block.rows for block in blocks]).tolist()


def test_without_weights_an_epoch_is_the_corpus(block_entries: int) -> None:
    for sources, weights in ((SOURCES, [1, 1.0, 1]), (None, [1])):
        rows = rows_of(weights, 3, sources=sources)
        assert sorted(rows) == list(range(1000))
        assert (rows == list(range(1000))) == (block_entries > 1000)


@pytest.mark.parametrize("weight", [0.5, 0.3, 0.07, 1.9])
def test_one_block_deals_out_single_rows(weight: float) -> None:
    """By the formula: an order of the source that is drawn once, and a window that goes around."""
    if mixing.BLOCK_ENTRIES < 1000:
        pytest.skip("of several blocks chunks are dealt out")
    order, whole = np.random.default_rng([1, 0]).permutation(370), int(weight)
    share = Fraction(str(weight)) - whole
    for epoch in (0, 3, 7):
        window = np.arange(int(epoch * share * 370), int((epoch + 1) * share * 370)) % 370
        expected = [*list(range(370)) * whole, *order[window].tolist(), *range(370, 1000)]
        assert rows_of([weight, 1, 1], epoch) == expected


@pytest.mark.parametrize("weights", [[1, 1, 1], [0.4, 2.5, 1]])
def test_blocks_are_about_equal_and_read_in_order(block_entries: int, weights: list[float]) -> None:
    """Chunks of neighbours come together; which of them meet differs from epoch to epoch."""
    corpus = corpus_of(SOURCES, 1000)
    epochs = [list(blocks_of_epoch(corpus, weights, seed=1, epoch=e)) for e in (0, 1)]
    for epoch, blocks in enumerate(epochs):
        sizes = [len(block.rows) for block in blocks]
        assert {block.n_blocks for block in blocks} == {len(blocks)}
        assert [block.place for block in blocks] == [
            Place(epoch, b, block_entries) for b in range(len(blocks))
        ]
        assert len(blocks) == -(-sum(sizes) // block_entries)
        if len(blocks) > 1:
            assert max(sizes) - min(sizes) <= 4 * mixing.CHUNK_ROWS
            assert all((np.diff(block.rows) >= 0).all() for block in blocks)
            n_jumps = sum(np.count_nonzero(np.diff(block.rows) > 1) for block in blocks)
            assert n_jumps < sum(sizes) / 10
    sets = [{frozenset(block.rows.tolist()) for block in blocks} for blocks in epochs]
    assert block_entries > 1000 or not sets[0] & sets[1]


def test_pieces_that_are_read_ahead_are_the_rows(tmp_path: Path) -> None:
    asked: list[tuple[str, int, int]] = []
    sides = [EncodedSide(np.zeros(5000, np.uint16), np.arange(0, 5001, 5)) for _ in range(2)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            encoded_corpus, "read_ahead",
            lambda path, starts, ends: asked.extend(
                zip([path.name] * len(starts), starts.tolist(), ends.tolist(), strict=True)
            ),
        )  # fmt: skip
        corpus = EncodedCorpus(*sides, directory=tmp_path)
        corpus.read_ahead(np.array([3, 4, 4, 5, 90, 91]))
        corpus.read_ahead(np.array([], np.int64))
    ids = [(30, 60), (900, 920)]  # ten bytes a row
    assert [part[1:] for part in asked if part[0] == "src.ids"] == ids
    assert [part[1:] for part in asked if part[0] == "tgt.ids"] == ids
    offsets = [(24, 48), (720, 736)]
    assert [part[1:] for part in asked if part[0] == "tgt.offsets.npy"] == offsets


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


def test_a_block_that_a_lower_weight_leaves_out_is_empty() -> None:
    """A training that was stopped in it goes on with the next epoch."""
    corpus, place = corpus_of(SOURCES, len(SOURCES)), Place(0, 2, 300)
    assert len(epoch_block(corpus, [1.0] * 3, seed=1, place=place).rows)
    block = epoch_block(corpus, [0.5] * 3, seed=1, place=place)
    assert len(block.rows) == 0 and block.following == Place.start_of(1)
    place = Place(0, 1, 10 * len(SOURCES))  # larger than the epoch now
    block = epoch_block(corpus, [1.0] * 3, seed=1, place=place)
    assert len(block.rows) == 0 and block.following.epoch == 1


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
    assert 100 < np.mean(chosen) < 270


def test_a_source_without_rows_gives_none() -> None:
    rows = rows_of([0.5, 2], 0, sources=np.array([1, 1], np.uint16))
    assert sorted(rows) == [0, 0, 1, 1]


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
    first = next(blocks_of_epoch(corpus, [1, 3], seed=cfg.seed, epoch=0))
    assert len(sample_epoch(cfg, corpus, tokenizers, 0, 1000)) == len(first.rows)
