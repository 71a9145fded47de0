"""Pieces of text → translations of them, looked at for faults, and tried again if there are some.

Comes in: pieces that the model takes at once. Goes out: texts with hypotheses and faults, in the
same order, and the texts of neighbours as one. This file knows nothing of how texts are cut.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from transformer_mt.config.data import Languages
from transformer_mt.encoding.tokenizer import Tokenizer
from transformer_mt.search.beam_search import Hypothesis
from transformer_mt.search.engine import Request, SearchEngine
from transformer_mt.search.options import SearchOptions
from transformer_mt.search.sampling import Sampling
from transformer_mt.text.sentences import join_translations, split_sentences
from transformer_mt.translation import output_checks as guards
from transformer_mt.translation.lexical_constraints import Wording
from transformer_mt.translation.minimum_bayes_risk import most_agreed
from transformer_mt.translation.request import Wishes

CAREFUL_BEAM = 8
NEARLY_ALL = 0.9  # of the ids of a piece, for it to be in characters that the model does not know


@dataclass(frozen=True)
class Piece:
    """A part of a text that the model takes at once."""

    text: str
    src: list[int]  # ids with tags
    direction: Languages
    wishes: Wishes


@dataclass(frozen=True)
class Draft:
    """What came back for a piece, best first."""

    piece: Piece
    texts: list[str]
    hypotheses: list[Hypothesis]
    retried: bool = False

    @cached_property
    def faults(self) -> tuple[str, ...]:
        """Of the first; whoever only wants texts need not wait for them."""
        return find_faults(self.piece, self.texts[0], self.hypotheses[0].complete)


def find_faults(piece: Piece, text: str, complete: bool) -> tuple[str, ...]:
    """Names of `output_checks.FAULT_MEANING`, and what wishes were not fulfilled."""
    direction, wishes = piece.direction, piece.wishes
    sides = {"src": direction.src, "tgt": direction.tgt}
    found: list[str] = [*guards.faults(piece.text, text, **sides, complete=complete)]
    if any(word not in text for word in wishes.required(piece.text)):
        found.append("term")
    if any(word.lower() in text.lower() for word in wishes.banned):
        found.append("banned")
    return tuple(found)


def joined_text(drafts: Sequence[Draft], language: str) -> str:
    """The translations of neighbouring pieces as one text in that language."""
    return join_translations([draft.texts[0] for draft in drafts], language)


def careful(options: SearchOptions) -> SearchOptions:
    """What to try after a translation with faults: a wide beam that must not repeat itself."""
    beam = max(CAREFUL_BEAM, options.beam, options.n_best)  # more may have been drawn
    return replace(options, beam=beam, no_repeat_ngram=3, sampling=None, mbr=0, diverse=False)


class Drafter:
    """Translates pieces with one engine."""

    def __init__(
        self,
        engine: SearchEngine,
        tokenizers: tuple[Tokenizer, Tokenizer],
        one_line: Callable[[str, str], str],
        *,
        limit: int,
    ) -> None:
        """
        Args:
            tokenizers: of the source side and of the target side.
            one_line: (text, language) → the text as one line.
            limit: tokens of the longest translations that the model has learned from.
        """
        self._limit = limit
        self._engine = engine
        self._src_tokenizer, self._tokenizer = tokenizers
        self._one_line = one_line

    def translate(
        self,
        pieces: Sequence[Piece],
        options: SearchOptions,
        *,
        cut: Callable[[Piece, list[str]], list[Piece]] | None,
    ) -> list[Draft]:
        """Translate pieces.

        Args:
            cut: makes pieces of the sentences of a piece; with it, loops are ended when they are
                seen, and a piece whose translation has faults is searched again with `careful`
                options, then sentence by sentence, and the draft with the fewest faults is kept.
                None: no second search; nor is there one of a piece in characters that are not in
                the vocabulary, which would be of no use.
        """
        drafts = self._search(pieces, replace(options, end_loops=cut is not None))
        if cut is None:
            return drafts
        flagged = [i for i, d in enumerate(drafts) if d.faults and self._can_be_read(pieces[i])]
        if not flagged:
            return drafts
        seconds = self._search([pieces[i] for i in flagged], careful(options))
        for i, second in zip(flagged, seconds, strict=True):
            drafts[i] = _better(drafts[i], second, options.n_best)
        sentences = {i: _sentences(pieces[i]) for i in flagged if drafts[i].faults}
        cut_up = {i: cut(pieces[i], found) for i, found in sentences.items() if len(found) > 1}
        parts = iter(self._search([p for own in cut_up.values() for p in own], careful(options)))
        for i, own in cut_up.items():
            joined = _join(pieces[i], [next(parts) for _ in own])
            drafts[i] = _better(drafts[i], joined, options.n_best)
        return drafts

    def _can_be_read(self, piece: Piece) -> bool:
        return self._src_tokenizer.spelled_share(piece.src) < NEARLY_ALL

    def _search(self, pieces: Sequence[Piece], options: SearchOptions) -> list[Draft]:
        """One search for each piece; the first of its hypotheses is the translation."""
        wording = {
            language: Wording(self._tokenizer, language)
            for language in {piece.direction.tgt for piece in pieces}
        }
        requests = [_request(p, wording[p.direction.tgt], self._limit) for p in pieces]
        words = {word: None for piece in pieces for word in piece.wishes.banned}
        banned = [ids for spelled in wording.values() for ids in spelled.banned(words)]
        if not options.mbr:
            found = self._search_distinct(requests, options, banned)
            return self._drafts(pieces, found)
        sampling = options.sampling or Sampling()
        drawn = replace(options, mbr=0, n_best=options.mbr, sampling=sampling)
        found = self._engine.search(requests, drawn, banned=banned)
        best = [
            [draft.hypotheses[most_agreed(draft.texts)]] for draft in self._drafts(pieces, found)
        ]
        return self._drafts(pieces, best)

    def _search_distinct(
        self, requests: Sequence[Request], options: SearchOptions, banned: Sequence[Sequence[int]]
    ) -> list[list[Hypothesis]]:
        """What stands many times in a text is searched once, unless it is drawn at random."""
        if options.sampling is not None:
            return self._engine.search(requests, options, banned=banned)
        distinct = list(dict.fromkeys(requests))
        found = self._engine.search(distinct, options, banned=banned)
        found_for = dict(zip(distinct, found, strict=True))
        return [found_for[request] for request in requests]

    def _drafts(self, pieces: Sequence[Piece], found: Sequence[list[Hypothesis]]) -> list[Draft]:
        decoded = iter(self._tokenizer.decode([h.ids for hypotheses in found for h in hypotheses]))
        drafts = []
        for piece, hypotheses in zip(pieces, found, strict=True):
            # The byte pieces of a model could also spell line ends.
            texts = [self._one_line(next(decoded), piece.direction.tgt) for _ in hypotheses]
            drafts.append(Draft(piece, texts, hypotheses))
        return drafts


def _better(first: Draft, second: Draft, n_best: int) -> Draft:
    """The first draft, or of the second's hypotheses one with fewer faults, before the rest."""
    texts, hypotheses = second.texts, second.hypotheses
    n_faults = [
        len(find_faults(second.piece, text, hypothesis.complete))
        for text, hypothesis in zip(texts, hypotheses, strict=True)
    ]
    best = n_faults.index(min(n_faults))
    if n_faults[best] >= len(first.faults):
        return first
    order = [best, *(i for i in range(len(texts)) if i != best)][:n_best]
    return Draft(second.piece, [texts[i] for i in order], [hypotheses[i] for i in order], True)


def _join(piece: Piece, parts: list[Draft]) -> Draft:
    """Drafts of the sentences of a piece as one."""
    best = [draft.hypotheses[0] for draft in parts]
    hypothesis = Hypothesis(
        [id_ for hypothesis in best for id_ in hypothesis.ids],
        sum(hypothesis.log_prob for hypothesis in best),
        sum(hypothesis.score for hypothesis in best),
        all(hypothesis.complete for hypothesis in best),
    )
    return Draft(piece, [joined_text(parts, piece.direction.tgt)], [hypothesis])


def _sentences(piece: Piece) -> list[str]:
    return split_sentences(piece.text, piece.direction.src)


def _request(piece: Piece, wording: Wording, limit: int) -> Request:
    """What to search for; of required words as many as a translation of `limit` tokens holds."""
    phrases = []
    for ids in map(wording.required, piece.wishes.required(piece.text)):
        limit -= len(ids)
        if ids and limit >= 0:
            phrases.append(tuple(ids))
    prefix = wording.beginning(piece.wishes.prefix)
    # Tuples, so that equal ones are found.
    return Request(tuple(piece.src), tuple(prefix), tuple(phrases))
