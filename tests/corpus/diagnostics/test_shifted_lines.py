"""Runs of shifted lines: all that are planted are found, in any blocks, and none where none is."""

import random
from collections.abc import Iterator

import numpy as np
import pytest
from places import ROOT

from transformer_mt.corpus.diagnostics.line_units import LineUnits
from transformer_mt.corpus.diagnostics.shifted_lines import ShiftedRun, ShiftFinder, _Search
from transformer_mt.corpus.readers.pairs import Pair

SHARED_DATA = ROOT.parent / "shared/data"


def read(corpus: str, codes: tuple[str, str], n: int | None = None) -> list[Pair]:
    paths = [SHARED_DATA / corpus / f"train.{code}" for code in codes]
    texts = [path.read_text(encoding="utf-8").split("\n")[:-1] for path in paths]
    return list(zip(*texts, strict=True))[:n]


def blocks(pairs: list[Pair], size: int = 2000) -> Iterator[tuple[LineUnits, LineUnits]]:
    for start in range(0, len(pairs), size):
        block = pairs[start : start + size]
        yield LineUnits.of([src for src, _ in block]), LineUnits.of([tgt for _, tgt in block])


def found_in(pairs: list[Pair], size: int = 2000) -> list[ShiftedRun]:
    finder = ShiftFinder(list(blocks(pairs[:10_000])))
    for block in blocks(pairs, size):
        finder.look(block)
    return finder.finish()


def plant(pairs: list[Pair], run: ShiftedRun) -> list[Pair]:
    """The same lines, but in the run each source stands beside its neighbour's target."""
    tgt = [text for _, text in pairs]
    inside = tgt[run.first - 1 : run.last]
    turned = inside[-1:] + inside[:-1] if run.shift > 0 else inside[1:] + inside[:1]
    tgt[run.first - 1 : run.last] = turned
    return [(src, text) for (src, _), text in zip(pairs, tgt, strict=True)]


needs_corpora = pytest.mark.skipif(not SHARED_DATA.is_dir(), reason=f"none in {SHARED_DATA}")


def overlap(one: ShiftedRun, other: ShiftedRun) -> int:
    return max(0, min(one.last, other.last) - max(one.first, other.first) + 1)


@needs_corpora
@pytest.mark.parametrize(
    ("corpus", "codes"),
    [
        ("tatoeba-zh-en", ("zh", "en")),
        ("tatoeba-zh-en", ("en", "zh")),
        ("python-docs-zh-en", ("zh", "en")),
        ("multi30k", ("de", "en")),
    ],
)
def test_planted_runs_are_found_and_no_others(corpus: str, codes: tuple[str, str]) -> None:
    pairs = read(corpus, codes, 24_000)
    draw = random.Random(6)
    planted = []
    for start in range(500, len(pairs) - 500, 2500):  # across the blocks' ends, too
        first = start + draw.randrange(1500)
        run = ShiftedRun(first, first + draw.randint(19, 199), draw.choice([1, -1]))
        planted.append(run)
        pairs = plant(pairs, run)
    found = found_in(pairs)
    # One may be missed: neighbours such as "I'm right." and "I'm ready." fit either way.
    assert len(planted) - 1 <= len(found) <= len(planted)
    for run in found:
        true = max(planted, key=lambda true: overlap(run, true))
        assert run.shift == true.shift
        assert overlap(run, true) >= 0.8 * (true.last - true.first + 1)
        assert abs(run.first - true.first) <= 5
        assert abs(run.last - true.last) <= 5


@needs_corpora
def test_a_true_fault_of_a_published_corpus_is_found() -> None:
    """Read by a person: from line 1816 on, each zh line translates the en line that follows."""
    (run,) = found_in(read("k8s-docs-zh-en", ("zh", "en"), 6000))
    assert (run.shift, run.first) == (1, 1816)


@needs_corpora
@pytest.mark.parametrize("n", [1000, 5000])
def test_small_and_mostly_shifted_sources(n: int) -> None:
    pairs = read("python-docs-zh-en", ("zh", "en"), n)
    assert found_in(pairs) == []
    (run,) = found_in(plant(pairs, ShiftedRun(n // 10, n, 1)))  # a line is missing early on
    assert run.shift == 1
    assert abs(run.first - n // 10) <= 5
    assert run.last >= n - 2


@needs_corpora
def test_blocks_do_not_matter() -> None:
    pairs = plant(read("multi30k", ("de", "en"), 16_000), ShiftedRun(11_950, 12_060, -1))
    results = [found_in(pairs, size) for size in (7, 500, 6000)]
    assert results[0] == results[1] == results[2]
    assert len(results[0]) == 1


def test_text_without_any_pattern_has_no_runs() -> None:
    draw = random.Random(1)
    letters = "abcdefghijklmnopqrstuvwxyz"
    texts = [
        " ".join("".join(draw.choices(letters, k=4)) for _ in range(draw.randrange(1, 9)))
        for _ in range(3000)
    ]
    assert found_in(list(zip(texts, texts[::-1], strict=True))) == []
    assert found_in([("same", "same")] * 1000) == []
    assert found_in([("", "")] * 1000) == []


def test_the_search_is_the_same_in_any_pieces() -> None:
    draw = np.random.default_rng(2)
    evidence = draw.normal(-0.5, 3, size=3000)
    for start in draw.integers(0, 2900, size=6):
        evidence[start : start + draw.integers(5, 90)] += 3
    found = []
    for n_pieces in (1, 2, 13, 400):
        search = _Search(1)
        runs = [run for part in np.array_split(evidence, n_pieces) for run in search.go_on(part)]
        found.append(runs + search.finish())
    assert found[0] and found == found[:1] * 4


@pytest.mark.parametrize(
    ("evidence", "runs"),
    [
        ([-1, 10, 9, -1, -1], [(2, 4)]),
        ([9, 8.5, -30, 20, 0, 0], [(4, 5)]),
        ([19, -20, 19, -20], [(1, 2), (3, 4)]),
        ([30, -15, 16, -1], [(1, 4)]),
    ],
)
def test_the_search_by_hand(evidence: list[float], runs: list[tuple[int, int]]) -> None:
    search = _Search(1)
    found = search.go_on(np.array(evidence, dtype=np.float32)) + search.finish()
    assert [(run.first, run.last) for run in found] == runs
