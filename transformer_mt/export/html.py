"""A model as one HTML file that translates: the page, its engine, and the weights in it.

Comes in: a translator of one direction. Goes out: `translator.html`, which needs no network and no
other file. The engine is `page/engine.js`; V8, a browser's JavaScript, proves it from the written
file (extra: pip install 'transformer-mt[export]').
"""

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from torch import Tensor

from transformer_mt.encoding.tokenizer import Tokenizer
from transformer_mt.errors import TmtError
from transformer_mt.explain.telling_heads import pronoun_findings
from transformer_mt.export.formats import require
from transformer_mt.export.proof import ExportTask
from transformer_mt.export.weights import plain_weights
from transformer_mt.messages.catalogue import tr
from transformer_mt.model.transformer import Transformer
from transformer_mt.rendering.pages import SHARED_PAGE, write_html
from transformer_mt.text.languages import is_chinese, is_unspaced, language_name
from transformer_mt.text.normalise import CJK, ChineseScript, Normaliser
from transformer_mt.text.scripts import SIMPLIFIED, TRADITIONAL
from transformer_mt.text.sentences import sentence_joint
from transformer_mt.translation.translator import Translator

QUANTIZATIONS = ("bfloat16", "int8", "float32")
FILE = "translator.html"
BLOCK = 32  # neighbouring int8 numbers of a row that share a scale
_PAGE = Path(__file__).parent / "page"
_STYLE = (SHARED_PAGE, "parts.css"), (_PAGE, "page.css")
_VIEW = (SHARED_PAGE, "parts.js"), (_PAGE, "view.js")
EXAMPLES = {"tiny": "这只动物没有穿过街道，因为它太累了。"}  # of a bundled configuration
_HAN = range(0x3400, 0xA000)


def refusals(task: ExportTask) -> list[str]:
    if task.translator.cfg.languages.bidirectional:
        return [tr("the model has two directions, and the page has one; train one direction")]
    return []


def write(task: ExportTask, folder: Path) -> None:
    model, numbers = describe_model(task.translator, task.quantization)
    example = _example(task)
    model["opens"] = _telling_head(task.translator, example)
    weights = base64.b64encode(zlib.compress(numbers, 9)).decode()
    write_page(folder / FILE, model, weights, example)


def write_page(path: Path, model: dict[str, Any], weights: str, example: str) -> None:
    """The page around a model, as `describe_model` has it, and its packed weights."""
    from markupsafe import Markup

    engine = (_PAGE / "engine.js").read_text(encoding="utf-8")
    style, view = (
        "".join((folder / name).read_text(encoding="utf-8") for folder, name in files)
        for files in (_STYLE, _VIEW)
    )
    write_html(
        _PAGE / "page.html.j2", path, model=model, example=example,
        css=Markup(style), engine=Markup(engine), view=Markup(view),
        script_hashes=Markup(" ".join(map(_csp_hash, (engine, view)))), weights=weights,
        languages=[language_name(code) for code in (model["from"], model["to"])],
    )  # fmt: skip


def _csp_hash(script: str) -> str:
    """The source expression of a script, so that a page runs this one and no other."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _example(task: ExportTask) -> str:
    """A sentence that the page opens with: of usual length, from the proof's texts."""
    fitting = [text for text in task.srcs if 8 <= len(text) <= 60]
    cfg = task.translator.cfg
    bundled = EXAMPLES.get(cfg.name) if cfg.languages.src == "zh" else None
    return str(bundled or (fitting or [""])[0])


def _telling_head(translator: Translator, text: str) -> dict[str, Any]:
    """The row of a head that the page opens with: where a pronoun looks most at an earlier word."""
    try:
        maps = translator.attention(text)
    except TmtError:  # no text, or too long for one picture
        return {}
    found = pronoun_findings(maps, translator.cfg.languages)
    best = next((one for one in found if one.kind == "encoder"), found[0])
    return {"kind": best.kind, "layer": best.layer - 1, "head": best.head - 1, "row": best.row}


def describe_model(translator: Translator, kind: str) -> tuple[dict[str, Any], bytes]:
    """What the engine's `Translator` is made of: its first argument, as JSON, and its bytes."""
    model, cfg = cast(Transformer, translator.model), translator.cfg
    weights = plain_weights(model)
    for side in ("encoder", "decoder"):  # what is tied, the engine takes from the output layer
        if getattr(model, f"{side}_embedding").tokens.weight is model.output.weight:
            del weights[f"{side}.embedding.weight"]
    src, tgt, script = cfg.languages.src, cfg.languages.tgt, cfg.data.clean.chinese_script
    described = {
        "name": cfg.name, "from": src, "to": tgt, "kind": kind,
        "config": {
            "d_model": model.cfg.d_model, "heads": model.cfg.heads, "pre": model.cfg.norm == "pre",
            "encoder_layers": model.cfg.encoder_layers, "modern": model.cfg.modern,
            "decoder_layers": model.cfg.decoder_layers,
        },
        "decode": cfg.decode.model_dump(), "maxLength": cfg.data.max_length,
        "silent": translator.tgt_tokenizer.silent_ids, "joint": sentence_joint(tgt),
        "src": describe_tokenizer(translator.src_tokenizer),
        "tgt": describe_tokenizer(translator.tgt_tokenizer),
        "rules": {
            "src": describe_rules(src, translator.src_tokenizer, script),
            "tgt": describe_rules(tgt, None),
        },
        "tensors": [
            [name, len(w), w.size(1) if w.dim() == 2 else 0] for name, w in weights.items()
        ],
    }  # fmt: skip
    return described, b"".join(pack(weight, kind) for weight in weights.values())


def pack(weight: Tensor, kind: str) -> bytes:
    """The bytes of a tensor as `readWeights` of the engine has them; vectors stay in fp32."""
    array = np.ascontiguousarray(weight.numpy(), dtype="<f4")
    if kind == "float32" or array.ndim == 1:
        return array.tobytes()
    if kind == "bfloat16":
        bits = array.view("<u4").ravel()
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16  # to the nearest, ties to even
        return (rounded >> 8).astype("u1").tobytes() + (rounded & 0xFF).astype("u1").tobytes()
    rows, columns = array.shape
    blocks = np.pad(array, ((0, 0), (0, -columns % BLOCK))).reshape(rows, -1, BLOCK)
    scales = np.maximum(np.abs(blocks).max(axis=2), 1e-12) / np.float32(127)
    bits = (scales.astype("<f4").view("<u4") + 0xFFFF) >> 16  # bfloat16, never below: no overflow
    scales = (bits << 16).astype("<u4").view("<f4")
    numbers = np.rint(blocks / scales[..., None]).astype("i1").reshape(rows, -1)[:, :columns]
    return bits.astype("<u2").tobytes() + numbers.tobytes()


def describe_tokenizer(tokenizer: Tokenizer) -> dict[str, Any]:
    texts = tokenizer.text_pieces()
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    byte_ids = {piece: id_ for id_, piece in enumerate(pieces) if id_ not in texts}
    bytes_ = [byte_ids.get(f"<0x{byte:02X}>") for byte in range(256)]
    (begun,) = tokenizer.encode(["a"])
    return {
        "type": tokenizer.kind,
        "pieces": [texts.get(id_, (piece, None)) for id_, piece in enumerate(pieces)],
        "prefix": tokenizer.pieces(begun)[0].startswith("▁"),
        "bytes": None if None in bytes_ else bytes_,
    }


def describe_rules(
    language: str, tokenizer: Tokenizer | None, script: ChineseScript | None = None
) -> dict[str, Any]:
    """
    Args:
        tokenizer: whose characters Traditional ones are converted to; None: they are not.
        script: of all Chinese text that the model has learned from.
    """
    chinese = is_chinese(language)
    return {
        "language": language,
        "cjk": CJK if chinese else None,
        "unspaced": is_unspaced(language),
        "simplified": list(_simplified(tokenizer)) if chinese and tokenizer else [],
        "script": _into(script) if chinese and script else None,
    }


def _into(script: ChineseScript) -> dict[str, Any]:
    """The characters that tell whether a text is in a script, and the others' forms in it."""
    own, other = SIMPLIFIED.pattern, TRADITIONAL.pattern
    if script == "traditional":
        own, other = other, own
    convert = Normaliser("zh", script)
    forms = ((character, convert(character)) for character in map(chr, _HAN))
    return {"own": own, "other": other, "forms": [pair for pair in forms if pair[0] != pair[1]]}


def _simplified(tokenizer: Tokenizer) -> Iterator[tuple[str, str]]:
    """Traditional characters with their Simplified forms, of those that the vocabulary has."""
    known = {character for piece, _ in tokenizer.text_pieces().values() for character in piece}
    convert = Normaliser("zh", "simplified")
    for character in map(chr, _HAN):
        other = convert(character)
        if other != character and other in known and character not in known:
            yield character, other


class PageModel:
    """A written page's engine in V8; see `ExportedModel`."""

    def __init__(self, path: Path) -> None:
        """Read a page that `write` has written."""
        page = path.read_text(encoding="utf-8")
        self._v8 = require("py_mini_racer", "mini-racer").MiniRacer()
        self._v8.eval(element(page, "engine"))
        numbers = zlib.decompress(base64.b64decode(element(page, "weights")))
        self._v8.eval(f"const bytes = fromBase64('{base64.b64encode(numbers).decode()}');")
        self._v8.eval(f"const translator = new Translator({element(page, 'model')}, bytes);")

    def translate(self, texts: Sequence[str]) -> list[str]:
        return [self.run("(text) => translator.translate(text)", text) for text in texts]

    def log_probs(self, srcs: Sequence[str], tgts: Sequence[str]) -> list[float]:
        call = "(src, tgt) => translator.logProb(src, tgt)"
        return [self.run(call, *pair) for pair in zip(srcs, tgts, strict=True)]

    def run(self, function: str, *arguments: Any) -> Any:
        """The value of a JavaScript function that may use `translator`, as JSON has it."""
        call = f"JSON.stringify(({function})(...{json.dumps(arguments)}) ?? null)"
        return json.loads(self._v8.eval(call))


def load(task: ExportTask, folder: Path) -> PageModel:
    return PageModel(folder / FILE)


def next_step(path: Path, model_dir: Path) -> str:
    return tr("open {} in a browser", path / FILE)


def element(page: str, name: str) -> str:
    found = re.search(rf'<script id="{name}"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert found is not None, name
    return found[1]
