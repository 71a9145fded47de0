"""Decisions about a corpus → its report: the funnel, and the pairs a person should look at.

Comes in: the scored corpus and the fate of every pair. Goes out: a `CorpusReport`. This file does
not decide anything.
"""

from dataclasses import dataclass

import numpy as np

from transformer_mt.config.data import CleanConfig
from transformer_mt.corpus.cleaning.decide import (
    DROPS,
    FATES,
    HELD_OUT,
    RULE_ERROR,
    TRAIN,
    Decisions,
    length_ratio,
)
from transformer_mt.corpus.cleaning.rules import RULE_MEANING, SCORED_RULES
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
from transformer_mt.corpus.sources.obtain import LocalData
from transformer_mt.system.arrays import Floats, Ints

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


@dataclass(frozen=True)
class CleaningResult:
    """A corpus after the last rule."""

    local: LocalData
    decision: Decisions
    held_out: dict[str, int]  # pairs, by role
    evaluation: dict[str, list[Pair]]  # by part: dev, test.NAME
    notes: list[str]


def build_report(found: CleaningResult) -> CorpusReport:
    """The report without fingerprint and seconds, which only the written text has."""
    decision, cfg = found.decision, found.local.cfg
    corpus = decision.corpus
    train = PartReport(
        len(corpus), decision.count("train"), _rule_reports(decision, cfg.data.clean)
    )
    sizes = {part: len(pairs) for part, pairs in found.evaluation.items()}
    for role, count in found.held_out.items():
        sizes[HELD_OUT[role]] = count
    parts = {"train": train, **{name: PartReport(n, n) for name, n in sorted(sizes.items())}}
    drawn = decision.draw_rows(_N_PROFILED, cfg.seed)
    return CorpusReport(
        parts,
        found.held_out,
        problems=_problems(decision),
        notes=found.notes,
        languages=cfg.languages,
        sources=_source_reports(found),
        profile=profile(corpus.pairs_at(np.sort(drawn)), cfg.languages) if len(drawn) else None,
        random_kept=_samples(corpus, drawn[:_N_SHOWN]),
        worst_kept=_worst_kept(decision),
    )


def _problems(decision: Decisions) -> list[str]:
    problems = []
    if not decision.count("train"):
        n_pairs, drops = len(decision.corpus), decision.drops()
        problems.append(f"nothing is kept: {n_pairs:,} pairs read; dropped: {drops}")
    return problems + corpus_problems(decision.corpus)


def corpus_problems(corpus: ScoredCorpus) -> list[str]:
    """Faults for a person to look at: each way in which a rule failed, and those of the sources."""
    rows: dict[str, list[int]] = {}
    for shard in corpus.shards:
        for row, why in shard.errors().items():
            rows.setdefault(why, []).append(shard.start + row)
    lines = []
    for why, found in rows.items():
        ((source, line),) = corpus.origins_at(np.array(found[:1]))
        lines.append(
            f"{len(found):,} of {len(corpus):,} pairs are dropped as {RULE_ERROR}: {why}, first at "
            f"{source}:{line}; that is a bug of tmt: please report it, with this pair"
        )
    return lines + [problem for source in corpus.sources for problem in source.problems]


def _source_reports(found: CleaningResult) -> list[SourceReport]:
    corpus = found.decision.corpus
    kept = [0] * len(corpus.sources)
    for shard in corpus.shards:
        kept[shard.source] += int(np.count_nonzero(found.decision.fate[shard.rows] == TRAIN))
    return [
        SourceReport(
            scored.name,
            scored.n_pairs,
            n_kept,
            local.source.weight or 1.0,
            local.source.tag,
            local.origins,
        )
        for scored, n_kept, local in zip(corpus.sources, kept, found.local.train, strict=True)
    ]


def _rule_reports(decision: Decisions, clean: CleanConfig) -> dict[str, RuleReport]:
    reports = {}
    for rule in DROPS:
        threshold = getattr(clean, rule, False)
        n_dropped = decision.count(rule)
        if threshold is False and not n_dropped:
            continue
        if rule == RULE_ERROR or threshold is True:
            threshold = None
        dropped = _nearest(decision, rule, dropped=True) if n_dropped else []
        kept = _nearest(decision, rule, dropped=False)
        reports[rule] = RuleReport(threshold, MEANING[rule], n_dropped, dropped, kept)
    return reports


def _nearest(
    decision: Decisions, rule: str, *, dropped: bool, size: int = _N_NEAREST
) -> list[Sample]:
    """The pairs that a rule dropped with the lowest scores, or that stayed with the highest."""
    code = FATES.index(rule) if dropped else TRAIN
    rows, scores = [np.zeros(0, np.int64)], [np.zeros(0, np.float32)]
    for shard in decision.corpus.shards:
        inside = np.flatnonzero(decision.fate[shard.rows] == code)
        values = _scores_of(decision, shard, rule)[inside]
        if not dropped:  # 0 is as far from any threshold as a pair can be
            inside, values = inside[values > 0], values[values > 0]
        order = np.argsort(values if dropped else -values, kind="stable")[:size]
        rows.append(inside[order] + shard.start)
        scores.append(values[order])
    every_row, every_score = np.concatenate(rows), np.concatenate(scores)
    order = np.argsort(every_score if dropped else -every_score, kind="stable")[:size]
    return _samples(decision.corpus, every_row[order], every_score[order])


def _scores_of(decision: Decisions, shard: Shard, rule: str) -> Floats:
    """(size,) the scores of a shard by a rule; 0 by rules that give no scores."""
    if rule in SCORED_RULES:
        return shard.columns(rule)[0]
    if rule == "length_ratio":
        src, tgt = shard.columns("src_chars", "tgt_chars")
        return length_ratio(src, tgt, decision.usual_ratio)
    if rule == "mismatch" and len(decision.mismatch):
        return decision.mismatch[shard.rows]
    return np.zeros(shard.size, dtype=np.float32)


def _worst_kept(decision: Decisions) -> list[Sample]:
    """The pairs of train whose sides most likely do not belong together."""
    if not len(decision.mismatch):
        return []
    return _nearest(decision, "mismatch", dropped=False, size=_N_SHOWN)


def _samples(corpus: ScoredCorpus, rows: Ints, scores: Floats | None = None) -> list[Sample]:
    pairs, origins = corpus.pairs_at(rows), corpus.origins_at(rows)
    values = [None] * len(rows) if scores is None else [round(float(s), 4) for s in scores]
    return [
        Sample(f"{source}:{line}", _shortened(src), _shortened(tgt), value)
        for (source, line), (src, tgt), value in zip(origins, pairs, values, strict=True)
    ]


def _shortened(text: str) -> str:
    return text if len(text) <= _SAMPLE_CHARACTERS else text[:_SAMPLE_CHARACTERS] + "…"
