"""From scored shards to probabilities of mismatch: shifts, swaps, shards, resume."""

import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scored_corpus import scored_corpus

from transformer_mt.config.data import CleanConfig
from transformer_mt.corpus.cleaning.decide import FATES, Decisions
from transformer_mt.corpus.cleaning.misalignment import SHIFTS, learn_mismatch
from transformer_mt.corpus.cleaning.score_store import ScoredCorpus
from transformer_mt.corpus.readers.pairs import Pair
from transformer_mt.system.arrays import Floats

SYLLABLES = [a + b for a in "bdfgklmnprst" for b in "aeiou"]
N = 3000
SHIFTED = (slice(800, 860), 1), (slice(2000, 2007), -1)
SWAPPED = [50, 1500, 2900]
Judged = tuple[list[Pair], ScoredCorpus, NDArray[np.bool_], Floats, Path]


def translations(n: int) -> list[Pair]:
    """A made-up language, and another that has its words in reverse and backwards.

    Each sentence has most of its words from the one before, as near-duplicates have.
    """
    rng = random.Random(3)
    words = ["".join(random.Random(i).choices(SYLLABLES, k=3)) for i in range(300)]
    sentence = rng.choices(words, k=8)
    pairs = []
    for _ in range(n):
        sentence = rng.sample(sentence, k=4) + rng.choices(words, k=rng.randrange(2, 6))
        pairs.append((" ".join(sentence), " ".join(word[::-1] for word in reversed(sentence))))
    return pairs


def judge(corpus: ScoredCorpus, work: Path, dropped: Sequence[int] = ()) -> Floats:
    decision = Decisions(corpus, [CleanConfig()])
    decision.fate[list(dropped)] = FATES.index("numbers")
    probability = learn_mismatch(decision, work, seed=1, workers=1)
    assert probability is not None
    return probability


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """Blocks shifted by a line either way, and swapped sides; and which lines these are."""
    folder = tmp_path_factory.mktemp("whole")
    pairs, bad = translations(N), np.zeros(N, dtype=bool)
    changed = list(pairs)
    for block, shift in SHIFTED:
        for line in range(block.start, block.stop):
            changed[line] = pairs[line][0], pairs[line + shift][1]
        bad[block] = True
    for line in SWAPPED:
        changed[line] = pairs[line][::-1]
        bad[line] = True
    corpus = scored_corpus(folder, [[changed]])
    return changed, corpus, bad, judge(corpus, folder / "work"), folder / "work"


def test_shifted_and_swapped_lines_are_found_and_no_others(judged: Judged) -> None:
    _, _, bad, probability, _ = judged
    dropped = probability > 0.5
    assert np.all(dropped[SWAPPED])
    assert np.mean(dropped[bad]) > 0.97
    assert np.mean(dropped[~bad]) < 0.002


def test_shards_hardly_show(judged: Judged, tmp_path: Path) -> None:
    """But for the pairs that would cross their borders; one lies in a shifted block."""
    pairs, _, _, probability, _ = judged
    shards = [pairs[start : start + 830] for start in range(0, N, 830)]
    other = judge(scored_corpus(tmp_path, [shards]), tmp_path / "work")
    assert np.count_nonzero((probability > 0.5) != (other > 0.5)) <= len(SHIFTS)


def test_dropped_pairs_count_for_nothing_and_change_the_model(
    judged: Judged, tmp_path: Path
) -> None:
    """They get no probability of their own, and the model that they were part of is removed."""
    _, corpus, _, _, work = judged
    shutil.copytree(work, tmp_path / "work")
    (before,) = (tmp_path / "work").iterdir()
    probability = judge(corpus, tmp_path / "work", [*SWAPPED, *range(810, 830)])  # in a block
    assert np.all(probability[SWAPPED] < 0.1)
    assert np.mean(probability[830:860] > 0.5) > 0.9
    (after,) = (tmp_path / "work").iterdir()
    assert after != before


@pytest.mark.parametrize("damaged", ["half-1.npz", "model.npz", "*-2.npy"])
def test_work_that_is_done_is_not_done_again(judged: Judged, tmp_path: Path, damaged: str) -> None:
    """A file that is missing or damaged, as after a kill or a fault of the disk, is made again."""
    _, corpus, _, first, work = judged
    shutil.copytree(work, tmp_path / "work")
    made = {path: path.stat().st_mtime_ns for path in (tmp_path / "work").rglob("*.np[yz]")}
    assert len(made) == 5  # two halves, the model, evidence, and that of shifted lines
    (path,) = (tmp_path / "work").rglob(damaged)
    content = path.read_bytes()
    path.write_bytes(content[:-9])
    np.testing.assert_array_equal(judge(corpus, tmp_path / "work"), first)
    assert path.read_bytes() == content
    again = {path: path.stat().st_mtime_ns for path in (tmp_path / "work").rglob("*.np[yz]")}
    assert {other for other in made if again[other] != made[other]} == {path}


def test_too_little_text(tmp_path: Path) -> None:
    decision = Decisions(scored_corpus(tmp_path, [[translations(200)]]), [CleanConfig()])
    for _ in range(2):
        assert learn_mismatch(decision, tmp_path / "work", seed=1, workers=1) is None
