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
from transformer_mt.corpus.cleaning.score import SHARD_PAIRS
from transformer_mt.corpus.readers.pairs import Pair, Role, source_files
from transformer_mt.corpus.sources.cache import Cache, cache_folder
from transformer_mt.corpus.sources.obtain import (
    LocalData,
    LocalSource,
    obtain_source,
    obtain_sources,
)
from transformer_mt.encoding.encoded_corpus import open_corpus
from transformer_mt.encoding.random_sample import RandomSample
from transformer_mt.encoding.tokenizer import MAX_BYTES
from transformer_mt.errors import ConfigError, TmtError
from transformer_mt.messages.catalogue import tr
from transformer_mt.pipeline.prepare import fingerprints, is_prepared, prepare
from transformer_mt.pipeline.run_dir import Run
from transformer_mt.profiling.corpus_index import CorpusIndex
from transformer_mt.rendering.cells import align_columns, clip
from transformer_mt.rendering.progress import Stages
from transformer_mt.system.processes.executors import Workers, count_workers
from transformer_mt.system.terminal import columns_of
from transformer_mt.translation.direction import both_directions

# Characters of both sides together, enough for the vocabulary and for the lengths of sentences.
MIN_DRAWN = 6_000_000
DRAWN_PER_PIECE = 200  # a large vocabulary needs more text to be learned from

_NOT_HERE = tr("the network is not to be used")  # in the errors of all kinds of named sources
_LONGEST_NAME, _SHORTEST_NAME = 44, 16  # columns of a source in a table
_LONGEST_LICENCE = 12
_N_STEPS = 4  # cleaning, vocabulary, encoding, and the end
_REPORT_EVERY = 10_000  # pairs that are read between two reports
_COMPRESSION = 3.5  # bytes of text for one of a compressed file, about
_ALONE = 0.04  # of the work of preparing, which one process does, docs/scaling.md
_MARKER = "stage.json"  # in the directory of a finished stage of preparation


@dataclass(frozen=True)
class SourceSize:
    role: str
    source: str
    pairs: int
    src_characters: int
    tgt_characters: int
    weight: float = 1.0  # times seen in an epoch
    mib: float | None = None  # of its files; None: not known
    licence: str = ""  # as the archive names it


@dataclass(frozen=True)
class PlanningCorpus:
    """A prepared corpus, and its share of the experiment's."""

    cfg: Config  # its training sources are those of the corpus
    run: Run
    scale: float  # pairs of the experiment for each of its pairs; 1: it is the whole corpus
    dev_pairs: int  # of the experiment, of both directions
    preparation_s: float  # still to come; 0: the run is prepared


PairSample = RandomSample[tuple[int, Pair]]  # with the index of the pair's source


def measure_sources(
    cfg: Config, stages: Stages | None = None, *, offline: bool = True
) -> tuple[list[SourceSize], PairSample]:
    """Read every source once: its size, and a sample of the training pairs.

    Args:
        stages: told of the text as it is read.
        offline: do not ask the index of OPUS how large a missing corpus is.
    Raises:
        ConfigError: every source that cannot be read or is not in the cache, one line each.
    """
    data, stages = cfg.data, stages or Stages()
    roles: list[tuple[str, Role, Source]] = [("train", "train", source) for source in data.train]
    roles += [("dev", "dev", source) for source in data.dev]
    roles += [(f"test.{name}", "test", source) for name, source in data.test.items()]
    drawn = max(MIN_DRAWN, DRAWN_PER_PIECE * max(cfg.tokenizer.vocab_sizes))
    sample: PairSample = RandomSample(drawn, cfg.seed)
    sizes: list[SourceSize] = []
    problems: list[str] = []
    missing: list[tuple[str, Source]] = []
    for number, (label, role, source) in enumerate(roles):
        try:
            found = obtain_source(cfg, source, role, lambda _: None)
            taken = sample if role == "train" else None
            sizes.append(_measure(label, number, source, found, taken, stages))
        except TmtError as error:
            if _NOT_HERE in str(error):
                missing.append((label, source))
            else:
                problems.append(f"{label}: {error}")
    if missing:
        problems.append(_describe_missing(cfg, missing, offline=offline))
    if problems:
        raise ConfigError("\n".join(problems))
    if not sample.items:
        raise ConfigError(tr("data.train holds no pairs"))
    return sizes, sample


def _measure(
    label: str, number: int, source: Source, found: LocalSource, sample: PairSample | None,
    stages: Stages,
) -> SourceSize:  # fmt: skip
    files = source_files(found.source, found.languages, found.root)
    sizes = [path.stat().st_size for path in files if path.is_file()]
    packed = any(path.suffix in (".gz", ".xz", ".bz2", ".zst") for path in files)
    expected = sum(sizes) * (_COMPRESSION if packed else 1) or None
    stages.begin(tr("reading {}", source), expected)
    n_pairs = src_characters = tgt_characters = told = 0
    for src, tgt in found.read():
        n_pairs += 1
        src_characters += len(src)
        tgt_characters += len(tgt)
        if sample is not None:
            sample.add((number, (src, tgt)), len(src) + len(tgt))
        if n_pairs % _REPORT_EVERY == 0:
            # Bytes per character of this pair, for all: to count them takes as long as reading.
            n_bytes, both = len(f"{src}{tgt}\n".encode(errors="replace")), len(src) + len(tgt) + 1
            stages.advance((src_characters + tgt_characters - told) * n_bytes / both)
            told = src_characters + tgt_characters
    licences = [download.licence for download in found.downloads if download.licence]
    return SourceSize(
        role=label,
        source=str(source),
        pairs=n_pairs,
        src_characters=src_characters,
        tgt_characters=tgt_characters,
        weight=source.weight or 1.0,
        mib=sum(sizes) / 2**20 if sizes else None,
        licence=", ".join(dict.fromkeys(licences)),
    )


def _describe_missing(cfg: Config, missing: Sequence[tuple[str, Source]], *, offline: bool) -> str:
    """A line for each corpus that is not on this machine, with its size where that is known."""
    cache = Cache(cache_folder(cfg.data.cache), offline=True)
    index = CorpusIndex(cfg.languages, cache, offline=offline)
    rows = []
    for label, source in missing:
        pairs, mib = index.look_up(source.opus) if source.opus else (None, None)
        known = [
            tr("{:,} pairs", pairs) if pairs else "",
            f"{mib:,.1f} MiB" if mib else tr("size unknown"),
        ]
        rows.append([f"  {label}", clip(str(source), 32), *known])
    one = len(rows) == 1
    return "\n".join(
        [
            tr("1 corpus is not on this machine yet:")
            if one
            else tr("{} corpora are not on this machine yet:", len(rows)),
            align_columns(rows, numbers=(2, 3)),
            tr("get it with tmt data download CONFIG, then plan again")
            if one
            else tr("get them with tmt data download CONFIG, then plan again"),
        ]
    )


def format_sources(sizes: Sequence[SourceSize], width: int = 80) -> str:
    """A line for each corpus: role, name, pairs, size, licence and weight, where they are known."""
    rows = []
    for size in sizes:
        mib = "" if size.mib is None else f"{size.mib:,.1f} MiB"
        notes = [tr("weight {:g}", size.weight)] if size.weight != 1 else []
        notes += [clip(size.licence, _LONGEST_LICENCE)] if size.licence else []
        rows.append([f"  {size.role}", "", tr("{:,} pairs", size.pairs), mib, ", ".join(notes)])
    taken = max(map(columns_of, align_columns(rows).split("\n")))
    for row, size in zip(rows, sizes, strict=True):
        row[1] = clip(size.source, max(_SHORTEST_NAME, min(_LONGEST_NAME, width - taken)))
    return align_columns(rows, numbers=(2, 3))


def planning_corpus(
    cfg: Config,
    run: Run,
    sizes: Sequence[SourceSize],
    sample: PairSample,
    folder: Path,
    stages: Stages | None = None,
) -> PlanningCorpus:
    """The run's own corpus if it is up to date, else the sample, prepared in `folder`.

    Args:
        stages: told of each stage of the preparation.
    Raises:
        TmtError: what preparing the whole corpus would raise, as far as the sample shows it.
    """
    local = obtain_sources(cfg, lambda _: None)
    if run.encoded_dir.is_dir() and is_prepared(run, fingerprints(local)):
        return PlanningCorpus(cfg, run, 1.0, len(open_corpus(run.encoded_dir / "dev")), 0.0)
    scale = sum(size.pairs for size in sizes if size.role == "train") / len(sample.items)
    sources = _write_sample(cfg.data.train, sample, folder)
    cfg = cfg.model_copy(update={"data": cfg.data.model_copy(update={"train": sources})})
    drawn = [obtain_source(cfg, source, "train", lambda _: None) for source in sources]
    local = LocalData(cfg, drawn, local.dev, local.test)
    small = Run(folder / "run")
    stages = stages or Stages()
    stages.begin(tr("preparing {:,} pairs: text, vocabulary, ids", len(sample.items)), _N_STEPS)

    def step(line: str) -> None:
        if line.startswith("["):  # a stage begins
            stages.advance()

    prepare(local, fingerprints(local), small, step)
    dev_pairs = len(open_corpus(small.encoded_dir / "dev"))
    if not cfg.data.dev:  # held out of train, at most 1000 pairs, each in every direction
        most = 1000 * len(both_directions(cfg.languages))
        dev_pairs = max(dev_pairs, min(most, round(scale * dev_pairs)))
    started = max(path.stat().st_mtime for path in folder.glob("*.jsonl"))
    seconds = _preparation_seconds(small, sample, started, scale, count_workers(cfg.data.workers))
    return PlanningCorpus(cfg, small, scale, dev_pairs, seconds)


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


def _preparation_seconds(
    small: Run, sample: PairSample, started: float, scale: float, workers: Workers
) -> float:
    """Of the whole corpus, from when the stages of the small one were finished.

    A vocabulary is learned from a limited amount of text, whatever the size of the corpus.
    """
    stages = (small.clean_dir, small.tokenizer_dir, small.encoded_dir)
    cleaned, learned, encoded = ((stage / _MARKER).stat().st_mtime for stage in stages)
    text = sum(len(side.encode(errors="replace")) for _, pair in sample.items for side in pair)
    learned_on = min(scale, max(1.0, 2 * MAX_BYTES / text))
    n_drawn = len(sample.items)
    faster = _share_of_one(workers, n_drawn) / _share_of_one(workers, scale * n_drawn)
    all_pairs = scale / faster * (cleaned - started + encoded - learned)
    return all_pairs + learned_on * (learned - cleaned)


def _share_of_one(workers: Workers, n_pairs: float) -> float:
    """The time that preparing takes, in that of one process; a cluster, of unknown size, is one.

    Each process has a part of the corpus at a time.
    """
    n_busy = min(workers, max(1, n_pairs // SHARD_PAIRS)) if isinstance(workers, int) else 1
    return _ALONE + (1 - _ALONE) / n_busy
