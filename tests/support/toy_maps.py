"""Attention maps with random weights."""

import numpy as np

from transformer_mt.translation.attention_maps import AttentionMaps

SRC = ["这", "只", "动物", "太", "累", "了", "。", "</s>"]
TGT = ["<s>", "▁The", "▁animal", "▁is", "▁tired", "."]


def softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (powers / powers.sum(axis=-1, keepdims=True)).astype(np.float32)


def make_maps(
    src: list[str] = SRC, tgt_in: list[str] = TGT, n_layers: int = 2, n_heads: int = 3
) -> AttentionMaps:
    generator = np.random.default_rng(7)
    tgt_out = [*tgt_in[1:], "</s>"]

    def scores(rows: int, columns: int) -> np.ndarray:
        return generator.normal(size=(n_layers, n_heads, rows, columns)) * 2

    n_src, n_tgt = len(src), len(tgt_in)
    seen = np.tril(np.ones((n_tgt, n_tgt), bool))
    return AttentionMaps(
        src_pieces=src,
        tgt_in_pieces=tgt_in,
        tgt_out_pieces=tgt_out,
        encoder=softmax(scores(n_src, n_src)),
        decoder=softmax(np.where(seen, scores(n_tgt, n_tgt), -np.inf)),
        cross=softmax(scores(n_tgt, n_src)),
        top_words=[[(piece, 0.75), ("▁other", 0.125)] for piece in tgt_out],
        translation="The animal is tired.",
        source="这只动物太累了。",
    )
