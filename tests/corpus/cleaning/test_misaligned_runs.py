"""From evidence along a corpus to probabilities: runs add up, clean corpora lose nothing."""

import itertools
import tracemalloc

import numpy as np
import pytest
from numpy.typing import NDArray

from transformer_mt.corpus.cleaning import misaligned_runs as mismatch
from transformer_mt.corpus.cleaning.misaligned_runs import NO_GAIN, find_mismatches

NO_GAINS = np.zeros((0, 0), dtype=np.float32)
Bools = NDArray[np.bool_]
Floats = NDArray[np.float32]


def mismatch_probability(evidence: Floats) -> Floats:
    return find_mismatches(evidence).probability(NO_GAINS)


def drawn(n: int, bad: Bools, distance: float, seed: int = 1) -> NDArray[np.float32]:
    """Evidence as a calibrated score gives it: log-odds of two normal distributions."""
    middle = np.where(bad, -distance, distance)
    # N(m, 2m) against N(-m, 2m) is its own log-likelihood ratio
    noise = np.random.default_rng(seed).normal(size=n) * np.sqrt(2 * distance)
    return (middle + noise).astype(np.float32)


def marked(n: int, *, runs: list[tuple[int, int]], alone: int, seed: int = 2) -> Bools:
    bad = np.zeros(n, dtype=bool)
    for start, length in runs:
        bad[start : start + length] = True
    bad[np.random.default_rng(seed).choice(n, alone, replace=False)] = True
    return bad


@pytest.mark.parametrize(("distance", "most_lost"), [(2.0, 0.0002), (6.0, 0.0)])
def test_a_clean_corpus_loses_next_to_nothing(distance: float, most_lost: float) -> None:
    evidence = drawn(50_000, np.zeros(50_000, dtype=bool), distance)
    assert np.mean(mismatch_probability(evidence) > 0.5) <= most_lost


def test_runs_are_found_where_single_lines_cannot_be() -> None:
    n = 30_000
    runs = marked(n, runs=[(100, 40), (9000, 150), (29_900, 100)], alone=0)
    evidence = drawn(n, runs, distance=1.5)
    dropped = mismatch_probability(evidence) > 0.5
    assert np.mean(evidence[~runs] < 0) > 0.1  # a threshold would lose as much
    assert np.mean(dropped[runs]) > 0.97
    assert np.mean(dropped[~runs]) < 0.001


def test_lines_alone_are_found_and_their_share_is_learned() -> None:
    n = 30_000
    bad = marked(n, runs=[], alone=600)
    evidence = drawn(n, bad, distance=5.0)
    probability = mismatch_probability(evidence)
    assert probability.mean() == pytest.approx(0.02, rel=0.15)
    best = 0.02 / (0.02 + 0.98 * np.exp(evidence))  # by who knows the share, and that none is a run
    found, possible = (np.mean(p[bad] > 0.5) for p in (probability, best))
    assert found > possible - 0.05
    assert np.mean(probability[~bad] > 0.5) < 0.002


def test_a_long_corpus_tells_its_shares_in_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    n = 200_000
    runs = [(start, 60) for start in range(500, n, 4000)]
    bad = marked(n, runs=runs, alone=4000)
    evidence = drawn(n, bad, distance=4.0)
    whole = find_mismatches(evidence)
    for name, value in {"_CHUNK": 512, "_RUN_UP": 128, "_BLOCK": 16 * 512}.items():
        monkeypatch.setattr(mismatch, name, value)
    seen: list[int] = []
    posteriors = mismatch._posteriors

    def counted(lines: Floats, *shares: float) -> tuple[Floats, Floats]:
        seen.append(len(lines))
        return posteriors(lines, *shares)

    monkeypatch.setattr(mismatch, "_posteriors", counted)
    found = find_mismatches(evidence)
    assert seen == [4 * 16 * 512] * mismatch._ROUNDS + [n], "all lines once"
    assert found.runs == pytest.approx(whole.runs, rel=0.1)
    dropped, expected = (f.probability(NO_GAINS) > 0.5 for f in (found, whole))
    assert np.mean(dropped != expected) < 3e-4


def test_suspects_are_what_surrounds_a_possible_run() -> None:
    evidence = np.full(3000, 6, dtype=np.float32)
    evidence[1000:1030] = -3
    evidence[0:8] = -3  # at the very start: nothing stands before it
    found = np.flatnonzero(find_mismatches(evidence).suspects())
    assert set(range(995, 1035)) <= set(found.tolist())
    assert {0, 7, 12} <= set(found.tolist())
    assert len(found) < 120
    assert not find_mismatches(np.full(3000, 6, dtype=np.float32)).suspects().any()
    assert len(find_mismatches(np.zeros(0, dtype=np.float32)).suspects()) == 0


@pytest.mark.parametrize("direction", [0, 1])
def test_a_shift_is_found_where_each_line_fits_well_by_itself(direction: int) -> None:
    """Neighbours resemble each other, so that shifted lines fit, but those next to them better."""
    n, bad = 5000, marked(5000, runs=[(2000, 8), (3000, 60)], alone=0)
    evidence = drawn(n, bad, distance=4.0)
    evidence[bad] = np.where(np.arange(bad.sum()) % 2, 3, -4)
    found = find_mismatches(evidence)
    alone = found.probability(NO_GAINS)[bad] > 0.5
    gains = np.full((2, n), -4, dtype=np.float32)
    gains[direction, bad] = 3
    gains[:, ~found.suspects()] = NO_GAIN
    dropped = found.probability(gains) > 0.5
    assert np.all(dropped[bad])
    assert not alone[:8].any()
    assert not dropped[~bad].any()


def test_a_single_line_that_fits_its_neighbour_better_is_no_shift() -> None:
    """Two sentences say nearly the same: the translation of either will do."""
    found = find_mismatches(np.full(2000, 5, dtype=np.float32))
    gains = np.full((1, 2000), -4, dtype=np.float32)
    gains[0, 1000] = 6
    assert found.probability(gains).max() < 0.1
    gains[:] = NO_GAIN  # no neighbours are known
    np.testing.assert_allclose(found.probability(gains), found.probability(NO_GAINS), atol=1e-3)


def test_memory_is_a_few_bytes_for_every_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"_ROUNDS": 2, "_CHUNK": 128, "_RUN_UP": 32, "_BLOCK": 8192}.items():
        monkeypatch.setattr(mismatch, name, value)
    n = 400_000
    evidence, gains = drawn(n, marked(n, runs=[], alone=100), 4.0), np.zeros((2, n), np.float32)
    tracemalloc.start()
    found = find_mismatches(evidence)
    most_finding = tracemalloc.get_traced_memory()[1]
    found.probability(gains)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most_finding < 4 * n * 2.5  # the two of `Mismatches`, and a block
    assert most < 4 * n * 3.5  # and the probability


def test_nothing_to_tell() -> None:
    assert len(mismatch_probability(np.zeros(0, dtype=np.float32))) == 0
    assert np.all(mismatch_probability(np.zeros(500, dtype=np.float32)) < 0.05)
    extreme = np.array([np.inf, -np.inf, 1e30, -1e30], dtype=np.float32)
    assert np.all(np.isfinite(mismatch_probability(extreme)))


@pytest.mark.parametrize(("name", "size"), [("_CHUNK", 9000), ("_BLOCK", 3072)])
def test_order_chunks_and_blocks_change_nothing(
    name: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines are worked on in pieces, each with a run-up; where the cuts are must not matter."""
    bad = marked(9000, runs=[(900, 200), (2990, 150), (5000, 50)], alone=90)
    evidence = drawn(9000, bad, distance=2.0)
    gains = np.where(bad, 3, -3).astype(np.float32)[None]
    whole = find_mismatches(evidence)
    backwards = find_mismatches(evidence[::-1])
    monkeypatch.setattr(mismatch, name, size)
    cut = find_mismatches(evidence)
    assert cut.runs == pytest.approx(whole.runs, rel=1e-3)
    for given in (NO_GAINS, gains):
        expected = whole.probability(given)
        np.testing.assert_allclose(cut.probability(given), expected, atol=1e-3)
        in_reverse = backwards.probability(given[:, ::-1])[::-1]
        np.testing.assert_allclose(in_reverse, expected, atol=1e-3)


def test_posteriors_are_those_of_all_paths_written_out() -> None:
    """Seven lines: every path of the chain, and every kind of line, summed by hand."""
    evidence = np.array([3, -2, -1, 0, -3, 2, 4], dtype=np.float32)
    runs = alone = 0.05
    leave = 1 / mismatch.MEAN_RUN
    enter = leave * runs / (1 - runs)
    fitting = mismatch._FITTING_IN_RUN
    move = {(0, 0): 1 - enter, (0, 1): enter, (1, 0): leave, (1, 1): 1 - leave}
    weight = {(0, False): 1 - alone, (0, True): alone, (1, False): fitting, (1, True): 1 - fitting}
    lines = list(itertools.product((0, 1), (False, True)))  # state, mismatched
    total, mismatched = 0.0, np.zeros(len(evidence))
    for path in itertools.product(lines, repeat=len(evidence)):
        p = runs if path[0][0] else 1 - runs
        for (one, _), (other, _) in itertools.pairwise(path):
            p *= move[one, other]
        for (state, bad), e in zip(path, evidence.tolist(), strict=True):
            p *= weight[state, bad] * (np.exp(-e) if bad else 1)
        total += p
        mismatched += p * np.array([bad for _, bad in path])
    found = sum(mismatch._posteriors(evidence, runs, alone))
    np.testing.assert_allclose(found, mismatched / total, rtol=1e-3)
