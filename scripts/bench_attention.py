"""Explicit attention against the fused kernel, forward and backward, by sentence length.

    python scripts/bench_attention.py [--tokens 4096] [--d-model 512] [--heads 8]

Both compute the same on the same tensors, in turn, in one process; times are medians. The number of
tokens is the same at every length, so the growth with the length is that of the scores, O(n²·d) per
sentence and O(n·d) per token.
"""

import argparse
import statistics
import time

import torch

from transformer_mt.model import attention
from transformer_mt.runtime import choose_device, choose_precision, keep_memory

REPETITIONS = 7


def seconds(explicit: bool, q: torch.Tensor, mask: torch.Tensor) -> float:
    attention.EXPLICIT_MAX_CELLS = 1 << 62 if explicit else 0
    started = time.perf_counter()
    output, _ = attention.attend(q, q, q, mask)
    output.sum().backward()
    if q.device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--d-model", type=int, default=512)
    parser.add_argument("--heads", type=int, default=8)
    arguments = parser.parse_args()
    keep_memory()
    device = choose_device()
    dtype = choose_precision("auto", device)
    print(f"{device}, {dtype}, {torch.get_num_threads()} threads, {arguments.tokens} tokens")
    print("| length | explicit, ms | fused, ms | fused / explicit |\n|---|---|---|---|")
    for length in (8, 16, 32, 64, 128, 256, 512, 1024):
        batch = arguments.tokens // length
        shape = batch, arguments.heads, length, arguments.d_model // arguments.heads
        q = torch.randn(shape, device=device, dtype=dtype, requires_grad=True)
        padding = torch.zeros(batch, length, dtype=torch.bool, device=device)
        mask = attention.may_attend(padding) & attention.causal_mask(length, device)
        times: dict[bool, list[float]] = {True: [], False: []}
        for repetition in range(REPETITIONS + 2):  # the first two warm up
            for explicit in (True, False):
                elapsed = seconds(explicit, q, mask)
                if repetition >= 2:
                    times[explicit].append(elapsed)
        one, other = (1000 * statistics.median(times[explicit]) for explicit in (True, False))
        print(f"| {length} | {one:.1f} | {other:.1f} | {other / one:.2f} |")


if __name__ == "__main__":
    main()
