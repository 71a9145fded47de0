"""The kernels of transformer_mt/kernels beside torch's operations, forward and backward, on a GPU.

    python scripts/bench/kernels.py [--tokens 16384]

In bf16, with the width of base: D = 512, 8 heads. Each is recorded as a CUDA graph, so that to
start it does not count; the time is the mean of 20 replays.
"""

import argparse
from collections.abc import Callable, Iterator
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from transformer_mt.kernels import choice
from transformer_mt.kernels.attention import self_attend
from transformer_mt.kernels.linear import linear
from transformer_mt.kernels.residual import residual_norm
from transformer_mt.kernels.softmax import softmax_
from transformer_mt.model.attention import causal_mask, merge_heads, split_heads
from transformer_mt.system.device import choose_device

WIDTH, HEADS, REPLAYS = 512, 8, 20
DTYPE = torch.bfloat16
Work = Callable[[], object]
Row = tuple[str, Work, Work]  # what is computed, by these kernels, by torch


def seconds(work: Work) -> float:
    for _ in range(3):  # libraries initialise, kernels are compiled
        work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    graph.replay()
    start.record()
    for _ in range(REPLAYS):
        graph.replay()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / 1000 / REPLAYS


def drawn(*shape: int, device: torch.device) -> Tensor:
    return torch.randn(*shape, device=device, dtype=DTYPE).requires_grad_()


def with_backward(function: Callable[..., Tensor], *inputs: Tensor) -> Work:
    def work() -> object:
        out = function(*inputs)
        return torch.autograd.grad(out, inputs, torch.ones_like(out))

    return work


def attentions(n_tokens: int, device: torch.device) -> Iterator[Row]:
    for length in (16, 32, 64):
        mask = causal_mask(length, device)

        def attention(qkv: Tensor, mask: Tensor = mask) -> Tensor:
            q, k, v = (split_heads(x, HEADS) for x in qkv.chunk(3, -1))
            return merge_heads(F.scaled_dot_product_attention(q, k, v, mask))

        qkv = drawn(n_tokens // length, length, 3 * WIDTH, device=device)
        own = with_backward(partial(self_attend, heads=HEADS, attn_mask=mask), qkv)
        yield f"attention, {length} tokens", own, with_backward(attention, qkv)


def layers(n_tokens: int, device: torch.device) -> Iterator[Row]:
    draw = partial(drawn, device=device)
    x, y, weight, bias = (
        draw(1, n_tokens, WIDTH),
        draw(1, n_tokens, WIDTH),
        draw(WIDTH),
        draw(WIDTH),
    )

    def norm(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return F.layer_norm(x + F.dropout(y, 0.1), (WIDTH,), weight, bias)

    own = partial(residual_norm, eps=1e-5, dropout=0.1)
    inputs = (x, y, weight, bias)
    yield "LayerNorm(x + dropout(y))", with_backward(own, *inputs), with_backward(norm, *inputs)
    layer = x, draw(4 * WIDTH, WIDTH), draw(4 * WIDTH)
    plain = with_backward(lambda *given: F.relu(F.linear(*given)), *layer)
    yield "ReLU(x W + b)", with_backward(partial(linear, relu=True), *layer), plain
    for vocabulary in (8000, 32000):
        logits = draw(n_tokens, vocabulary).detach()
        own, torchs = partial(softmax_, logits), partial(choice.torch_softmax, logits)
        yield f"softmax and log Σ exp of {vocabulary}", own, torchs


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--tokens", type=int, default=16384)
    n_tokens, device = parser.parse_args().tokens, choose_device()
    for make in (attentions, layers):
        for name, own, torchs in make(n_tokens, device):
            own_s, torch_s = seconds(own), seconds(torchs)
            print(f"{name:<30} {1e6 * own_s:7.0f} µs, torch {1e6 * torch_s:7.0f} µs", flush=True)


if __name__ == "__main__":
    main()
