"""MarianMT's arithmetic, written out here, on exported weights gives the model's own numbers; the
real MarianMT reads, translates and scores as tmt does.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from toy_translator import both_ways, other_way

from transformer_mt.config.experiment import Config
from transformer_mt.config.model import ModelConfig
from transformer_mt.encoding.tokenizer import Tokenizer
from transformer_mt.export import marian
from transformer_mt.export.marian import marian_config, marian_weights
from transformer_mt.export.proof import ExportTask, prove
from transformer_mt.model.transformer import Transformer
from transformer_mt.model_dir import build_model, load_tokenizers
from transformer_mt.translation.translator import Translator

Pairs = list[tuple[str, str]]

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


def perturbed(model: Transformer) -> Transformer:
    torch.manual_seed(3)
    for parameter in model.parameters():  # also what starts at 0 or 1
        parameter.data += 0.1 * torch.randn_like(parameter)
    return model.eval()


def test_the_same_logits() -> None:
    model = perturbed(Transformer(CONFIG, VOCABULARY, VOCABULARY))
    src, tgt_in = torch.randint(4, VOCABULARY, (7,)), torch.randint(4, VOCABULARY, (9,))
    with torch.no_grad():
        expected = model.project(model(src[None], tgt_in[None]))[0]
        found = Marian(marian_weights(model)).logits(src, tgt_in)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    content = marian_config(model)
    assert (content["d_model"], content["encoder_ffn_dim"], content["vocab_size"]) == (16, 24, 40)


@pytest.mark.parametrize(
    ("kind", "reasons"),
    [
        ("modern", ["rotary positions", "norm: pre", "--to ctranslate2"]),
        ("pre-norm", ["norm: pre", "norm: post"]),
        ("post-norm", []),
    ],
)
def test_every_reason_against_it_is_named(
    translator_of: Callable[[str], Translator], kind: str, reasons: list[str]
) -> None:
    found = "; ".join(marian.refusals(ExportTask(translator_of(kind), "float32", [])))
    assert all(reason in found for reason in reasons) and bool(found) == bool(reasons)


# With transformers


@pytest.fixture(scope="module")
def transformers() -> Any:
    return pytest.importorskip("transformers", reason="the extra export is not installed")


@pytest.fixture
def exported(tmp_path: Path) -> Callable[[Translator], Path]:
    def export(translator: Translator) -> Path:
        marian.write(ExportTask(translator, "float32", []), tmp_path)
        return tmp_path

    return export


def untrained(
    cfg: Config, tokenizers: tuple[Tokenizer, Tokenizer], *, joint: bool, tying: str = "auto"
) -> Translator:
    model = cfg.model.model_copy(update={"norm": "post", "tie_embeddings": tying})
    vocabulary = cfg.tokenizer.model_copy(update={"joint": joint})
    cfg = cfg.model_copy(update={"model": model, "tokenizer": vocabulary})
    return Translator(perturbed(build_model(cfg, tokenizers)), tokenizers, cfg)


def assert_same_scores(translator: Translator, folder: Path, srcs: Any, tgts: Any) -> None:
    task = ExportTask(translator, "float32", srcs)
    scores = translator.score_pairs(srcs, tgts, to=translator.cfg.languages.tgt)
    expected = [score.log_prob for score in scores]
    assert marian.load(task, folder).log_probs(srcs, tgts) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(
    ("joint", "tying"),
    [(True, "all"), (True, "decoder"), (True, "none"), (False, "decoder"), (False, "none")],
)
def test_every_way_to_tie_embeddings(
    transformers: Any, toy_config: Config, tokenizer_dir: Path, toy_pairs: Pairs,
    exported: Callable[[Translator], Path], joint: bool, tying: str,
) -> None:  # fmt: skip
    tokenizers = load_tokenizers(tokenizer_dir, joint=joint)
    translator = untrained(toy_config, tokenizers, joint=joint, tying=tying)
    srcs, tgts = zip(*toy_pairs[:20], strict=True)
    assert_same_scores(translator, exported(translator), srcs, tgts)


def test_two_directions(
    transformers: Any, toy_config: Config, toy_pairs: Pairs, tmp_path: Path,
    exported: Callable[[Translator], Path],
) -> None:  # fmt: skip
    plain = both_ways(toy_config, toy_pairs, tmp_path / "joint", "de", "en")
    assert len(plain.src_tokenizer.tags) == 2
    translator = untrained(plain.cfg, (plain.src_tokenizer, plain.tgt_tokenizer), joint=True)
    srcs, tgts = zip(*toy_pairs[:9], *(pair[::-1] for pair in toy_pairs[9:18]), strict=True)
    folder = exported(translator)
    task = ExportTask(translator, "float32", srcs)
    assert (prove(task, marian.load(task, folder)).worst_log_prob or 1.0) < 1e-3
    for one in (translator, other_way(translator)):
        assert_same_scores(one, folder, srcs, tgts)


def test_its_tokenizer_reads_and_writes_alike(
    transformers: Any, toy_config: Config, tokenizers: tuple[Tokenizer, Tokenizer],
    exported: Callable[[Translator], Path],
) -> None:  # fmt: skip
    """Chinese on either side, characters outside the vocabulary, special tokens as text."""
    src, tgt = tokenizers
    folder = exported(untrained(toy_config, tokenizers, joint=False))
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    letters = st.sampled_from(" 猫看，。thecat龘😀\té’_<>/s0x") | st.characters(
        exclude_categories=["Cs"], exclude_characters="▁"
    )
    special = st.sampled_from(["</s>", "<pad>", "<unk>", "<s>", "<0x41>", "<2en>", "  "])

    @settings(max_examples=200, deadline=None)
    @given(st.lists(letters | special, max_size=20).map("".join))
    def check(text: str) -> None:
        if text.startswith(">>"):  # a language code there
            return
        ids = [src.encode([text])[0], tgt.encode([text])[0]]
        found = theirs(text)["input_ids"], theirs(text_target=text)["input_ids"]
        assert list(found) == [[*row, 3] for row in ids]
        assert theirs.decode([2, *ids[1], 3, 0], skip_special_tokens=True) == (
            tgt.decode([ids[1]])[0].strip()
        )

    check()


def test_translations(
    transformers: Any, translator_of: Callable[[str], Translator], toy_pairs: Pairs,
    exported: Callable[[Translator], Path],
) -> None:  # fmt: skip
    translator = translator_of("post-norm")
    srcs, refs = zip(*toy_pairs[:60], strict=True)
    task = ExportTask(translator, "float32", srcs, refs)
    proof = prove(task, marian.load(task, exported(translator)))
    assert proof.identical == 1.0 and proof.texts > 20 and proof.bleu_lost == 0.0
    assert proof.worst_log_prob is not None and proof.worst_log_prob < 1e-5
