"""Values arrive as they were sent, and nothing that arrives is run."""

import json
import math
import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transformer_mt.system.processes.messages import pack, unpack

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
KEYS = st.integers() | st.text() | st.tuples(st.integers(), st.text())
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(KEYS, inner, max_size=5)
    ),
    max_leaves=20,
)


@given(VALUES)
def test_values_arrive_with_their_types(value: object) -> None:
    """`repr` tells tuples from lists, 1 from 1.0 and from True, and NaN is NaN."""
    text, tensors = pack(value)
    assert not tensors
    assert repr(unpack(text)[0]) == repr(value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.0, 5e-324, 0.1 + 0.2])
def test_floats_are_exact(value: float) -> None:
    assert repr(unpack(pack(value)[0])[0]) == repr(value)


def test_tensors_are_sent_apart() -> None:
    weights = {"a": torch.ones(2, 3, dtype=torch.bfloat16), "b": torch.tensor(True)}
    text, sent = pack((weights, [3, 4]))
    assert sent[0] is weights["a"] and sent[1] is weights["b"] and len(text) < 200
    (found, updates), filled = unpack(text)
    assert updates == [3, 4] and list(found) == ["a", "b"]
    assert found["a"] is filled[0] and found["b"] is filled[1]
    assert [(t.dtype, t.shape) for t in filled] == [(t.dtype, t.shape) for t in sent]


@pytest.mark.parametrize("value", [object(), {1, 2}, b"x", 1j, [print], {"a": range(3)}])
def test_other_types_are_refused(value: object) -> None:
    with pytest.raises(TypeError, match="cannot be told to another process: use plain values"):
        pack(value)


@pytest.mark.parametrize(
    "text", [b"", b"{}", b'{"tensor": ["load", [1]]}', b'{"other": 1}', pickle.dumps(print)]
)
def test_other_bytes_are_errors(text: bytes) -> None:
    with pytest.raises((ValueError, AssertionError)):
        unpack(text)


def test_it_is_json() -> None:
    assert json.loads(pack({"a": (1, None)})[0]) == {"dict": [["a", {"tuple": [1, None]}]]}
