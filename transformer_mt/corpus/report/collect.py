"""Decisions about a corpus → its report: the funnel, and the pairs a person should look at.

Comes in: the scored corpus and the fate of every pair. Goes out: a `CorpusReport`. This file does
not decide anything.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from transformer_mt.corpus.cleaning.decide import (
    DROPS,
    FATES,
    HELD_OUT,
    RULE_ERROR,
    TRAIN,
    Decision,
    draw_rows,
    length_ratio,
)
from transformer_mt.corpus.cleaning.rules import RULE_MEANING, SCORED_RULES
from transformer_mt.corpus.cleaning.score import ScoredSource
from transformer_mt.corpus.cleaning.score_store import ScoredCorpus, Shard
from transformer_mt.corpus.readers.pairs import Pair
from transformer_mt.corpus.report.profile import profile
from transformer_mt.corpus.report.report import (
    CorpusReport,
    PartReport,
    RuleReport,
    Sample,
    SourceReport,
)
from transformer_mt.corpus.sources.obtain import Local

MEANING = {
    **RULE_MEANING,
    "length_ratio": "times the characters differ from the usual ratio, either way",
    "duplicate": "repeats an earlier pair",
    "overlap": "shares a side with dev or test",
    "mismatch": "probability that the sides do not belong together, learned on the corpus",
    RULE_ERROR: "a rule failed on the pair, by a bug of tmt",
}
_N_NEAREST, _SAMPLE_CHARACTERS = 10, 300
_N_PROFILED = 20_000  # pairs that the shares and histograms are taken from
_N_SHOWN = 20  # random pairs, and the worst that were kept

Rows = NDArray[np.int64]
Scores = NDArray[np.float32]


@dataclass(frozen=True)
class Findings:
    """All that is known about a corpus when the last rule has spoken."""

    local: Local
    sources: list[ScoredSource]
    corpus: ScoredCorpus
    decision: Decision
    held_out: dict[str, int]
    evaluation: dict[str, list[Pair]]
    notes: list[str]


def describe(found: Findings) -> CorpusReport:
    """Put the report together, but for what only the written text can tell."""
    corpus, decision, cfg = found.corpus, found.decision, found.local.cfg
    train = PartReport(len(corpus), decision.count("train"), _rule_reports(found))
    sizes = {part: len(pairs) for part, pairs in found.evaluation.items()}
    for role, count in found.held_out.items():
        sizes[HELD_OUT[role]] = count
    parts = {"train": train, **{name: PartReport(n, n) for name, n in sorted(sizes.items())}}
    drawn = draw_rows(corpus, decision.fate, _N_PROFILED, cfg.seed)
    return CorpusReport(
        parts,
        found.held_out,
        problems=_problems(found),
        notes=found.notes,
        languages=cfg.languages,
        sources=_source_reports(found),
        profile=profile(corpus.pairs_at(np.sort(drawn)), cfg.languages) if len(drawn) else None,
        random_kept=_samples(found, drawn[:_N_SHOWN], None),
        worst_kept=_worst_kept(found),
    )


def _problems(found: Findings) -> list[str]:
    """What a person should look at: nothing kept, rules that failed, what the sources look like."""
    problems = []
    if not found.decision.count("train"):
        n_pairs, drops = len(found.corpus), found.decision.drops()
        problems.append(f"nothing is kept: {n_pairs:,} pairs read; dropped: {drops}")
    problems += describe_errors(found.corpus, [source.name for source in found.sources])
    return problems + [problem for source in found.sources for problem in source.problems]


def describe_errors(corpus: ScoredCorpus, names: Sequence[str]) -> list[str]:
    """One line for each way in which a rule failed on pairs.

    Args:
        names: of the sources.
    """
    rows: dict[str, list[int]] = {}
    for shard in corpus.shards:
        for row, why in shard.errors().items():
            rows.setdefault(why, []).append(shard.start + row)
    lines = []
    for why, found in rows.items():
        ((source, line),) = corpus.origins_at(np.array(found[:1]))
        lines.append(
            f"{len(found):,} of {len(corpus):,} pairs are dropped as {RULE_ERROR}: {why}, first at "
            f"{names[source]}:{line}; that is a bug of tmt: please report it, with this pair"
        )
    return lines


def _source_reports(found: Findings) -> list[SourceReport]:
    kept = np.zeros(found.corpus.n_sources, dtype=np.int64)
    for shard in found.corpus.shards:
        kept[shard.source] += np.count_nonzero(found.decision.fate[shard.rows] == TRAIN)
    settings = found.local.cfg.data.train
    return [
        SourceReport(
            source.name,
            source.n_pairs,
            int(kept[index]),
            settings[index].weight or 1.0,
            settings[index].tag,
            [asdict(origin) for origin in found.local.origins[index]],
        )
        for index, source in enumerate(found.sources)
    ]


def _rule_reports(found: Findings) -> dict[str, RuleReport]:
    clean = found.local.cfg.data.clean
    reports = {}
    for rule in DROPS:
        threshold = getattr(clean, rule, False)
        dropped = found.decision.count(rule)
        if threshold is False and not dropped:
            continue
        if rule == RULE_ERROR:
            threshold = None
        nearest_dropped = _nearest(found, rule, dropped=True) if dropped else []
        reports[rule] = RuleReport(
            threshold if isinstance(threshold, str) else None if threshold is True else threshold,
            MEANING[rule],
            dropped,
            nearest_dropped,
            _nearest(found, rule, dropped=False),
        )
    return reports


def _nearest(found: Findings, rule: str, *, dropped: bool, size: int = _N_NEAREST) -> list[Sample]:
    """The pairs that a rule dropped with the lowest scores, or that stayed with the highest."""
    code = FATES.index(rule) if dropped else TRAIN
    rows, scores = [np.zeros(0, np.int64)], [np.zeros(0, np.float32)]
    for shard in found.corpus.shards:
        inside = np.flatnonzero(found.decision.fate[shard.rows] == code)
        values = _scores_of(found.decision, shard, rule)[inside]
        if not dropped:  # 0 is as far from any threshold as a pair can be
            inside, values = inside[values > 0], values[values > 0]
        order = np.argsort(values if dropped else -values, kind="stable")[:size]
        rows.append(inside[order] + shard.start)
        scores.append(values[order])
    every_row, every_score = np.concatenate(rows), np.concatenate(scores)
    order = np.argsort(every_score if dropped else -every_score, kind="stable")[:size]
    return _samples(found, every_row[order], every_score[order])


def _scores_of(decision: Decision, shard: Shard, rule: str) -> Scores:
    """(size,) the scores of a shard by a rule; 0 where a rule knows yes and no alone."""
    if rule in SCORED_RULES:
        return shard.columns(rule)[0]
    if rule == "length_ratio":
        src, tgt = shard.columns("src_chars", "tgt_chars")
        return length_ratio(src, tgt, decision.usual_ratio)
    if rule == "mismatch" and len(decision.mismatch):
        return decision.mismatch[shard.rows]
    return np.zeros(shard.size, dtype=np.float32)


def _worst_kept(found: Findings) -> list[Sample]:
    """What stayed in train although it most likely does not belong together."""
    if not len(found.decision.mismatch):
        return []
    return _nearest(found, "mismatch", dropped=False, size=_N_SHOWN)


def _samples(found: Findings, rows: Rows, scores: Scores | None) -> list[Sample]:
    pairs = found.corpus.pairs_at(rows)
    origins = found.corpus.origins_at(rows)
    values = [None] * len(rows) if scores is None else [round(float(s), 4) for s in scores]
    return [
        Sample(
            f"{found.sources[source].name}:{line}",
            _shortened(src),
            _shortened(tgt),
            value,
        )
        for (source, line), (src, tgt), value in zip(origins, pairs, values, strict=True)
    ]


def _shortened(text: str) -> str:
    return text if len(text) <= _SAMPLE_CHARACTERS else text[:_SAMPLE_CHARACTERS] + "…"
