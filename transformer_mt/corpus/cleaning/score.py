"""Sources → scored shards, by several processes; shards made earlier are used again.

Each source has one folder of shards, kept under a fingerprint of all that they were made from. A
pair on which a rule fails has an error in place of scores. This file knows the rules' scores, and
none of their thresholds.
"""

import time
import traceback
from collections.abc import Iterator
from functools import lru_cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from transformer_mt.config.data import CleanConfig, Languages
from transformer_mt.corpus.cleaning.rules import SCORED_RULES, PairScorer, comparison_key
from transformer_mt.corpus.cleaning.score_store import (
    ScoredCorpus,
    ScoredSource,
    shard_path,
    write_scored,
)
from transformer_mt.corpus.diagnostics.shifted_lines import ShiftedRun
from transformer_mt.corpus.diagnostics.source_watch import SourceWatch
from transformer_mt.corpus.readers.parts import (
    Part,
    read_stored,
    store_pairs,
    stored_line,
    stored_parts,
)
from transformer_mt.corpus.sources.obtain import LocalData, LocalSource
from transformer_mt.errors import TmtError
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.output import remove, remove_other_prints, write_json
from transformer_mt.system.processes.executors import count_workers
from transformer_mt.system.processes.parallel import digest_of_shard, remove_shard, run_shards
from transformer_mt.system.state import (
    Damaged,
    damages,
    fingerprint,
    read_json,
    read_manifest,
    write_manifest,
)
from transformer_mt.system.terminal import Say
from transformer_mt.text.normalise import Normaliser, well_formed

SHARD_PAIRS = 50_000
_MUCH_TEXT = 20_000_000  # bytes of a source; less is read in this process
_DONE = "done.json"  # the manifest of a folder whose shards are all there
_FORM = 6  # of the shards; another number makes all of them anew

_Scoring = tuple[Languages, CleanConfig, Part]  # of one shard


class _Watching(NamedTuple):
    """What to look through for faults of a whole source."""

    source: LocalSource
    stored: Path | None  # the file of its parts, if it has one
    converts: bool  # Chinese is converted to one script


def score_sources(local: LocalData, work_dir: Path, say: Say) -> ScoredCorpus:
    """Make the shards of every training source that are not there yet, in a folder for each source.

    Folders of sources not used any more are removed.

    Raises:
        DataError: see `read_pairs` and `run_shards`.
    """
    prints = [_made_from(local, source) for source in local.train]
    remove_other_prints(work_dir, prints)
    return ScoredCorpus([
        _score_source(local, source, work_dir / made_from, say)
        for source, made_from in zip(local.train, prints, strict=True)
    ])  # fmt: skip


def _made_from(local: LocalData, source: LocalSource) -> str:
    """The fingerprint of all that the shards of a source are made from."""
    data = local.cfg.data
    use = {"weight", "tag", "clean"}  # settings of how the scored pairs are used
    how = {key: value for key, value in source.source.model_dump().items() if key not in use}
    if source.digests:  # the text decides, wherever it lies
        reading = {"limit", "direction", "tsv", "jsonl", "config", "split"}
        how = {key: how[key] for key in how.keys() & reading}
    scores = [_FORM, SHARD_PAIRS, list(SCORED_RULES), data.clean.chinese_script]
    wants_language = data.clean_of(source.source).language is not False
    languages = source.languages.model_dump()
    return fingerprint(scores, languages, how, source.digests, wants_language)


def _score_source(local: LocalData, source: LocalSource, folder: Path, say: Say) -> ScoredSource:
    if (scored := _finished(source.name, folder, say)) is not None:
        return scored
    folder.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    found = _make_shards(local, source.anywhere(), folder)
    paths = [shard_path(folder, number) for number in range(len(found["sizes"]))]
    known = {path.name: digest_of_shard(path) for path in paths}
    content = {"name": source.name, "made_from": folder.name, **found}
    write_manifest(folder, _DONE, content, known)
    n_pairs = sum(found["sizes"])
    rate = n_pairs / (time.monotonic() - started)
    if len(found["sizes"]) > 1:
        say(tr("  {}: {:,} pairs scored, {:,.0f} pairs/s", source.name, n_pairs, rate))
    return _scored(source.name, folder, found)


def _make_shards(local: LocalData, source: LocalSource, folder: Path) -> dict[str, Any]:
    """Sizes of the shards, and the faults of the source as a whole.

    A source that can be cut is looked through while its parts are scored; any other is read once,
    and written in parts, before.
    """
    workers = count_workers(local.cfg.data.workers)
    clean = local.cfg.data.clean_of(source.source)
    parts: Iterator[Part] | None = source.parts(SHARD_PAIRS)
    stored = None if parts else folder / "read.arrow"
    if parts is None:
        assert stored is not None
        job = stored, (source, SHARD_PAIRS)
        list(run_shards([job], _store, workers=workers if source.n_bytes > _MUCH_TEXT else 1))
        parts = stored_parts(stored)
    watch_path = folder / "watch.json"
    sizes: list[int] = []
    head = list(islice(parts, 2))

    def jobs() -> Iterator[tuple[Path, _Scoring | _Watching]]:
        yield watch_path, _Watching(source, stored, clean.chinese_script is not None)
        for part in chain(head, parts):
            sizes.append(part.size)
            yield shard_path(folder, len(sizes) - 1), (source.languages, clean, part)

    # One part is scored in less time than a process takes to start.
    list(run_shards(jobs(), _score_or_watch, workers=workers if len(head) > 1 else 1))
    found = read_json(watch_path) or {}
    for path in (watch_path, stored):
        if path is not None:
            remove_shard(path)
    return {"sizes": sizes, **found}


def _store(task: tuple[LocalSource, int], path: Path) -> None:
    source, every = task
    store_pairs(source.read_numbered(), path, every)


def _score_or_watch(task: _Scoring | _Watching, path: Path) -> None:
    if isinstance(task, _Watching):
        _watch(task, path)
    else:
        score_part(task, path)


def _watch(task: _Watching, path: Path) -> None:
    """Look through a whole source, in its order, and write its faults."""
    source, stored, converts = task
    line_of = int if stored is None else partial(stored_line, stored)
    watch = SourceWatch(source.name, source.languages, source.turned, line_of, converts=converts)
    pairs = source.read() if stored is None else read_stored(stored)
    for _ in watch.observe(pairs):
        pass
    found = {"findings": watch.findings, "problems": watch.problems()}
    write_json(path, {**found, "shifted": list(map(vars, watch.shifted))})


def _finished(name: str, folder: Path, say: Say) -> ScoredSource | None:
    """The source, if all of it is scored; a folder that has been altered is removed."""
    try:
        manifest = read_manifest(folder, _DONE)
        problems = damages(folder, manifest or {})
    except Damaged as error:
        manifest, problems = None, [str(error)]
    if problems:
        say(tr("  {}; scoring anew", problems[0]))
        remove(folder)
    if problems or not manifest:
        return None
    return _scored(name, folder, manifest)


def _scored(name: str, folder: Path, found: dict[str, Any]) -> ScoredSource:
    shifted = [ShiftedRun(**run) for run in found.get("shifted", [])]
    return ScoredSource(
        name, folder.absolute(), found["sizes"], found["findings"], found["problems"], shifted
    )


def score_part(task: _Scoring, path: Path) -> None:
    """Write a shard; a pair on which a rule fails is in it as it was read, for the report."""
    languages, clean, part = task
    normalise_src, normalise_tgt, scorer = _tools(languages, clean)
    pairs, keys, scores = [], [], []
    errors: dict[int, str] = {}
    for index, (src, tgt) in enumerate(part.read()):
        try:
            pair = normalise_src(src), normalise_tgt(tgt)
            scored = (comparison_key(pair[0]), comparison_key(pair[1])), scorer.scores(*pair)
        except (TmtError, MemoryError):  # no fault of the pair
            raise
        except Exception as error:
            errors[index] = _name_error(error)
            src, tgt = (well_formed(text.replace("\n", " ")) for text in (src, tgt))
            pair = src, tgt
            scored = ("", ""), (0.0,) * len(SCORED_RULES)
        pairs.append(pair)
        keys.append(scored[0])
        scores.append(scored[1])
    columns = dict(zip(SCORED_RULES, np.array(scores, dtype=np.float32).T, strict=True))
    write_scored(path, pairs, keys, columns, lines=part.lines(), errors=errors)


def _name_error(error: Exception) -> str:
    """`ValueError in numbers_apart`: the exception, and the function of cleaning that it left."""
    names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    where = [name for name in names if name not in ("scores", "__call__", "<genexpr>")]
    return tr("{} in {}", type(error).__name__, where[1] if len(where) > 1 else where[0])


@lru_cache(maxsize=1)
def _tools(languages: Languages, clean: CleanConfig) -> tuple[Normaliser, Normaliser, PairScorer]:
    script = clean.chinese_script
    scorer = PairScorer(languages, chinese_script=script, identify=clean.language is not False)
    return Normaliser(languages.src, script), Normaliser(languages.tgt, script), scorer
