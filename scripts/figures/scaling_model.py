"""Seconds of an update of tmt on n GPUs, on paper.

Comes in: the updates of a real plan, a model, and assumptions about hardware. Goes out: seconds, by
what they are spent on. Matrix products and bytes are counted in the code of tmt, which also deals
the updates. What one GPU does in a second was measured (docs/lab/gpu.md); what links do is assumed.

Sources: peak in bf16 without sparsity, memory's bandwidth and NVLink's, which is 900 GB/s both ways
together, are those of NVIDIA's data sheet for H200 SXM.
PCIe 5.0 x16 carries 64 GB/s each way.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from transformer_mt.config.model import ModelConfig
from transformer_mt.encoding.encoded_corpus import Indices
from transformer_mt.model.encoder_decoder import resolve_tying
from transformer_mt.model.transformer import Transformer
from transformer_mt.profiling.flops import training_flops
from transformer_mt.training.batches import UpdatePlan, deal
from transformer_mt.training.flat_parameters import BUCKET_BYTES

PER_MACHINE = 8
N_UPDATES = 25  # of the plan, from its start, that are carried out on paper
# Model, joint vocabulary, and the share of its peak that one H200 reached: operations of the matrix
# products that a micro-batch needs, over its time without `Assumptions.fixed_s`.
SIZES: dict[str, tuple[dict[str, Any], int, float]] = {
    "tiny": ({"d_model": 128, "heads": 4, "ffn": 256, "encoder_layers": 4, "decoder_layers": 4,
              "dropout": 0.3}, 32000, 0.039),
    "base": ({}, 32000, 0.178),
    "big": ({"d_model": 1024, "heads": 16, "ffn": 4096, "dropout": 0.3}, 32000, 0.27),
}  # fmt: skip


class Gpu(NamedTuple):
    flops: float  # per second, bf16, dense
    memory: float  # bytes/s
    nvlink: float  # bytes/s, one way


H200 = Gpu(989e12, 4.8e12, 450e9)
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

    gpu: Gpu = H200
    within: float = H200.nvlink  # bytes/s of a GPU to its neighbour
    between: float = NETWORKS["8 × 400 Gb/s InfiniBand"]
    link_share: float = 0.8  # of a link's bandwidth that is reached
    fixed_s: float = 1e-3  # of a micro-batch, however small: measured with base
    host_s: float = 2e-3  # of an update, until its first micro-batch is there: measured
    latency_s: float = 5e-6  # of a step of a ring within a machine
    network_latency_s: float = 10e-6  # of one between machines
    agree_s: float = 50e-6  # of each of log₂ n steps in which processes agree whether to stop
    gradient_bytes: int = 4  # train.reduce_dtype: fp32; 2: bf16

    @property
    def of_computing(self) -> tuple[Gpu, float]:
        """All that matters to one process alone."""
        return self.gpu, self.fixed_s


class Cost:
    """What a model asks for, counted in its code."""

    def __init__(self, sizes: dict[str, Any], vocab_size: int, share: float) -> None:
        cfg = resolve_tying(ModelConfig.model_validate(sizes), joint=True)
        with torch.device("meta"):
            self.model = Transformer(cfg, vocab_size, vocab_size)
        self.share = share
        self.parameters = sum(p.numel() for p in self.model.parameters())
        self._flops: dict[tuple[int, int], int] = {}

    def flops(self, src_length: int, tgt_length: int) -> int:
        """Of one sentence, forward and backward."""
        key = src_length, tgt_length
        if key not in self._flops:
            self._flops[key] = training_flops(
                self.model, np.array([src_length]), np.array([tgt_length])
            )
        return self._flops[key]


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

    products_s: float  # all that grows with its tokens
    total_s: float


def micro_batch(cost: Cost, lengths: Lengths, indices: Indices, a: Assumptions) -> Work:
    flops = sum(map(cost.flops, lengths.src[indices].tolist(), lengths.tgt[indices].tolist()))
    products_s = flops / (a.gpu.flops * cost.share)
    return Work(products_s, a.fixed_s + products_s)


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
    products_s: float  # what grows with the tokens, were they spread evenly
    overhead_s: float  # what a micro-batch takes however small, and the host
    waiting_s: float  # for the slowest process
    sending_s: float
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
    return Computation(
        sum(int(lengths.tgt[batch].sum()) for batch in batches),
        sum(work.products_s for rank in ranks for work in rank) / n,
        sum(totals) / n,
        max(totals),
    )


def combine(cost: Cost, computations: list[Computation], n: int, a: Assumptions) -> Update:
    """Add what is sent, and the optimizer."""
    optimizer_s = OPTIMIZER_BYTES * cost.parameters / a.gpu.memory
    rows = [
        (
            c.tgt_tokens,
            c.products_s,
            c.mean_s - c.products_s + a.host_s,
            c.slowest_s - c.mean_s,
            _sending_s(cost, n, a),
            optimizer_s,
        )
        for c in computations
    ]
    return Update(*np.mean(rows, axis=0).tolist())


def _sending_s(cost: Cost, n: int, a: Assumptions) -> float:
    """After the last micro-batch, which is a recording: nothing hides it."""
    if n == 1:
        return 0.0
    return all_reduce_s(a.gradient_bytes * cost.parameters, n, a) + math.log2(n) * a.agree_s
