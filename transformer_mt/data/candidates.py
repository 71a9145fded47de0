"""Training pairs as numbers → what becomes of each, by the rules that need the whole corpus.

Comes in: the pairs of every source, in order. Goes out: a fate for each pair that is good on its
own, and counts and samples of the others. This file does not know where text lies.
"""

import hashlib
from array import array
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np

from transformer_mt.config import Languages
from transformer_mt.data.corpus import Pair
from transformer_mt.data.report import PartReport, Sample
from transformer_mt.data.rules import PAIR_RULES, comparison_key, normalise_pair, reason_to_drop

# Of characters to those expected from the corpus' median ratio, either way; both sides count as 10
# characters longer, since acronyms and idioms vary much more than sentences. The good pairs of
# Tatoeba, Multi30k and two software manuals reach 3.2.
MAX_RATIO, RATIO_SMOOTHING = 6.0, 10

CORPUS_RULES = ("duplicate", "overlap", "length_ratio")
HELD_OUT = {"dev": "dev", "test": "test.held_out"}
FATES = ("train", *CORPUS_RULES, *HELD_OUT.values())
TRAIN = 0

_N_SAMPLES, _SAMPLE_CHARACTERS = 10, 200  # per rule


class Candidates:
    """Training pairs that passed the pair rules: numbers in memory, no text."""

    def __init__(self, seed: int) -> None:
        self.n_read = 0
        self.dropped: dict[str, int] = {}
        self.samples: dict[str, list[Sample]] = {}
        self.names: list[str] = []  # of the sources
        self.origins = array("Q"), array("Q")  # index into names, line
        self.pair_hashes, self.src_keys, self.tgt_keys = array("Q"), array("Q"), array("Q")
        self.src_lengths, self.tgt_lengths = array("H"), array("H")  # characters
        # Seeded, so that the order of the hashes is a random order of the pairs as well.
        self.hash = partial(_hash, salt=(seed % 2**64).to_bytes(8, "little"))

    def read(
        self,
        name: str,
        pairs: Iterable[Pair],
        write: Callable[[Pair], None] | None,
    ) -> None:
        """Add a source, called `name` in reports, passing on what survives the pair rules."""
        self.names.append(name)
        for line, raw in enumerate(pairs, 1):
            self.n_read += 1
            src, tgt = pair = normalise_pair(raw)
            reason = reason_to_drop(src, tgt)
            if reason:
                self._drop(reason, f"{name}:{line}", pair)
                continue
            self.origins[0].append(len(self.names) - 1)
            self.origins[1].append(line)
            self.pair_hashes.append(self.hash(f"{src}\n{tgt}"))
            self.src_keys.append(self.hash(comparison_key(src)))
            self.tgt_keys.append(self.hash(comparison_key(tgt)))
            self.src_lengths.append(len(src))
            self.tgt_lengths.append(len(tgt))
            if write:
                write(pair)

    def share_a_side_with(self, pairs: list[Pair]) -> np.ndarray:
        """(n,) whether the source or the target is also one of these pairs'."""
        src_keys = np.array([self.hash(comparison_key(src)) for src, _ in pairs], dtype=np.uint64)
        tgt_keys = np.array([self.hash(comparison_key(tgt)) for _, tgt in pairs], dtype=np.uint64)
        return np.isin(self.src_keys, src_keys) | np.isin(self.tgt_keys, tgt_keys)

    def judge(self, *, duplicates: bool, overlap: np.ndarray | None) -> np.ndarray:
        """(n,) index into `FATES` by the rules that need to know the whole corpus, in order."""
        fate = np.full(len(self.pair_hashes), TRAIN)
        if duplicates:
            repeated = np.ones(len(fate), dtype=bool)
            repeated[np.unique(self.pair_hashes, return_index=True)[1]] = False
            fate[repeated] = FATES.index("duplicate")
        if overlap is not None:
            fate[overlap & (fate == TRAIN)] = FATES.index("overlap")
        src, tgt = np.asarray(self.src_lengths), np.asarray(self.tgt_lengths)
        kept = fate == TRAIN
        usual = np.median(tgt[kept] / src[kept]) if kept.any() else 1.0
        ratio = np.log((tgt / usual + RATIO_SMOOTHING) / (src + RATIO_SMOOTHING))
        odd = np.abs(ratio) > np.log(MAX_RATIO)
        fate[odd & kept] = FATES.index("length_ratio")
        return fate

    def settle(self, fate: np.ndarray, pairs: Iterable[Pair]) -> Iterator[tuple[str, Pair]]:
        """Name the fate of each pair, counting and sampling those that are dropped."""
        for index, (code, pair) in enumerate(zip(fate.tolist(), pairs, strict=False)):
            name = FATES[code]
            if name in CORPUS_RULES:
                source, line = (origin[index] for origin in self.origins)
                self._drop(name, f"{self.names[source]}:{line}", pair)
            yield name, pair

    def _drop(self, rule: str, where: str, pair: Pair) -> None:
        self.dropped[rule] = self.dropped.get(rule, 0) + 1
        if self.dropped[rule] <= _N_SAMPLES:
            src, tgt = (text[:_SAMPLE_CHARACTERS] for text in pair)
            self.samples.setdefault(rule, []).append(Sample(where, src, tgt))

    def report(self, kept: int) -> PartReport:
        """Everything counted so far, given how many pairs stay."""
        rules = [rule for rule in (*PAIR_RULES, *CORPUS_RULES) if rule in self.dropped]
        dropped = {rule: self.dropped[rule] for rule in rules}
        return PartReport(self.n_read, kept, dropped, {rule: self.samples[rule] for rule in rules})

    def length_notes(self, languages: Languages) -> list[str]:
        """One line per side on the characters of its lines, for people."""
        notes = []
        sides = ((languages.src, self.src_lengths), (languages.tgt, self.tgt_lengths))
        for code, lengths in sides:
            if lengths:
                median, high = np.percentile(lengths, [50, 99])
                notes.append(
                    f"{code}: {np.mean(lengths):.1f} characters per line on average, "
                    f"median {median:.0f}, 99 % up to {high:.0f}, longest {max(lengths)}"
                )
        return notes


def _hash(text: str, *, salt: bytes) -> int:
    digest = hashlib.blake2b(text.encode(), digest_size=8, salt=salt).digest()
    return int.from_bytes(digest, "little")
