"""Vectors of sub-words from the sentence pairs that they occur in together.

Comes in: an encoded corpus. Goes out: for each entry of both vocabularies a vector, which training
may begin with. A word and its translation stand in the same pairs, so their vectors are alike, and
words of one topic are near each other. What it brings: docs/lab/first-embeddings.md.

Positive pointwise mutual information, reduced by its singular vectors. Sources: Church and Hanks
1990; Levy, Goldberg and Dagan 2015, sections 3.1 and 3.3 (smoothed contexts, roots of the singular
values); Levy, Søgaard and Goldberg 2017 (sentence pairs as the contexts of two languages).
"""

from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from transformer_mt.encoding.encoded_corpus import EncodedCorpus, Indices

_MOST_PAIRS = 200_000  # sentence pairs that are counted, at even distances
_MOST_CONTEXTS = 2048  # sub-words that the others are counted with: the most frequent
_PAIRS_AT_ONCE = 2000
_SMOOTHING = 0.75  # power of a context's frequency; rare contexts would weigh too much
_MORE_VECTORS = 16  # than are kept, for the precision of those


def cooccurrence_vectors(
    corpus: EncodedCorpus, n_src: int, n_tgt: int, *, joint: bool, width: int, seed: int
) -> tuple[Tensor, Tensor]:
    """Vectors of length 1 for the entries of the source's and the target's vocabulary.

    Args:
        joint: both are one vocabulary, and both results the same.
        width: of a vector. They are turned at random: no feature is larger than the others.
    Returns:
        (n_src, width), (n_tgt, width) float32; zeros for what never occurs.
    """
    tgt_start = 0 if joint else n_src
    n_words = n_src if joint else n_src + n_tgt
    information = _positive_information(_count(corpus, n_words, tgt_start))
    rank = min(width, *information.shape)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        turn, _ = torch.linalg.qr(torch.randn(width, width))
        n_vectors = min(rank + _MORE_VECTORS, *information.shape)
        left, values, _ = torch.svd_lowrank(information, n_vectors)
    vectors = (left[:, :rank] * values[:rank].sqrt()) @ turn[:rank]
    vectors = torch.nn.functional.normalize(vectors) * information.any(dim=1, keepdim=True)
    return vectors[:n_src], vectors[tgt_start : tgt_start + n_tgt]


def _count(corpus: EncodedCorpus, n_words: int, tgt_start: int) -> Tensor:
    """(words, contexts): in how many pairs a word occurs together with a frequent one."""
    n_pairs = min(len(corpus), _MOST_PAIRS)
    rows = np.linspace(0, len(corpus) - 1, n_pairs).round().astype(np.int64)
    pairs, words = _occurrences(corpus, rows, tgt_start)
    frequency = np.bincount(words, minlength=n_words)
    frequent = np.argsort(-frequency, kind="stable")[:_MOST_CONTEXTS]
    context_of = np.full(n_words, -1)
    context_of[frequent] = np.arange(len(frequent))
    counts = torch.zeros(n_words * len(frequent))
    bounds = np.searchsorted(pairs, np.arange(0, n_pairs + _PAIRS_AT_ONCE, _PAIRS_AT_ONCE))
    for start, end in pairwise(bounds):
        some = words[start:end]
        one, other = _both_ways(pairs[start:end])
        contexts = context_of[some[other]]
        counted = contexts >= 0
        places = torch.from_numpy(some[one][counted] * len(frequent) + contexts[counted])
        counts.index_add_(0, places, torch.ones(len(places)))
    return counts.view(n_words, -1)


def _both_ways(groups: Indices) -> tuple[Indices, Indices]:
    """Places of two members of the same group, for all such twos: (0, 0), (0, 1), (1, 0) …

    Args:
        groups: ascending numbers.
    """
    starts = np.searchsorted(groups, groups)
    sizes = np.searchsorted(groups, groups, "right") - starts  # of the group of each member
    one = np.repeat(np.arange(len(groups)), sizes)
    return one, starts[one] + np.arange(len(one)) - np.repeat(np.cumsum(sizes) - sizes, sizes)


def _occurrences(corpus: EncodedCorpus, rows: Indices, tgt_start: int) -> tuple[Indices, Indices]:
    """Number of the pair, ascending, and word, each word of a pair once."""
    n_words = 1 << 32
    keys = [
        np.repeat(np.arange(len(rows)), side.lengths_of(rows)) * n_words + side.ids_of(rows) + start
        for side, start in ((corpus.src, 0), (corpus.tgt, tgt_start))
    ]
    found = np.unique(np.concatenate(keys))
    return found // n_words, found % n_words


def _positive_information(counts: Tensor) -> Tensor:
    """log P(word, context) / P(word) P(context), at least 0; in the memory of `counts`."""
    of_word = counts.sum(1, keepdim=True).clamp(min=1)
    of_context = counts.sum(0) ** _SMOOTHING
    expected = of_word * (of_context / of_context.sum()).clamp(min=1e-30)
    return counts.div_(expected).clamp_(min=1).log_()
