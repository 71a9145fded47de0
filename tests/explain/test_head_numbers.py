"""One head as numbers."""

import pytest
import torch

from transformer_mt.config.model import ModelConfig
from transformer_mt.errors import ConfigError
from transformer_mt.explain.head_numbers import head_numbers, render_numbers
from transformer_mt.model.encoder_decoder import AttentionWeights
from transformer_mt.model.transformer import Transformer
from transformer_mt.translation.attention_maps import KINDS, Kind


def make_model(norm: str = "post") -> Transformer:
    torch.manual_seed(5)
    cfg = ModelConfig.model_validate(
        {"d_model": 16, "heads": 4, "ffn": 32, "encoder_layers": 2, "decoder_layers": 2,
         "norm": norm, "tie_embeddings": "none"}
    )  # fmt: skip
    model = Transformer(cfg, 20, 20).eval()
    with torch.no_grad():  # biases are zero at the start and would hide a mistake
        for name, parameter in model.named_parameters():
            if name.endswith("proj.bias"):
                parameter.normal_()
    return model


SRC_IDS = torch.tensor([[5, 6, 7, 3, 0, 0]])  # two of padding
TGT_IDS = torch.tensor([[2, 8, 9, 10]])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_numbers_of_a_head_are_the_weights_that_the_model_reports(kind: Kind, norm: str) -> None:
    model = make_model(norm)
    reported = AttentionWeights()
    with torch.no_grad():
        model(SRC_IDS, TGT_IDS, reported)
    for layer in (1, 2):
        for head in (1, 2, 3, 4):
            numbers = head_numbers(model, SRC_IDS, TGT_IDS, kind, layer, head)
            expected = getattr(reported, kind)[layer - 1][0, head - 1]
            torch.testing.assert_close(numbers.weights, expected)
            assert bool((numbers.weights == 0).equal(numbers.scaled.isneginf()))
            torch.testing.assert_close(numbers.output, numbers.weights @ numbers.v)
    assert (numbers.weights == 0).any()  # padding, or the upper triangle


@pytest.mark.parametrize("kind", KINDS)
def test_heads_through_their_columns_of_the_output_matrix_sum_to_the_layers_output(
    kind: Kind,
) -> None:
    model = make_model()
    layers = model.encoder_layers if kind == "encoder" else model.decoder_layers
    attention = layers[1].encoder_attn if kind == "cross" else layers[1].self_attn
    outputs: list[torch.Tensor] = []
    handle = attention.register_forward_hook(lambda _m, _i, output: outputs.append(output))
    with torch.no_grad():
        model(SRC_IDS, TGT_IDS)
        handle.remove()
        total = attention.out_proj.bias
        for head, columns in enumerate(attention.out_proj.weight.split(4, dim=1), start=1):
            numbers = head_numbers(model, SRC_IDS, TGT_IDS, kind, 2, head)
            total = total + numbers.output @ columns.T
    torch.testing.assert_close(total, outputs[0][0])


def test_no_hook_stays_on_the_model_also_after_an_error() -> None:
    model = make_model()
    with pytest.raises(IndexError):
        head_numbers(model, torch.tensor([[999]]), TGT_IDS, "encoder", 1, 1)
    head_numbers(model, SRC_IDS, TGT_IDS, "cross", 1, 1)
    assert not any(module._forward_hooks for module in model.modules())
    with pytest.raises(ConfigError, match="decoder attention: layer 3: this model has 1 to 2"):
        head_numbers(model, SRC_IDS, TGT_IDS, "decoder", 3, 1)


def test_written_numbers_are_complete() -> None:
    pieces = ["<s>", "▁The", "▁animal", "▁is"]
    numbers = head_numbers(make_model(), SRC_IDS, TGT_IDS, "decoder", 2, 3)
    text = render_numbers(numbers, "Head 3", pieces, pieces, n_features=2)
    blocks = text.split("\n\n")
    assert blocks[0] == "Head 3"
    assert [block.split("\n")[0] for block in blocks[1:]] == [
        "Q, first 2 of 4 columns",
        "K, first 2 of 4 columns",
        "V, first 2 of 4 columns",
        "Scores = Q Kᵀ",
        "Scaled scores = Q Kᵀ / √4; −∞: masked",
        "Weights = softmax of each row",
        "Output = weights V, first 2 of 4 columns",
    ]
    assert blocks[6].split("\n")[2].split() == ["<s>", "1.000", "0.000", "0.000", "0.000"]
    assert f"{numbers.q[1, 0]:.3f}" in blocks[1].split("\n")[2]
