"""Training speed on this machine: real target tokens per second, and where an update's time goes.

    python scripts/bench_train.py [--size tiny] [--updates 30] [--prefix multi30k/train]

Trains on the bundled corpus, or on PREFIX.en and PREFIX.de. Tokens are real ones: padding is not
counted. The first five updates warm up and are left out; times are medians over the others.
"""

import argparse
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import torch

from transformer_mt.config import Config, build_config
from transformer_mt.data.batching import collate, padding_share, plan_epoch
from transformer_mt.data.tokenizer import PAD_ID
from transformer_mt.model_dir import build_model
from transformer_mt.preparation import Prepared, prepare
from transformer_mt.run_dir import Run
from transformer_mt.runtime import (
    choose_device,
    choose_precision,
    keep_memory,
    peak_memory_mib,
    seed_all,
)
from transformer_mt.training.loss import OutputLoss
from transformer_mt.training.optim import MasterAdam

SIZES = {
    "tiny": {"d_model": 128, "heads": 4, "ffn": 256, "encoder_layers": 4, "decoder_layers": 4},
    "base": {},
}
WARM_UP = 5


def configuration(arguments: argparse.Namespace) -> Config:
    demo = arguments.prefix is None
    source = {"demo": True} if demo else str(arguments.prefix.resolve())
    return build_config(
        {
            "name": "bench",
            "languages": {"src": "zh", "tgt": "en"} if demo else {"src": "en", "tgt": "de"},
            "data": {"train": [source]},
            "tokenizer": {"vocab_size": 1200 if demo else 8000, "joint": not demo},
            "model": SIZES[arguments.size],
            "train": {"max_tokens": arguments.max_tokens, "tokens_per_update": 3000},
        },
        "bench",
    )


def measure(cfg: Config, prepared: Prepared, n_updates: int) -> None:
    keep_memory()
    device = choose_device()
    dtype = choose_precision("auto", device)
    seed_all(cfg.seed)
    model = build_model(cfg, prepared.tokenizers).to(device).train()
    optimizer = MasterAdam(model, cfg.train, dtype)
    output_loss = OutputLoss(cfg.train.label_smoothing, PAD_ID)
    corpus = prepared.train
    lengths = corpus.src.lengths, corpus.tgt.lengths
    plan = plan_epoch(
        *lengths,
        max_tokens=cfg.train.max_tokens,
        tokens_per_update=cfg.train.tokens_per_update,
        seed=cfg.seed,
        epoch=0,
    )
    parts: dict[str, list[float]] = defaultdict(list)
    speeds = []
    for update in range(WARM_UP + n_updates):
        clock = time.perf_counter
        spent: dict[str, float] = defaultdict(float)
        n_tokens = 0
        for indices in plan.update(update % len(plan)):
            marks = [clock()]
            batch = collate(corpus, indices).to(device)
            marks.append(clock())
            hidden = model(batch.src, batch.tgt_in)
            marks.append(clock())
            sums = output_loss(hidden, model.output.weight, batch.tgt_out)
            marks.append(clock())
            sums.loss.backward()
            optimizer.accumulate()
            marks.append(clock())
            n_tokens += sums.n_tokens
            for name, start, end in zip(
                ("data", "forward", "loss", "backward"), marks, marks[1:], strict=False
            ):
                spent[name] += end - start
        started = clock()
        optimizer.step(1e-4, n_tokens)
        spent["optimizer"] = clock() - started
        if update >= WARM_UP:
            speeds.append(n_tokens / sum(spent.values()))
            for name, seconds in spent.items():
                parts[name].append(seconds)
    n_parameters = sum(parameter.numel() for parameter in model.parameters())
    print(f"{n_parameters / 1e6:.1f} M parameters · {device} · {dtype} · "
          f"{torch.get_num_threads()} threads")  # fmt: skip
    print(f"padding: {padding_share(plan, lengths[0]):.1%} of source, "
          f"{padding_share(plan, lengths[1]):.1%} of target positions")  # fmt: skip
    for name, seconds_list in parts.items():
        print(f"  {name:<10} {1000 * statistics.median(seconds_list):8.1f} ms per update")
    print(f"{statistics.median(speeds):,.0f} target tokens/s, {peak_memory_mib():,.0f} MiB at most")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--updates", type=int, default=30)
    parser.add_argument("--max-tokens", type=int, default=4096)
    parser.add_argument("--prefix", type=Path)
    arguments = parser.parse_args()
    cfg = configuration(arguments)
    with tempfile.TemporaryDirectory() as directory:
        prepared = prepare(cfg, Run(Path(directory)), say=lambda message: None)
        measure(cfg, prepared, arguments.updates)


if __name__ == "__main__":
    main()
