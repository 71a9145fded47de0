"""Sources → scored shards, by several processes; what was scored before is not scored again.

Comes in: local sources of a configuration. Goes out: one folder per source with its shards, kept
under a fingerprint of all that they were made from. A pair on which a rule fails has an error in
place of scores. This file knows the rules' scores, and none of their thresholds.
"""

import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from transformer_mt.config.data import CleanConfig, Languages, Source
from transformer_mt.config.experiment import Config
from transformer_mt.corpus.cleaning.rules import SCORED_RULES, PairScorer, comparison_key
from transformer_mt.corpus.cleaning.score_store import ScoredPairs, write_shard
from transformer_mt.corpus.diagnostics.source_watch import SourceWatch
from transformer_mt.corpus.readers.pairs import Pair, read_pairs, source_files
from transformer_mt.errors import TmtError
from transformer_mt.system.output import remove, remove_other_prints
from transformer_mt.system.processes.parallel import count_workers, run_shards
from transformer_mt.system.state import (
    Damaged,
    content_of,
    damages,
    fingerprint,
    read_manifest,
    sha256,
    write_manifest,
)
from transformer_mt.text.normalise import Normaliser, well_formed

SHARD_PAIRS = 50_000
_DONE = "done.json"  # the manifest of a folder whose shards are all there
_FORM = 2  # of the shards; another number makes all of them anew

Say = Callable[[str], None]


@dataclass(frozen=True)
class ScoredSource:
    """What is known of a source once all of it is scored."""

    name: str
    made_from: str  # fingerprint
    sizes: list[int]  # pairs of each shard
    problems: list[str]  # of the source as a whole, for people

    @property
    def n_pairs(self) -> int:
        return sum(self.sizes)


@dataclass(frozen=True)
class _Part:
    """What a worker needs to make one shard."""

    languages: Languages
    clean: CleanConfig
    first_line: int
    pairs: list[Pair]


def score_sources(cfg: Config, names: list[str], work_dir: Path, say: Say) -> list[ScoredSource]:
    """Make the shards of every source that are not there yet.

    Args:
        cfg: its training sources are local.
        names: what to call the sources.
        work_dir: gets a folder for each source; those of sources not used any more are removed.
    Raises:
        DataError: see `read_pairs` and `run_shards`.
    """
    prints = source_prints(cfg)
    remove_other_prints(work_dir, prints)
    return [
        _score_source(cfg, source, name, work_dir / made_from, say)
        for source, name, made_from in zip(cfg.data.train, names, prints, strict=True)
    ]


def shards_of(work_dir: Path, source: ScoredSource) -> list[tuple[Path, int]]:
    """Path and number of pairs of each shard."""
    folder = work_dir / source.made_from
    return [(_shard_path(folder, index), size) for index, size in enumerate(source.sizes)]


def source_prints(cfg: Config) -> list[str]:
    """For each training source the fingerprint of all that its shards are made from."""
    data = cfg.data
    use = {"weight", "tag", "clean"}  # what is done with the pairs afterwards
    scores = [_FORM, SHARD_PAIRS, list(SCORED_RULES), data.clean.chinese_script]
    prints = []
    for source in data.train:
        how = {key: value for key, value in source.model_dump().items() if key not in use}
        files = source_files(source, cfg.languages, Path(data.root).expanduser())
        digests = [[path.name, sha256(path)] for path in files]
        if digests:  # the text decides, wherever it lies
            how = {key: how[key] for key in how.keys() & {"limit", "direction", "tsv", "jsonl"}}
        wants_language = data.clean_of(source).language is not False
        languages = cfg.languages.model_dump()
        prints.append(fingerprint(scores, languages, how, digests, wants_language))
    return prints


def _score_source(cfg: Config, source: Source, name: str, folder: Path, say: Say) -> ScoredSource:
    if (known := _finished(folder, say)) is not None:
        return ScoredSource(**{**known, "name": name})
    folder.mkdir(parents=True, exist_ok=True)
    watch = SourceWatch(name, cfg.languages)
    sizes: list[int] = []

    def jobs() -> Iterator[tuple[Path, _Part]]:
        root = Path(cfg.data.root).expanduser()
        offline = cfg.data.offline
        raw = read_pairs(source, cfg.languages, root=root, role="train", offline=offline)
        pairs = watch.observe(raw)
        clean = cfg.data.clean_of(source)
        while part := list(islice(pairs, SHARD_PAIRS)):
            first_line = sum(sizes) + 1
            sizes.append(len(part))
            path = _shard_path(folder, len(sizes) - 1)
            yield path, _Part(cfg.languages, clean, first_line, part)

    started = time.monotonic()
    workers = count_workers(cfg.data.workers)
    for _ in run_shards(jobs(), score_part, workers=workers):
        pass
    scored = ScoredSource(name, folder.name, sizes, watch.problems())
    write_manifest(folder, _DONE, asdict(scored))
    seconds = time.monotonic() - started
    if len(sizes) > 1:
        say(f"  {name}: {scored.n_pairs:,} pairs scored, {scored.n_pairs / seconds:,.0f} pairs/s")
    return scored


def _finished(folder: Path, say: Say) -> dict[str, Any] | None:
    """What is known of a source that is scored; a folder that has been altered is removed."""
    try:
        manifest = read_manifest(folder, _DONE)
        problems = damages(folder, manifest or {})
    except Damaged as error:
        manifest, problems = None, [str(error)]
    if problems:
        say(f"  {problems[0]}; scoring anew")
        remove(folder)
        return None
    return manifest and content_of(manifest)


def score_part(part: _Part, path: Path) -> None:
    """Normalise and score the pairs of one shard, and write it."""
    tools = _tools(part.languages, part.clean)
    errors: dict[int, str] = {}
    try:
        pairs, keys, rows = _score(part.pairs, *tools)
    except Exception:
        pairs, keys, rows = _score_each(part.pairs, *tools, errors=errors)
    columns = np.array(rows, dtype=np.float32)
    scores = {rule: columns[:, column] for column, rule in enumerate(SCORED_RULES)}
    lines = list(range(part.first_line, part.first_line + len(pairs)))
    write_shard(ScoredPairs(lines, pairs, keys, scores, errors), path)


def _score(
    raw: list[Pair], normalisers: tuple[Normaliser, Normaliser], scorer: PairScorer
) -> tuple[list[Pair], list[Pair], list[tuple[float, ...]]]:
    """Normalised pairs, their keys and their scores."""
    srcs, tgts = (
        [normalise(pair[side]) for pair in raw] for side, normalise in enumerate(normalisers)
    )
    pairs = list(zip(srcs, tgts, strict=True))
    rows = [scorer.scores(src, tgt) for src, tgt in pairs]
    keys = [(comparison_key(src), comparison_key(tgt)) for src, tgt in pairs]
    return pairs, keys, rows


def _score_each(
    raw: list[Pair],
    normalisers: tuple[Normaliser, Normaliser],
    scorer: PairScorer,
    *,
    errors: dict[int, str],
) -> tuple[list[Pair], list[Pair], list[tuple[float, ...]]]:
    """What `_score` returns. A pair that it fails on is kept as it is read, for the report."""
    pairs: list[Pair] = []
    keys: list[Pair] = []
    rows: list[tuple[float, ...]] = []
    for index, pair in enumerate(raw):
        try:
            found = _score([pair], normalisers, scorer)
        except (TmtError, MemoryError):  # no fault of the pair
            raise
        except Exception as error:
            errors[index] = _name_error(error)
            found = [_encodable(pair)], [("", "")], [(0.0,) * len(SCORED_RULES)]
        pairs += found[0]
        keys += found[1]
        rows += found[2]
    return pairs, keys, rows


def _name_error(error: Exception) -> str:
    """`ValueError in numbers_apart`: the exception, and the function of cleaning that it left."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    names = [frame.f_code.co_name for frame in frames[2:]]  # behind _score_each and _score
    where = [
        name for name in names if name not in ("scores", "<listcomp>", "__call__", "<genexpr>")
    ]
    return f"{type(error).__name__} in {where[0] if where else '_score'}"


def _encodable(pair: Pair) -> Pair:
    """The texts as one line each, and as UTF-8 can hold them."""
    src, tgt = (well_formed(" ".join(text.split("\n"))) for text in pair)
    return src, tgt


@lru_cache(maxsize=1)
def _tools(
    languages: Languages, clean: CleanConfig
) -> tuple[tuple[Normaliser, Normaliser], PairScorer]:
    script = clean.chinese_script
    normalisers = Normaliser(languages.src, script), Normaliser(languages.tgt, script)
    identify = clean.language is not False
    return normalisers, PairScorer(languages, chinese_script=script, identify=identify)


def _shard_path(folder: Path, index: int) -> Path:
    return folder / f"{index:05d}.arrow"
