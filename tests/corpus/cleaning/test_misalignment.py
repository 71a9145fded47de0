"""From scored shards to probabilities of mismatch: shifts, swaps, shards, resume."""

import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from transformer_mt.config.data import CleanConfig
from transformer_mt.corpus.cleaning.decide import FATES, Decisions
from transformer_mt.corpus.cleaning.misalignment import SHIFTS, learn_mismatch
from transformer_mt.corpus.cleaning.score_store import (
    ScoredCorpus,
    ScoredPairs,
    ScoredSource,
    shard_path,
    write_scored,
)
from transformer_mt.corpus.readers.pairs import Pair
from transformer_mt.system.arrays import Floats

SYLLABLES = [a + b for a in "bdfgklmnprst" for b in "aeiou"]
N = 3000
SHIFTED = (slice(800, 860), 1), (slice(2000, 2007), -1)
SWAPPED = [50, 1500, 2900]
Judged = tuple[ScoredCorpus, NDArray[np.bool_], Floats, Path]


def translations(n: int, seed: int = 3) -> list[Pair]:
    """A made-up language, and another that has its words in reverse and backwards.

    Each sentence has most of its words from the one before, as near-duplicates have.
    """
    rng = random.Random(seed)
    words = ["".join(random.Random(i).choices(SYLLABLES, k=3)) for i in range(300)]
    sentence = rng.choices(words, k=8)
    pairs = []
    for _ in range(n):
        sentence = rng.sample(sentence, k=4) + rng.choices(words, k=rng.randrange(2, 6))
        pairs.append((" ".join(sentence), " ".join(word[::-1] for word in reversed(sentence))))
    return pairs


def with_faults(pairs: list[Pair]) -> tuple[list[Pair], NDArray[np.bool_]]:
    """Blocks shifted by a line either way, and swapped sides; and which lines these are."""
    changed, bad = list(pairs), np.zeros(len(pairs), dtype=bool)
    for block, shift in SHIFTED:
        for line in range(block.start, block.stop):
            changed[line] = pairs[line][0], pairs[line + shift][1]
            bad[line] = True
    for line in SWAPPED:
        changed[line] = pairs[line][1], pairs[line][0]
        bad[line] = True
    return changed, bad


def corpus_of(pairs: list[Pair], folder: Path, size: int) -> ScoredCorpus:
    folder.mkdir()
    parts = [pairs[start : start + size] for start in range(0, len(pairs), size)]
    for number, part in enumerate(parts):
        lines = list(range(number * size + 1, number * size + 1 + len(part)))
        write_scored(ScoredPairs(lines, part, part, {}), shard_path(folder, number))
    return ScoredCorpus([ScoredSource("text", folder, list(map(len, parts)), [])])


def judge(corpus: ScoredCorpus, work: Path, dropped: Sequence[int] = ()) -> Floats | None:
    decision = Decisions(corpus, [CleanConfig()])
    decision.fate[list(dropped)] = FATES.index("numbers")
    return learn_mismatch(decision, work, seed=1, workers=1)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    folder = tmp_path_factory.mktemp("whole")
    pairs, bad = with_faults(translations(N))
    corpus = corpus_of(pairs, folder / "shards", N)
    probability = judge(corpus, folder / "work")
    assert probability is not None
    return corpus, bad, probability, folder / "work"


def test_shifted_and_swapped_lines_are_found_and_no_others(judged: Judged) -> None:
    _, bad, probability, _ = judged
    dropped = probability > 0.5
    assert np.all(dropped[SWAPPED])
    assert np.mean(dropped[bad]) > 0.97
    assert np.mean(dropped[~bad]) < 0.002


def test_shards_hardly_show(judged: Judged, tmp_path: Path) -> None:
    """But for the pairs that would cross their borders; one lies in a shifted block."""
    corpus, _, probability, _ = judged
    pairs = [pair for shard in corpus.shards for pair in shard.pairs()]
    other = judge(corpus_of(pairs, tmp_path / "shards", size=830), tmp_path / "other")
    assert other is not None
    differ = (probability > 0.5) != (other > 0.5)
    assert differ.sum() <= len(SHIFTS)


def test_dropped_pairs_count_for_nothing_and_change_the_model(
    judged: Judged, tmp_path: Path
) -> None:
    """They get no probability of their own, and the model that they were part of is removed."""
    corpus, _, _, work = judged
    shutil.copytree(work, tmp_path / "work")
    (before,) = (tmp_path / "work").iterdir()
    probability = judge(corpus, tmp_path / "work", [*SWAPPED, *range(810, 830)])  # in a block
    assert probability is not None
    assert np.all(probability[SWAPPED] < 0.1)
    assert np.mean(probability[830:860] > 0.5) > 0.9
    (after,) = (tmp_path / "work").iterdir()
    assert after != before


def test_work_that_is_done_is_not_done_again(judged: Judged, tmp_path: Path) -> None:
    corpus, _, first, work = judged
    shutil.copytree(work, tmp_path / "work")
    made = {path: path.stat().st_mtime_ns for path in (tmp_path / "work").rglob("*.np[yz]")}
    assert len(made) == 3  # the model, evidence, and that of shifted lines
    for path in made:
        if path.name.startswith("shifted"):
            path.unlink()  # as if killed before the last step
    np.testing.assert_array_equal(judge(corpus, tmp_path / "work"), first)
    again = {path: path.stat().st_mtime_ns for path in (tmp_path / "work").rglob("*.np[yz]")}
    assert again.keys() == made.keys()
    kept = [path for path in made if not path.name.startswith("shifted")]
    assert [again[path] for path in kept] == [made[path] for path in kept]


def test_too_little_text(tmp_path: Path) -> None:
    corpus = corpus_of(translations(200), tmp_path / "shards", 200)
    assert judge(corpus, tmp_path / "work") is None
