"""Seconds of an update of tmt on n GPUs, on paper.

Comes in: the updates of a real plan, a model, and assumptions about hardware. Goes out: seconds, by
what they are spent on. Matrix products, operations and bytes are counted in the code of tmt, which
also deals the updates; what hardware does in a second is assumed. Nothing is measured.

Sources: peaks in bf16 without sparsity, memory and NVLink bandwidths are those of NVIDIA's data
sheets for A100 80 GB SXM, H100 SXM and H200 SXM; NVLink's 600 and 900 GB/s are both ways together.
PCIe 5.0 x16 carries 64 GB/s each way.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from transformer_mt.config.model import ModelConfig
from transformer_mt.encoding.encoded_corpus import Indices
from transformer_mt.model.encoder_decoder import resolve_tying
from transformer_mt.model.transformer import Transformer
from transformer_mt.profiling.flops import training_flops
from transformer_mt.training.batches import UpdatePlan, deal
from transformer_mt.training.flat_parameters import BUCKET_BYTES
from transformer_mt.training.loss import CHUNK_BYTES, GPU_CHUNK_BYTES, OutputLoss

PER_MACHINE = 8
N_UPDATES = 25  # of the plan, from its start, that are carried out on paper
SIZES: dict[str, tuple[dict[str, Any], int]] = {  # model and joint vocabulary
    "tiny": ({"d_model": 128, "heads": 4, "ffn": 256, "encoder_layers": 4, "decoder_layers": 4,
              "norm": "pre", "dropout": 0.3}, 8000),
    "base": ({}, 32000),
    "big": ({"d_model": 1024, "heads": 16, "ffn": 4096, "dropout": 0.3}, 32000),
}  # fmt: skip


class Gpu(NamedTuple):
    flops: float  # per second, bf16, dense
    memory: float  # bytes/s
    nvlink: float  # bytes/s, one way


GPUS = {
    "A100": Gpu(312e12, 2.039e12, 300e9),
    "H100": Gpu(989e12, 3.35e12, 450e9),
    "H200": Gpu(989e12, 4.8e12, 450e9),
}
PCIE = 64e9  # bytes/s, one way
NETWORKS = {  # between machines: bytes/s, one way, of a whole machine
    "8 × 400 Gb/s InfiniBand": 8 * 50e9,
    "400 Gb/s InfiniBand": 50e9,
    "100 Gb/s InfiniBand": 12.5e9,
    "25 Gb/s Ethernet": 3.125e9,
    "10 Gb/s Ethernet": 1.25e9,
}


@dataclass(frozen=True)
class Assumptions:
    """Hardware and settings of one row of a table."""

    gpu: Gpu = GPUS["H100"]
    within: float = GPUS["H100"].nvlink  # bytes/s of a GPU to its neighbour
    between: float = NETWORKS["8 × 400 Gb/s InfiniBand"]
    share: float = 0.35  # of the GPU's peak that matrix products reach
    link_share: float = 0.8  # of a link's bandwidth that is reached
    operation_s: float = 5e-6  # to start one operation from Python; no torch.compile, no graphs
    host_s_per_token: float = 0.5e-3 / 3000  # to pad a batch: docs/performance.md, "data"
    latency_s: float = 5e-6  # of a step of a ring within a machine
    network_latency_s: float = 10e-6  # of one between machines
    agree_s: float = 50e-6  # of each of log₂ n steps in which processes agree whether to stop
    gradient_bytes: int = 4  # train.reduce_dtype: fp32; 2: bf16

    @property
    def of_computing(self) -> tuple[Gpu, float, float, float]:
        """All that matters to one process alone."""
        return self.gpu, self.share, self.operation_s, self.host_s_per_token


class _Counter(TorchDispatchMode):
    """Counts operations that do something; views cost the GPU nothing."""

    n = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.n += not func.is_view
        return func(*args, **(kwargs or {}))


def count_operations(work: Callable[[], object]) -> int:
    with _Counter() as counter:
        work()
    return counter.n


class Cost:
    """What a model asks for, counted in its code."""

    def __init__(self, sizes: dict[str, Any], vocab_size: int) -> None:
        cfg = resolve_tying(ModelConfig.model_validate(sizes), joint=True)
        with torch.device("meta"):
            self.model = Transformer(cfg, vocab_size, vocab_size)
        self.vocab_size = vocab_size
        self.parameters = sum(p.numel() for p in self.model.parameters())
        # Backward ends with the source embeddings: nothing is left that could hide their sending.
        self.last_sent = next(self.model.parameters()).numel()
        self.chunk_rows = max(1, GPU_CHUNK_BYTES // (4 * vocab_size))
        self._flops: dict[tuple[int, int], int] = {}

    def flops(self, src_length: int, tgt_length: int) -> int:
        """Of one sentence, forward and backward."""
        key = src_length, tgt_length
        if key not in self._flops:
            self._flops[key] = training_flops(
                self.model, np.array([src_length]), np.array([tgt_length])
            )
        return self._flops[key]

    @cached_property
    def _model_operations(self) -> int:
        ids = torch.ones(2, 5, dtype=torch.long, device="meta")
        return count_operations(lambda: self.model(ids, ids).sum().backward())

    def operations(self, n_tokens: int) -> int:
        """Of one micro-batch with so many target tokens, forward and backward."""
        output, chunk = _output_operations()
        return self._model_operations + output + chunk * math.ceil(n_tokens / self.chunk_rows)


@cache
def _output_operations() -> tuple[int, int]:
    """Of the output layer and its loss, and of each of its chunks."""
    vocab_size = CHUNK_BYTES // 4  # a row is a chunk on a CPU, where it is counted
    weight = torch.zeros(vocab_size, 1, requires_grad=True)

    def loss(n_chunks: int) -> int:
        hidden = torch.zeros(1, n_chunks, 1, requires_grad=True)
        tgt = torch.ones(hidden.shape[:2], dtype=torch.long)
        return count_operations(lambda: OutputLoss(0.1, 0)(hidden, weight, tgt).loss.backward())

    one, two = loss(1), loss(2)
    return 2 * one - two, two - one


class Lengths(NamedTuple):
    src: Indices
    tgt: Indices


def make_lengths(n: int, seed: int = 0) -> Lengths:
    """News-like: 25 target tokens in the median, 30 on average, 200 at most; sources similar."""
    random = np.random.default_rng(seed)
    tgt = random.lognormal(math.log(25), 0.6, n)
    src = tgt * random.lognormal(0, 0.15, n)
    src_lengths, tgt_lengths = (x.astype(np.int64).clip(1, 200) + 1 for x in (src, tgt))
    return Lengths(src_lengths, tgt_lengths)


class Work(NamedTuple):
    """Seconds of one process for one micro-batch."""

    products_s: float  # if nothing but the matrix products took time
    total_s: float
    backward_s: float


def micro_batch(cost: Cost, lengths: Lengths, indices: Indices, a: Assumptions) -> Work:
    src, tgt = lengths.src[indices], lengths.tgt[indices]
    n_tokens = int(tgt.sum())
    padded = len(indices) * cost.flops(int(src.max()), int(tgt.max()))
    products_s = padded / (a.gpu.flops * a.share)
    gpu_s = max(products_s, cost.operations(n_tokens) * a.operation_s)
    # `accumulate`: fp32 gradients read and written, bf16 ones read and set to zero.
    accumulate_s = (4 + 4 + 2 + 2) * cost.parameters / a.gpu.memory
    total_s = n_tokens * a.host_s_per_token + gpu_s + accumulate_s
    return Work(products_s, total_s, gpu_s * 2 / 3)


def all_reduce_s(n_bytes: float, n: int, a: Assumptions) -> float:
    """Ring within each machine, and rings of equal parts between machines.

    Source: Patarasuk and Yuan 2009 for the ring.
    """
    local, machines = min(n, PER_MACHINE), math.ceil(n / PER_MACHINE)
    n_messages = math.ceil(n_bytes / BUCKET_BYTES)
    within_s = (local - 1) / local * n_bytes / (a.within * a.link_share)
    between_s = (machines - 1) / machines * n_bytes / (a.between * a.link_share)
    steps_s = (local - 1) * a.latency_s + (machines - 1) * a.network_latency_s
    return 2 * (within_s + between_s + n_messages * steps_s)


# Read and written per parameter in an optimizer step: norm, gradient to zero, scaling, Adam (reads
# four values and writes three), the cast to bf16.
OPTIMIZER_BYTES = 4 + 4 + 8 + 16 + 12 + 6
# Of memory per parameter: weights and gradients in bf16; gradient, master and two moments in fp32.
STATE_BYTES = 2 + 2 + 4 + 4 + 8


@dataclass(frozen=True)
class Update:
    """Seconds of an update, and where they go; averages over some updates."""

    tgt_tokens: float
    products_s: float  # the matrix products, were they spread evenly
    overhead_s: float  # starting operations, padding batches, adding gradients
    waiting_s: float  # for the slowest process
    sending_s: float  # what backward does not hide
    optimizer_s: float

    @property
    def total_s(self) -> float:
        return sum(self.parts().values())

    @property
    def tokens_per_s(self) -> float:
        return self.tgt_tokens / self.total_s

    def parts(self) -> dict[str, float]:
        seconds = dict(self.__dict__)
        del seconds["tgt_tokens"]
        return seconds


class Computation(NamedTuple):
    """Seconds of one update without what processes send each other."""

    tgt_tokens: int
    products_s: float  # mean of all processes
    mean_s: float
    slowest_s: float
    hiding_s: float  # the last backward of the slowest, which hides what is sent


def compute(
    cost: Cost, lengths: Lengths, plan: UpdatePlan, n: int, a: Assumptions
) -> list[Computation]:
    """The first updates of a plan on n GPUs; depends on `a.of_computing` only."""
    return [
        _compute_update(cost, lengths, plan.update(u), n, a)
        for u in range(min(N_UPDATES, len(plan)))
    ]


def _compute_update(
    cost: Cost, lengths: Lengths, batches: list[Indices], n: int, a: Assumptions
) -> Computation:
    ranks = [
        [micro_batch(cost, lengths, part.rows, a) for part in deal(batches, rank, n, even=False)]
        for rank in range(n)
    ]
    totals = [sum(work.total_s for work in rank) for rank in ranks]
    slowest = int(np.argmax(totals))
    return Computation(
        sum(int(lengths.tgt[batch].sum()) for batch in batches),
        sum(work.products_s for rank in ranks for work in rank) / n,
        sum(totals) / n,
        totals[slowest],
        ranks[slowest][-1].backward_s,
    )


def combine(cost: Cost, computations: list[Computation], n: int, a: Assumptions) -> Update:
    """Add what is sent, and the optimizer."""
    optimizer_s = OPTIMIZER_BYTES * cost.parameters / a.gpu.memory
    rows = [
        (
            c.tgt_tokens,
            c.products_s,
            c.mean_s - c.products_s,
            c.slowest_s - c.mean_s,
            _sending_s(cost, c.hiding_s, n, a),
            optimizer_s,
        )
        for c in computations
    ]
    return Update(*np.mean(rows, axis=0).tolist())


def _sending_s(cost: Cost, hiding_s: float, n: int, a: Assumptions) -> float:
    """Gradients go while the slowest process is in its last backward; the rest is waited for."""
    if n == 1:
        return 0.0
    whole_s = all_reduce_s(a.gradient_bytes * cost.parameters, n, a)
    last_s = all_reduce_s(a.gradient_bytes * cost.last_sent, n, a)
    return max(last_s, whole_s - hiding_s) + math.log2(n) * a.agree_s
