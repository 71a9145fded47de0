"""The same text in other sub-words of the same vocabulary, one sentence at a time.

SentencePiece can do that, too, but its generator is salted anew in every process, and a run that
was stopped could not go on with the same corpus.
"""

import math
from bisect import bisect
from functools import lru_cache
from itertools import accumulate, pairwise
from random import Random
from typing import Literal

from transformer_mt.encoding.tokenizer import Tokenizer

NEVER = math.inf  # the rank of a merge that there is not
_SPACE = "▁"
_KNOWN_WORDS = 100_000
_LONGEST_KNOWN = 16  # characters: without spaces, a whole sentence is one word, and hardly recurs


class SubwordSampler:
    """Draws sub-words from a vocabulary.

    Args:
        kind: of the model. `bpe`: each merge that would be done is left out with a probability of
            `strength` (Provilkov et al. 2020). `unigram`: a segmentation of each word is drawn by
            its probability to the power of `strength` (Kudo 2018, section 3.3).
        strength: in (0, 1).
    """

    def __init__(
        self, tokenizer: Tokenizer, kind: Literal["bpe", "unigram"], strength: float
    ) -> None:
        self._pieces = tokenizer.text_pieces()
        self._ids = {piece: id_ for id_, (piece, _) in self._pieces.items()}
        scores = dict(self._pieces.values())
        self._word = (
            _MergeDropout(scores, strength) if kind == "bpe" else _WordLattice(scores, strength)
        )

    def sample(self, ids: list[int], seed: int) -> list[int]:
        """Ids of the same text; tags, EOS, bytes and the unknown piece stay where they are.

        Args:
            seed: ≥ 0; the same ids and seed give the same result, in any process.
        """
        random = Random(seed)
        drawn: list[int] = []
        word: list[str] = []
        self._word.start(random)
        for id_ in ids:
            piece, _ = self._pieces.get(id_, ("", 0.0))
            if word and (not piece or piece[0] == _SPACE):
                drawn += map(self._ids.__getitem__, self._word.draw(word, random))
                word = []
            if piece:
                word.append(piece)
            else:
                drawn.append(id_)
        if word:
            drawn += map(self._ids.__getitem__, self._word.draw(word, random))
        return drawn


class _MergeDropout:
    def __init__(self, scores: dict[str, float], strength: float) -> None:
        self._ranks = {piece: -score for piece, score in scores.items()}
        self._log_kept = math.log1p(-strength)
        self._before_next = 0  # merges that are done before the next one is left out

    def start(self, random: Random) -> None:
        # A geometric number: one draw for each merge left out, instead of one for each merge.
        self._before_next = int(math.log(1.0 - random.random()) / self._log_kept)

    def draw(self, word: list[str], random: Random) -> list[str]:
        n_merges = sum(map(len, word)) - len(word)
        if n_merges <= self._before_next:
            self._before_next -= n_merges
            return word
        return self.merge(list("".join(word)), random)

    def merge(self, symbols: list[str], random: Random) -> list[str]:
        """Merge the best pair of neighbours until there is none; some chances are left out."""
        rank = self._ranks.get
        ranks = [rank(a + b, NEVER) for a, b in pairwise(symbols)]
        while ranks and (best := min(ranks)) < NEVER:
            i = ranks.index(best)
            if self._before_next == 0:
                ranks[i] = NEVER
                self.start(random)
                continue
            self._before_next -= 1
            symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]
            del ranks[i]
            if i > 0:
                ranks[i - 1] = rank(symbols[i - 1] + symbols[i], NEVER)
            if i < len(ranks):
                ranks[i] = rank(symbols[i] + symbols[i + 1], NEVER)
        return symbols


class _WordLattice:
    def __init__(self, scores: dict[str, float], strength: float) -> None:
        self._scores, self._strength = scores, strength
        self._longest = max(map(len, scores), default=1)
        self._lattice = lru_cache(_KNOWN_WORDS)(self._make_lattice)

    def start(self, random: Random) -> None:
        """Words are drawn independently."""

    def draw(self, word: list[str], random: Random) -> list[str]:
        text = "".join(word)
        lattice = (self._lattice if len(text) <= _LONGEST_KNOWN else self._make_lattice)(text)
        end, pieces = len(text), []
        while end:
            starts, sums = lattice[end]
            start = starts[bisect(sums, random.random() * sums[-1], hi=len(sums) - 1)]
            pieces.append(text[start:end])
            end = start
        return pieces[::-1]

    def _make_lattice(self, text: str) -> list[tuple[list[int], list[float]]]:
        """For each end of a piece: where it may start, and running sums of the weights of those.

        The weight of a start is that of all ways to get there, times that of the piece; the ways to
        each end are scaled to a sum of 1, so that long words do not underflow.
        """
        lattice: list[tuple[list[int], list[float]]] = [([], [])]
        log_ways = [0.0]
        for end in range(1, len(text) + 1):
            logs = {
                start: log_ways[start] + self._strength * self._scores[text[start:end]]
                for start in range(max(0, end - self._longest), end)
                if text[start:end] in self._scores and log_ways[start] > -math.inf
            }
            top = max(logs.values(), default=-math.inf)  # no piece ends here
            sums = list(accumulate(math.exp(log - top) for log in logs.values()))
            log_ways.append(top + math.log(sums[-1]) if sums else top)
            lattice.append((list(logs), sums))
        return lattice
