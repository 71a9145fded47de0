"""Shapes of lines: a line without a partner is found from lengths, digits and end marks alone."""

import random

import numpy as np
import pytest
from places import ROOT

from transformer_mt.corpus.readers.line_counts import first_suspect, line_shapes
from transformer_mt.corpus.readers.pairs import split_lines

SHARED_DATA = ROOT / ".." / "shared" / "data"


def test_first_of_several_missing_lines() -> None:
    lengths = random.Random(5)
    longer = line_shapes("x" * lengths.randrange(3, 90) for _ in range(800))
    shorter = np.delete(longer, [249, 250, 251, 600], axis=0)
    assert abs((first_suspect(longer, shorter) or 0) - 250) <= 3


def test_nothing_to_suspect() -> None:
    shapes = line_shapes(["one", "two"] * 100)
    assert first_suspect(shapes, shapes) is None
    assert first_suspect(shapes, shapes[:100]) is None  # too many
    assert first_suspect(shapes, shapes[:0]) is None


@pytest.mark.skipif(not SHARED_DATA.is_dir(), reason=f"no real corpora in {SHARED_DATA}")
def test_first_suspect_on_real_text() -> None:
    directory = SHARED_DATA / "k8s-docs-zh-en"
    zh, en = (line_shapes(split_lines(directory / f"train.{code}")) for code in ("zh", "en"))
    for missing in (100, 1234, 2500):
        suspect = first_suspect(zh[:3000], np.delete(en[:3000], missing - 1, axis=0))
        assert suspect is not None
        assert abs(suspect - missing) <= 5
