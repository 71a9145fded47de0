"""The results that gpu.sh has left in a folder, as one Markdown table.

    python scripts/bench/gpu_report.py FOLDER
    python scripts/bench/gpu_report.py FOLDER --time-ctranslate2 4096

The second form measures translating beside CTranslate2, on the GPU if that is built for one.
"""

import argparse
import json
import platform
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import torch

from transformer_mt.search.engine import Engine, Request
from transformer_mt.search.options import SearchOptions
from transformer_mt.system.device import keep_memory
from transformer_mt.translation.translator import Translator

BEAM, BATCHES, ROUNDS = 5, (64, 1024), 3
COMPUTE_TYPES = {"float32", "float16", "bfloat16", "int8_float16"}
CURVES = ("cpu-fp32", "auto-fp32", "auto-bf16")


def device_name() -> str:
    if torch.cuda.is_available():
        return f"{torch.cuda.device_count()} × {torch.cuda.get_device_name()}"
    return f"{platform.machine()}, no GPU"


def time_beside_ctranslate2(folder: Path, n_sentences: int) -> None:
    """Write `ctranslate2.json`: sentences per second of tmt and of CTranslate2 with the trained
    weights, by turns."""
    import ctranslate2

    translator = Translator.load(folder / "trained" / "model")
    tokenizer = translator.src_tokenizer
    texts = (folder / "trained/data/clean/dev.src").read_text(encoding="utf-8").splitlines()
    encoded = sorted((ids for ids in tokenizer.encode(texts) if ids), key=len)
    encoded = (encoded * -(-n_sentences // len(encoded)))[:n_sentences]
    requests, pieces = [Request(ids) for ids in encoded], [tokenizer.pieces(ids) for ids in encoded]
    keep_memory()
    engine = Engine([translator.model], translator.tgt_tokenizer.silent_ids)
    options = SearchOptions(beam=BEAM)
    device = "cuda" if ctranslate2.get_cuda_device_count() else "cpu"

    def in_batches(batch: int) -> None:
        for start in range(0, len(requests), batch):
            engine.search(requests[start : start + batch], options)

    def by_ctranslate2(name: str) -> Callable[[int], object]:
        loaded = ctranslate2.Translator(
            str(folder / "ctranslate2"), device=device, compute_type=name
        )
        return lambda batch: loaded.translate_batch(pieces, beam_size=BEAM, max_batch_size=batch)

    dtype = str(translator.model.output.weight.dtype).removeprefix("torch.")
    works = {f"tmt, {dtype}": in_batches}
    names = sorted(ctranslate2.get_supported_compute_types(device) & COMPUTE_TYPES)
    works |= {f"CTranslate2, {name}": by_ctranslate2(name) for name in names}
    seconds: dict[tuple[str, int], list[float]] = {}
    for _ in range(1 + ROUNDS):
        for batch in BATCHES:
            for name, work in works.items():
                started = time.monotonic()
                work(batch)
                seconds.setdefault((name, batch), []).append(time.monotonic() - started)
    rates = [
        {"engine": name, "batch": batch, "sentences_per_s": n_sentences / median(taken[1:])}
        for (name, batch), taken in seconds.items()
    ]
    found = {"device": device, "rates": rates}
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
        found = read(path)
        for r in found["rates"]:
            name = f"{r['engine']}, trained, beam {BEAM}, batch {r['batch']}, {found['device']}"
            yield name, f"{r['sentences_per_s']:,.1f} sentences/s"
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
        time_beside_ctranslate2(arguments.folder, arguments.time_ctranslate2)
        return
    lines = [f"| {device_name()}, torch {torch.__version__} | |", "|---|---|"]
    lines += [f"| {name} | {result} |" for name, result in rows(arguments.folder)]
    text = "\n".join(lines) + "\n"
    (arguments.folder / "gpu.md").write_text(text, encoding="utf-8")
    print(text, end="")


if __name__ == "__main__":
    main()
