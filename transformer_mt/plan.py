"""`tmt plan`: what `tmt train` would do, and what it would cost on this machine.

Comes in: a configuration. Goes out: sizes, rates and estimates. Sources are read and counted, one
update on random data is carried out and measured; nothing is written.
"""

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from transformer_mt.config import Config
from transformer_mt.config_data import Source
from transformer_mt.data.formats.corpus import Role, read_pairs
from transformer_mt.data.sources.local import obtain_source
from transformer_mt.data.tokenizer import BOS_ID, PAD_ID
from transformer_mt.errors import ConfigError, TmtError
from transformer_mt.languages import is_unspaced
from transformer_mt.model.transformer import Transformer, resolve_tying
from transformer_mt.runtime import choose_device, choose_precision, keep_memory, peak_memory_mib
from transformer_mt.training.loss import OutputLoss
from transformer_mt.training.optim import MasterAdam

# Characters per token with vocabularies of some ten thousand pieces; only for estimates.
_CHARACTERS_PER_TOKEN = {True: 1.5, False: 4.0}  # by languages.is_unspaced


@dataclass(frozen=True)
class SourceSize:
    role: str
    source: str
    pairs: int
    src_characters: int
    tgt_characters: int
    weight: float = 1.0  # times seen in an epoch


@dataclass(frozen=True)
class Plan:
    name: str
    sources: list[SourceSize]
    parameters: int
    device: str
    precision: str
    tgt_tokens_per_epoch: int  # estimated from characters
    updates_per_epoch: int
    micro_batches_per_update: int
    peak_lr: float
    tgt_tokens_per_s: float  # measured
    peak_memory_mib: float  # of this process after the measured update
    hours: float  # for max_updates, or until the clock of max_minutes
    epochs: float  # seen by then

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def render(self) -> str:
        lines = [f"{self.name}: {self.parameters / 1e6:.1f} M parameters, {self.precision} on "
                 f"{self.device}"]  # fmt: skip
        for size in self.sources:
            weight = f", weight {size.weight:g}" if size.weight != 1 else ""
            lines.append(f"  {size.role:<14} {size.pairs:>10,} pairs  {size.source}{weight}")
        lines += [
            f"  one epoch      about {self.tgt_tokens_per_epoch:,} target tokens (estimated from "
            f"characters), {self.updates_per_epoch:,} updates",
            f"  one update     {self.micro_batches_per_update} micro-batches; peak lr "
            f"{self.peak_lr:.2e}",
            f"  measured here  {self.tgt_tokens_per_s:,.0f} target tokens/s, "
            f"{self.peak_memory_mib:,.0f} MiB",
            f"  training       about {self.hours:.1f} hours, {self.epochs:.1f} epochs",
        ]
        return "\n".join(lines)


def make_plan(cfg: Config) -> Plan:
    """Count the sources, measure one update, extrapolate. Nothing is downloaded.

    Raises:
        ConfigError: every source that cannot be read or is not in the cache, one line each.
    """
    offline = {"data": cfg.data.model_copy(update={"offline": True})}
    sources = _measure_sources(cfg.model_copy(update=offline))
    keep_memory()
    device = choose_device()
    dtype = choose_precision(cfg.train.precision, device)
    tokenizer, train = cfg.tokenizer, cfg.train
    model_cfg = resolve_tying(cfg.model, joint=tokenizer.joint)
    model = Transformer(model_cfg, *tokenizer.vocab_sizes, pad_id=PAD_ID)
    n_parameters = sum(parameter.numel() for parameter in model.parameters())

    train_sources = [size for size in sources if size.role == "train"]
    pairs = sum(size.weight * size.pairs for size in train_sources)  # of an epoch
    src_characters = sum(size.weight * size.src_characters for size in train_sources)
    tgt_characters = sum(size.weight * size.tgt_characters for size in train_sources)
    src_tokens = _tokens(src_characters, cfg.languages.src) + round(pairs)
    tgt_tokens = _tokens(tgt_characters, cfg.languages.tgt) + round(pairs)
    if cfg.languages.bidirectional:  # every pair both ways
        src_tokens = tgt_tokens = src_tokens + tgt_tokens
        pairs *= 2
    lengths = [max(2, round(tokens / pairs)) for tokens in (src_tokens, tgt_tokens)]
    n_sentences = max(1, train.max_tokens // max(lengths))
    speed = _measure_update(model.to(device), cfg, dtype, n_sentences, *lengths)
    hours = train.max_updates * train.tokens_per_update / speed / 3600
    if train.max_minutes is not None:
        hours = min(hours, train.max_minutes / 60)
    return Plan(
        name=cfg.name,
        sources=sources,
        parameters=n_parameters,
        device=str(device),
        precision=str(dtype).removeprefix("torch."),
        tgt_tokens_per_epoch=tgt_tokens,
        updates_per_epoch=max(1, round(tgt_tokens / train.tokens_per_update)),
        micro_batches_per_update=max(
            1, round(train.tokens_per_update / (n_sentences * lengths[1]))
        ),
        peak_lr=train.peak_lr(cfg.model.d_model),
        tgt_tokens_per_s=speed,
        peak_memory_mib=_memory_mib(device),
        hours=hours,
        epochs=hours * 3600 * speed / tgt_tokens,
    )


def _measure_sources(cfg: Config) -> list[SourceSize]:
    roles: list[tuple[str, Role, Source]] = [("train", "train", s) for s in cfg.data.train]
    roles += [("dev", "dev", source) for source in cfg.data.dev]
    roles += [(f"test.{name}", "test", source) for name, source in cfg.data.test.items()]
    sizes, problems = [], []
    for label, role, source in roles:
        try:
            sizes.append(_measure_source(cfg, label, role, source))
        except TmtError as error:
            problems.append(f"{label}: {error}")
    if problems:
        raise ConfigError("\n".join(problems))
    if not any(size.pairs for size in sizes if size.role == "train"):
        raise ConfigError("data.train holds no pairs")
    return sizes


def _measure_source(cfg: Config, label: str, role: Role, source: Source) -> SourceSize:
    pairs = src_characters = tgt_characters = 0
    root = Path(cfg.data.root).expanduser()
    local = obtain_source(cfg, source, role, lambda _: None).source
    for src, tgt in read_pairs(local, cfg.languages, root=root, role=role, offline=True):
        pairs += 1
        src_characters += len(src)
        tgt_characters += len(tgt)
    weight = 1.0 if source.weight is None else source.weight
    return SourceSize(label, str(source), pairs, src_characters, tgt_characters, weight)


def _tokens(n_characters: float, language: str) -> int:
    return round(n_characters / _CHARACTERS_PER_TOKEN[is_unspaced(language)])


def _measure_update(
    model: Transformer,
    cfg: Config,
    dtype: torch.dtype,
    n_sentences: int,
    src_length: int,
    tgt_length: int,
) -> float:
    """Target tokens per second of the second of two updates on random ids."""
    optimizer = MasterAdam(model, cfg.train, dtype)
    output_loss = OutputLoss(cfg.train.label_smoothing, PAD_ID)
    device = model.output.weight.device
    shape = n_sentences, tgt_length
    src_vocab, tgt_vocab = cfg.tokenizer.vocab_sizes
    src = torch.randint(4, src_vocab, (n_sentences, src_length), device=device)
    tgt = torch.randint(4, tgt_vocab, shape, device=device)
    tgt_in = torch.full_like(tgt, BOS_ID)
    tgt_in[:, 1:] = tgt[:, :-1]
    seconds = 0.0
    for _ in range(2):
        started = time.perf_counter()
        output_loss(model(src, tgt_in), model.output.weight, tgt).loss.backward()
        optimizer.accumulate()
        optimizer.step(0.0, tgt.numel())  # reads a value back, so the device is done with the work
        seconds = time.perf_counter() - started
    return tgt.numel() / seconds


def _memory_mib(device: torch.device) -> float:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    return peak_memory_mib()
