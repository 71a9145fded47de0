"""MarianMT's arithmetic, written out here, on exported weights gives the model's own numbers."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from transformer_mt.config.model import ModelConfig
from transformer_mt.errors import ConfigError
from transformer_mt.export.marian import marian_config, marian_weights
from transformer_mt.model.transformer import Transformer

VOCABULARY, HEADS, WIDTH = 40, 2, 16
CONFIG = ModelConfig(
    d_model=WIDTH, heads=HEADS, ffn=24, encoder_layers=2, decoder_layers=2, dropout=0.0,
    norm="post", tie_embeddings="all",
)  # fmt: skip


def positions(length: int) -> Tensor:
    """Sines in the first half of the features, cosines in the second."""
    rates = 10000.0 ** (-torch.arange(0, WIDTH, 2) / WIDTH)
    angles = torch.arange(length)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)


class Marian:
    """The forward pass of MarianMTModel for one sentence, without padding."""

    def __init__(self, weights: dict[str, Tensor]) -> None:
        self.weights = weights

    def linear(self, name: str, x: Tensor) -> Tensor:
        return F.linear(x, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def norm(self, name: str, x: Tensor) -> Tensor:
        weight, bias = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        return F.layer_norm(x, (WIDTH,), weight, bias, 1e-5)

    def attention(self, name: str, x: Tensor, memory: Tensor, causal: bool) -> Tensor:
        def heads(part: str, y: Tensor) -> Tensor:
            return self.linear(f"{name}.{part}_proj", y).unflatten(1, (HEADS, -1)).transpose(0, 1)

        q, k, v = heads("q", x), heads("k", memory), heads("v", memory)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return self.linear(f"{name}.out_proj", out.transpose(0, 1).flatten(1))

    def stack(self, side: str, ids: Tensor, memory: Tensor | None) -> Tensor:
        x = self.weights["model.shared.weight"][ids] * math.sqrt(WIDTH) + positions(len(ids))
        for i in range(2):
            layer = f"model.{side}.layers.{i}"
            attended = self.attention(f"{layer}.self_attn", x, x, memory is not None)
            x = self.norm(f"{layer}.self_attn_layer_norm", x + attended)
            if memory is not None:
                attended = self.attention(f"{layer}.encoder_attn", x, memory, False)
                x = self.norm(f"{layer}.encoder_attn_layer_norm", x + attended)
            inner = self.linear(f"{layer}.fc1", x).relu()
            x = self.norm(f"{layer}.final_layer_norm", x + self.linear(f"{layer}.fc2", inner))
        return x

    def logits(self, src: Tensor, tgt_in: Tensor) -> Tensor:
        hidden = self.stack("decoder", tgt_in, self.stack("encoder", src, None))
        return hidden @ self.weights["model.shared.weight"].T + self.weights["final_logits_bias"]


def random_model(cfg: ModelConfig) -> Transformer:
    torch.manual_seed(3)
    model = Transformer(cfg, VOCABULARY, VOCABULARY).eval()
    for parameter in model.parameters():  # also what starts at 0 or 1
        parameter.data += 0.1 * torch.randn_like(parameter)
    return model


def test_the_same_logits() -> None:
    model = random_model(CONFIG)
    src, tgt_in = torch.randint(4, VOCABULARY, (7,)), torch.randint(4, VOCABULARY, (9,))
    with torch.no_grad():
        expected = model.project(model(src[None], tgt_in[None]))[0]
        found = Marian(marian_weights(model)).logits(src, tgt_in)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    content = marian_config(model)
    assert (content["d_model"], content["encoder_ffn_dim"], content["vocab_size"]) == (16, 24, 40)


def test_every_reason_against_it_is_named() -> None:
    cfg = CONFIG.model_copy(
        update={"architecture": "modern", "norm": "pre", "tie_embeddings": "none"}
    )
    with pytest.raises(ConfigError) as caught:
        marian_weights(random_model(cfg))
    for reason in ("rotary positions", "norm: pre", "embeddings are not one matrix"):
        assert reason in str(caught.value)
