"""A model of base's size that translates as a small one does, without training it.

    python scripts/bench/widened.py -m runs/multi30k-en-de -o widened

MODEL has `architecture: modern`. Its matrices stand in the corner of those of base, the rest is 0;
layers that are added do nothing. So it computes what base computes, and says what MODEL says: for
the speed of a server or a search, where a model with random weights would write until its limit.
Prints how far the log-probabilities of the first sentences of MODEL's dev are apart.
"""

import argparse
from pathlib import Path

import torch
from torch import Tensor

from transformer_mt.config.experiment import Config
from transformer_mt.corpus.readers.lines import split_lines
from transformer_mt.model_dir import build_model, load_tokenizers, save_model_dir, weights_of
from transformer_mt.translation.translator import Translator

BASE = {"d_model": 512, "heads": 8, "ffn": 2048, "encoder_layers": 6, "decoder_layers": 6}
METADATA = {"finished": "", "trained": {}, "data": {}, "decode": {}, "scores": {}}


def head_features(d_model: int, heads: int) -> Tensor:
    """(d_model,) where the features of small heads go: their rotary pairs to equal frequencies."""
    small, wide = d_model // heads, BASE["d_model"] // BASE["heads"]
    feature = torch.arange(d_model)
    head, pair, half = feature // small, feature % small // 2, feature % 2
    return head * wide + pair * (wide // small) * 2 + half


def widened(
    weights: dict[str, Tensor], cfg: Config, of_base: dict[str, Tensor]
) -> dict[str, Tensor]:
    """The weights in the shapes of those of base."""
    d_model, wide = cfg.model.d_model, BASE["d_model"]
    features = head_features(d_model, cfg.model.heads)
    head_ratio = (wide // BASE["heads"]) / (d_model // cfg.model.heads)
    grows = (wide / d_model) ** 0.5  # the embeddings' factor, and so all that is added to them
    found = {name: torch.zeros_like(weight) for name, weight in of_base.items()}
    for name, weight in weights.items():
        new = found[name]
        if name.endswith("norm.weight"):  # the mean square is over more features, most of them 0
            new[:d_model] = weight / grows
        elif "_proj" in name and "attn" in name and "out_proj" not in name:
            n_maps = len(weight) // d_model
            for i, part in enumerate(weight.split(d_model)):
                is_query = "q_proj" in name or (n_maps == 3 and i == 0)
                scale = head_ratio**0.5 if is_query else 1.0
                new[i * wide + features, :d_model] = part * scale
        elif "out_proj" in name:
            new[:d_model, features] = weight * grows
        else:
            rows, columns = weight.shape
            new[:rows, :columns] = weight * (grows if "down_proj" in name else 1.0)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-m", "--model", type=Path, required=True, help="a run")
    parser.add_argument("-o", "--out", type=Path, required=True, help="a model directory")
    arguments = parser.parse_args()
    small = Translator.load(arguments.model / "model", precision="fp32")
    cfg = small.cfg.model_copy(update={"model": small.cfg.model.model_copy(update=BASE)})
    tokenizers = load_tokenizers(arguments.model / "model", joint=cfg.tokenizer.joint)
    empty = weights_of(build_model(cfg, tokenizers))
    weights = widened(weights_of(small.model), small.cfg, empty)
    save_model_dir(arguments.out, cfg, weights, arguments.model / "model", METADATA)
    large = Translator.load(arguments.out, precision="fp32")
    dev = arguments.model / "data/clean"
    srcs, tgts = ([*split_lines(dev / f"dev.{side}")][:50] for side in ("src", "tgt"))
    both = [[score.log_prob for score in one.score_pairs(srcs, tgts)] for one in (small, large)]
    apart = max(abs(a - b) for a, b in zip(*both, strict=True))
    print(f"log-probabilities of {len(srcs)} translations are at most {apart:.1e} nats apart")


if __name__ == "__main__":
    main()
