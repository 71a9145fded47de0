"""Search for many sentences: batches of similar lengths, each with the given options.

Comes in: source ids in any order. Goes out: hypotheses in the same order. This file knows models
and search, but no text.
"""

import hashlib
import math
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from transformer_mt.encoding.tokenizer import BOS_ID, EOS_ID, PAD_ID
from transformer_mt.errors import TmtError
from transformer_mt.messages.catalogue import tr
from transformer_mt.model.architectures import step_decoder
from transformer_mt.model.encoder_decoder import EncoderDecoder
from transformer_mt.search.beam_search import (
    Hypothesis,
    LengthPenalty,
    SearchTask,
    StepModel,
    beam_search,
    step_by_step_search,
)
from transformer_mt.search.constrained_search import constrained_beam_search
from transformer_mt.search.ensemble import Stepper
from transformer_mt.search.loop_detection import LoopWatch
from transformer_mt.search.options import SearchOptions
from transformer_mt.search.sampling import Sampler
from transformer_mt.search.token_rules import TokenRules
from transformer_mt.system.processes.fork_pool import Workers, may_fork

BATCH_TOKENS = 8192  # source tokens × beam decoded side by side, padding counted
GPU_BATCH_TOKENS = 32768  # a GPU decodes more in nearly the same time
THREAD_ROWS = 32  # sentences × beam: at least this many for each worker
LENGTH_MARGIN = 10  # tokens allowed beyond max_length_ratio × source, so that short texts can grow


@dataclass(frozen=True)
class Request:
    """One sentence to translate.

    Attributes:
        src: ids with tags, without EOS; not empty.
        prefix: ids that the translation begins with.
        required: sequences of ids that it must contain.
    """

    src: Sequence[int]
    prefix: Sequence[int] = ()
    required: Sequence[Sequence[int]] = ()


class SearchEngine(Protocol):
    """The search of a `Translator`: `Engine`, or another program behind the same method."""

    def search(self, requests: Sequence[Request], options: SearchOptions) -> list[list[Hypothesis]]:
        """See `Engine.search`."""


class Engine:
    """Search with one model, or with an ensemble of several."""

    def __init__(self, models: Sequence[EncoderDecoder], silent_ids: Sequence[int]) -> None:
        """
        Args:
            models: in eval mode on one device, with the same two vocabularies and fixed weights.
            silent_ids: of the target vocabulary, never written.
        """
        self.models = models
        self._decoders = [step_decoder(model) for model in models]
        self._silent_ids = silent_ids
        self._workers: Workers[list[list[Hypothesis]]] = Workers(self.search_batch, 0)

    @property
    def device(self) -> torch.device:
        return self.models[0].output.weight.device

    @property
    def batch_tokens(self) -> int:
        """The most source tokens × beam of a batch, which the threads of a CPU share."""
        on_cpu = self.device.type == "cpu"
        return torch.get_num_threads() * BATCH_TOKENS if on_cpu else GPU_BATCH_TOKENS

    def search(self, requests: Sequence[Request], options: SearchOptions) -> list[list[Hypothesis]]:
        """The best hypotheses of each request, best first; at least one.

        On a CPU, batches of similar lengths are searched in parallel, as many as torch has threads,
        each on one core: threads that share small operations wait for each other more than they
        work. Small batches are not divided.

        Raises:
            TmtError: the model's scores are not numbers.
        """
        n_workers = torch.get_num_threads() if self.device.type == "cpu" else 1
        lengths = [len(request.src) + 1 for request in requests]
        batches = [
            part
            for batch in batches_by_length(lengths, self.batch_tokens // options.rows)
            for part in deal_sorted(batch, min(n_workers, len(batch) * options.rows // THREAD_ROWS))
        ]
        calls = [([requests[i] for i in batch], options) for batch in batches]
        results: dict[int, list[Hypothesis]] = {}
        for batch, found in zip(batches, self._side_by_side(calls, n_workers), strict=True):
            results.update(zip(batch, found, strict=True))
        return [results[i] for i in range(len(requests))]

    def _side_by_side(
        self, calls: list[tuple[list[Request], SearchOptions]], n_workers: int
    ) -> list[list[list[Hypothesis]]]:
        """The results of `search_batch`, by forked processes or, second best, by threads.

        Unlike threads, processes do not wait for each other between operations. One batch needs no
        process, and not every system can fork safely.
        """
        if n_workers == 1:
            return [self.search_batch(*call) for call in calls]
        n_copies = min(n_workers, len(calls))
        if n_copies > len(self._workers) and n_copies > 1 and may_fork():
            self._workers.close()
            self._workers = Workers(self.search_batch, n_copies)
            weakref.finalize(self, self._workers.close)
        if 1 < n_copies <= len(self._workers):
            return self._workers.map(calls)
        with ThreadPoolExecutor(n_workers, "search", torch.set_num_threads, (1,)) as pool:
            return list(pool.map(self.search_batch, *zip(*calls, strict=True)))

    @torch.inference_mode()
    def search_batch(self, batch: list[Request], options: SearchOptions) -> list[list[Hypothesis]]:
        """`search` for one batch of requests, side by side."""
        search = self._diverse if options.diverse else self._search
        results = (self._sample if options.sampling else search)(batch, options)
        if not all(found and math.isfinite(found[0].score) for found in results):
            raise TmtError(tr("the scores of this model are not numbers: its weights are bad"))
        return results

    def _search(self, batch: list[Request], options: SearchOptions) -> list[list[Hypothesis]]:
        """Search a batch in which some sentences may have required words."""
        found: dict[int, list[Hypothesis]] = {}
        for part in filter(None, _alike(batch, options)):
            hypotheses = self._search_alike([batch[i] for i in part], options)
            found.update(zip(part, hypotheses, strict=True))
        return [found[i] for i in range(len(batch))]

    def _search_alike(self, batch: list[Request], options: SearchOptions) -> list[list[Hypothesis]]:
        """Search a batch in which all sentences have required words, or none has."""
        task, n_best = self._task(batch, options), options.n_best
        required = [request.required for request in batch]
        if all(required):
            beam = max(_beam_of(request, options) for request in batch)
            return constrained_beam_search(task, required=required, beam=beam, n_best=n_best)
        if options.beam == 1:
            return [[found] for found in step_by_step_search(task)]
        return beam_search(task, beam=options.beam, n_best=n_best)

    def _sample(self, batch: list[Request], options: SearchOptions) -> list[list[Hypothesis]]:
        """`n_best` samples for each request, the best score first."""
        assert options.sampling is not None
        # Otherwise the n-th texts of all batches would be drawn for with the same numbers.
        own = repr((options.sampling.seed, [list(request.src) for request in batch])).encode()
        seed = int.from_bytes(hashlib.sha256(own).digest()[:7], "big")
        sampler = Sampler(replace(options.sampling, seed=seed), self.device)
        draws = [request for request in batch for _ in range(options.n_best)]
        drawn = step_by_step_search(self._task(draws, options), sampler)
        starts = range(0, len(drawn), options.n_best)
        groups = [drawn[start : start + options.n_best] for start in starts]
        return [sorted(group, key=lambda h: -h.score) for group in groups]

    def _diverse(self, batch: list[Request], options: SearchOptions) -> list[list[Hypothesis]]:
        """The best hypothesis with each of the `n_best` most probable first tokens."""
        firsts = self._first_tokens(batch, options)
        owners = [i for i, tokens in enumerate(firsts) for _ in tokens]
        begun = [
            replace(request, prefix=[*request.prefix, token])
            for request, tokens in zip(batch, firsts, strict=True)
            for token in tokens
        ]
        plain = replace(options, n_best=1, diverse=False)
        results: list[list[Hypothesis]] = [[] for _ in batch]
        for i, (best,) in zip(owners, self._search(begun, plain), strict=True):
            results[i].append(best)
        return [sorted(found, key=lambda h: -h.score) for found in results]

    def _first_tokens(self, batch: list[Request], options: SearchOptions) -> list[list[int]]:
        """The `n_best` most probable tokens after BOS and the prefix, EOS left out."""
        longest = max(len(request.prefix) for request in batch)
        if any(len(request.prefix) != longest for request in batch):
            return [self._first_tokens([request], options)[0] for request in batch]
        stepper = self._stepper(batch)
        written = torch.tensor([[BOS_ID, *r.prefix] for r in batch], device=self.device)
        for tokens in written.split(1, dim=1):
            log_probs = stepper.step(tokens)
        not_yet = replace(self._rules(batch, options), min_length=longest + 1)
        not_yet.apply(log_probs, written[:, None, 1:], range(len(batch)))
        best = log_probs[:, 0].topk(min(options.n_best, log_probs.size(2)), dim=1)
        allowed = best.values > -torch.inf
        return [row[may].tolist() for row, may in zip(best.indices, allowed, strict=True)]

    def _task(self, batch: Sequence[Request], options: SearchOptions) -> SearchTask:
        watched = options.end_loops and not options.min_length
        return SearchTask(
            self._stepper(batch),
            length_limits(batch, options),
            self._rules(batch, options),
            BOS_ID,
            LengthPenalty(options.penalty, options.length_penalty),
            LoopWatch([(r.src, r.prefix) for r in batch]) if watched else None,
            self.device,
        )

    def _stepper(self, batch: Sequence[Request]) -> StepModel:
        """The step function of a batch; every model encodes its source."""
        src = padded([[*request.src, EOS_ID] for request in batch], self.device)
        return Stepper(self._decoders, src)

    def _rules(self, batch: Sequence[Request], options: SearchOptions) -> TokenRules:
        prefixes = [request.prefix for request in batch]
        return TokenRules(
            eos_id=EOS_ID,
            never=self._silent_ids,
            banned=options.banned,
            prefixes=prefixes if any(prefixes) else (),
            min_length=options.min_length,
            no_repeat_ngram=options.no_repeat_ngram,
            repetition_penalty=options.repetition_penalty,
        )


def length_limits(batch: Sequence[Request], options: SearchOptions) -> list[int]:
    """The most tokens of each translation, EOS included."""
    most = math.inf if options.max_length is None else options.max_length + 1
    least = options.min_length + 1
    usual = (math.ceil(options.max_length_ratio * len(r.src)) + LENGTH_MARGIN for r in batch)
    given = (len(r.prefix) + sum(map(len, r.required)) for r in batch)
    return [int(min(most, max(least, u + g))) for u, g in zip(usual, given, strict=True)]


def padded(rows: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    """(B, longest) int64, PAD_ID to the right."""
    ids = [torch.tensor(row) for row in rows]
    return torch.nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=PAD_ID).to(device)


def batches_by_length(lengths: Sequence[int], max_tokens: int) -> Iterator[list[int]]:
    """Batches of indices, longest first; sentences × longest stays within `max_tokens`."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    start = 0
    while start < len(order):
        size = max(1, max_tokens // lengths[order[start]])
        yield order[start : start + size]
        start += size


def _beam_of(request: Request, options: SearchOptions) -> int:
    """With room for every required token."""
    return max(options.beam, 1 + sum(map(len, request.required)))


def _alike(batch: list[Request], options: SearchOptions) -> Iterator[list[int]]:
    """Rows without required words; then those with, in parts of the size that a batch may have."""
    yield [row for row, request in enumerate(batch) if not request.required]
    part: list[int] = []
    constrained = [row for row, request in enumerate(batch) if request.required]
    for row in sorted(constrained, key=lambda row: _beam_of(batch[row], options)):
        if part and (len(part) + 1) * _beam_of(batch[row], options) > len(batch) * options.beam:
            yield part
            part = []
        part.append(row)
    yield part


def deal_sorted(indices: list[int], n_parts: int) -> list[list[int]]:
    """Deal indices in turn, so that sorted sentences make similar parts; no part is empty."""
    n_parts = max(1, min(n_parts, len(indices)))
    return [indices[start::n_parts] for start in range(n_parts)]
