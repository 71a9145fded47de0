"""Training speed of tmt beside other tools, on one corpus, with one vocabulary and model size.

    python scripts/peers/train_speed.py --src multi30k/train.en --tgt multi30k/train.de \
        --size tiny --rounds 3 --venvs FOLDER --out peers.json

Peers: JoeyNMT; Hugging Face's Seq2SeqTrainer with MarianMT (`hf`), and the same with tmt's settings
of the memory allocator (`hf-malloc`); a plain loop around `nn.Transformer` (`naive`). They are
installed into environments under --venvs at the first call. `tmt` is the command `tmt train` as it
comes: a process for each core, updates of 25,000 tokens; `tmt-1p` and `tmt-2p` name the number of
processes; `tmt-short` makes an update of a batch or two, as the others do unless --accumulate says
how many batches JoeyNMT and Hugging Face take for one. A first run of tmt, which is not counted,
cleans the text and learns the joint vocabulary (8 k) that all tools get.

Round by round each tool trains in fresh processes until its window is full: a few updates to warm
up, then --seconds. Counted are real tokens, EOS included and padding not; a run's number is the
median over the updates of its window, the table's the median over rounds. Memory is that of all
processes of a tool, with pages that they share counted in each; the first update counts from the
start of the process, with tmt's data prepared as above. bf16 is measured where a plain product is
faster in bf16 than in fp32. No GPU is used. Exit status 1: some run failed; the others count.
"""

import argparse
import json
import platform
import signal
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from typing import Any

from summary import Rates, rates, table, verdicts
from tools import SCALES, TOOLS, Bench, environment, make_environments, precisions
from watch import RunFailed, Window, observe

PRECISIONS = ("fp32", "bf16")


def say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def measured_peaks() -> dict[str, float]:
    """GFLOP/s of plain matrix products, with torch's own threads."""
    import torch

    from transformer_mt.profiling.flops import peak_gflops, product_gflops

    cpu = torch.device("cpu")
    fp32 = peak_gflops(cpu, torch.float32)
    # Where bf16 is emulated, a large product takes half a minute; a small one shows that it is.
    bf16 = product_gflops(cpu, torch.bfloat16, width=512)
    return {"fp32": fp32, "bf16": peak_gflops(cpu, torch.bfloat16) if bf16 > fp32 else bf16}


def native_precision() -> str:
    """What tmt takes by itself on this machine's CPU."""
    import torch

    from transformer_mt.system.device import choose_precision

    chosen = choose_precision("auto", torch.device("cpu"))
    return "bf16" if chosen == torch.bfloat16 else "fp32"


def prepare(bench: Bench) -> dict[str, float]:
    """Have tmt prepare the data; what is to be known of it."""
    from transformer_mt.config.experiment import load_config
    from transformer_mt.encoding.encoded_corpus import open_corpus
    from transformer_mt.model_dir import build_model, load_tokenizers
    from transformer_mt.profiling.flops import training_flops

    command, updates_path = bench.start_of("tmt-1p", "auto")
    observed = observe(
        command,
        environment=environment(),
        updates_path=updates_path,
        output_path=bench.work_dir / "prepare.log",
        window=Window(warmup=0, seconds=0, updates=1),
    )
    cfg = load_config(bench.run_dir / "config.yaml")
    model = build_model(cfg, load_tokenizers(bench.tokenizer_path.parent, joint=True))
    corpus = open_corpus(bench.run_dir / "data/encoded/train")
    src, tgt = corpus.src.lengths, corpus.tgt.lengths
    return {
        "raw_text_to_first_update_s": observed.first_update_s,
        "pairs": len(tgt),
        "src_tokens": int(src.sum()),
        "tgt_tokens": int(tgt.sum()),
        "flops_per_tgt_token": training_flops(model, src, tgt) / int(tgt.sum()),
    }


def measure(
    bench: Bench, src_per_tgt: float, tool: str, precision: str, window: Window
) -> tuple[Rates, list[dict[str, Any]]]:
    """One run: its rates, and its updates for the record."""
    label = f"{tool} {precision}"
    command, updates_path = bench.start_of(tool, precision)
    observed = observe(
        command,
        environment=environment(tool),
        updates_path=updates_path,
        output_path=bench.work_dir / f"{tool}-{precision}.log",
        window=window,
    )
    return rates(label, precision, observed, src_per_tgt), [asdict(u) for u in observed.updates]


def run_rounds(
    bench: Bench, args: argparse.Namespace, window: Window, record: dict[str, Any]
) -> list[list[Rates]]:
    """All rounds; `record` grows, and is written after each run where --out says."""
    src_per_tgt = record["corpus"]["src_tokens"] / record["corpus"]["tgt_tokens"]
    native, rounds = native_precision(), []
    for round_ in range(1, args.rounds + 1):
        peaks = measured_peaks()
        record["peaks_gflops"].append(peaks)
        say(f"round {round_}: products " + ", ".join(f"{p} {g:.3g}" for p, g in peaks.items())
            + " GFLOP/s")  # fmt: skip
        bf16_pays = record["peaks_gflops"][0]["bf16"] > record["peaks_gflops"][0]["fp32"]
        rounds.append([])
        for tool in args.tools:
            for precision in precisions(tool, native, bf16_pays):
                entry = {"round": round_, "tool": tool, "precision": precision}
                record["runs"].append(entry)
                try:
                    result, updates = measure(bench, src_per_tgt, tool, precision, window)
                except RunFailed as failure:
                    entry["failed"] = str(failure)
                    say(f"  {tool} {precision}: {failure}")
                else:
                    entry |= asdict(result) | {"updates": updates}
                    rounds[-1].append(result)
                    say(f"  {result.label}: {result.tgt_tokens_per_s:,.0f} target tokens/s, "
                        f"{len(updates)} updates")  # fmt: skip
                if args.out:
                    args.out.write_text(json.dumps(record, indent=1), encoding="utf-8")
    return rounds


def report(rounds: list[list[Rates]], record: dict[str, Any]) -> None:
    peaks = {p: median(peak[p] for peak in record["peaks_gflops"]) for p in PRECISIONS}
    flops = record["corpus"]["flops_per_tgt_token"]
    print(f"{record['threads']} threads · torch {record['torch']} · {flops / 1e6:.1f} MFLOP per "
          f"target token · peak fp32 {peaks['fp32']:.3g}, bf16 {peaks['bf16']:.3g} GFLOP/s · "
          f"{len(rounds)} rounds\n")  # fmt: skip
    print("\n".join(table(rounds, peaks, flops)), end="\n\n")
    print("\n".join(verdicts(rounds, peaks, flops)))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--src", type=Path, required=True, help="the ending names the language")
    parser.add_argument("--tgt", type=Path, required=True)
    parser.add_argument("--dev-src", type=Path)
    parser.add_argument("--dev-tgt", type=Path)
    parser.add_argument("--size", choices=SCALES, default="tiny")
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=TOOLS, metavar="TOOL",
                        help=", ".join(TOOLS))  # fmt: skip
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, help="of each run after warm-up")
    parser.add_argument("--accumulate", type=int, default=1, metavar="N",
                        help="batches of an update of JoeyNMT and Hugging Face")  # fmt: skip
    parser.add_argument("--venvs", type=Path, required=True, help="environments of the peers")
    parser.add_argument("--out", type=Path, help="JSON with all raw numbers")
    args = parser.parse_args()
    if (args.dev_src is None) != (args.dev_tgt is None):
        parser.error("--dev-src and --dev-tgt go together")
    return args


def main() -> None:
    import torch

    args = parse()
    # So that the tool which runs at that moment is ended too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped by SIGTERM"))
    make_environments(args.venvs, args.tools, say)
    scale = SCALES[args.size]
    window = scale.window
    if args.seconds is not None:
        window = replace(window, seconds=args.seconds)
    dev = (args.dev_src, args.dev_tgt) if args.dev_src else None
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(Path(directory), args.venvs, args.src, args.tgt, dev, scale, args.accumulate)
        say("preparing data and vocabulary")
        record: dict[str, Any] = {
            "size": args.size,
            "window": asdict(window),
            "accumulate": args.accumulate,
            "corpus": prepare(bench),
            "cpu": platform.processor() or platform.machine(),
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
            "peaks_gflops": [],
            "runs": [],
        }
        rounds = run_rounds(bench, args, window, record)
    report(rounds, record)
    sys.exit(any("failed" in run for run in record["runs"]))


if __name__ == "__main__":
    main()
