"""Micro-batches of one GPU, operation by operation and as recordings, by turns.

    python scripts/bench/recordings.py [--sizes tiny,base,big] [--tokens 4096,16384] [--rounds 3]

Sentences are random, of log-normal lengths (median 25); vocabularies have 32,000 entries each. The
optimizer and the padding of batches are not timed. On a CPU nothing is recorded.
"""

import argparse
import time
from statistics import median

import numpy as np
import torch

from transformer_mt.config.experiment import TrainConfig
from transformer_mt.config.model import ModelConfig
from transformer_mt.encoding.encoded_corpus import Indices
from transformer_mt.encoding.tokenizer import BOS_ID, PAD_ID
from transformer_mt.model.architectures import new_model
from transformer_mt.profiling.bench_train import SIZES, Size
from transformer_mt.profiling.flops import training_flops
from transformer_mt.system.device import choose_device, seed_all
from transformer_mt.training.batches import plan_updates
from transformer_mt.training.micro_batch import Learner
from transformer_mt.training.padding import GPU_MULTIPLE, Batch

N_PAIRS, N_BATCHES, VOCABULARY = 40_000, 12, 32_000
WARM_UP = 3  # rounds: in them libraries are loaded, and all shapes are recorded


def padded(lengths: Indices, random: np.random.Generator) -> Indices:
    longest = -(-int(lengths.max()) // GPU_MULTIPLE) * GPU_MULTIPLE
    ids = random.integers(4, VOCABULARY, (len(lengths), longest))
    ids[np.arange(longest) >= lengths[:, None]] = PAD_ID
    return ids


def micro_batches(max_tokens: int, device: torch.device) -> list[tuple[Batch, Indices, Indices]]:
    """Each with the lengths of its sources and targets."""
    random = np.random.default_rng(1)
    drawn = random.lognormal(np.log(25), 0.6, N_PAIRS)
    src = drawn.clip(2, 100).astype(np.int64)
    tgt = (drawn * random.lognormal(0, 0.2, N_PAIRS)).clip(2, 110).astype(np.int64)
    plan = plan_updates(src, tgt, max_tokens=max_tokens, tokens_per_update=25_000, seed=1, epoch=0)
    made = []
    for rows in list(plan.batches())[:N_BATCHES]:
        tgt_out = padded(tgt[rows], random)
        tgt_in = np.roll(tgt_out, 1, 1)
        tgt_in[:, 0] = BOS_ID
        tgt_in[tgt_out == PAD_ID] = PAD_ID
        sides = (torch.from_numpy(x) for x in (padded(src[rows], random), tgt_in, tgt_out))
        made.append((Batch(*sides).to(device), src[rows], tgt[rows]))
    return made


def measure(size: Size, max_tokens: int, rounds: int) -> None:
    device = choose_device()
    torch.manual_seed(1)
    cfg = ModelConfig.model_validate({**SIZES[size], "tie_embeddings": "decoder"})
    model = new_model(cfg, VOCABULARY, VOCABULARY).to(device).train()
    learner = Learner(model, TrainConfig())
    batches = micro_batches(max_tokens, device)
    n_tokens = sum(int(tgt.sum()) for _, _, tgt in batches)
    flops = sum(training_flops(model, src, tgt) for _, src, tgt in batches)

    def seconds(recorded: bool) -> float:
        if device.type == "cuda":
            torch.cuda.synchronize()
        started = time.perf_counter()
        for number, (batch, _, _) in enumerate(batches):
            seed_all(number)
            learner.add_gradients(batch) if recorded else learner._add_gradients(batch)
        learner.optimizer.gradient.total.sum().item()  # waits for the device
        return time.perf_counter() - started

    for way in (False, True):
        for _ in range(WARM_UP):
            seconds(way)
    found: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(rounds):
        for way, times in found.items():
            times.append(seconds(way))
    plain, recorded = (median(times) for times in found.values())
    print(
        f"{size:<5} {max_tokens:>6}  {1000 * plain / len(batches):7.2f} ms plain "
        f"{1000 * recorded / len(batches):7.2f} ms recorded  {plain / recorded:5.2f} times  "
        f"{n_tokens / recorded:>11,.0f} target tokens/s  {flops / recorded / 1e12:6.1f} TFLOP/s",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--sizes", default="tiny,base,big")
    parser.add_argument("--tokens", default="4096,16384")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    for size in arguments.sizes.split(","):
        for max_tokens in map(int, arguments.tokens.split(",")):
            measure(size, max_tokens, arguments.rounds)


if __name__ == "__main__":
    main()
