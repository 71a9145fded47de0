"""Does the heap that keeps freed memory grow without bound under varying batch shapes?

    python scripts/heap_growth.py [--size tiny] [--updates 300] [--heap kept] [--trim-every 0]

Trains one thread on micro-batches whose sentence lengths change from each to the next, as in real
training, and prints the resident size over time beside the bytes of tensors that stay from one
update to the next. `--heap default` leaves the allocator as it is; `--trim-every k` gives unused
memory back every k updates.
"""

import argparse
import random
import time
from pathlib import Path

import torch

from transformer_mt.config.experiment import ModelConfig, TrainConfig
from transformer_mt.encoding.tokenizer import BOS_ID, PAD_ID
from transformer_mt.model.transformer import Transformer
from transformer_mt.system.device import keep_memory, release_memory
from transformer_mt.training.loss import OutputLoss
from transformer_mt.training.optimizer import MasterAdam

VOCAB = 8000
SIZES = {
    "tiny": {"d_model": 128, "heads": 4, "ffn": 256, "encoder_layers": 4, "decoder_layers": 4},
    "small": {"d_model": 256, "heads": 4, "ffn": 1024, "encoder_layers": 3, "decoder_layers": 3},
}


def resident_mib(key: str) -> float:
    """`VmRSS` (now) or `VmHWM` (at most) of this process."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) / 1024
    raise SystemExit("this script reads /proc/self/status, which only Linux has")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--updates", type=int, default=300)
    parser.add_argument("--max-tokens", type=int, default=2048)
    parser.add_argument("--longest", type=int, default=100, help="tokens of a sentence")
    parser.add_argument("--heap", choices=["kept", "default"], default="kept")
    parser.add_argument("--trim-every", type=int, default=0, help="updates; 0: never")
    arguments = parser.parse_args()
    if arguments.heap == "kept":
        keep_memory()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    cfg = ModelConfig(**SIZES[arguments.size], dropout=0.3, norm="pre", tie_embeddings="all")
    model = Transformer(cfg, VOCAB, VOCAB).train()
    optimizer = MasterAdam(model, TrainConfig(), torch.float32)
    output_loss = OutputLoss(0.1, PAD_ID)
    draw = random.Random(1)
    print(f"{arguments}\n  update  resident MiB  at most MiB  CPU s  ms/token", flush=True)
    n_tokens, started = 0, time.process_time()
    for update in range(1, arguments.updates + 1):
        # Most sentences are short, some are long: the same spread on both sides.
        length = min(arguments.longest, max(4, round(draw.lognormvariate(2.8, 0.7))))
        src_length = max(2, round(length * draw.uniform(0.7, 1.0)))
        n_rows = max(1, arguments.max_tokens // length)
        src = torch.randint(BOS_ID, VOCAB, (n_rows, src_length))
        tgt = torch.randint(BOS_ID, VOCAB, (n_rows, length))
        sums = output_loss(model(src, tgt), model.output.weight, tgt)
        sums.loss.backward()
        optimizer.accumulate()
        optimizer.step(1e-3, tgt.numel())
        n_tokens += tgt.numel()
        if arguments.trim_every and update % arguments.trim_every == 0:
            release_memory()
        if update in (1, 2, 5, 10, 20, 50) or update % 50 == 0:
            seconds = time.process_time() - started
            now, most = resident_mib("VmRSS"), resident_mib("VmHWM")
            speed = 1e3 * seconds / n_tokens
            line = f"{update:8} {now:13.0f} {most:12.0f} {seconds:6.1f} {speed:9.3f}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
