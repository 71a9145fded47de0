"""Sources → scored shards, by several processes; shards made earlier are used again.

Each source has one folder of shards, kept under a fingerprint of all that they were made from. A
pair on which a rule fails has an error in place of scores. This file knows the rules' scores, and
none of their thresholds.
"""

import time
import traceback
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

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
from transformer_mt.corpus.readers.pairs import Pair
from transformer_mt.corpus.sources.obtain import LocalData, LocalSource
from transformer_mt.errors import TmtError
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.output import remove, remove_other_prints
from transformer_mt.system.processes.parallel import count_workers, run_shards
from transformer_mt.system.state import Damaged, damages, fingerprint, read_manifest, write_manifest
from transformer_mt.system.terminal import Say
from transformer_mt.text.normalise import Normaliser, well_formed

SHARD_PAIRS = 50_000
_DONE = "done.json"  # the manifest of a folder whose shards are all there
_FORM = 3  # of the shards; another number makes all of them anew

_Part = tuple[Languages, CleanConfig, int, list[Pair]]  # of one shard; the number is its first line


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
    how = source.source.model_dump(exclude=use)
    if source.digests:  # the text decides, wherever it lies
        how = {key: how[key] for key in how.keys() & {"limit", "direction", "tsv", "jsonl"}}
    scores = [_FORM, SHARD_PAIRS, list(SCORED_RULES), data.clean.chinese_script]
    wants_language = data.clean_of(source.source).language is not False
    languages = source.languages.model_dump()
    return fingerprint(scores, languages, how, source.digests, wants_language)


def _score_source(local: LocalData, source: LocalSource, folder: Path, say: Say) -> ScoredSource:
    if (scored := _finished(source.name, folder, say)) is not None:
        return scored
    folder.mkdir(parents=True, exist_ok=True)
    data = local.cfg.data
    watch = SourceWatch(source.name, source.languages, source.turned())
    sizes: list[int] = []

    def jobs() -> Iterator[tuple[Path, _Part]]:
        pairs = watch.observe(source.read())
        clean = data.clean_of(source.source)
        while part := list(islice(pairs, SHARD_PAIRS)):
            first_line = sum(sizes) + 1
            sizes.append(len(part))
            path = shard_path(folder, len(sizes) - 1)
            yield path, (source.languages, clean, first_line, part)

    started = time.monotonic()
    for _ in run_shards(jobs(), score_part, workers=count_workers(data.workers)):
        pass
    found: dict[str, Any] = {
        "sizes": sizes, "findings": watch.findings, "problems": watch.problems()
    }  # fmt: skip
    scored = ScoredSource(source.name, folder, **found, shifted=watch.shifted)
    content = {"name": source.name, "made_from": folder.name, **found}
    write_manifest(folder, _DONE, {**content, "shifted": list(map(vars, watch.shifted))})
    rate = sum(sizes) / (time.monotonic() - started)
    if len(sizes) > 1:
        say(tr("  {}: {:,} pairs scored, {:,.0f} pairs/s", source.name, sum(sizes), rate))
    return scored


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
    found = {key: manifest[key] for key in ("sizes", "findings", "problems")}
    shifted = [ShiftedRun(**run) for run in manifest.get("shifted", [])]
    return ScoredSource(name, folder, **found, shifted=shifted)


def score_part(part: _Part, path: Path) -> None:
    """Write a shard; a pair on which a rule fails is in it as it was read, for the report."""
    languages, clean, first_line, raw = part
    normalise_src, normalise_tgt, scorer = _tools(languages, clean)
    pairs, keys, scores = [], [], []
    errors: dict[int, str] = {}
    for index, (src, tgt) in enumerate(raw):
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
    write_scored(path, pairs, keys, columns, first_line=first_line, errors=errors)


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
