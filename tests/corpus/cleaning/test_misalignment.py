"""From scored shards to probabilities of mismatch: shifts, swaps, shards, resume."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from transformer_mt.config.experiment import Config, build_config
from transformer_mt.corpus.cleaning.decide import FATES, Fates
from transformer_mt.corpus.cleaning.misalignment import SHIFTS, learn_mismatch
from transformer_mt.corpus.cleaning.score_store import ScoredCorpus, ScoredPairs, write_shard
from transformer_mt.corpus.readers.pairs import Pair

SYLLABLES = [a + b for a in "bdfgklmnprst" for b in "aeiou"]
N = 3000
SHIFTED = (slice(800, 860), 1), (slice(2000, 2007), -1)
SWAPPED = [50, 1500, 2900]


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
    shards = []
    for start in range(0, len(pairs), size):
        part = pairs[start : start + size]
        lines = list(range(start + 1, start + 1 + len(part)))
        write_shard(ScoredPairs(lines, part, part, {}), folder / f"{start}.arrow")
        shards.append((folder / f"{start}.arrow", len(part)))
    return ScoredCorpus([shards])


def config(**data: Any) -> Config:
    languages = {"src": "en", "tgt": "de"}
    data = {"train": ["train"], "workers": 1, **data}
    return build_config({"name": "t", "languages": languages, "data": data}, "t.yaml")


def judge(corpus: ScoredCorpus, work: Path, fate: Fates | None = None) -> NDArray[np.float32]:
    if fate is None:
        fate = np.zeros(len(corpus), dtype=np.uint8)
    probability = learn_mismatch(config(), corpus, fate, ["text"], work, print)
    assert probability is not None
    return probability


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[ScoredCorpus, NDArray[np.bool_]]:
    pairs, bad = with_faults(translations(N))
    return corpus_of(pairs, tmp_path_factory.mktemp("whole") / "shards", N), bad


def test_shifted_and_swapped_lines_are_found_and_no_others(
    whole: tuple[ScoredCorpus, NDArray[np.bool_]], tmp_path: Path
) -> None:
    corpus, bad = whole
    dropped = judge(corpus, tmp_path / "work") > 0.5
    assert np.all(dropped[SWAPPED])
    assert np.mean(dropped[bad]) > 0.97
    assert np.mean(dropped[~bad]) < 0.002


def test_shards_hardly_show(whole: tuple[ScoredCorpus, NDArray[np.bool_]], tmp_path: Path) -> None:
    """But for the pairs that would cross their borders; one lies in a shifted block."""
    corpus, _ = whole
    pairs = [pair for shard in corpus.shards for pair in shard.pairs()]
    parts = corpus_of(pairs, tmp_path / "shards", size=830)
    one, other = judge(corpus, tmp_path / "one"), judge(parts, tmp_path / "other")
    differ = (one > 0.5) != (other > 0.5)
    assert differ.sum() <= len(SHIFTS)


def test_dropped_pairs_get_nothing_of_their_own(
    whole: tuple[ScoredCorpus, NDArray[np.bool_]], tmp_path: Path
) -> None:
    corpus, _ = whole
    fate = np.zeros(N, dtype=np.uint8)
    fate[SWAPPED] = FATES.index("swapped")
    fate[810:830] = FATES.index("numbers")  # within a block
    probability = judge(corpus, tmp_path / "work", fate)
    assert np.all(probability[SWAPPED] < 0.1)
    assert np.mean(probability[830:860] > 0.5) > 0.9


def test_work_that_is_done_is_not_done_again(
    whole: tuple[ScoredCorpus, NDArray[np.bool_]], tmp_path: Path
) -> None:
    corpus, _ = whole
    first = judge(corpus, tmp_path / "work")
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


def test_another_text_removes_what_was_made_of_the_first(
    whole: tuple[ScoredCorpus, NDArray[np.bool_]], tmp_path: Path
) -> None:
    corpus, _ = whole
    judge(corpus, tmp_path / "work")
    (before,) = (tmp_path / "work").iterdir()
    fate = np.zeros(N, dtype=np.uint8)
    fate[:500] = FATES.index("duplicate")
    judge(corpus, tmp_path / "work", fate)
    (after,) = (tmp_path / "work").iterdir()
    assert after != before


def test_too_little_text(tmp_path: Path) -> None:
    corpus = corpus_of(translations(200), tmp_path / "shards", 200)
    fate = np.zeros(200, dtype=np.uint8)
    assert learn_mismatch(config(), corpus, fate, ["text"], tmp_path / "work", print) is None
