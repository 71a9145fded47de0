"""The two ONNX graphs of a model: the encoder, and the decoder with a cache.

Comes in: a `Transformer`. Goes out: ONNX models, fp32, whose batch and lengths are free. They are
written operation by operation, in the order of `model/transformer.py`, so that no exporter's idea
of a model has a say. This file knows no vocabulary and no files. Shapes: see `attention.py`;
`L` decoder layers · `P` target positions in the cache.

The encoder's output are the keys and values of all layers of cross-attention, (B, 2L, H, S, Dh):
they are the same in every step, and the decoder needs nothing else of the memory. So one decoder
serves the first step, with P = 0, and all others.
"""

from typing import Any, cast

import numpy as np
from torch import Tensor, nn

from transformer_mt.encoding.tokenizer import EOS_ID
from transformer_mt.export.formats import require
from transformer_mt.model.attention import SelfAttention
from transformer_mt.model.encoder_decoder import Embedding
from transformer_mt.model.modern import SwiGLU
from transformer_mt.model.transformer import (
    NORM_EPS,
    DecoderLayer,
    EncoderLayer,
    FeedForward,
    Residual,
    Transformer,
)

Shape = list[int | str]  # free dimensions have names

_OPSET, _IR_VERSION = 17, 8  # the first with layer normalisation; old runtimes read it
_FAR = -1e9  # added to the scores of keys that are not seen: their exponentials are 0
_BATCH, _SOURCE, _PAST = "batch_size", "encoder_sequence_length", "past_decoder_sequence_length"
_TARGET, _SEEN = "decoder_sequence_length", "decoder_sequence_length + past"


def encoder_graph(model: Transformer, *, n_shared: int, offset: int) -> Any:
    """(B, S) ids and their attention mask → keys and values for the decoder.

    Args:
        n_shared: ids below it are those of the embedding.
        offset: subtracted from the other ids.
    """
    graph, cfg = _Graph(model), model.cfg
    ids = graph.integers("input_ids", [_BATCH, _SOURCE])
    mask = graph.source_mask("attention_mask")
    if offset:
        is_shared = graph("Less", ids, graph.constant(n_shared))
        ids = graph("Where", is_shared, ids, graph("Sub", ids, graph.constant(offset)))
    positions = graph("Range", graph.constant(0), graph.size(ids, 1), graph.constant(1))
    x = graph.embedded(model.encoder_embedding, ids, positions)
    for layer in (cast(EncoderLayer, layer) for layer in model.encoder_layers):
        q, k, v = graph.queries_keys_values(layer.self_attn, x, layer.self_attn_residual)
        attended = graph.attended(layer.self_attn.out_proj, q, k, v, mask)
        x = graph.after(layer.self_attn_residual, x, attended)
        x = graph.feed_forward(layer.ffn, x, layer.ffn_residual)
    memory = graph.norm(model.encoder_norm, x)
    projections = [cast(DecoderLayer, layer).encoder_attn.kv_proj for layer in model.decoder_layers]
    keys_values = [graph.heads(graph.linear(p, memory), 2) for p in projections]
    shape: Shape = [_BATCH, 2 * cfg.decoder_layers, cfg.heads, _SOURCE, cfg.d_model // cfg.heads]
    graph.output("last_hidden_state", graph("Concat", *keys_values, axis=1), shape)
    return graph.finished("encoder")


def decoder_graph(model: Transformer) -> Any:
    """(B, T) newest ids and the cache → logits (B, T, V) and the longer cache.

    After EOS the logits say EOS: a row of a batch that has ended says nothing more.
    """
    graph, cfg = _Graph(model, model.output.weight), model.cfg
    head_width, n_layers = cfg.d_model // cfg.heads, cfg.decoder_layers
    ids = graph.integers("input_ids", [_BATCH, _TARGET])
    src_mask = graph.source_mask("encoder_attention_mask")
    shape: Shape = [_BATCH, 2 * n_layers, cfg.heads, _SOURCE, head_width]
    memory = graph.parts(graph.numbers("encoder_hidden_states", shape), 2 * n_layers, axis=1)
    past = [
        graph.numbers(f"past_key_values.{name}", [_BATCH, cfg.heads, _PAST, head_width])
        for name in _cache_names(n_layers)
    ]
    start = graph.size(past[0], 2)
    end = graph("Add", start, graph.size(ids, 1))
    positions = graph("Range", start, end, graph.constant(1))
    all_positions = graph("Range", graph.constant(0), end, graph.constant(1))
    column = graph("Unsqueeze", positions, graph.constant([1]))
    tgt_mask = graph.hidden(graph("Greater", all_positions, column))  # (T, P + T)
    x = graph.embedded(model.decoder_embedding, ids, positions)
    present = []
    for i, layer in enumerate(cast(DecoderLayer, layer) for layer in model.decoder_layers):
        q, *newest = graph.queries_keys_values(layer.self_attn, x, layer.self_attn_residual)
        k, v = (graph("Concat", past[2 * i + j], newest[j], axis=2) for j in (0, 1))
        present += [k, v]
        attended = graph.attended(layer.self_attn.out_proj, q, k, v, tgt_mask)
        x = graph.after(layer.self_attn_residual, x, attended)
        normed = graph.before(layer.encoder_attn_residual, x)
        (q,) = graph.parts(graph.heads(graph.linear(layer.encoder_attn.q_proj, normed), 1), 1, 1)
        k, v = memory[2 * i], memory[2 * i + 1]
        attended = graph.attended(layer.encoder_attn.out_proj, q, k, v, src_mask)
        x = graph.after(layer.encoder_attn_residual, x, attended)
        x = graph.feed_forward(layer.ffn, x, layer.ffn_residual)
    logits = graph.logits(model.output, graph.norm(model.decoder_norm, x), ids)
    graph.output("logits", logits, [_BATCH, _TARGET, model.output.out_features])
    for name, result in zip(_cache_names(n_layers), present, strict=True):
        graph.output(f"present.{name}", result, [_BATCH, cfg.heads, _SEEN, head_width])
    return graph.finished("decoder")


def _cache_names(n_layers: int) -> list[str]:
    return [f"{i}.decoder.{part}" for i in range(n_layers) for part in ("key", "value")]


class _Graph:
    """A graph so far. Methods take names of tensors, add nodes, and return the results' names."""

    def __init__(self, model: Transformer, output: Tensor | None = None) -> None:
        """Args: output: weights of an output layer, which an embedding may share."""
        self._onnx = require("onnx", "ONNX")
        self._cfg, self._output = model.cfg, output
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self._shared: dict[int, str] = {}
        self._matrices: dict[int, str] = {}

    def __call__(self, operator: str, *inputs: str, **attributes: Any) -> str:
        return self._several(operator, 1, *inputs, **attributes)[0]

    def _several(self, operator: str, n: int, *inputs: str, **attributes: Any) -> list[str]:
        names = [f"{operator}.{len(self._nodes)}.{i}" for i in range(n)]
        self._nodes.append(self._onnx.helper.make_node(operator, inputs, names, **attributes))
        return names

    def constant(self, value: Any, dtype: Any = np.int64) -> str:
        name = f"constant.{len(self._constants)}"
        array = np.ascontiguousarray(np.asarray(value, dtype))
        self._constants.append(self._onnx.numpy_helper.from_array(array, name))
        return name

    def weight(self, parameter: Tensor) -> str:
        """A parameter as it is; tied ones are stored once."""
        key = id(parameter)
        if key not in self._shared:
            self._shared[key] = self.constant(_array(parameter), np.float32)
        return self._shared[key]

    def matrix(self, parameter: Tensor) -> str:
        """A matrix as a product takes it, so that quantisation finds it once, too: transposed."""
        key = id(parameter)
        if key not in self._matrices:
            self._matrices[key] = self.constant(_array(parameter).T, np.float32)
        return self._matrices[key]

    def integers(self, name: str, shape: Shape) -> str:
        return self._input(name, self._onnx.TensorProto.INT64, shape)

    def numbers(self, name: str, shape: Shape) -> str:
        return self._input(name, self._onnx.TensorProto.FLOAT, shape)

    def _input(self, name: str, kind: int, shape: Shape) -> str:
        self._inputs.append(self._onnx.helper.make_tensor_value_info(name, kind, shape))
        return name

    def output(self, name: str, result: str, shape: Shape) -> None:
        helper, kind = self._onnx.helper, self._onnx.TensorProto.FLOAT
        self._nodes.append(helper.make_node("Identity", [result], [name]))
        self._outputs.append(helper.make_tensor_value_info(name, kind, shape))

    def finished(self, name: str) -> Any:
        helper = self._onnx.helper
        graph = helper.make_graph(
            self._nodes, name, self._inputs, self._outputs, initializer=self._constants
        )
        opset = helper.make_opsetid("", _OPSET)
        return helper.make_model(graph, opset_imports=[opset], ir_version=_IR_VERSION)

    def size(self, x: str, axis: int) -> str:
        """A dimension, as a scalar."""
        return self("Squeeze", self("Shape", x, start=axis, end=axis + 1), self.constant([0]))

    def parts(self, x: str, n: int, axis: int) -> list[str]:
        """The `n` slices of an axis, which goes."""
        slices = self._several("Split", n, x, axis=axis) if n > 1 else [x]
        return [self("Squeeze", part, self.constant([axis])) for part in slices]

    def source_mask(self, name: str) -> str:
        """An input (B, S), 0 = padding → what is added to the scores, (B, 1, 1, S)."""
        padding = self("Equal", self.integers(name, [_BATCH, _SOURCE]), self.constant(0))
        return self("Unsqueeze", self.hidden(padding), self.constant([1, 2]))

    def hidden(self, condition: str) -> str:
        """0 where false, so much that nothing is left of the exponential where true."""
        far, near = (self.constant(value, np.float32) for value in (_FAR, 0))
        return self("Where", condition, far, near)

    def angles(self, positions: str, width: int) -> tuple[str, str]:
        """(T,) → sines and cosines of `sinusoidal_positions`, (T, width / 2); by way of fp64."""
        rates = 10000.0 ** (-np.arange(0, width, 2) / width)
        column = self("Unsqueeze", positions, self.constant([1]))
        exact = self("Cast", column, to=self._onnx.TensorProto.DOUBLE)
        angles = self("Mul", exact, self.constant(rates, np.float64))
        single = self._onnx.TensorProto.FLOAT
        sines, cosines = (self("Cast", self(f, angles), to=single) for f in ("Sin", "Cos"))
        return sines, cosines

    def embedded(self, embedding: Embedding, ids: str, positions: str) -> str:
        """(B, T) and (T,) → (B, T, D); see `Embedding.forward`."""
        width = embedding.tokens.embedding_dim
        rows = self._rows(embedding.tokens.weight, ids)
        x = self("Mul", rows, self.constant(width**0.5, np.float32))
        if not embedding.add_positions:
            self._turns = self.angles(positions, width // self._cfg.heads)  # of all layers
            return x
        pairs = [
            self("Unsqueeze", half, self.constant([2])) for half in self.angles(positions, width)
        ]
        table = self("Reshape", self("Concat", *pairs, axis=2), self.constant([-1, width]))
        return self("Add", x, table)

    def _rows(self, weight: Tensor, ids: str) -> str:
        """(V, D) at (B, T) → (B, T, D)."""
        if weight is not self._output:
            return self("Gather", self.weight(weight), ids)
        columns = self("Gather", self.matrix(weight), ids, axis=1)  # (D, B, T)
        return self("Transpose", columns, perm=[1, 2, 0])

    def linear(self, module: nn.Linear, x: str) -> str:
        y = self("MatMul", x, self.matrix(module.weight))
        return y if module.bias is None else self("Add", y, self.weight(module.bias))

    def heads(self, x: str, n: int) -> str:
        """(B, T, n · D) → (B, n, H, T, Dh)."""
        heads = self._cfg.heads
        shape = self.constant([0, 0, n, heads, self._cfg.d_model // heads])
        return self("Transpose", self("Reshape", x, shape), perm=[0, 2, 3, 1, 4])

    def queries_keys_values(
        self, attention: SelfAttention, x: str, residual: Residual
    ) -> list[str]:
        """(B, T, D) → three times (B, H, T, Dh), in their positions."""
        qkv = self.linear(attention.qkv_proj, self.before(residual, x))
        q, k, v = self.parts(self.heads(qkv, 3), 3, axis=1)
        if attention.rotary is not None:
            q, k = self.turned(q), self.turned(k)
        return [q, k, v]

    def turned(self, x: str) -> str:
        """Rotary positions: pairs of features as complex numbers; see `RotaryPositions`."""
        heads, width = self._cfg.heads, self._cfg.d_model // self._cfg.heads
        pairs = self("Reshape", x, self.constant([0, heads, -1, width // 2, 2]))
        real, imaginary = self.parts(pairs, 2, axis=4)  # (B, H, T, Dh / 2)
        sines, cosines = self._turns
        parts = (
            self("Sub", self("Mul", real, cosines), self("Mul", imaginary, sines)),
            self("Add", self("Mul", real, sines), self("Mul", imaginary, cosines)),
        )
        turned = [self("Unsqueeze", part, self.constant([4])) for part in parts]
        shape = self.constant([0, heads, -1, width])
        return self("Reshape", self("Concat", *turned, axis=4), shape)

    def attended(self, out_proj: nn.Linear, q: str, k: str, v: str, mask: str) -> str:
        """(B, H, T, Dh) → (B, T, D); see `attention.attend`. Args: mask: added to the scores."""
        scale = self.constant((self._cfg.d_model // self._cfg.heads) ** -0.5, np.float32)
        scores = self("MatMul", self("Mul", q, scale), self("Transpose", k, perm=[0, 1, 3, 2]))
        shares = self("Softmax", self("Add", scores, mask), axis=-1)
        merged = self("Transpose", self("MatMul", shares, v), perm=[0, 2, 1, 3])
        return self.linear(
            out_proj, self("Reshape", merged, self.constant([0, 0, self._cfg.d_model]))
        )

    def feed_forward(self, module: nn.Module, x: str, residual: Residual) -> str:
        y = self.before(residual, x)
        if isinstance(module, SwiGLU):
            gate = self.linear(module.gate_proj, y)
            swish = self("Mul", gate, self("Sigmoid", gate))
            y = self.linear(module.down_proj, self("Mul", swish, self.linear(module.up_proj, y)))
        else:
            network = cast(FeedForward, module)
            y = self.linear(network.fc2, self("Relu", self.linear(network.fc1, y)))
        return self.after(residual, x, y)

    def before(self, residual: Residual, x: str) -> str:
        return self.norm(residual.layer_norm, x) if residual.pre else x

    def after(self, residual: Residual, x: str, y: str) -> str:
        x = self("Add", x, y)
        return x if residual.pre else self.norm(residual.layer_norm, x)

    def norm(self, module: nn.Module, x: str) -> str:
        """LayerNorm, RMSNorm, or nothing."""
        if isinstance(module, nn.LayerNorm):
            weights = self.weight(module.weight), self.weight(module.bias)
            return self("LayerNormalization", x, *weights, axis=-1, epsilon=NORM_EPS)
        if isinstance(module, nn.Identity):
            return x
        mean = self("ReduceMean", self("Mul", x, x), axes=[-1])
        size = self("Sqrt", self("Add", mean, self.constant(NORM_EPS, np.float32)))
        return self("Mul", self("Div", x, size), self.weight(cast(nn.RMSNorm, module).weight))

    def logits(self, output: nn.Linear, x: str, ids: str) -> str:
        """(B, T, D) → (B, T, V); after EOS, EOS."""
        logits = self.linear(output, x)
        ended = self("Unsqueeze", self("Equal", ids, self.constant(EOS_ID)), self.constant([2]))
        only_eos = np.where(np.arange(output.out_features) == EOS_ID, 0, _FAR)
        return self("Where", ended, self.constant(only_eos, np.float32), logits)


def _array(tensor: Tensor) -> Any:
    return tensor.detach().to("cpu").float().numpy()
