"""Memory of micro-batches: the largest size that fits, predicted peaks, halves of a too large one.

Comes in: a model, the training section of a configuration, the device's memory. Goes out: the
number that `train.max_tokens: auto` stands for. This file knows no text, no plan of updates and no
run directory.
"""

import gc
import math
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from transformer_mt.config.experiment import TrainConfig
from transformer_mt.encoding.encoded_corpus import EncodedCorpus, Indices
from transformer_mt.encoding.tokenizer import BOS_ID, PAD_ID
from transformer_mt.errors import TrainingError
from transformer_mt.messages.catalogue import tr
from transformer_mt.model.architectures import new_model
from transformer_mt.model.attention import EXPLICIT_MAX_CELLS
from transformer_mt.model.encoder_decoder import EncoderDecoder
from transformer_mt.system.device import keep_memory, release_memory
from transformer_mt.system.machine import available_memory_bytes, peak_memory_mib
from transformer_mt.system.processes.distributed import Ranks
from transformer_mt.system.processes.executors import spawn_context
from transformer_mt.training.micro_batch import Learner
from transformer_mt.training.padding import Batch
from transformer_mt.training.recorded import PLAIN

# More tokens at once make training on a CPU no faster: docs/lab/micro-batches.md.
CPU_MAX_TOKENS = 4096

GRANULE = 64  # sizes are multiples of it
CUDA_MARGIN = 0.1  # a size counts as fitting if one larger by this share fits
# Of the memory that is available on a CPU. The rest is for a heap that varying shapes fragment,
# validation and checkpoints, and for the other programs of the machine.
CPU_SHARE = 0.5

_PROBED_TOKENS = 512  # of the smaller of two measured steps: memory comes in pages of up to 2 MiB

Build = Callable[[], EncoderDecoder]


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory, of a GPU or of the machine, could not be had."""
    of_the_cpu = isinstance(error, RuntimeError) and "DefaultCPUAllocator: can't" in str(error)
    return of_the_cpu or isinstance(error, torch.OutOfMemoryError | MemoryError)


def halves(rows: Indices, corpus: EncodedCorpus) -> list[Indices]:
    """A micro-batch that did not fit into memory as two, which keep its order.

    Raises:
        TrainingError: it is a single sentence.
    """
    if len(rows) > 1:
        return np.array_split(rows, 2)
    sides = [int(side.lengths_of(rows)[0]) for side in (corpus.src, corpus.tgt)]
    text = tr(
        "pair {} of the encoded corpus does not fit into memory, even alone: {} source and {} "
        "target tokens. Set data.max_length below {}, make the model smaller, or end other "
        "programs that use memory",
        rows[0],
        *sides,
        max(sides),
    )
    raise TrainingError(text)


def agree_on_max_tokens(
    model: EncoderDecoder, cfg: TrainConfig, corpus: EncodedCorpus, ranks: Ranks
) -> int:
    """What `train.max_tokens: auto` stands for: the least that a process has chosen."""
    longest = max(side.longest for side in (corpus.src, corpus.tgt))
    chosen = choose_max_tokens(model, cfg, longest=longest, n_processes=ranks.local_size)
    return min(ranks.gather(chosen))


def choose_max_tokens(
    model: EncoderDecoder, cfg: TrainConfig, *, longest: int, n_processes: int = 1
) -> int:
    """The largest micro-batch that is of use and fits, of its worst shape.

    On a GPU sizes are tried out. On a CPU, where a process that takes too much is killed without an
    error, small ones are measured in a process of their own, which takes some seconds. The result
    depends on the memory that is free right now: a run that is resumed must keep its first one.

    Args:
        model: where training will have it; left as it is.
        longest: tokens of the longest sentence of either side.
        n_processes: that will train on this machine and share its memory; GPUs are not shared.
    Returns:
        Sentences × longest side, a multiple of 64, from the longest sentence to about an update.
    Raises:
        TrainingError: a single sentence of the longest kind does not fit.
    """
    least = _round_up(longest)
    if model.output.weight.device.type != "cpu":
        most = max(least, _round_up(cfg.tokens_per_update))
        chosen = largest_by_trying(model, cfg, longest=longest, most=most)
        available = tr("the memory of the GPU")
    else:
        most = max(least, min(CPU_MAX_TOKENS, _round_up(cfg.tokens_per_update)))
        budget = CPU_SHARE * available_memory_bytes() / n_processes
        chosen = min(most, peak_of_step(model, cfg, length=longest).tokens_within(budget))
        available = tr(
            "{:,.0f} MiB, which is {:.0%} of the available memory divided by {} processes",
            budget / 2**20,
            CPU_SHARE,
            n_processes,
        )
    if chosen < least:
        text = tr(
            "train.max_tokens: auto: a sentence of {} tokens, the longest of the corpus, does "
            "not fit into {}. Lower data.max_length, make the model smaller, end other "
            "programs that use memory, or set train.max_tokens to a number to try anyway",
            longest,
            available,
        )
        raise TrainingError(text)
    return chosen


def largest_by_trying(model: EncoderDecoder, cfg: TrainConfig, *, longest: int, most: int) -> int:
    """The largest micro-batch of the longest sentences that a copy of the model trains on.

    Returns:
        A multiple of 64 up to `most`, with some margin; 0: not even one sentence fits.
    """
    device = model.output.weight.device
    build = _builder(model)

    def fits(n_tokens: int) -> bool:
        n_sentences = math.ceil((1 + CUDA_MARGIN) * n_tokens / longest)
        try:
            # The last one is recorded, which takes memory of its own.
            _Step(build, cfg, device).run(n_sentences, longest, n_updates=PLAIN + 1)
            fitted = True
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            fitted = False
        gc.collect()  # a step and its recordings refer to each other, a traceback to its tensors
        release_memory()
        return fitted

    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        return largest_that_fits(fits, _round_up(longest), most)


def largest_that_fits(fits: Callable[[int], bool], least: int, most: int) -> int:
    """Try the most; else double from the least until it does not fit, and bisect to a tenth.

    Args:
        fits: of a size; once False, also False for all larger sizes.
        least, most: multiples of 64.
    Returns:
        A multiple of 64 that fits; 0 if `least` does not.
    """
    if fits(most):
        return most
    if least == most or not fits(least):
        return 0
    good, bad = least, most
    while bad - good > max(GRANULE, good // 10):
        size = min(2 * good, (good + bad) // 2 // GRANULE * GRANULE)
        good, bad = (size, bad) if fits(size) else (good, size)
    return good


@dataclass(frozen=True)
class StepMemory:
    """The largest resident size of a process that trains on a CPU: grows in a line with tokens."""

    fixed: float  # bytes: the program, weights, gradient, Adam's moments
    per_token: float  # bytes for each token of max_tokens

    def tokens_within(self, n_bytes: float) -> int:
        """The largest multiple of 64 that fits; 0 if none does."""
        return max(0, int((n_bytes - self.fixed) / self.per_token)) // GRANULE * GRANULE


def peak_of_step(model: EncoderDecoder, cfg: TrainConfig, *, length: int) -> StepMemory:
    """The memory of training on a CPU, measured on two small micro-batches in a fresh process.

    Long sentences are the worst: each token has a score for every other of its sentence. Where the
    scores are no longer stored, the longest sentences for which they still are.

    Args:
        length: of all sentences, on both sides.
    Raises:
        TrainingError: the process was killed.
    """
    length = min(length, int(EXPLICIT_MAX_CELLS**0.5))
    n_sentences = -(-_PROBED_TOKENS // length)
    shapes = [(n_sentences, length), (2 * n_sentences, length)]
    with ProcessPoolExecutor(1, mp_context=spawn_context()) as pool:
        threads = torch.get_num_threads()
        try:
            task = pool.submit(_measure_peaks, _builder(model), cfg, threads, shapes)
            small, large = task.result()
        except BrokenProcessPool as error:
            text = tr(
                "a process that trained on {} sentences of {} tokens was killed, most likely for "
                "want of memory: lower data.max_length, make the model smaller, or end other "
                "programs that use memory",
                2 * n_sentences,
                length,
            )
            raise TrainingError(text) from error
    per_token = max(1.0, (large - small) / (n_sentences * length))
    return StepMemory(max(0.0, small - per_token * n_sentences * length), per_token)


def _measure_peaks(
    build: Build, cfg: TrainConfig, n_threads: int, shapes: list[tuple[int, int]]
) -> list[int]:
    """Largest resident size of this fresh process after a step of each shape, smallest first."""
    keep_memory()
    torch.set_num_threads(n_threads)
    step = _Step(build, cfg, torch.device("cpu"))
    step.run(*shapes[0])  # the optimizer's memory is taken when it is first written to
    peaks = []
    for shape in shapes:
        step.run(*shape)
        peaks.append(int(peak_memory_mib() * 2**20))
    return peaks


def _builder(model: EncoderDecoder) -> Build:
    """Builds a model of the same sizes, here or in another process."""
    src, tgt = (side.tokens for side in (model.encoder_embedding, model.decoder_embedding))
    return partial(new_model, model.cfg, src.num_embeddings, tgt.num_embeddings, pad_id=PAD_ID)


class _Step:
    """Updates of a fresh model as the trainer does them, on random sentences."""

    def __init__(self, build: Build, cfg: TrainConfig, device: torch.device) -> None:
        self._model = build().to(device).train()
        self._learner = Learner(self._model, cfg)

    def run(self, n_sentences: int, length: int, *, n_updates: int = 1) -> None:
        """Updates of one micro-batch without padding."""
        shape, device = (n_sentences, length), self._learner.device
        embeddings = (self._model.encoder_embedding, self._model.decoder_embedding)
        sizes = (embedding.tokens.num_embeddings for embedding in embeddings)
        src, tgt = (torch.randint(BOS_ID, size, shape, device=device) for size in sizes)
        for _ in range(n_updates):
            self._learner.add_gradients(Batch(src, tgt, tgt))
            self._learner.optimizer.step(0.0, n_sentences * length)


def _round_up(n_tokens: int) -> int:
    return -(-n_tokens // GRANULE) * GRANULE
