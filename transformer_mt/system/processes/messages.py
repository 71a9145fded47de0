"""Plain values ↔ bytes and tensors, for processes that tell each other something.

Comes in: None, bool, int, float, str, Tensor, and lists, tuples and dictionaries of these. Goes
out: JSON, and the tensors apart. No pickle: reading runs no code, also with hostile bytes.
"""

import json
from typing import Any

import torch
from torch import Tensor

_TUPLE, _DICT, _TENSOR = "tuple", "dict", "tensor"  # how JSON names what it does not have


def pack(value: object) -> tuple[bytes, list[Tensor]]:
    """The text of a value, and its tensors in order.

    Raises:
        TypeError: something else is in it; its owner turns it into plain values.
    """
    tensors: list[Tensor] = []
    return json.dumps(_plain(value, tensors)).encode(), tensors


def unpack(text: bytes) -> tuple[Any, list[Tensor]]:
    """The inverse; the tensors, of which the text has the shape alone, are still to be filled."""
    tensors: list[Tensor] = []
    return _value(json.loads(text), tensors), tensors


def _plain(value: object, tensors: list[Tensor]) -> object:
    if value is None or type(value) in (bool, int, str):
        return value
    if isinstance(value, float):  # NumPy's float64 is one
        return float(value)
    if type(value) is list:
        return [_plain(item, tensors) for item in value]
    if type(value) is tuple:
        return {_TUPLE: [_plain(item, tensors) for item in value]}
    if type(value) is dict:
        pairs = [[_plain(key, tensors), _plain(item, tensors)] for key, item in value.items()]
        return {_DICT: pairs}
    if isinstance(value, Tensor):
        tensors.append(value)
        return {_TENSOR: [str(value.dtype).removeprefix("torch."), list(value.shape)]}
    raise TypeError(f"{type(value).__name__} cannot be told to another process: use plain values")


def _value(plain: Any, tensors: list[Tensor]) -> Any:
    if isinstance(plain, list):
        return [_value(item, tensors) for item in plain]
    if not isinstance(plain, dict):
        return plain
    ((kind, content),) = plain.items()
    if kind == _TUPLE:
        return tuple(_value(item, tensors) for item in content)
    if kind == _DICT:
        return {_value(key, tensors): _value(item, tensors) for key, item in content}
    assert kind == _TENSOR
    name, shape = content
    dtype = getattr(torch, name)
    assert isinstance(dtype, torch.dtype)
    tensors.append(torch.empty(shape, dtype=dtype))
    return tensors[-1]
