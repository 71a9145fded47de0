"""In which heads of a demo model does a pronoun look at its noun? The table of docs/attention.md.

    python scripts/figures/pronoun_peaks.py [runs/tiny]

A head counts if the largest weight of the row lies on the noun; shown is all weight on the noun.
"""

import argparse
from pathlib import Path

from transformer_mt.explain.telling_heads import head_weights
from transformer_mt.pipeline.run_dir import find_model
from transformer_mt.translation.attention_maps import AttentionMaps, Kind
from transformer_mt.translation.translator import Translator

SENTENCES = [  # Chinese, its noun, the English pronoun
    ("这只动物没有穿过街道，因为它太累了。", "动物", "▁it"),
    ("这只动物没有穿过街道，因为它太宽了。", "街道", "▁it"),
    ("这个女孩没有穿过街道，因为太累了。", "女孩", "▁she"),
    ("这个女孩没有穿过街道，因为太宽了。", "街道", "▁it"),
    ("这些动物没有穿过街道，因为太累了。", "动物", "▁they"),
]


def show(maps: AttentionMaps, kind: Kind, label: str, row: int, noun: str) -> None:
    columns = [i for i, piece in enumerate(maps.src_pieces) if piece in noun]
    peaks = [own for own in head_weights(maps, kind, [row], columns) if own.peaks]
    found = "; ".join(f"{own.layer}, {own.head}: {own.weight:.2f}" for own in peaks)
    print(f"  {label} → {noun}: {found or 'no head'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run_dir", type=Path, nargs="?")
    model_dir = find_model(parser.parse_args().run_dir)
    translator = Translator.load(model_dir, precision="fp32")
    for source, noun, pronoun in SENTENCES:
        maps = translator.attention(source)
        print(f"{source}  {maps.translation}")
        if pronoun in maps.tgt_out_pieces:
            row = maps.tgt_out_pieces.index(pronoun)
            show(maps, "cross", f"step that writes {pronoun}", row, noun)
        if "它" in maps.src_pieces:
            show(maps, "encoder", "encoder row 它", maps.src_pieces.index("它"), noun)


if __name__ == "__main__":
    main()
