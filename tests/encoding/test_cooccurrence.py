"""Vectors of co-occurrence: what their definition says, and translations near each other."""

import numpy as np
import pytest
import torch
from encoded import encoded_side
from numpy.typing import NDArray

from transformer_mt.encoding.cooccurrence import cooccurrence_vectors
from transformer_mt.encoding.encoded_corpus import EncodedCorpus
from transformer_mt.encoding.tokenizer import EOS_ID

N_WORDS = 60  # of each vocabulary; those below FIRST and the last one never occur
FIRST = 4


def bilingual_corpus(n_pairs: int, seed: int) -> tuple[EncodedCorpus, NDArray[np.int64]]:
    """Sentences of random words, the rarer the higher their number; translated word by word by a
    random dictionary, in another order."""
    random = np.random.default_rng(seed)
    dictionary = np.append(np.arange(FIRST), FIRST + random.permutation(N_WORDS - FIRST - 1))
    weights = 1 / np.arange(3, N_WORDS - FIRST + 2)
    srcs, tgts = [], []
    for _ in range(n_pairs):
        n = random.integers(1, 9)
        words = FIRST + random.choice(len(weights), n, p=weights / weights.sum())
        srcs.append(words.tolist())
        tgts.append(random.permutation(dictionary[words]).tolist())
    return EncodedCorpus(encoded_side(srcs), encoded_side(tgts)), dictionary


def by_definition(corpus: EncodedCorpus, n_words: int, tgt_start: int) -> torch.Tensor:
    """Cosines of all words, from a table of all pairs and an exact decomposition."""
    occurs = torch.zeros(len(corpus), n_words, dtype=torch.float64)
    for row in range(len(corpus)):
        for id_ in corpus.src.sentence(row):
            occurs[row, id_] = 1
        for id_ in corpus.tgt.sentence(row):
            occurs[row, tgt_start + id_] = 1
    together = occurs.T @ occurs
    p_word = together.sum(1) / together.sum()
    p_context = together.sum(0) ** 0.75 / (together.sum(0) ** 0.75).sum()
    information = (together / together.sum() / p_word[:, None] / p_context).log()
    left, values, _ = torch.linalg.svd(information.nan_to_num(0, 0, 0).clamp(min=0))
    vectors = left * values.sqrt()
    vectors[together.sum(1) == 0] = 0
    vectors = torch.nn.functional.normalize(vectors)
    return vectors @ vectors.T


@pytest.mark.parametrize("joint", [False, True])
def test_they_are_what_their_definition_says(joint: bool) -> None:
    corpus, _ = bilingual_corpus(300, seed=1)
    width = 3 * N_WORDS  # the decomposition is exact
    src, tgt = cooccurrence_vectors(corpus, N_WORDS, N_WORDS, joint=joint, width=width, seed=3)
    start = 0 if joint else N_WORDS
    expected = by_definition(corpus, start + N_WORDS, start)
    found = src if joint else torch.cat([src, tgt])
    assert torch.allclose(found @ found.T, expected.float(), atol=1e-3)
    assert not joint or src.equal(tgt)


def test_translations_are_near_each_other_and_what_never_occurs_is_zero() -> None:
    corpus, dictionary = bilingual_corpus(3000, seed=2)
    src, tgt = cooccurrence_vectors(corpus, N_WORDS, N_WORDS, joint=False, width=32, seed=3)
    words = np.arange(FIRST, N_WORDS - 1)
    nearest = (src @ tgt.T)[words].argmax(dim=1).numpy()
    assert (nearest == dictionary[words]).mean() > 0.95
    lengths = torch.cat([src, tgt]).norm(dim=1).view(2, N_WORDS)
    never = [i for i in range(N_WORDS) if i not in (*words, EOS_ID)]
    assert (lengths[:, never] == 0).all()
    assert lengths[:, words].sub(1).abs().max() < 1e-5


def test_the_seed_turns_them_and_no_feature_is_larger() -> None:
    corpus, _ = bilingual_corpus(500, seed=2)

    def vectors(seed: int, width: int = 24) -> torch.Tensor:
        sides = cooccurrence_vectors(corpus, N_WORDS, N_WORDS, joint=False, width=width, seed=seed)
        return torch.cat(sides)

    assert vectors(1).equal(vectors(1)) and not vectors(1).allclose(vectors(2))
    of_features = vectors(1).square().mean(dim=0)
    assert of_features.max() < 4 * of_features.mean()
    wide = vectors(1, 4 * N_WORDS)  # more than there are words
    assert wide.shape == (2 * N_WORDS, 4 * N_WORDS) and wide.isfinite().all()


def test_of_many_pairs_some_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus, dictionary = bilingual_corpus(4000, seed=4)
    module = "transformer_mt.encoding.cooccurrence"
    monkeypatch.setattr(f"{module}._MOST_PAIRS", 2000)
    monkeypatch.setattr(f"{module}._MOST_CONTEXTS", 40)
    src, tgt = cooccurrence_vectors(corpus, N_WORDS, N_WORDS, joint=False, width=32, seed=3)
    words = np.arange(FIRST, N_WORDS - 1)
    assert ((src @ tgt.T)[words].argmax(dim=1).numpy() == dictionary[words]).mean() > 0.6
