"""The embeddings that a training begins with, where `train.first_embeddings` is `cooccurrence`."""

import math

import torch
from torch import Tensor

from transformer_mt.config.experiment import Config
from transformer_mt.encoding.cooccurrence import cooccurrence_vectors
from transformer_mt.encoding.encoded_corpus import EncodedCorpus
from transformer_mt.model.encoder_decoder import EncoderDecoder

_SHARE = 0.8  # of the vectors; with the rest, drawn at random, like words are still told apart


@torch.no_grad()
def use_cooccurrence(model: EncoderDecoder, cfg: Config, corpus: EncodedCorpus) -> None:
    """Mix vectors of co-occurrence into embeddings that were drawn at random, and so the output's.

    The entries keep their size, about 1 / √D; a word that never occurs keeps its random vector.
    """
    sides = model.encoder_embedding.tokens.weight, model.decoder_embedding.tokens.weight
    vectors = cooccurrence_vectors(
        corpus,
        len(sides[0]),
        len(sides[1]),
        joint=cfg.tokenizer.joint,
        width=cfg.model.d_model,
        seed=cfg.seed,
    )
    # Tied weights are one object, which is mixed once.
    given = zip((*sides, model.output.weight), (*vectors, vectors[1]), strict=True)
    for weight, side in {id(weight): (weight, side) for weight, side in given}.values():
        _mix(weight, side.to(weight))


def _mix(weight: Tensor, vectors: Tensor) -> None:
    """(V, D) both; `weight` is changed."""
    occurs = vectors.any(dim=1)
    mixed = math.sqrt(1 - _SHARE**2) * weight + _SHARE * vectors
    weight.copy_(mixed.where(occurs[:, None], weight))
