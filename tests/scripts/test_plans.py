"""`scripts/bench/plans.py` in small: the walk ticks off every pair, and would miss one."""

from pathlib import Path

import numpy as np
import plans
import pytest

from transformer_mt.encoding import mixing
from transformer_mt.encoding.encoded_corpus import open_corpus
from transformer_mt.encoding.mixing import Place


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixing, "BLOCK_ENTRIES", 5000)
    monkeypatch.setattr(mixing, "CHUNK_ROWS", 64)


def test_every_pair_comes_once_in_an_epoch() -> None:
    n_updates, n_blocks = plans.walk(12_000, 1000, epoch=2)
    assert n_blocks == 3
    assert n_updates == pytest.approx(12_000 * 28 / 1000, rel=0.1)


def test_a_pair_too_few_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    rows_of = mixing._rows_of
    monkeypatch.setattr(mixing, "_rows_of", lambda chunks: rows_of(chunks)[1:])
    with pytest.raises(AssertionError, match="not at all"):
        plans.walk(3000, 1000, epoch=0)


def test_the_first_update_of_any_block_of_an_index_on_disk(tmp_path: Path) -> None:
    plans.write_index(tmp_path, 20_000)
    corpus = open_corpus(tmp_path)
    assert len(corpus) == 20_000 and np.array_equal(corpus.src.lengths[:9], plans.lengths(0)[:9])
    place = Place(0, 3, 5000)
    first_s, _, first_mib, update_ms, after_mib = plans.measure((tmp_path, [2.5, 1.0], place))
    assert 0 < first_s < 60 and update_ms > 0 and 0 < first_mib <= after_mib
