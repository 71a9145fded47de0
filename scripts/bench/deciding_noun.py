"""Does the noun decide the pronoun? Value zeroing and raw attention on the demo's contrast set.

    python scripts/bench/deciding_noun.py -m runs/tiny

Of the sentences whose translation has "she" or "he" for a noun that says which, with no pronoun in
the Chinese, the share in which that noun has the largest share of what decides the pronoun, against
every other sub-word: by the weights of the best head of cross-attention (chosen on every other
sentence, tried on the rest), by their mean, and by value zeroing.
"""

import argparse
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

from transformer_mt.corpus.readers.demo import build_demo
from transformer_mt.explain.value_zeroing import movements
from transformer_mt.pipeline.run_dir import find_model
from transformer_mt.system.arrays import Floats
from transformer_mt.translation.translator import Translator

NOUN = re.compile(
    "女孩|男孩|女人|男人|公主|王子|国王|女王|[女男](?:演员|服务员|警察)|妈妈|爸爸|奶奶|爷爷|姐姐|妹妹|哥哥|"
    "弟弟|阿姨|叔叔|女儿|儿子|汤姆|玛丽|安娜|杰克|露西|彼得|小明|小红|大卫|丽莎|约翰|爱丽丝"
)


class Asked(NamedTuple):
    source: str
    translation: str
    pronoun: str  # ▁she or ▁he
    noun: range  # characters of the source


def asked_sentences() -> list[Asked]:
    found: dict[str, Asked] = {}
    for source, right, _ in build_demo().contrast:
        nouns, pronoun = list(NOUN.finditer(source)), re.search(r"because (she|he) ", right)
        if len(nouns) == 1 and pronoun and not re.search("[他她它]", source):
            (noun,) = nouns
            found[source] = Asked(source, right, f"▁{pronoun[1]}", range(*noun.span()))
    return list(found.values())


def shares_of(translator: Translator, asked: Asked) -> dict[str, Floats]:
    """By measure: shares of the noun and then of every other piece, (…, 1 + others)."""
    src_ids, tgt_ids = translator.forced_ids(asked.source, asked.translation)
    src = translator.src_tokenizer.pieces(src_ids)
    step = translator.tgt_tokenizer.pieces(tgt_ids).index(asked.pronoun)
    ends = np.cumsum([len(piece.strip("▁")) for piece in src[:-1]])
    noun = [i for i, end in enumerate(ends) if end - 1 in asked.noun]
    groups = [noun, *([i] for i in range(len(src)) if i not in noun)]
    maps = translator.attention(asked.source, asked.translation)
    weights = maps.cross[:, :, step]  # (L, H, S)
    heads = np.stack([weights[..., group].sum(axis=-1) for group in groups], axis=-1)
    found = {"heads": heads, "mean": heads.mean(axis=(0, 1))}
    padded = translator.pad([src_ids])
    for name in ("cross", "encoder"):
        moved = movements(translator.model, padded, tgt_ids, groups, encoder=name == "encoder")
        found[name] = moved[step].numpy()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-m", "--model", type=Path)
    translator = Translator.load(find_model(parser.parse_args().model), precision="fp32")
    all_shares = [shares_of(translator, asked) for asked in asked_sentences()]
    won = {  # the noun, which stands first, has the largest share
        name: np.stack([shares[name].argmax(axis=-1) == 0 for shares in all_shares])
        for name in all_shares[0]
    }
    heads = won["heads"]
    layer, head = np.unravel_index(heads[::2].mean(axis=0).argmax(), heads.shape[1:])
    best = heads[1::2, layer, head].mean()
    print(f"{len(all_shares)} sentences")
    print(f"raw attention, best head (layer {layer + 1}, head {head + 1}): {best:.1%}")
    print(f"raw attention, mean of all heads: {won['mean'].mean():.1%}")
    print(f"value zeroing, cross-attention: {won['cross'].mean():.1%}")
    print(f"value zeroing, encoder and cross-attention: {won['encoder'].mean():.1%}")


if __name__ == "__main__":
    main()
