"""What of decoding is work, and what is the calling of operations.

    python scripts/decode_floor.py
    python scripts/decode_floor.py --size base --batch 32

The same search runs with a model of the usual width and with one that has as many layers, but
hardly any numbers: what that takes is the price of calling the operations. Both make --length
tokens with a beam of 5, --batch sentences side by side, on one thread, in fp32 and bf16 by turns;
printed are medians in milliseconds for a batch, and for its encoder, decoder layers and output
layer. Weights are random. "products" are the model's matrix products for as many rows in the same
order, those of attention left out, and nothing else: what no program can do without. One more line
tells what the search itself takes, without any model.
"""

import argparse
import os
import time
from collections import defaultdict
from collections.abc import Callable
from statistics import median
from typing import Any

from transformer_mt.system.processes.environment import DEFAULTS

os.environ.update(DEFAULTS | dict(os.environ))  # as the command does, before torch is loaded

import torch
from peers.tools import SCALES
from torch import Tensor, nn

from transformer_mt.config.experiment import ModelConfig
from transformer_mt.model.incremental_decoder import _Linear
from transformer_mt.model.transformer import Transformer
from transformer_mt.search.engine import Engine, Request
from transformer_mt.search.options import SearchOptions
from transformer_mt.system.device import keep_memory

VOCAB = 8000
SOURCE_LENGTH = 14
EMPTY_VOCAB = 64
BEAM = 5


class Clock:
    """Seconds spent within some functions."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def of(self, name: str, function: Callable[..., Any]) -> Any:
        def timed(*args: Any) -> Any:
            started = time.perf_counter()
            result = function(*args)
            self.seconds[name] += time.perf_counter() - started
            return result

        return timed


class NoModel:
    """The same scores at every step."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(1)
        self._scores = torch.randn(1, BEAM, VOCAB, generator=generator).log_softmax(-1)

    def step(self, tokens: Tensor) -> Tensor:
        return self._scores[:, : tokens.size(1)].repeat(len(tokens), 1, 1)

    def select_beams(self, parents: Tensor) -> None:
        pass

    def select_sentences(self, sentences: Tensor) -> None:
        pass


class SearchAlone(Engine):
    def stepper(self, batch: Any) -> NoModel:
        return NoModel()


class Products:
    """Every linear layer, as often and for as many rows as a search needs it."""

    def __init__(self, model: Transformer, batch: int, length: int) -> None:
        self._once: list[tuple[_Linear, Tensor]] = []  # over the source
        self._each: list[tuple[_Linear, Tensor]] = []  # at every position
        for name, module in model.named_modules():
            if isinstance(module, nn.Linear):
                reads_source = name.startswith("encoder") or name.endswith("kv_proj")
                rows = batch * (SOURCE_LENGTH + 1 if reads_source else BEAM)
                x = torch.randn(rows, module.in_features).to(module.weight.dtype)
                (self._once if reads_source else self._each).append((_Linear(module), x))
        self._batch, self._length = batch, length

    @torch.inference_mode()
    def __call__(self) -> None:
        for linear, x in self._once:
            linear(x)
        for position in range(self._length):
            for linear, x in self._each:
                linear(x if position else x[: self._batch])  # one beam at first


def make_model(size: str, *, empty: bool, dtype: torch.dtype) -> Transformer:
    usual = SCALES[size].model
    cfg = ModelConfig(
        d_model=2 * usual.heads if empty else usual.d_model,
        heads=usual.heads,
        ffn=8 if empty else usual.ffn,
        encoder_layers=usual.layers,
        decoder_layers=usual.layers,
        norm="post",
        tie_embeddings="all",
    )
    vocab = EMPTY_VOCAB if empty else VOCAB
    return Transformer(cfg, vocab, vocab).eval().to(dtype)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", choices=list(SCALES), default="tiny")
    parser.add_argument("--length", type=int, default=15, help="tokens of a translation")
    parser.add_argument("--batch", type=int, default=1, help="sentences side by side")
    parser.add_argument("--rounds", type=int, default=30)
    args = parser.parse_args()
    keep_memory()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    clock = Clock()
    engines: dict[str, Engine] = {}
    products: dict[str, Products] = {}
    for name, dtype in {"fp32": torch.float32, "bf16": torch.bfloat16}.items():
        for empty in (False, True):
            model = make_model(args.size, empty=empty, dtype=dtype)
            label = f"{'empty' if empty else args.size} {name}"
            engine = engines[label] = Engine([model], [])
            if not empty:
                products[label] = Products(model, args.batch, args.length)
            (decoder,) = engine._decoders
            decoder.layers = [clock.of(f"{label} layers", layer) for layer in decoder.layers]
            for owner, part in ((decoder, "output"), (model, "encode")):
                setattr(owner, part, clock.of(f"{label} {part}", getattr(owner, part)))
    engines["search alone"] = SearchAlone([make_model("tiny", empty=True, dtype=torch.float32)], [])
    options = SearchOptions(beam=BEAM, min_length=args.length - 1, max_length=args.length - 1)
    request = Request([4 + i % (EMPTY_VOCAB - 4) for i in range(SOURCE_LENGTH)])
    times: defaultdict[str, list[float]] = defaultdict(list)
    for round_ in range(args.rounds + 3):
        for label, engine in engines.items():
            clock.seconds.clear()
            started = time.perf_counter()
            engine.search([request] * args.batch, options)
            clock.seconds[label] = time.perf_counter() - started
            if label in products:
                clock.of(f"{label} products", products[label])()
            if round_ >= 3:
                for part, spent in clock.seconds.items():
                    times[part].append(spent)
    print("ms a batch")
    for label in engines:
        told = [f"{label:14s} {1e3 * median(times[label]):6.1f}"]
        for part in ("encode", "layers", "output", "products"):
            if seconds := times.get(f"{label} {part}"):
                told.append(f"{part} {1e3 * median(seconds):.1f}")
        print("  " + "   ".join(told))


if __name__ == "__main__":
    main()
