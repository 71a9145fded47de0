"""What of a search in 8-bit integers is products, and what is the calling of operations.

    taskset -c 0 python scripts/bench/int8_floor.py --rounds 5

A model of base's size with random weights, and one with as many layers and hardly any numbers,
translate 64 sentences of 15 tokens with a beam of 5, on one thread. Printed are milliseconds of CPU
time for a sentence, medians: all of it, the integer layers, and of these the products of integers
that are ready, alone; the last line is the price of calling the operations.
"""

import argparse
import os
import time
from collections import Counter, defaultdict
from statistics import median
from typing import Any
from unittest.mock import patch

from transformer_mt.system.processes.environment import DEFAULTS

os.environ.update(DEFAULTS | {"OMP_NUM_THREADS": "1"} | dict(os.environ))  # before torch is loaded

import torch

from transformer_mt.config.model import ModelConfig
from transformer_mt.model import int8
from transformer_mt.model.architectures import new_model
from transformer_mt.search.engine import Engine, Request
from transformer_mt.search.options import SearchOptions
from transformer_mt.system.device import keep_memory

N, LENGTH, SOURCE_LENGTH = 64, 15, 14
VOCAB, EMPTY_VOCAB = 8000, 64

Calls = Counter[tuple[Any, int]]  # of an integer layer, with so many rows


def engine_of(*, empty: bool) -> Engine:
    width, ffn, vocab = (16, 8, EMPTY_VOCAB) if empty else (512, 2048, VOCAB)
    cfg = ModelConfig(d_model=width, heads=8, ffn=ffn, norm="post", tie_embeddings="all")
    model = new_model(cfg, vocab, vocab, pad_id=0).eval()
    with patch.object(int8, "MIN_ELEMENTS", 1 if empty else int8.MIN_ELEMENTS):
        int8.use_int8(model)  # all of its layers, as in base's size
    return Engine([model.to(torch.bfloat16)], [0])


def products(calls: Calls) -> float:
    """Seconds of CPU time for the products of some calls, without anything around them."""
    seconds = 0.0
    for (layer, rows), n in calls.items():
        x = torch.randint(0, 255, (rows, layer.weight.shape[1]), dtype=torch.uint8)
        started = time.process_time()
        for _ in range(n):
            torch.ops.onednn.qlinear_pointwise(
                x, 1.0, int8.ZERO, layer._packed, layer._scales, layer._zeros,
                None, 1.0, 0, torch.float32, "none", [], "",
            )  # fmt: skip
        seconds += time.process_time() - started
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    keep_memory()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    calls: Calls = Counter()
    spent = 0.0
    plain = int8.Int8Linear.in_fp32

    def timed(layer: int8.Int8Linear, x: torch.Tensor) -> torch.Tensor:
        nonlocal spent
        started = time.process_time()
        y = plain(layer, x)
        spent += time.process_time() - started
        calls[layer, len(x)] += 1
        return y

    with patch.object(int8.Int8Linear, "in_fp32", timed):
        whole, empty = engine_of(empty=False), engine_of(empty=True)
    options = SearchOptions(min_length=LENGTH - 1, max_length=LENGTH - 1, beam=5)
    ids = torch.randint(4, EMPTY_VOCAB, (N, SOURCE_LENGTH)).tolist()
    times: defaultdict[str, list[float]] = defaultdict(list)
    for round_ in range(rounds + 1):
        for name, engine in (("base, int8", whole), ("calling operations", empty)):
            spent = 0.0
            calls.clear()
            started = time.process_time()
            with patch.object(int8.Int8Linear, "in_fp32", timed):  # of the encoder
                engine.search(list(map(Request, ids)), options)
            found = {name: time.process_time() - started}
            if engine is whole:
                found |= {"integer layers": spent, "products alone": products(calls)}
            for part, seconds in found.items() if round_ else ():
                times[part].append(1e3 * seconds / N)
    for part, found_ms in times.items():
        print(f"{part:20} {median(found_ms):6.2f} ms a sentence")


if __name__ == "__main__":
    main()
