"""Recurrent layers and attention: what length costs each of them, in training.

    python scripts/bench/before_attention.py

Two tables, of this machine, in fp32 and one process. The first trains a Transformer and a recurrent
model of the same width on micro-batches of as many tokens, which are few long sentences or many
short ones; the second times one layer of each, forward and backward, on one sentence that grows,
and fits a·n + b·n² to the time of self-attention. Both take their turns, and the table has medians.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from transformer_mt.config.experiment import TrainConfig
from transformer_mt.config.model import ModelConfig
from transformer_mt.encoding.tokenizer import PAD_ID
from transformer_mt.model.architectures import new_model
from transformer_mt.model.attention import SelfAttention
from transformer_mt.training.micro_batch import Learner
from transformer_mt.training.padding import Batch

VOCABULARY = 8000
BATCH_TOKENS = 2048  # of each side
SPEED_LENGTHS = (4, 8, 16, 32, 64, 128, 256)
COST_LENGTHS = (16, 32, 64, 128, 256, 512, 1024, 2048)
SIZES = {  # of about as many parameters in the layers
    "Transformer": {"architecture": "modern", "heads": 8, "ffn": 256,
                    "encoder_layers": 2, "decoder_layers": 2},
    "recurrent": {"architecture": "rnn", "encoder_layers": 2, "decoder_layers": 2},
}  # fmt: skip


def medians(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Seconds of each call, by turns, after one that does not count."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds + 1):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(own[1:]) for name, own in times.items()}


def speed_by_length(width: int, rounds: int) -> None:
    learners = {}
    for name, sizes in SIZES.items():
        cfg = ModelConfig.model_validate({"d_model": width, "tie_embeddings": "all", **sizes})
        torch.manual_seed(1)
        model = new_model(cfg, VOCABULARY, VOCABULARY, pad_id=PAD_ID).train()
        learners[name] = Learner(model, TrainConfig(precision="fp32"))
        print(f"{name}: {cfg.matrix_parameters:,} parameters in the layers, width {width}")
    names = list(learners)
    print(
        f"\n| tokens of a sentence | {' | '.join(f'{name}, tokens/s' for name in names)} | ratio |"
    )
    print("|---|---|---|---|")
    for length in SPEED_LENGTHS:
        ids = torch.randint(4, VOCABULARY, (BATCH_TOKENS // length, length))
        batch = Batch(ids, ids, ids, torch.arange(ids.numel()))

        def update(learner: Learner, batch: Batch = batch) -> None:
            learner.add_gradients(batch)
            learner.optimizer.step(0.0, BATCH_TOKENS)

        seconds = medians(
            {name: lambda own=learner: update(own) for name, learner in learners.items()}, rounds
        )
        first, second = (BATCH_TOKENS / seconds[name] for name in names)
        print(f"| {length} | {first:,.0f} | {second:,.0f} | {first / second:.2f} |", flush=True)


def cost_of_length(width: int, rounds: int) -> None:
    layers: dict[str, nn.Module] = {
        "self-attention": SelfAttention(width, 8),
        "recurrent layer": nn.GRU(width, width // 2, batch_first=True, bidirectional=True),
    }

    def pass_through(layer: nn.Module, x: torch.Tensor) -> None:
        output = layer(x, None) if isinstance(layer, SelfAttention) else layer(x)[0]
        output.sum().backward()

    print(f"\nOne layer of width {width}, one sentence, milliseconds forward and backward\n")
    print(f"| tokens | {' | '.join(layers)} |\n|---|---|---|")
    found = []
    for length in COST_LENGTHS:
        x = torch.randn(1, length, width)
        seconds = medians(
            {name: lambda own=layer, x=x: pass_through(own, x) for name, layer in layers.items()},
            rounds,
        )
        found.append(seconds["self-attention"])
        cells = " | ".join(f"{1e3 * seconds[name]:.2f}" for name in layers)
        print(f"| {length} | {cells} |", flush=True)
    n, measured = np.array(COST_LENGTHS, float), np.array(found)
    terms = np.stack([np.ones_like(n), n, n**2], axis=1) / measured[:, None]  # relative errors
    (begin, a, b), *_ = np.linalg.lstsq(terms, np.ones_like(n), rcond=None)
    error = np.abs(terms @ [begin, a, b] - 1).max()
    print(
        f"\nself-attention: {1e3 * begin:.2f} ms + {1e6 * a:.2f} µs · n + {1e9 * b:.2f} ns · n², "
        f"at most {error:.0%} off; the two terms are equal at n = {a / b:,.0f}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    speed_by_length(arguments.width, arguments.rounds)
    cost_of_length(arguments.width, arguments.rounds)
