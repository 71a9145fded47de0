"""Sources → how large they are, and a corpus to plan with.

The corpus is the run's own if there is one, else what preparing makes of a part drawn from all
sources. This file writes nothing but into a folder that it is given.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from transformer_mt.config.data import Source
from transformer_mt.config.experiment import Config
from transformer_mt.corpus.readers.pairs import Pair, Role
from transformer_mt.corpus.sources.obtain import LocalData, obtain_source, obtain_sources
from transformer_mt.encoding.encoded_corpus import open_corpus
from transformer_mt.encoding.random_sample import RandomSample
from transformer_mt.encoding.tokenizer import MAX_CHARACTERS
from transformer_mt.errors import ConfigError, TmtError
from transformer_mt.pipeline.prepare import fingerprints, prepare
from transformer_mt.pipeline.run_dir import Run
from transformer_mt.system.state import Damaged, read_manifest

# Of both sides together, enough for the vocabulary and for the lengths of sentences.
MIN_DRAWN = 6_000_000
DRAWN_PER_PIECE = 200  # a large vocabulary needs more text to be learned from

_MARKER = "stage.json"  # in the directory of a finished stage of preparation


@dataclass(frozen=True)
class SourceSize:
    role: str
    source: str
    pairs: int
    src_characters: int
    tgt_characters: int
    weight: float = 1.0  # times seen in an epoch


@dataclass(frozen=True)
class PlanningCorpus:
    """A prepared corpus, and its share of the experiment's."""

    cfg: Config  # its training sources are those of the corpus
    run: Run
    scale: float  # pairs of the experiment for each of its pairs; 1: it is the whole corpus
    dev_pairs: int  # that the experiment will have
    preparation_s: float  # still to come; 0: the run is prepared


PairSample = RandomSample[tuple[int, Pair]]  # with the index of the pair's source


def measure_sources(cfg: Config) -> tuple[list[SourceSize], PairSample]:
    """Read every source once: its size, and a sample of the training pairs.

    Raises:
        ConfigError: every source that cannot be read or is not in the cache, one line each.
    """
    data = cfg.data
    roles: list[tuple[str, Role, Source]] = [("train", "train", source) for source in data.train]
    roles += [("dev", "dev", source) for source in data.dev]
    roles += [(f"test.{name}", "test", source) for name, source in data.test.items()]
    drawn = max(MIN_DRAWN, DRAWN_PER_PIECE * max(cfg.tokenizer.vocab_sizes))
    sample: PairSample = RandomSample(min(2 * MAX_CHARACTERS, drawn), cfg.seed)
    sizes, problems = [], []
    for number, (label, role, source) in enumerate(roles):
        n_pairs = src_characters = tgt_characters = 0
        try:
            for src, tgt in obtain_source(cfg, source, role, lambda _: None).read():
                n_pairs += 1
                src_characters += len(src)
                tgt_characters += len(tgt)
                if role == "train":
                    sample.add((number, (src, tgt)), len(src) + len(tgt))
        except TmtError as error:
            problems.append(f"{label}: {error}")
        characters = (src_characters, tgt_characters)
        sizes.append(SourceSize(label, str(source), n_pairs, *characters, source.weight or 1.0))
    if problems:
        raise ConfigError("\n".join(problems))
    if not sample.items:
        raise ConfigError("data.train holds no pairs")
    return sizes, sample


def planning_corpus(
    cfg: Config, run: Run, sizes: Sequence[SourceSize], sample: PairSample, folder: Path
) -> PlanningCorpus:
    """The run's own corpus if it is up to date, else the sample, prepared in `folder`.

    Raises:
        TmtError: what preparing the whole corpus would raise, as far as the sample shows it.
    """
    local = obtain_sources(cfg, lambda _: None)
    if _is_prepared(run, local):
        return PlanningCorpus(cfg, run, 1.0, len(open_corpus(run.encoded_dir / "dev")), 0.0)
    scale = sum(size.pairs for size in sizes if size.role == "train") / len(sample.items)
    sources = _write_sample(cfg.data.train, sample, folder)
    cfg = cfg.model_copy(update={"data": cfg.data.model_copy(update={"train": sources})})
    drawn = [obtain_source(cfg, source, "train", lambda _: None) for source in sources]
    local = LocalData(cfg, drawn, local.dev, local.test)
    small = Run(folder / "run")
    prepare(local, fingerprints(local), small, lambda _: None)
    dev_pairs = len(open_corpus(small.encoded_dir / "dev"))
    if not cfg.data.dev:  # held out of train, at most 1000 pairs
        dev_pairs = max(dev_pairs, min(1000, round(scale * dev_pairs)))
    return PlanningCorpus(cfg, small, scale, dev_pairs, _preparation_seconds(small, folder, scale))


def _is_prepared(run: Run, local: LocalData) -> bool:
    """Has `prepare` made the encoded corpus of this experiment already?"""
    try:
        manifest = read_manifest(run.encoded_dir, _MARKER)
    except Damaged:
        return False
    return manifest is not None and manifest.get("made_from") == fingerprints(local).encoded


def _write_sample(sources: Sequence[Source], sample: PairSample, folder: Path) -> list[Source]:
    """Each source with its drawn pairs as its text; sources without any are left out."""
    written = []
    for number, source in enumerate(sources):
        pairs = [pair for its_source, pair in sample.items if its_source == number]
        path = folder / f"{number}.jsonl"
        lines = (json.dumps({"src": src, "tgt": tgt}) + "\n" for src, tgt in pairs)
        path.write_text("".join(lines), encoding="utf-8")
        if pairs:
            use = {"weight": source.weight, "tag": source.tag, "clean": source.clean}
            written.append(Source.model_validate({"jsonl": str(path), **use}))
    return written


def _preparation_seconds(small: Run, folder: Path, scale: float) -> float:
    """Of the whole corpus, from when the stages of the small one were finished.

    A vocabulary is learned from a limited amount of text, whatever the size of the corpus.
    """
    stages = (small.clean_dir, small.tokenizer_dir, small.encoded_dir)
    started = max(path.stat().st_mtime for path in folder.glob("*.jsonl"))
    cleaned, learned, encoded = ((stage / _MARKER).stat().st_mtime for stage in stages)
    text = sum(path.stat().st_size for path in folder.glob("*.jsonl"))
    return scale * (cleaned - started + encoded - learned) + min(
        scale, max(1.0, 2 * MAX_CHARACTERS / text)
    ) * (learned - cleaned)
