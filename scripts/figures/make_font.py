"""Make the font that tmt ships, so that heatmaps show Chinese on machines without a Chinese font.

Comes in: NotoSansCJKsc-Regular.otf. Goes out: `tmt-cjk.otf`, the same outlines for fewer
characters, under a name of its own. The result depends on nothing but the font that comes in and
the version of fontTools.

    python scripts/figures/make_font.py NotoSansCJKsc-Regular.otf
"""

import argparse
import os
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont

OUT_PATH = Path(__file__).parents[2] / "transformer_mt/rendering/fonts/tmt-cjk.otf"
FAMILY = "tmt CJK"
POSTSCRIPT_NAME = "tmtCJK-Regular"
MAX_BYTES = 3_500_000

# First and last code point of what is kept besides the two Chinese character sets.
BLOCKS = (
    (0x0020, 0x007E),  # ASCII
    (0x00A0, 0x00FF),  # Latin-1
    (0x2000, 0x206F),  # general punctuation
    (0x2190, 0x21FF),  # arrows
    (0x2580, 0x259F),  # blocks; SentencePiece writes U+2581 for a space
    (0x3000, 0x30FF),  # CJK punctuation, hiragana, katakana
    (0xFF00, 0xFFEF),  # full-width forms
)
NAME_IDS_KEPT = (0, 5, 7, 8, 9, 10, 11, 12, 13, 14)  # copyright, version, makers, licence
UNUSED_TABLES = ["GPOS", "GSUB", "BASE", "VORG", "vhea", "vmtx", "DSIG"]


def characters() -> set[int]:
    """Code points to keep: all of GB 2312, level 1 of Big5 (common traditional), `BLOCKS`."""
    kept = {point for first, last in BLOCKS for point in range(first, last + 1)}
    kept |= _decodable("gb2312", range(0xA1A1, 0xF7FF))
    kept |= _decodable("big5", range(0xA440, 0xC67F))
    return kept


def _decodable(codec: str, codes: range) -> set[int]:
    """Characters of the two-byte codes in a range that the codec knows."""
    texts = (code.to_bytes(2, "big").decode(codec, errors="ignore") for code in codes)
    return {ord(text) for text in texts if len(text) == 1 and ord(text) > 0x7F}


def make_font(source_path: Path) -> TTFont:
    """Keep the outlines of `characters()`, drop layout rules and hints, rename the family."""
    font = TTFont(source_path, recalcTimestamp=False)
    options = subset.Options(
        hinting=False,
        layout_features=[],
        desubroutinize=True,
        notdef_outline=True,
        drop_tables=UNUSED_TABLES,
        name_IDs=NAME_IDS_KEPT,
    )
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=characters())
    subsetter.subset(font)
    _rename(font)
    return font


def _rename(font: TTFont) -> None:
    version = font["name"].getDebugName(5)
    names = {
        1: FAMILY,
        2: "Regular",
        3: f"{POSTSCRIPT_NAME}; subset of Noto Sans CJK SC, {version}",
        4: FAMILY,
        6: POSTSCRIPT_NAME,
    }
    for name_id, text in names.items():
        font["name"].setName(text, name_id, 3, 1, 0x409)  # Windows, Unicode, English
    compact = font["CFF "].cff
    compact.fontNames = [POSTSCRIPT_NAME]
    compact.topDictIndex[0].FullName = FAMILY
    compact.topDictIndex[0].FamilyName = FAMILY


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("font", type=Path, help="NotoSansCJKsc-Regular.otf")
    parser.add_argument("--out", type=Path, default=OUT_PATH)
    arguments = parser.parse_args()
    font = make_font(arguments.font)
    temporary_path = arguments.out.with_suffix(".tmp")
    font.save(temporary_path)
    size = temporary_path.stat().st_size
    if size > MAX_BYTES:
        raise SystemExit(f"{size} bytes are more than {MAX_BYTES}; keep fewer characters")
    os.replace(temporary_path, arguments.out)
    print(f"{arguments.out}: {len(font.getBestCmap())} characters, {size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
