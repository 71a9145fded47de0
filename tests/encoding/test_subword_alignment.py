"""Links between the sub-words of sentence pairs: by the formulas written out, and right ones."""

import math
from collections import defaultdict

import numpy as np
import pytest
import torch
from encoded import encoded_side
from torch import Tensor

from transformer_mt.encoding import subword_alignment
from transformer_mt.encoding.encoded_corpus import EncodedCorpus
from transformer_mt.encoding.subword_alignment import AlignmentModel, learn_alignment
from transformer_mt.encoding.tokenizer import EOS_ID, PAD_ID

FIRST, N_WORDS = 4, 60  # of both vocabularies
Pairs = list[tuple[list[int], list[int]]]


def translated(n_pairs: int, seed: int) -> tuple[Pairs, list[list[int]]]:
    """Sentences, word by word by a dictionary, with neighbours swapped and one word added that
    stands for nothing; and of each target token the source position, or -1."""
    random = np.random.default_rng(seed)
    dictionary = np.append(np.arange(FIRST), FIRST + np.random.default_rng(0).permutation(50))
    pairs, links = [], []
    for _ in range(n_pairs):
        n = int(random.integers(2, 9))
        src = FIRST + random.permutation(50)[:n]
        order = np.arange(n)
        at = int(random.integers(0, n - 1))
        order[[at, at + 1]] = order[[at + 1, at]]
        tgt, of_tgt = dictionary[src][order].tolist(), order.tolist()
        tgt.insert(at, N_WORDS - 1 - int(random.integers(0, 3)))
        of_tgt.insert(at, -1)
        pairs.append(([*src.tolist(), EOS_ID], [*tgt, EOS_ID]))
        links.append([*of_tgt, n])
    return pairs, links


def corpus_of(pairs: Pairs) -> EncodedCorpus:
    """The sentences with their EOS, as `encoded_side` adds it."""
    return EncodedCorpus(*(encoded_side([pair[i][:-1] for pair in pairs]) for i in range(2)))


def padded(pairs: Pairs) -> tuple[Tensor, Tensor]:
    sides = ([torch.tensor(pair[i]) for pair in pairs] for i in range(2))
    pad = torch.nn.utils.rnn.pad_sequence
    src, tgt = (pad(side, batch_first=True, padding_value=PAD_ID) for side in sides)
    return src, tgt


def learned(pairs: Pairs) -> AlignmentModel:
    return learn_alignment(corpus_of(pairs), N_WORDS, N_WORDS)


def by_definition(pairs: Pairs, pair: tuple[list[int], list[int]]) -> Tensor:
    """Model 1 in both directions by loops, (T, S)."""

    def near(i: int, n_src: int, j: int, n_tgt: int) -> float:
        return math.exp(-4 * abs((i + 0.5) / n_src - (j + 0.5) / n_tgt))

    def direction(swap: bool) -> Tensor:
        probs: dict[tuple[int, int], float] = defaultdict(lambda: 1.0)

        def posterior(given: list[int], told: list[int]) -> Tensor:
            table = torch.zeros(len(told), len(given), dtype=torch.float64)
            for j, word in enumerate(told):
                for i, other in enumerate(given):
                    apart = near(i, len(given), j, len(told))
                    table[j, i] = probs[other, word] * apart
                table[j] /= table[j].sum()
            return table

        for _ in range(6):
            counts: dict[tuple[int, int], float] = defaultdict(float)
            totals: dict[int, float] = defaultdict(float)
            for sides in pairs:
                given, told = sides[::-1] if swap else sides
                table = posterior(given, told)
                for j, word in enumerate(told):
                    for i, other in enumerate(given):
                        counts[other, word] += float(table[j, i])
                        totals[other] += float(table[j, i])
            probs = defaultdict(float, {key: n / totals[key[0]] for key, n in counts.items()})
        given, told = pair[::-1] if swap else pair
        return posterior(given, told)

    return direction(swap=False) * direction(swap=True).T


def test_links_are_what_their_definition_says() -> None:
    pairs, _ = translated(30, seed=1)
    found = learned(pairs).links(*padded(pairs[:1]))[0]
    assert found.max() > 0.5
    torch.testing.assert_close(found.double(), by_definition(pairs, pairs[0]), rtol=0, atol=0.02)


def test_words_are_linked_to_their_translations_in_new_sentences() -> None:
    model = learned(translated(400, seed=1)[0])
    pairs, expected = translated(100, seed=2)
    links = model.links(*padded(pairs))
    right, invented = [], []
    for found, of_tgt in zip(links, expected, strict=True):
        for row, place in zip(found, of_tgt, strict=False):
            if place < 0:
                invented.append(float(row.sum()))
            else:
                right.append(int(row.argmax()) == place and float(row[place]) > 0.5)
    assert len(right) > 500 and np.mean(right) > 0.95
    assert np.mean(invented) < 0.25, "a word that stands for nothing leads little"


def test_a_sentence_has_the_same_links_in_any_batch_and_none_at_padding() -> None:
    model = learned(translated(200, seed=1)[0])
    pairs, _ = translated(8, seed=3)
    src, tgt = padded(pairs)
    links = model.links(src, tgt)
    assert links.shape == (8, tgt.size(1), src.size(1))
    assert links.sum(2).max() < 1 + 1e-5 and links.sum(1).max() < 1 + 1e-5
    for i, pair in enumerate(pairs):
        (alone,) = model.links(*padded([pair]))
        n_tgt, n_src = alone.shape
        torch.testing.assert_close(links[i, :n_tgt, :n_src], alone)
        assert not links[i, n_tgt:].any() and not links[i, :, n_src:].any()


def test_words_never_seen_together_have_no_link() -> None:
    model = learned([([5, EOS_ID], [6, EOS_ID])] * 3)
    src, tgt = padded([([7, 8, EOS_ID], [9, EOS_ID]), ([5, 8, EOS_ID], [6, 9, EOS_ID])])
    links = model.links(src, tgt)
    assert torch.isfinite(links).all()
    assert not links[0, 0].any() and links[0, 1, 2] > 0.9  # EOS
    assert links[1, 0, 0] > 0.9 and not links[1, 1, :2].any()


@pytest.mark.parametrize("part", [2, 3])
def test_a_large_corpus_is_learned_from_in_part(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """From both directions, where every other row is the other way round."""
    pairs, _ = translated(400, seed=1)
    n_cells = sum(len(src) * len(tgt) for src, tgt in pairs)
    monkeypatch.setattr(subword_alignment, "_MOST_CELLS", n_cells // part + 1)
    rows = subword_alignment._chosen_rows(corpus_of(pairs))
    cells = [len(pairs[row][0]) * len(pairs[row][1]) for row in rows]
    assert n_cells // 6 < sum(cells) <= 1.1 * n_cells // 3
    assert 0.4 < (rows % 2).mean() < 0.6
    assert rows[0] < 10 and rows[-1] > 390


def test_sentences_that_are_too_long_are_not_learned_from() -> None:
    long = [*range(FIRST, N_WORDS)] * 3
    model = learned([([*long, EOS_ID], [5, EOS_ID])])
    links = model.links(*padded([([5, EOS_ID], [5, EOS_ID])]))
    assert links.shape == (1, 2, 2) and not links.any()
