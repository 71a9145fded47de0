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
    every = list(blocks(pairs, size))
    n_learned = max(1, 10_000 // size)
    finder = ShiftFinder(every[:n_learned])
    for block in every[n_learned:]:
        finder.look(block)
    return finder.finish()


def plant(pairs: list[Pair], run: ShiftedRun) -> list[Pair]:
    """The same lines, but in the run each source stands beside its neighbour's target."""
    tgt = [text for _, text in pairs]
    inside = tgt[run.first - 1 : run.last]
    turned = inside[-1:] + inside[:-1] if run.shift > 0 else inside[1:] + inside[:1]
    tgt[run.first - 1 : run.last] = turned
    return [(src, text) for (src, _), text in zip(pairs, tgt, strict=True)]


def overlap(one: ShiftedRun, other: ShiftedRun) -> int:
    return max(0, min(one.last, other.last) - max(one.first, other.first) + 1)


@pytest.mark.skipif(not SHARED_DATA.is_dir(), reason=f"no real corpora in {SHARED_DATA}")
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


@pytest.mark.skipif(not SHARED_DATA.is_dir(), reason=f"no real corpora in {SHARED_DATA}")
def test_a_true_fault_of_a_published_corpus_is_found() -> None:
    """Read by a person: from line 1816 on, each zh line translates the en line that follows."""
    (run,) = found_in(read("k8s-docs-zh-en", ("zh", "en"), 6000))
    assert (run.shift, run.first) == (1, 1816)


@pytest.mark.skipif(not SHARED_DATA.is_dir(), reason=f"no real corpora in {SHARED_DATA}")
@pytest.mark.parametrize("n", [1000, 5000])
def test_small_and_mostly_shifted_sources(n: int) -> None:
    pairs = read("python-docs-zh-en", ("zh", "en"), n)
    assert found_in(pairs) == []
    (run,) = found_in(plant(pairs, ShiftedRun(n // 10, n, 1)))  # a line is missing early on
    assert run.shift == 1
    assert abs(run.first - n // 10) <= 5
    assert run.last >= n - 2


@pytest.mark.skipif(not SHARED_DATA.is_dir(), reason=f"no real corpora in {SHARED_DATA}")
def test_blocks_do_not_matter_once_all_is_learned() -> None:
    pairs = plant(read("multi30k", ("de", "en"), 16_000), ShiftedRun(11_950, 12_060, -1))
    first = list(blocks(pairs[:10_000]))
    results = []
    for size in (7, 500, 6000):
        finder = ShiftFinder(first)
        for block in blocks(pairs[10_000:], size):
            finder.look(block)
        results.append(finder.finish())
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


def slow_search(evidence: list[float], shift: int) -> list[ShiftedRun]:
    """The search over all gaps at once."""
    runs, start, total, peak, peak_at = [], 0, 0.0, 0.0, 0
    for gap, value in enumerate([*evidence, -1e9]):
        total += value
        if total > peak:
            peak, peak_at = total, gap
        elif total <= 0 or total < peak - 18:
            if peak >= 18:
                runs.append(ShiftedRun(start + 1, peak_at + 2, shift))
            start, total, peak = gap + 1, 0.0, 0.0
    return runs


@pytest.mark.parametrize("seed", range(5))
def test_the_search_is_the_same_in_any_pieces(seed: int) -> None:
    draw = np.random.default_rng(seed)
    evidence = draw.normal(-0.5, 3, size=3000)
    for start in draw.integers(0, 2900, size=6):
        evidence[start : start + draw.integers(5, 90)] += 3
    evidence = evidence.astype(np.float32)
    expected = slow_search(evidence.tolist(), 1)
    assert expected
    for n_pieces in (1, 2, 13, 400):
        search = _Search(1)
        runs = [run for part in np.array_split(evidence, n_pieces) for run in search.go_on(part)]
        assert runs + search.finish() == expected
