"""Words that a text has, and how strange another one is to it."""

from pathlib import Path

import numpy as np
import pytest

from transformer_mt.text.known_units import KnownUnits
from transformer_mt.text.units import N_SLOTS

TRAIN = ["the cat sees the dog", "a dog runs home", "这只猫看见狗。", "狗跑回家。"]


@pytest.fixture(scope="module")
def known() -> KnownUnits:
    return KnownUnits.of([TRAIN[:2], TRAIN[2:]], ["the dog runs", "a cat"])


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("The DOG sees a cat!", 0),
        ("der Hund sieht die Katze", 1),
        ("the Hund", 0.5),
        ("看见狗", 0),
        ("狗见看", 0.4),  # its three characters are known, its two pairs are not
        ("😀 …", 0),
        ("", 0),
    ],
)
def test_shares(known: KnownUnits, text: str, share: float) -> None:
    assert known.unknown_shares([text, "x"])[0] == pytest.approx(share)


def test_the_threshold_is_beyond_usual_texts() -> None:
    assert KnownUnits.of([TRAIN], TRAIN).threshold == 0.5, "four texts tell little"
    assert KnownUnits.of([TRAIN], TRAIN * 100).threshold == 0.25
    strange = [f"new{i} words{i} a cat" for i in range(100)]
    found = KnownUnits.of([TRAIN], strange)
    assert found.threshold == pytest.approx(4 / 6), "words and numbers are units of their own"
    assert (found.unknown_shares(strange) <= found.threshold).all()
    assert KnownUnits.of([TRAIN], ["x y z"] * 9).threshold < 1, "something is always strange"


def test_of_many_units_the_frequent_ones_are_known() -> None:
    rare = [f"rare{i}x" for i in range(150_000)]
    found = KnownUnits.of([[" ".join(rare)], ["common word"] * 3], [])
    assert found.unknown_shares(["common word"])[0] == 0
    assert found.unknown_shares([" ".join(rare)])[0] > 0.25


def test_saved_and_loaded(known: KnownUnits, tmp_path: Path) -> None:
    known.save(tmp_path / "a.npz")
    known.save(tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    again = KnownUnits.load(tmp_path / "a.npz")
    assert again.threshold == known.threshold
    assert again.unknown_shares(TRAIN).max() == 0
    np.savez(tmp_path / "short.npz", known=np.zeros(N_SLOTS // 16, np.uint8), threshold=0.5)
    with pytest.raises(ValueError, match="expected 131072"):
        KnownUnits.load(tmp_path / "short.npz")
