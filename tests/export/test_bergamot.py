"""A file of `tmt export --to bergamot`, read back by a reader and computed by a Marian that are
written out here, gives the model's own numbers; the real engine, under Node, translates as tmt.

The engine: `npm install` in tests/export/node.
"""

import math
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import yaml
from torch import Tensor
from toy_translator import trained

from transformer_mt.config.experiment import Config
from transformer_mt.encoding.tokenizer import BOS_ID, Tokenizer
from transformer_mt.errors import TmtError
from transformer_mt.export import bergamot
from transformer_mt.export.bergamot_positions import Layout, embedding_parameters, marian_positions
from transformer_mt.export.proof import ExportTask, prove
from transformer_mt.model.encoder_decoder import sinusoidal_positions
from transformer_mt.model.transformer import Transformer
from transformer_mt.model_dir import build_model, load_tokenizers
from transformer_mt.translation.translator import Translator

NODE_MODULES = Path(__file__).parent / "node" / "node_modules"
needs_engine = pytest.mark.skipif(
    shutil.which("node") is None or not (NODE_MODULES / bergamot.PACKAGE).is_dir(),
    reason="needs Node, and npm install in tests/export/node",
)
Pairs = list[tuple[str, str]]


def read_binary(data: bytes) -> dict[str, Any]:
    """Name → array, or bytes: Marian's binary format, version 1."""
    version, n = struct.unpack_from("<QQ", data)
    assert version == 1
    headers = [struct.unpack_from("<QQQQ", data, 16 + 32 * i) for i in range(n)]
    at, names, shapes = 16 + 32 * n, [], []
    for length, *_ in headers:
        assert data[at + length - 1] == 0
        names.append(data[at : at + length - 1].decode())
        at += length
    for *_, n_axes, _ in headers:
        shapes.append(struct.unpack_from(f"<{n_axes}i", data, at))
        at += 4 * n_axes
    at += 8 + struct.unpack_from("<Q", data, at)[0]
    found: dict[str, Any] = {}
    for name, shape, (_, kind, _, length) in zip(names, shapes, headers, strict=True):
        assert at % 256 == 0, "the engine reads whole registers"
        size = math.prod(shape) * (kind & 0xFF)
        part = data[at : at + size]
        found[name] = part
        if kind == 0x404:
            found[name] = torch.frombuffer(bytearray(part), dtype=torch.float32).view(shape)
        at += length
    assert at == len(data)
    return found


class Marian:
    """The forward pass of Marian's transformer with post-norm, for one sentence."""

    def __init__(self, items: dict[str, Any]) -> None:
        self.options = yaml.safe_load(items["special:model.yml"].rstrip(b"\0"))
        assert self.options["transformer-postprocess"] == "dan"
        self.items = items
        self.width = self.options["dim-emb"]

    def affine(self, x: Tensor, prefix: str, letter: str) -> Tensor:
        return x @ self.items[f"{prefix}_W{letter}"] + self.items[f"{prefix}_b{letter}"]

    def norm(self, x: Tensor, prefix: str) -> Tensor:
        scale, bias = self.items[f"{prefix}_ln_scale"], self.items[f"{prefix}_ln_bias"]
        return F.layer_norm(x, (self.width,), scale[0], bias[0], 1e-6)

    def attention(self, x: Tensor, memory: Tensor, prefix: str, causal: bool = False) -> Tensor:
        def heads(letter: str, y: Tensor) -> Tensor:
            n_heads = self.options["transformer-heads"]
            return self.affine(y, prefix, letter).unflatten(1, (n_heads, -1)).transpose(0, 1)

        q, k, v = heads("q", x), heads("k", memory), heads("v", memory)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        out = self.affine(out.transpose(0, 1).flatten(1), prefix, "o")
        return self.norm(x + out, f"{prefix}_Wo")

    def ffn(self, x: Tensor, prefix: str) -> Tensor:
        out = self.affine(self.affine(x, prefix, "1").relu(), prefix, "2")
        return self.norm(x + out, f"{prefix}_ffn")

    def logits(self, src: Tensor, tgt: Tensor) -> Tensor:
        x = self.items["encoder_Wemb"][src] * math.sqrt(self.width)
        x = x + marian_positions(len(x), self.width).float()
        for i in range(1, self.options["enc-depth"] + 1):
            x = self.attention(x, x, f"encoder_l{i}_self")
            x = self.ffn(x, f"encoder_l{i}_ffn")
        memory = x
        x = F.pad(self.items["decoder_Wemb"][tgt] * math.sqrt(self.width), (0, 0, 1, 0))
        x = x + marian_positions(len(x), self.width).float()
        for i in range(1, self.options["dec-depth"] + 1):
            x = self.attention(x, x, f"decoder_l{i}_self", causal=True)
            x = self.attention(x, memory, f"decoder_l{i}_context")
            x = self.ffn(x, f"decoder_l{i}_ffn")
        return x @ self.items["decoder_ff_logit_out_Wt"].T + self.items["decoder_ff_logit_out_b"]


def perturbed(model: Transformer, *, gains: float) -> Transformer:
    """Args: gains: how far those of a norm are from each other."""
    torch.manual_seed(3)
    for name, parameter in model.named_parameters():  # also what starts at 0 or 1
        near = "norm" in name and name.endswith("weight")
        parameter.data += (gains if near else 0.1) * torch.randn_like(parameter) + 0.1 * near
    return model.eval()


def untrained(
    cfg: Config, tokenizers: tuple[Tokenizer, Tokenizer], *, tying: str, joint: bool, gains: float
) -> Translator:
    sizes = cfg.model.model_copy(update={"norm": "post", "tie_embeddings": tying})
    vocabulary = cfg.tokenizer.model_copy(update={"joint": joint})
    cfg = cfg.model_copy(update={"model": sizes, "tokenizer": vocabulary})
    return Translator(perturbed(build_model(cfg, tokenizers), gains=gains), tokenizers, cfg)


@pytest.mark.parametrize(
    ("joint", "tying", "gains", "tolerance"),
    [
        (True, "all", 0.0, 2e-3),
        (True, "none", 0.0, 2e-3),
        (False, "decoder", 0.0, 2e-3),
        (False, "decoder", 0.1, 5e-2),  # gains that differ: more is carried in padding
    ],
)
def test_the_same_logits(
    toy_config: Config, tokenizer_dir: Path, tmp_path: Path,
    joint: bool, tying: str, gains: float, tolerance: float,
) -> None:  # fmt: skip
    tokenizers = load_tokenizers(tokenizer_dir, joint=joint)
    translator = untrained(toy_config, tokenizers, tying=tying, joint=joint, gains=gains)
    bergamot.write(ExportTask(translator, "float32", []), tmp_path)
    marian = Marian(read_binary((tmp_path / "model.bin").read_bytes()))
    sizes = [tokenizer.vocab_size for tokenizer in tokenizers]
    assert marian.options["dim-vocabs"] == sizes
    src, tgt = torch.randint(4, sizes[0], (70,)), torch.randint(4, sizes[1], (90,))
    with torch.no_grad():
        model, tgt_in = translator.model, torch.cat([torch.tensor([BOS_ID]), tgt])
        expected = model.project(model(src[None], tgt_in[None]))[0]
        found = marian.logits(src, tgt)
    silent = translator.tgt_tokenizer.silent_ids
    assert (found[:, silent] < -1000).all(), "no translation holds them"
    expected[:, silent] = found[:, silent] = 0.0
    torch.testing.assert_close(found, expected, atol=tolerance, rtol=1e-3)


@pytest.mark.parametrize(
    ("width", "heads", "n"), [(32, 4, 64), (128, 4, 256), (96, 12, 99), (512, 8, 302)]
)
def test_a_position_is_told_from_every_other(width: int, heads: int, n: int) -> None:
    """The first layer leaves the paper's embeddings, whatever the token."""
    layout = Layout.of(width, heads, 64, n_positions=n)
    torch.manual_seed(1)
    tokens = torch.randn(n, width, dtype=torch.float64) * 3 / math.sqrt(width)
    found = embedding_parameters(layout, "encoder", tokens, layout.mean, n)
    items = {name: parameter.float() for name, parameter in found.items()}
    options = {
        "transformer-postprocess": "dan", "dim-emb": layout.width, "transformer-heads": heads
    }  # fmt: skip
    marian = Marian({**items, "special:model.yml": yaml.safe_dump(options).encode()})
    x = items["encoder_Wemb"] * math.sqrt(layout.width)
    x = x + marian_positions(n, layout.width).float()
    x = marian.ffn(marian.attention(x, x, "encoder_l1_self"), "encoder_l1_ffn").double()
    expected = tokens * math.sqrt(width) + sinusoidal_positions(n, width)
    torch.testing.assert_close(x @ layout.stream.T, expected, atol=2e-3, rtol=1e-3)
    means = (x @ layout.padding.T).mean(1)
    torch.testing.assert_close(means, expected.mean(1), atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize(
    ("kind", "reasons"),
    [
        ("modern", ["rotary positions", "norm: pre", "--to ctranslate2", "norm: post"]),
        ("pre-norm", ["neither keys nor values", "norm: pre", "--to ctranslate2"]),
        ("post-norm", []),
    ],
)
def test_every_reason_against_it_is_named(
    translator_of: Callable[[str], Translator], kind: str, reasons: list[str]
) -> None:
    found = "; ".join(bergamot.refusals(ExportTask(translator_of(kind), "float32", [])))
    assert all(reason in found for reason in reasons) and bool(found) == bool(reasons)


def test_what_is_not_installed_is_named(
    translator_of: Callable[[str], Translator], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = ExportTask(translator_of("post-norm"), "float32", [])
    bergamot.write(task, tmp_path)
    monkeypatch.chdir(tmp_path)
    if shutil.which("node") is not None:
        with pytest.raises(TmtError, match="npm install @browsermt/bergamot-translator"):
            bergamot.load(task, tmp_path)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(TmtError, match="Node is not installed"):
        bergamot.load(task, tmp_path)


# With the engine


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(NODE_MODULES.parent)


@needs_engine
@pytest.mark.parametrize("joint", [False, True])
def test_the_same_translations(
    engine: None, translator_of: Callable[[str], Translator], toy_pairs: Pairs,
    tokenizer_dir: Path, tmp_path: Path, joint: bool,
) -> None:  # fmt: skip
    translator = translator_of("post-norm")
    if joint:
        cfg = translator.cfg
        vocabulary = cfg.tokenizer.model_copy(update={"joint": True})
        cfg = cfg.model_copy(update={"tokenizer": vocabulary})
        translator = trained(cfg, load_tokenizers(tokenizer_dir, joint=True), toy_pairs)
    srcs, refs = zip(*toy_pairs[:60], strict=True)
    task = ExportTask(translator, "float32", srcs, refs)
    bergamot.write(task, tmp_path)
    proof = prove(task, bergamot.load(task, tmp_path))
    # Of two words that are 0.0005 nats apart, a toy may say either; the logits are tested above.
    assert proof.texts > 20 and proof.identical >= 0.95 and proof.bleu_lost <= 0.3, proof


@needs_engine
def test_a_line_is_a_sentence(
    engine: None, translator_of: Callable[[str], Translator], toy_pairs: Pairs, tmp_path: Path
) -> None:
    task = ExportTask(translator_of("post-norm"), "float32", [])
    bergamot.write(task, tmp_path)
    (one, _), (two, _) = toy_pairs[:2]
    found = bergamot.load(task, tmp_path).translate([one, two, f"{one}\n{two}", "", "😀 </s> 𠀀"])
    assert found[2] == "\n".join(found[:2]) and found[3] == ""


@needs_engine
def test_a_damaged_model_is_an_error(
    engine: None, translator_of: Callable[[str], Translator], tmp_path: Path
) -> None:
    task = ExportTask(translator_of("post-norm"), "float32", [])
    bergamot.write(task, tmp_path)
    (tmp_path / "model.bin").write_bytes(b"\0" * 999)
    with pytest.raises(TmtError, match="the engine fails"):
        bergamot.load(task, tmp_path).translate(["猫"])
