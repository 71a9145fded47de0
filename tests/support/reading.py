"""Obtain a source by name; read one below a folder, for its pairs or for its mistake."""

from pathlib import Path
from typing import Any

import pyarrow
import pytest

from transformer_mt.config.data import Languages, Source
from transformer_mt.corpus.readers.pairs import read_pairs
from transformer_mt.corpus.readers.tables import Pair, Role
from transformer_mt.corpus.sources.cache import Cache
from transformer_mt.corpus.sources.local import Obtained
from transformer_mt.corpus.sources.obtain import obtain
from transformer_mt.errors import DataError

ZH_EN = Languages(src="zh", tgt="en")
ZH, EN = "你好。\n再见。\n".encode(), b"Hello.\nGoodbye.\n"
PAIRS = [("你好！", "Hello!"), ("他走了。", "He left."), ("「好」", 'A "quoted" one')]


def turned(pairs: list[Pair]) -> list[Pair]:
    return [(tgt, src) for src, tgt in pairs]


def read(
    root: Path,
    languages: Languages = ZH_EN,
    role: Role = "train",
    *,
    offline: bool = False,
    **source: Any,
) -> list[Pair]:
    given = Source(**source)
    return list(read_pairs(given, languages, root=root, role=role, offline=offline))


def refusal(root: Path, languages: Languages = ZH_EN, **source: Any) -> str:
    with pytest.raises(DataError) as caught:
        read(root, languages, **source)
    return str(caught.value)


def obtained(
    folder: Path, languages: Languages = ZH_EN, offline: bool = False, **source: Any
) -> Obtained:
    """A source by name, with the cache in a folder."""
    return obtain(Source(**source), languages, Cache(folder, offline))


def texts(found: Obtained) -> list[bytes]:
    return [Path(path).read_bytes() for path in found.source.files or []]


def zstd(data: bytes) -> bytes:
    sink = pyarrow.BufferOutputStream()
    with pyarrow.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()
