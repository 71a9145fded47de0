"""Exports to ONNX: the graphs compute what the model computes, the tokenizer reads as its own."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from toy_translator import trained

from transformer_mt.config.experiment import Config
from transformer_mt.config.model import TokenizerConfig
from transformer_mt.encoding.tokenizer import EOS_ID, Tokenizer, train_tokenizer
from transformer_mt.export import onnx
from transformer_mt.export.onnx_tokenizer import N_SPECIAL, source_offset, tokenizer_json
from transformer_mt.export.proof import ExportTask, prove
from transformer_mt.model_dir import load_tokenizers
from transformer_mt.search.engine import Request
from transformer_mt.search.options import SearchOptions
from transformer_mt.translation.translator import Translator

pytest.importorskip("onnx", reason="the extra export is not installed")
pytest.importorskip("onnxruntime", reason="the extra export is not installed")
tokenizers_package = pytest.importorskip("tokenizers", reason="the extra export is not installed")

Pairs = list[tuple[str, str]]
ODD = [
    "the  dog ",
    "</s> <s> <pad> <bt>",
    "<0x41>",
    "über naïve 日本語",
    "😀!",
    "aaaa aaaaaa",
    "𠀀",
]


@pytest.fixture(scope="module")
def joint(toy_config: Config, tokenizer_dir: Path, toy_pairs: Pairs) -> Translator:
    """With one vocabulary, and one embedding."""
    return trained(toy_config, load_tokenizers(tokenizer_dir, joint=True), toy_pairs)


def exported(task: ExportTask, folder: Path) -> onnx.OnnxModel:
    folder.mkdir()
    assert onnx.refusals(task) == []
    onnx.write(task, folder)
    return onnx.load(task, folder)


def check(translator: Translator, pairs: Pairs, folder: Path) -> None:
    srcs, refs = zip(*pairs, strict=True)
    task = ExportTask(translator, "float32", srcs, refs)
    model = exported(task, folder)
    proof = prove(task, model)
    assert proof.problems(exact=True) == [] and proof.texts > 9, proof
    assert proof.worst_log_prob is not None and proof.worst_log_prob < 1e-3
    requests = [Request(ids) for ids in translator.src_tokenizer.encode(srcs)]
    own = [h for (h,) in translator.engine.search(requests, SearchOptions(beam=1))]
    ended = [(h.ids, ids) for h, ids in zip(own, model.greedy(srcs), strict=True) if h.complete]
    for mine, theirs in ended:  # a row of a batch that has ended says nothing more
        assert theirs == mine + [EOS_ID] * (len(theirs) - len(mine))
    assert len({tuple(ids) for ids, _ in ended}) > 3, "they must differ to tell much"


def test_every_architecture_translates_the_same(
    translator: Translator, toy_pairs: Pairs, tmp_path: Path
) -> None:
    """In batches of unlike lengths, so that padding would show."""
    check(translator, toy_pairs[:40], tmp_path / "model")


def test_one_vocabulary(joint: Translator, toy_pairs: Pairs, tmp_path: Path) -> None:
    check(joint, toy_pairs[:40], tmp_path / "model")


@pytest.mark.parametrize("quantization", onnx.QUANTIZATIONS)
def test_a_graph_holds_a_shared_embedding_once(
    joint: Translator, toy_pairs: Pairs, tmp_path: Path, quantization: str
) -> None:
    import onnx as package

    srcs, refs = zip(*toy_pairs[:5], strict=True)
    exported(ExportTask(joint, quantization, srcs, refs), tmp_path / "model")
    size = joint.model.output.weight.numel()
    for path in (tmp_path / "model" / "onnx").iterdir():
        found = package.load(path).graph.initializer
        assert [one.dims[0] * one.dims[1] for one in found if len(one.dims) == 2].count(size) == 1


def test_the_proof_sees_another_weight(
    translator_of: Callable[[str], Translator], toy_pairs: Pairs, tmp_path: Path
) -> None:
    import onnx as package

    srcs, refs = zip(*toy_pairs[:30], strict=True)
    task = ExportTask(translator_of("pre-norm"), "float32", srcs, refs)
    exported(task, tmp_path / "model")
    path = tmp_path / "model" / "onnx" / "decoder_model_merged.onnx"
    graph = package.load(path)
    matrix = next(one for one in graph.graph.initializer if len(one.dims) == 2)
    matrix.CopyFrom(
        package.numpy_helper.from_array(1.05 * package.numpy_helper.to_array(matrix), matrix.name)
    )
    package.save(graph, path)
    assert prove(task, onnx.load(task, tmp_path / "model")).problems(exact=True)


def test_eight_bits_are_smaller(
    translator_of: Callable[[str], Translator], toy_pairs: Pairs, tmp_path: Path
) -> None:
    srcs, refs = zip(*toy_pairs[:30], strict=True)
    sizes = []
    for quantization in onnx.QUANTIZATIONS:
        task = ExportTask(translator_of("modern"), quantization, srcs, refs)
        folder = tmp_path / quantization
        proof = prove(task, exported(task, folder))
        assert proof.problems(exact=False, most_bleu_lost=5) == [], proof
        assert proof.worst_log_prob is not None and proof.worst_log_prob < 0.05
        sizes.append(sum(path.stat().st_size for path in (folder / "onnx").iterdir()))
        content = json.loads((folder / "config.json").read_text("utf-8"))
        assert content["transformers.js_config"] == {"dtype": ("fp32", "q8")[len(sizes) - 1]}
    assert sizes[1] < sizes[0]


def test_every_refusal_names_its_reason(
    translator_of: Callable[[str], Translator], toy_pairs: Pairs, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """That of a unigram model, which the configuration calls bpe, too."""
    translator = translator_of("pre-norm")
    languages = translator.cfg.languages.model_copy(update={"bidirectional": True})
    cfg = translator.cfg.model_copy(update={"languages": languages})
    assert cfg.tokenizer.type == "bpe"
    unigram = TokenizerConfig(type="unigram", vocab_size=380)
    src = train_tokenizer([zh for zh, _ in toy_pairs], tmp_path / "zh", unigram, ["zh"], seed=1)
    tokenizers = src, translator.tgt_tokenizer
    task = ExportTask(Translator(translator.model, tokenizers, cfg), "float32", [])
    monkeypatch.setattr(onnx, "_MOST_BYTES", 1000)
    reasons = onnx.refusals(task)
    for reason, expected in zip(reasons, ("both ways", "in bytes", "one file"), strict=True):
        assert expected in reason and "--to ctranslate2" in reason
    assert len(onnx.refusals(replace(task, translator=translator))) == 1


@pytest.mark.parametrize(
    ("kind", "byte_fallback"), [("bpe", True), ("bpe", False), ("unigram", False)]
)
def test_the_tokenizer_reads_and_writes_as_ours(
    kind: Any, byte_fallback: bool, toy_pairs: Pairs, tmp_path: Path
) -> None:
    cfg = TokenizerConfig(
        type=kind, vocab_size=380 if byte_fallback else 48, byte_fallback=byte_fallback
    )
    zh, en = (
        train_tokenizer(
            [pair[i] for pair in toy_pairs[:120]],
            tmp_path / code,
            cfg,
            [code],
            seed=1,
            tags=["<bt>"],
        )
        for i, code in enumerate(("zh", "en"))
    )
    texts = [*ODD, *(text for pair in toy_pairs for text in pair)]
    for src, tgt in ((zh, en), (en, zh), (en, en)):
        content = tokenizer_json(src, tgt, "fr")
        found = tokenizers_package.Tokenizer.from_str(json.dumps(content))
        offset = source_offset(src, tgt)
        assert (offset == 0) == (src is tgt)
        for text, ids in zip(texts, src.encode(texts), strict=True):
            there = [id_ + offset * (id_ >= N_SPECIAL) for id_ in ids]
            assert found.encode(text).ids == [*there, EOS_ID], text
        written = tgt.encode(texts)
        own = [" ".join(text.split()) for text in tgt.decode(written)]
        assert found.decode_batch([[*ids, EOS_ID] for ids in written]) == own


@pytest.mark.parametrize(
    ("language", "text"), [("en", "“Don’t” ﻿cafe\u0301"), ("zh", "　Ａ１２ 两\u200b件")]
)
def test_a_text_is_normalised_as_ours(language: str, text: str, tokenizers: Any) -> None:
    from transformer_mt.text.normalise import Normaliser

    src: Tokenizer = tokenizers[0]
    content = tokenizer_json(src, src, language)
    found = tokenizers_package.Tokenizer.from_str(json.dumps(content))
    (ids,) = src.encode([Normaliser(language, None)(text)])
    assert found.encode(text).ids == [*ids, EOS_ID]


def test_positions_have_no_end(
    translator_of: Callable[[str], Translator], toy_pairs: Pairs, tmp_path: Path
) -> None:
    translator = translator_of("post-norm")
    srcs = ["".join(zh for zh, _ in toy_pairs[:100])]
    tgts = [" ".join(en for _, en in toy_pairs[:100])]
    model = exported(ExportTask(translator, "float32", []), tmp_path / "model")
    (own,), (their,) = translator.score_pairs(srcs, tgts), model.log_probs(srcs, tgts)
    assert own.n_tokens > 1024 and their == pytest.approx(own.log_prob, rel=1e-4)
