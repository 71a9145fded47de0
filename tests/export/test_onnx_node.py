"""Exports to ONNX under Node: transformers.js translates as tmt does.

Its packages: `npm install` in tests/export/node.
"""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from toy_translator import trained

from transformer_mt.config.experiment import Config
from transformer_mt.encoding.tokenizer import EOS_ID
from transformer_mt.export import onnx
from transformer_mt.export.onnx_tokenizer import N_SPECIAL, source_offset
from transformer_mt.export.proof import ExportTask
from transformer_mt.model_dir import load_tokenizers
from transformer_mt.translation.translator import Translator

pytest.importorskip("onnx", reason="the extra export is not installed")
NODE = Path(__file__).parent / "node"
PACKAGE = NODE / "node_modules" / "@huggingface" / "transformers"
pytestmark = pytest.mark.skipif(
    shutil.which("node") is None or not PACKAGE.is_dir(),
    reason="needs Node, and npm install in tests/export/node",
)

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


def run(folder: Path, texts: list[str], *, batch: int) -> dict[str, Any]:
    """What transformers.mjs prints about texts."""
    done = subprocess.run(
        ["node", str(NODE / "transformers.mjs"), str(folder)],
        input=json.dumps({"texts": texts, "batch": batch}),
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("kind", ["post-norm", "pre-norm", "modern", "one vocabulary"])
def test_the_same_tokens_and_translations(
    kind: str,
    translator_of: Callable[[str], Translator],
    toy_config: Config,
    tokenizer_dir: Path,
    toy_pairs: Pairs,
    tmp_path: Path,
) -> None:
    if kind == "one vocabulary":
        translator = trained(toy_config, load_tokenizers(tokenizer_dir, joint=True), toy_pairs)
    else:
        translator = translator_of(kind)
    onnx.write(ExportTask(translator, "float32", []), tmp_path)
    known = [zh for zh, _ in toy_pairs]
    texts = [*known, *ODD]
    found = run(tmp_path, texts, batch=9)
    offset = source_offset(translator.src_tokenizer, translator.tgt_tokenizer)
    for text, ids in zip(texts, translator.src_tokenizer.encode(texts), strict=True):
        assert found["ids"].pop(0) == [*(i + offset * (i >= N_SPECIAL) for i in ids), EOS_ID], text
    own = translator.translate(known, beam=1)
    compared = [
        (one.text, text)
        for one, text in zip(own, found["translations"][: len(known)], strict=True)
        if one.complete and one.pieces == 1
    ]
    assert sum(mine == theirs for mine, theirs in compared) >= 0.99 * len(compared), compared
    assert len({text for text, _ in compared}) > 9, "they must differ to tell much"


def test_eight_bits_are_found_without_being_asked_for(
    translator_of: Callable[[str], Translator], texts: list[str], tmp_path: Path
) -> None:
    task = ExportTask(translator_of("pre-norm"), "int8", [])
    onnx.write(task, tmp_path)
    found = run(tmp_path, texts, batch=len(texts))  # whose numbers share one scale
    assert found["translations"] == onnx.load(task, tmp_path).translate(texts)
