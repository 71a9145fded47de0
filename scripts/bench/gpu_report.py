"""The results that gpu.sh has left in a folder, as one Markdown table.

    python scripts/bench/gpu_report.py FOLDER
    python scripts/bench/gpu_report.py FOLDER --time-ctranslate2 512

The second form first measures CTranslate2, on the GPU if it has been built for one.
"""

import argparse
import json
import platform
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from transformer_mt.translation.translator import Translator

BATCH, BEAM = 64, 5
CURVES = ("cpu-fp32", "auto-fp32", "auto-bf16")


def device_name() -> str:
    if torch.cuda.is_available():
        return f"{torch.cuda.device_count()} × {torch.cuda.get_device_name()}"
    return f"{platform.machine()}, no GPU"


def time_ctranslate2(folder: Path, n_sentences: int) -> None:
    """Write `ctranslate2.json`: sentences per second with the trained model's weights."""
    import ctranslate2

    translator = Translator.load(folder / "trained" / "model")
    texts = (folder / "trained/data/clean/dev.src").read_text(encoding="utf-8").splitlines()
    tokenizer = translator.src_tokenizer
    pieces = [tokenizer.pieces(ids) for ids in tokenizer.encode(texts[:n_sentences]) if ids]
    device = "cuda" if ctranslate2.get_cuda_device_count() else "cpu"
    engine = ctranslate2.Translator(str(folder / "ctranslate2"), device=device, compute_type="auto")
    engine.translate_batch(pieces[:BATCH], beam_size=BEAM)
    started = time.monotonic()
    engine.translate_batch(pieces, beam_size=BEAM, max_batch_size=BATCH)
    rate = len(pieces) / (time.monotonic() - started)
    found = {"device": device, "compute_type": engine.compute_type, "sentences_per_s": rate}
    (folder / "ctranslate2.json").write_text(json.dumps(found), encoding="utf-8")


def losses(folder: Path, name: str) -> list[float]:
    lines = (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    return [record["loss"] for record in records if record["event"] == "train"]


def rows(folder: Path) -> Iterator[tuple[str, str]]:
    """What was measured, and the result."""

    def read(path: Path) -> Any:
        return json.loads(path.read_text(encoding="utf-8"))

    exact, *others = (losses(folder, name) for name in CURVES)
    for name, found in zip(CURVES[1:], others, strict=True):
        furthest = max(abs(a - b) / b for a, b in zip(found, exact, strict=True))
        yield f"{len(found)} updates, {name} ÷ CPU: loss differs by at most", f"{furthest:.1e}"
    for path in sorted(folder.glob("train-*.json")):
        r = read(path)
        speed = (
            f"{r['tgt_tokens_per_s']:,.0f} target tokens/s, {r['share_of_peak']:.1%} of the peak"
        )
        memory = f"{r['peak_memory_mib']:,.0f} MiB"
        yield f"training, {r['size']}, {r['processes']} × {r['device']}", f"{speed}, {memory}"
    if (path := folder / "kernels.txt").exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            name, result = re.split(r"  +", line, maxsplit=1)
            yield name, result
    if (path := folder / "recordings.txt").exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            size, max_tokens, result = line.split(maxsplit=2)
            yield f"a micro-batch, {size}, {max_tokens} tokens", " ".join(result.split())
    for path in sorted(folder.glob("decode-*.json")):
        for r in read(path)["rates"]:
            name = f"translating, {path.stem[7:]}, beam {r['beam']}, batch {r['batch']}"
            yield name, f"{r['sentences_per_s']:,.1f} sentences/s"
    if (path := folder / "ctranslate2.json").exists():
        r = read(path)
        name = f"… CTranslate2, trained, beam {BEAM}, batch {BATCH}, {r['device']}"
        yield name, f"{r['sentences_per_s']:,.1f} sentences/s, {r['compute_type']}"
    table = (folder / "profile.txt").read_text(encoding="utf-8")
    for kind, ms, share in re.findall(r"^ +(\w+) +([\d.]+) ms +([\d.]+%)$", table, re.MULTILINE):
        yield f"an update of base: {kind}", f"{ms} ms, {share}"
    trained = read(folder / "trained.json")
    ended = trained["trained"]
    yield f"{trained['name']}, {ended['updates']} updates", f"{ended['minutes']:.1f} minutes"
    for test, scores in trained["scores"].items():
        for metric, score in scores.items():
            yield f"{trained['name']}, {test}, {metric}", f"{score['score']:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--time-ctranslate2", type=int, metavar="SENTENCES")
    arguments = parser.parse_args()
    if arguments.time_ctranslate2:
        time_ctranslate2(arguments.folder, arguments.time_ctranslate2)
        return
    lines = [f"| {device_name()}, torch {torch.__version__} | |", "|---|---|"]
    lines += [f"| {name} | {result} |" for name, result in rows(arguments.folder)]
    text = "\n".join(lines) + "\n"
    (arguments.folder / "gpu.md").write_text(text, encoding="utf-8")
    print(text, end="")


if __name__ == "__main__":
    main()
