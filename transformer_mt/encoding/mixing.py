"""Which rows of the encoded corpus an epoch holds, as a pure function of weights, seed and epoch.

A weight is how often an epoch holds the pairs of a source: 2 is twice each, 0.5 is half of them,
and the other half in the next epoch. This file knows nothing of batches.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from transformer_mt.config.data import DataConfig
from transformer_mt.config.experiment import Config
from transformer_mt.encoding.encoded_corpus import EncodedCorpus, Indices, Sources
from transformer_mt.encoding.tokenizer import Tokenizer


def source_weights(data: DataConfig) -> list[float]:
    """How often an epoch holds each pair of each source of `data.train`."""
    return [1.0 if source.weight is None else source.weight for source in data.train]


def epoch_rows(
    sources: Sources | None, weights: Sequence[float], *, seed: int, epoch: int
) -> Indices | None:
    """The rows of one epoch; None: every row once, in order.

    The whole part of a weight repeats all rows of its source. The rest goes around the source in an
    order that is drawn once: each epoch takes the next share, so that none holds a row twice on its
    account, and after any number of epochs no row has been seen more than once more than another.
    A share of less than a row waits for the epoch in which it makes a whole one.

    Args:
        sources: (n,) index into `weights` of every row; None only if all weights are 1.
        weights: times seen per epoch, > 0.
    """
    if all(weight == 1 for weight in weights):
        return None
    assert sources is not None, "weights need to know where rows are from"
    parts = []
    for source, weight in enumerate(weights):
        rows = np.flatnonzero(sources == source)
        whole = math.floor(weight)
        parts += [rows] * whole
        if share := Fraction(str(weight)) - whole:  # 0.3 is three tenths, as it was written
            first, end = (math.floor(e * share * len(rows)) for e in (epoch, epoch + 1))
            order = np.random.default_rng([seed, source]).permutation(len(rows))
            parts.append(rows[order[np.arange(first, end) % max(1, len(rows))]])
    return np.concatenate(parts)


@dataclass(frozen=True)
class SourceShare:
    """What a source gives to an epoch. With both directions, every pair makes two rows."""

    source: str
    rows: int  # of the encoded corpus
    weight: float
    rows_in_epoch: int
    tokens_in_epoch: int  # of the target, EOS included


def describe_epoch(cfg: Config, corpus: EncodedCorpus, epoch: int) -> list[SourceShare]:
    """What an epoch of an experiment holds, by source in the order of `data.train`."""
    weights = source_weights(cfg.data)
    rows, sources = _rows_of(cfg, corpus, epoch)
    tgt_lengths, n = corpus.tgt.lengths[rows], len(weights)
    totals = np.bincount(sources, minlength=n).tolist()
    counts = np.bincount(sources[rows], minlength=n).tolist()
    tokens = np.bincount(sources[rows], weights=tgt_lengths, minlength=n).astype(int).tolist()
    names = map(str, cfg.data.train)
    return list(map(SourceShare, names, totals, weights, counts, tokens))


@dataclass(frozen=True)
class EpochExample:
    source: str
    tags: str  # the marks before the source sentence
    src: str
    tgt: str


def sample_epoch(
    cfg: Config,
    corpus: EncodedCorpus,
    tokenizers: tuple[Tokenizer, Tokenizer],
    epoch: int,
    n_examples: int,
) -> list[EpochExample]:
    """Some pairs of an epoch, drawn at random but the same for the same epoch."""
    rows, sources = _rows_of(cfg, corpus, epoch)
    random = np.random.default_rng([cfg.seed, epoch, n_examples])
    chosen = rows[random.choice(len(rows), min(n_examples, len(rows)), replace=False)]
    names = {id_: piece for piece, id_ in tokenizers[0].tags.items()}
    examples = []
    for row in chosen.tolist():
        src, tgt = corpus.src.sentence(row), corpus.tgt.sentence(row)
        tags = "".join(names[id_] for id_ in src if id_ in names)
        source = str(cfg.data.train[int(sources[row])])
        src_text, tgt_text = tokenizers[0].decode([src])[0], tokenizers[1].decode([tgt])[0]
        examples.append(EpochExample(source, tags, src_text, tgt_text))
    return examples


def _rows_of(cfg: Config, corpus: EncodedCorpus, epoch: int) -> tuple[Indices, Sources]:
    """The rows of an epoch, and the sources of all rows."""
    assert corpus.sources is not None, "the training corpus knows where its rows are from"
    weights = source_weights(cfg.data)
    rows = epoch_rows(corpus.sources, weights, seed=cfg.seed, epoch=epoch)
    return np.arange(len(corpus)) if rows is None else rows, corpus.sources
