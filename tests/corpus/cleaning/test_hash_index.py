"""The index of some hashes finds what a dictionary finds, equal leading bits included."""

import numpy as np
import pytest

from transformer_mt.corpus.cleaning.score_store import HashIndex


@pytest.mark.parametrize("n_members", [0, 1, 2, 1000])
def test_members_are_found_and_their_neighbours_are_not(n_members: int) -> None:
    rng = np.random.default_rng(n_members)
    members = rng.integers(0, 2**64, n_members, dtype=np.uint64)
    near = np.concatenate([members ^ np.uint64(1), members ^ np.uint64(1 << 63)])
    edges = np.array([0, 1, 2**63, 2**64 - 1], dtype=np.uint64)
    asked = np.concatenate([members, near, edges, members[::-1]])
    index = HashIndex(np.concatenate([members, members[:1]]))
    places = {int(member): place for place, member in enumerate(sorted(set(members.tolist())))}
    assert index.unique.tolist() == list(places)
    assert index.find(asked).tolist() == [places.get(int(h), len(places)) for h in asked]
    assert index.find(asked[:0]).tolist() == []


def test_zero_and_the_largest_hash_are_members_like_others() -> None:
    index = HashIndex(np.array([2**64 - 1, 0], dtype=np.uint64))
    asked = np.array([0, 2**64 - 1, 1, 2**64 - 2], dtype=np.uint64)
    assert index.find(asked).tolist() == [0, 1, 2, 2]
