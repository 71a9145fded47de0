"""The number that `train.max_tokens: auto` stands for: the largest micro-batch that fits.

Comes in: a model, the training section of a configuration, the device's memory. This file knows no
text, no plan of updates and no run directory.
"""

import gc
import math
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial

import torch

from transformer_mt.config.experiment import TrainConfig
from transformer_mt.encoding.encoded_corpus import EncodedCorpus
from transformer_mt.encoding.tokenizer import BOS_ID, PAD_ID
from transformer_mt.errors import TrainingError
from transformer_mt.messages.catalogue import tr
from transformer_mt.model.architectures import new_model
from transformer_mt.model.attention import EXPLICIT_MAX_CELLS
from transformer_mt.model.encoder_decoder import EncoderDecoder
from transformer_mt.system.device import keep_memory, release_memory
from transformer_mt.system.machine import available_memory_bytes, peak_memory_mib
from transformer_mt.system.processes.distributed import Ranks
from transformer_mt.system.processes.executors import spawn_context, start_worker
from transformer_mt.training.memory import is_out_of_memory
from transformer_mt.training.micro_batch import Learner
from transformer_mt.training.padding import Batch
from transformer_mt.training.recorded import PLAIN

# More tokens at a time make training on a CPU no faster: docs/lab/micro-batches.md.
CPU_MAX_TOKENS = 4096

GRANULE = 64  # sizes are multiples of it
CUDA_MARGIN = 0.1  # a size counts as fitting if one larger by this share fits
# Share of the available memory for training on a CPU. The rest is for heap fragmentation by varying
# shapes, for validation and checkpoints, and for other programs of the machine.
CPU_SHARE = 0.5

_PROBED_TOKENS = 512  # of the smaller measured step; fewer would be lost in pages of 2 MiB

Build = Callable[[], EncoderDecoder]


def agree_on_max_tokens(
    model: EncoderDecoder, cfg: TrainConfig, corpus: EncodedCorpus, ranks: Ranks
) -> int:
    """The number for `train.max_tokens: auto`: the smallest choice of all machines and GPUs."""
    longest = max(side.longest for side in (corpus.src, corpus.tgt))
    chosen = None
    if ranks.local_rank == 0 or model.output.weight.device.type != "cpu":
        chosen = choose_max_tokens(model, cfg, longest=longest, n_processes=ranks.local_size)
    return min(choice for choice in ranks.gather(chosen) if choice is not None)


def choose_max_tokens(
    model: EncoderDecoder, cfg: TrainConfig, *, longest: int, n_processes: int = 1
) -> int:
    """The largest useful micro-batch that fits into memory in its worst shape.

    On a GPU, sizes are tried. On a CPU, where the system kills a process that takes too much, small
    sizes are measured in a separate process, which takes some seconds, unless there is more than
    enough memory. The result depends on the memory that is free at the moment: a resumed run must
    keep its first result.

    Args:
        model: on the device of the training; not changed.
        longest: tokens of the longest sentence of either side.
        n_processes: number that will share the memory of this machine; GPUs are not shared.
    Returns:
        Sentences × longest side, a multiple of 64, between the longest sentence and an update.
    Raises:
        TrainingError: not even one sentence of the longest length fits.
    """
    least = _round_up(longest)
    if model.output.weight.device.type != "cpu":
        most = max(least, _round_up(cfg.tokens_per_update))
        chosen = largest_by_trying(model, cfg, longest=longest, most=most)
        available = tr("the memory of the GPU")
    else:
        most = max(least, min(CPU_MAX_TOKENS, _round_up(cfg.tokens_per_update)))
        budget = CPU_SHARE * available_memory_bytes() / n_processes
        chosen = most
        if budget < ample_bytes(model, most, length=longest):
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
    """The largest micro-batch of longest sentences on which a new model of this size can train.

    Returns:
        A multiple of 64 up to `most`, with some margin; 0: not even one sentence fits.
    """
    device = model.output.weight.device
    build = _builder(model)

    def fits(n_tokens: int) -> bool:
        n_sentences = math.ceil((1 + CUDA_MARGIN) * n_tokens / longest)
        try:
            # The last update is recorded as a CUDA graph, which takes memory of its own.
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
    """Try `most`; else double from `least` until a size does not fit, and bisect to a tenth.

    Args:
        fits: whether a size fits; if it does not, no larger size does.
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


def ample_bytes(model: EncoderDecoder, n_tokens: int, *, length: int) -> float:
    """More memory than a training with micro-batches of this size takes on a CPU.

    Args:
        n_tokens: of a micro-batch, sentences × longest side.
        length: tokens of each sentence, on both sides.
    Returns:
        bytes; the factors are chosen so that they are 1.3 to 1.9 times what was measured for
        models of five shapes (docs/lab/micro-batches.md). Infinite: no bound is known.
    """
    cfg = model.cfg
    if cfg.architecture == "rnn":  # additive attention stores a vector for each pair of tokens
        return math.inf
    n_layers = cfg.encoder_layers + cfg.decoder_layers
    n_scores = cfg.heads * _explicit(length) * (n_layers + cfg.decoder_layers)
    n_logits = model.output.weight.size(0)
    values = n_layers * (30 * cfg.d_model + 6 * cfg.ffn) + 1.5 * n_scores + 3 * n_logits
    n_parameters = sum(parameter.numel() for parameter in model.parameters())
    return 400 * 2**20 + 28 * n_parameters + 4 * values * n_tokens


@dataclass(frozen=True)
class StepMemory:
    """The peak resident size of a process that trains on a CPU, linear in the number of tokens."""

    fixed: float  # bytes: the program, weights, gradient, Adam's moments
    per_token: float  # bytes for each token of max_tokens

    def tokens_within(self, n_bytes: float) -> int:
        """The largest multiple of 64 tokens that fits; 0 if none does."""
        return max(0, int((n_bytes - self.fixed) / self.per_token)) // GRANULE * GRANULE


def peak_of_step(model: EncoderDecoder, cfg: TrainConfig, *, length: int) -> StepMemory:
    """The memory of training on a CPU, measured on two small micro-batches in a fresh process.

    Long sentences are the worst case: attention stores a score for each pair of tokens. If it would
    not store them at this length, the longest sentences are measured for which it does.

    Args:
        length: tokens of each sentence, on both sides.
    Raises:
        TrainingError: the process was killed.
    """
    length = _explicit(length)
    n_sentences = -(-_PROBED_TOKENS // length)
    shapes = [(n_sentences, length), (2 * n_sentences, length)]
    with ProcessPoolExecutor(1, spawn_context(), initializer=start_worker) as pool:
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


def _explicit(length: int) -> int:
    """So many tokens, or the most for which attention on a CPU stores the scores."""
    return min(length, math.isqrt(EXPLICIT_MAX_CELLS))


def _measure_peaks(
    build: Build, cfg: TrainConfig, n_threads: int, shapes: list[tuple[int, int]]
) -> list[int]:
    """Peak resident bytes of this fresh process after a step of each shape, smallest first."""
    keep_memory()
    torch.set_num_threads(n_threads)
    step = _Step(build, cfg, torch.device("cpu"))
    step.run(*shapes[0])  # the first step allocates the optimizer's memory
    peaks = []
    for shape in shapes:
        step.run(*shape)
        peaks.append(int(peak_memory_mib() * 2**20))
    return peaks


def _builder(model: EncoderDecoder) -> Build:
    """A function that builds a model of the same sizes, here or in another process."""
    src, tgt = (side.tokens for side in (model.encoder_embedding, model.decoder_embedding))
    return partial(new_model, model.cfg, src.num_embeddings, tgt.num_embeddings, pad_id=PAD_ID)


class _Step:
    """Updates of a fresh model as in the trainer, on random sentences."""

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
