r"""Decoding speed of tmt beside other engines: the same weights, sources, beam and output length.

    python scripts/peers/decode_speed.py --src multi30k/test_2016_flickr.en --venvs FOLDER \
        --tokenizer runs/multi30k-en-de/model --size tiny

Engines: tmt, also in fp32 and with int8 products; CTranslate2 in fp32 and int8, with the threads in
one worker and with one worker per thread, its best setting; Hugging Face `generate` (MarianMT);
JoeyNMT. Hugging Face and JoeyNMT run in environments under --venvs, which train_speed.py makes. The
model has random weights in the paper's post-norm form; every translation has --length tokens, so
that nobody wins by stopping early. Each measurement is a fresh process, after one batch to warm up;
the engines take turns, and the table shows medians over --rounds. Exit status 1: some
run failed; the others count.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from tools import HERE, SCALES, Size, environment, python_of

SMALL = Size(d_model=256, heads=4, ffn=1024, layers=3, dropout=0.1)
SIZES = {"tiny": SCALES["tiny"].model, "small": SMALL, "base": SCALES["base"].model}


@dataclass(frozen=True)
class Engine:
    name: str
    driver: str
    venv: str | None = None  # None: the environment that runs this
    settings: tuple[tuple[str, Any], ...] = ()


ENGINES = [
    Engine("tmt", "decode_tmt.py"),
    Engine("tmt fp32", "decode_tmt.py", None, (("precision", "fp32"),)),
    Engine("tmt int8", "decode_tmt.py", None, (("precision", "int8"),)),
    Engine("tmt, 1 thread", "decode_tmt.py", None, (("threads", 1),)),
    Engine("CTranslate2 fp32", "decode_ctranslate2.py", None, (("compute_type", "float32"),)),
    Engine("CTranslate2 fp32, 1 thread", "decode_ctranslate2.py", None,
           (("compute_type", "float32"), ("threads", 1))),
    Engine("CTranslate2 fp32, workers", "decode_ctranslate2.py", None,
           (("compute_type", "float32"), ("workers", 2))),
    Engine("CTranslate2 int8", "decode_ctranslate2.py", None, (("compute_type", "int8"),)),
    Engine("CTranslate2 int8, workers", "decode_ctranslate2.py", None,
           (("compute_type", "int8"), ("workers", 2))),
    Engine("Hugging Face fp32", "decode_hf.py", "huggingface", (("precision", "fp32"),)),
    Engine("Hugging Face bf16", "decode_hf.py", "huggingface", (("precision", "bf16"),)),
    Engine("JoeyNMT fp32", "decode_joey.py", "joeynmt"),
]  # fmt: skip


def say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def make_models(size: Size, tokenizer_dir: Path, work_dir: Path) -> tuple[Any, dict[str, Any]]:
    """A model with random weights in the form of every engine.

    Returns:
        The tokenizer; what a task says of the models.
    """
    import torch

    from transformer_mt.config.experiment import build_config
    from transformer_mt.export import ctranslate2, marian
    from transformer_mt.export.proof import ExportTask
    from transformer_mt.model_dir import (
        build_model,
        load_tokenizers,
        save_model_dir,
        weights_of,
    )
    from transformer_mt.translation.translator import Translator

    tokenizers = load_tokenizers(tokenizer_dir, joint=True)
    tree = {
        "name": "bench-decode",
        "languages": {"src": "en", "tgt": "de"},
        "data": {"train": [{"demo": True}]},
        "tokenizer": {"vocab_size": tokenizers[0].vocab_size, "joint": True},
        "model": {
            "d_model": size.d_model, "heads": size.heads, "ffn": size.ffn,
            "encoder_layers": size.layers, "decoder_layers": size.layers,
        },
    }  # fmt: skip
    cfg = build_config(tree, "bench")
    torch.manual_seed(1)
    model = build_model(cfg, tokenizers).eval()
    paths = {name: work_dir / name for name in ("tmt", "ctranslate2", "marian")}
    save_model_dir(paths["tmt"], cfg, weights_of(model), tokenizer_dir, {})
    export = ExportTask(Translator(model, tokenizers, cfg), "float32", [])
    for format_, path in ((ctranslate2, paths["ctranslate2"]), (marian, paths["marian"])):
        path.mkdir()
        format_.write(export, path)
    sizes = {**vars(size), "vocab_size": tokenizers[0].vocab_size}
    return tokenizers[0], {**{name: str(path) for name, path in paths.items()}, "model": sizes}


def measure(engine: Engine, task: dict[str, Any], work_dir: Path, venvs_dir: Path) -> Any:
    """What a driver tells, or None if it failed."""
    task_path = work_dir / "task.json"
    task_path.write_text(json.dumps({**task, **dict(engine.settings)}), "utf-8")
    python = sys.executable if engine.venv is None else str(python_of(venvs_dir / engine.venv))
    command = [python, str(HERE / engine.driver), str(task_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    if done.returncode:
        say(f"{engine.name}: failed\n{done.stderr[-2000:]}")
        return None
    return json.loads(done.stdout.splitlines()[-1])


def table(results: dict[tuple[str, int, int], list[Any]], baseline: str) -> str:
    """Sentences per second, and what tmt makes of them, for each batch size and beam."""
    settings = sorted({(batch, beam) for _, batch, beam in results}, key=lambda s: (-s[1], -s[0]))
    columns = [f"batch {batch}, beam {beam}" for batch, beam in settings]
    lines = [f"| engine | {' | '.join(columns)} | MiB |", "|---" * (len(columns) + 2) + "|"]

    def rate(name: str, batch: int, beam: int) -> float | None:
        runs = [run for run in results.get((name, batch, beam), []) if run]
        return median(run["sentences"] / run["seconds"] for run in runs) if runs else None

    for name in dict.fromkeys(name for name, _, _ in results):
        cells = []
        for batch, beam in settings:
            own, other = rate(baseline, batch, beam), rate(name, batch, beam)
            ratio = f" ({own / other:.2f})" if own and other and name != baseline else ""
            cells.append(f"{other:,.1f}{ratio}" if other else "failed")
        runs = [run for (n, *_), rs in results.items() if n == name for run in rs if run]
        memory = f"{max(run['peak_mib'] for run in runs):,.0f}" if runs else "–"
        lines.append(f"| {name} | {' | '.join(cells)} | {memory} |")
    return "\n".join(lines)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--src", type=Path, required=True, help="sentences to translate")
    parser.add_argument(
        "--tokenizer", type=Path, required=True, help="a folder with a joint tokenizer.model"
    )
    parser.add_argument("--venvs", type=Path, required=True)
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--engines", nargs="+", default=[engine.name for engine in ENGINES])
    parser.add_argument("--batches", type=int, nargs="+", default=[64, 8, 1])
    parser.add_argument("--beams", type=int, nargs="+", default=[5])
    parser.add_argument("--sentences", type=int, default=512)
    parser.add_argument("--length", type=int, default=15, help="tokens of every translation")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="all measurements, as JSON")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    from transformer_mt.corpus.readers.lines import split_lines

    engines = [engine for engine in ENGINES if engine.name in arguments.engines]
    results: dict[tuple[str, int, int], list[Any]] = {}
    with tempfile.TemporaryDirectory() as directory:
        work_dir = Path(directory)
        tokenizer, models = make_models(SIZES[arguments.size], arguments.tokenizer, work_dir)
        lines = [line for line in split_lines(arguments.src) if line][: arguments.sentences]
        sentences = [ids for ids in tokenizer.encode(lines) if ids]
        common = {
            **models, "threads": arguments.threads, "workers": 1, "precision": "auto",
            "length": arguments.length,
        }  # fmt: skip
        for turn in range(arguments.rounds):
            for beam in arguments.beams:
                for batch in arguments.batches:
                    # One sentence at a time takes long, and tells as much from fewer.
                    kept = sentences[:: max(1, 16 // batch)]
                    task = {
                        **common, "beam": beam, "batch": batch, "sentences": kept,
                        "pieces": [tokenizer.pieces(ids) for ids in kept],
                    }  # fmt: skip
                    for engine in engines:
                        found = measure(engine, task, work_dir, arguments.venvs)
                        results.setdefault((engine.name, batch, beam), []).append(found)
                        rate = f"{found['sentences'] / found['seconds']:.1f}" if found else "–"
                        say(f"{turn + 1}: {engine.name}, batch {batch}, beam {beam}: {rate} /s")
    if arguments.out:
        content = [[*key, runs] for key, runs in results.items()]
        arguments.out.write_text(json.dumps(content, indent=1), "utf-8")
    print(f"{arguments.size}, sentences per second (in brackets: tmt ÷ it)\n")
    print(table(results, "tmt"))
    sys.exit(any(run is None for runs in results.values() for run in runs))


if __name__ == "__main__":
    main()
