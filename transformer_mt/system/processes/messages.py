"""Plain values ↔ bytes, for processes that send each other messages.

Comes in: None, bool, int, float, str, and lists, tuples and dictionaries of these. Goes out: JSON.
No pickle: reading runs no code, also with hostile bytes.
"""

import json
from typing import Any

_TUPLE, _DICT = "tuple", "dict"  # JSON has neither tuples nor keys that are not text


def encode_message(value: object) -> bytes:
    """
    Raises:
        TypeError: something else is in the value; its owner turns it into plain values.
    """
    return json.dumps(_plain(value)).encode()


def decode_message(text: bytes) -> Any:
    return _value(json.loads(text))


def _plain(value: object) -> object:
    if value is None or type(value) in (bool, int, str):
        return value
    if isinstance(value, float):  # NumPy's float64 is one
        return float(value)
    if type(value) is list:
        return [_plain(item) for item in value]
    if type(value) is tuple:
        return {_TUPLE: [_plain(item) for item in value]}
    if type(value) is dict:
        return {_DICT: [[_plain(key), _plain(item)] for key, item in value.items()]}
    raise TypeError(f"{type(value).__name__} cannot be told to another process: use plain values")


def _value(plain: Any) -> Any:
    if isinstance(plain, list):
        return [_value(item) for item in plain]
    if not isinstance(plain, dict):
        return plain
    ((kind, content),) = plain.items()
    if kind == _DICT:
        return {_value(key): _value(item) for key, item in content}
    assert kind == _TUPLE
    return tuple(_value(item) for item in content)
