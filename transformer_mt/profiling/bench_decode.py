"""How fast a model translates: batches of several sizes, greedily and with a beam.

Comes in: a model directory with texts, or the size of a model with random weights. Random models
write a fixed number of tokens, since they never end by themselves.
"""

import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import torch

from transformer_mt.config.model import ModelConfig
from transformer_mt.corpus.readers.pairs import split_lines
from transformer_mt.encoding.tokenizer import PAD_ID
from transformer_mt.errors import DataError, TmtError
from transformer_mt.messages.catalogue import tr
from transformer_mt.model.architectures import new_model
from transformer_mt.model.int8 import has_int8, use_int8
from transformer_mt.rendering.progress import Stages
from transformer_mt.search.engine import Engine, Request
from transformer_mt.search.options import SearchOptions
from transformer_mt.system.device import (
    choose_device,
    keep_memory,
    peak_memory_on,
    search_precision,
)
from transformer_mt.system.processes.child_python import TMT, child_environment, python_command
from transformer_mt.translation.translator import Translator

BATCHES = (64, 8, 1)  # sentences translated side by side
BEAMS = (5, 1)
RANDOM_LENGTH = 15  # tokens of source and translation
RANDOM_VOCABULARY = 8000
FEWER = 16  # one sentence at a time tells as much from so many


@dataclass(frozen=True)
class Rate:
    beam: int
    batch: int
    sentences_per_s: float
    tokens_per_s: float  # written, EOS left out


@dataclass(frozen=True)
class DecodeReport:
    model: str
    parameters: int
    device: str
    precision: str
    threads: int
    rates: list[Rate]
    peak_memory_mib: float
    cold_start_s: float | None = None  # of `tmt translate` with one text; None for random weights

    def render(self) -> str:
        lines = [
            tr(
                "{}: {:.1f} M parameters · {} · {}, {} threads",
                self.model,
                self.parameters / 1e6,
                self.precision,
                self.device,
                self.threads,
            ),
            f"  {'beam':>4}  {'batch':>5}  {'sentences/s':>11}  {'tokens/s':>9}",
        ]
        lines += [
            f"  {r.beam:>4}  {r.batch:>5}  {r.sentences_per_s:>11,.1f}  {r.tokens_per_s:>9,.0f}"
            for r in self.rates
        ]
        lines.append(tr("  peak memory  {:,.0f} MiB", self.peak_memory_mib))
        if self.cold_start_s is not None:
            lines.append(tr("  cold start   {:.1f} s to the first translation", self.cold_start_s))
        return "\n".join(lines)


def bench_model(
    model_dir: Path,
    src_path: Path,
    *,
    precision: str,
    n_sentences: int,
    rounds: int,
    stages: Stages,
) -> DecodeReport:
    """Measure a trained model on its kind of text.

    Raises:
        DataError: no text.
    """
    translator = Translator.load(model_dir, precision=precision)
    texts = [text for text in split_lines(src_path) if text.strip()][:n_sentences]
    if not texts:
        raise DataError(tr("{}: there is nothing to translate", src_path))
    to = translator.cfg.languages.tgt
    encoded = [translator.encode_pair(text, "", to)[0][:-1] for text in texts]  # without EOS
    requests = [Request(ids) for ids in encoded if ids]
    options = SearchOptions.resolve(translator.cfg.decode)
    stages.begin(tr("starting tmt translate once"))
    words = ["-m", str(model_dir), "--precision", precision, "--to", to]
    command = python_command(TMT, "translate", *words)
    started = time.monotonic()
    done = subprocess.run(
        command, env=child_environment(), input=f"{texts[0]}\n".encode(), capture_output=True
    )
    cold_start_s = time.monotonic() - started
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip()
        raise TmtError(tr("tmt translate ended with {}: {}", done.returncode, reason[-500:]))
    engine = Engine([translator.model], translator.tgt_tokenizer.silent_ids)
    report = _report(str(model_dir), engine, requests, options, rounds, stages)
    return replace(report, cold_start_s=cold_start_s)


def bench_size(
    name: str, cfg: ModelConfig, *, precision: str, n_sentences: int, rounds: int, stages: Stages
) -> DecodeReport:
    """Measure random weights on random sentences."""
    torch.manual_seed(1)
    device = choose_device()
    model = new_model(cfg, RANDOM_VOCABULARY, RANDOM_VOCABULARY, pad_id=PAD_ID).eval()
    dtype, is_int8 = search_precision(precision, device)
    if is_int8:
        use_int8(model)
    engine = Engine([model.to(device, dtype)], [PAD_ID])
    ids = torch.randint(4, RANDOM_VOCABULARY, (n_sentences, RANDOM_LENGTH)).tolist()
    options = SearchOptions(min_length=RANDOM_LENGTH, max_length=RANDOM_LENGTH)
    requests = [Request(row) for row in ids]
    return _report(name, engine, requests, options, rounds, stages)


def _report(
    name: str, engine: Engine, requests: Sequence[Request], options: SearchOptions, rounds: int,
    stages: Stages,
) -> DecodeReport:  # fmt: skip
    keep_memory()
    ordered = sorted(requests, key=lambda request: -len(request.src))
    rates = []
    stages.begin(tr("translating {} sentences", len(ordered)), len(BEAMS) * len(BATCHES))
    for beam in BEAMS:
        for batch in BATCHES:
            rates.append(_rate(engine, ordered, replace(options, beam=beam), batch, rounds))
            stages.advance()
    model, weight = engine.models[0], engine.models[0].output.weight
    return DecodeReport(
        model=name,
        parameters=sum(p.numel() for p in model.parameters()),
        device=weight.device.type,
        precision="int8" if has_int8(model) else str(weight.dtype).removeprefix("torch."),
        threads=torch.get_num_threads(),
        rates=rates,
        peak_memory_mib=peak_memory_on(weight.device),
    )


def _rate(
    engine: Engine, requests: list[Request], options: SearchOptions, batch: int, rounds: int
) -> Rate:
    """Median of several rounds, after one batch to warm up."""
    kept = requests[:: 1 if batch > 1 else FEWER]
    parts = [kept[start : start + batch] for start in range(0, len(kept), batch)]
    engine.search(parts[-1], options)
    seconds, n_tokens = [], 0
    for _ in range(rounds):
        started = time.monotonic()
        found = [hypotheses for part in parts for hypotheses in engine.search(part, options)]
        seconds.append(time.monotonic() - started)
        n_tokens = sum(len(best.ids) for best, *_ in found)
    took = median(seconds)
    return Rate(options.beam, batch, len(kept) / took, n_tokens / took)
