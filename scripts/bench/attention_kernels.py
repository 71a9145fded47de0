"""Explicit attention against the fused kernel, forward and backward, by sentence length.

    python scripts/bench/attention_kernels.py [--d-model 512] [--heads 8] [--threads N]

All compute the same on the same tensors, in turn, in one process; times are medians. "torch's
softmax" is the explicit way without the code for short rows. The number of tokens is the same at
every length, so the growth with the length is that of the scores, O(n²·d) per sentence and O(n·d)
per token.
"""

import argparse
import statistics
import time

import torch

from transformer_mt.model import attention
from transformer_mt.system.device import choose_precision, keep_memory

REPETITIONS = 7


# Up to how many cells per head the products are explicit, and in which rows softmax is tmt's own.
WAYS = {
    "explicit": (1 << 62, attention.VECTOR_BYTES),
    "torch's softmax": (1 << 62, 0),
    "fused": (0, 0),
}


def seconds(way: str, q: torch.Tensor, mask: torch.Tensor) -> float:
    attention.EXPLICIT_MAX_CELLS, attention.VECTOR_BYTES = WAYS[way]
    started = time.perf_counter()
    output = attention.attend(q, q, q, mask)
    output.sum().backward()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--d-model", type=int, default=512)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    keep_memory()
    device = torch.device("cpu")  # a GPU has one way
    dtype = choose_precision("auto", device)
    print(f"{device}, {dtype}, {torch.get_num_threads()} threads, {arguments.tokens} tokens")
    print("| length | explicit, ms | with torch's softmax, ms | fused, ms | fused / explicit |")
    print("|---|---|---|---|---|")
    for length in (8, 13, 16, 24, 32, 64, 128, 256, 512, 1024):
        batch = arguments.tokens // length
        shape = batch, arguments.heads, length, arguments.d_model // arguments.heads
        q = torch.randn(shape, device=device, dtype=dtype, requires_grad=True)
        padding = torch.zeros(batch, length, dtype=torch.bool, device=device)
        mask = attention.may_attend(padding) & attention.causal_mask(length, device)
        times: dict[str, list[float]] = {way: [] for way in WAYS}
        for repetition in range(REPETITIONS + 2):  # the first two warm up
            for way in WAYS:
                elapsed = seconds(way, q, mask)
                if repetition >= 2:
                    times[way].append(elapsed)
        own, plain, fused = (1000 * statistics.median(times[way]) for way in WAYS)
        print(f"| {length} | {own:.1f} | {plain:.1f} | {fused:.1f} | {fused / own:.2f} |")


if __name__ == "__main__":
    main()
