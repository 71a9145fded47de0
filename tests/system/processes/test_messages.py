"""Values arrive as they were sent, and nothing that arrives is run."""

import json
import math
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer_mt.system.processes.messages import decode_message, encode_message

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
    assert repr(decode_message(encode_message(value))) == repr(value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.0, 5e-324, 0.1 + 0.2])
def test_floats_are_exact(value: float) -> None:
    assert repr(decode_message(encode_message(value))) == repr(value)


@pytest.mark.parametrize("value", [object(), {1, 2}, b"x", 1j, [print], {"a": range(3)}])
def test_other_types_are_refused(value: object) -> None:
    with pytest.raises(TypeError, match="cannot be told to another process: use plain values"):
        encode_message(value)


@pytest.mark.parametrize(
    "text", [b"", b"{}", b'{"tensor": ["load", [1]]}', b'{"other": 1}', pickle.dumps(print)]
)
def test_other_bytes_are_errors(text: bytes) -> None:
    with pytest.raises((ValueError, AssertionError)):
        decode_message(text)


def test_it_is_json() -> None:
    assert json.loads(encode_message({"a": (1, None)})) == {"dict": [["a", {"tuple": [1, None]}]]}
