"""Decisions about a corpus → its report: the funnel, and the pairs a person should look at.

This file does not decide anything.
"""

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

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
from transformer_mt.corpus.diagnostics.shifted_lines import ShiftedRun
from transformer_mt.corpus.readers.pairs import Pair
from transformer_mt.corpus.report.profile import profile
from transformer_mt.corpus.report.report import (
    CorpusReport,
    PartReport,
    RuleReport,
    Sample,
    ShiftedLine,
    ShiftedLines,
    SourceReport,
    short,
)
from transformer_mt.corpus.sources.obtain import LocalData
from transformer_mt.messages.catalogue import tr
from transformer_mt.rendering.cells import clip
from transformer_mt.system.arrays import Floats, Ints

MEANING = {
    **RULE_MEANING,
    "length_ratio": tr("times the characters differ from the usual ratio, either way"),
    "duplicate": tr("repeats an earlier pair"),
    "overlap": tr("shares a side with dev or test"),
    "mismatch": tr("probability that the sides do not belong together, learned on the corpus"),
    RULE_ERROR: tr("a rule failed on the pair, by a bug of tmt"),
}
_N_NEAREST, _SAMPLE_CHARACTERS = 10, 300
_SHOWN_WIDTH = 40  # columns of a text in a problem
_N_PROFILED = 20_000  # pairs that the shares and histograms are taken from
_N_SHOWN = 20  # random pairs, and the worst that were kept
_N_RUNS = 5  # of shifted lines


@dataclass(frozen=True)
class CleaningResult:
    """A corpus after the last rule."""

    local: LocalData
    decision: Decisions
    evaluation: dict[str, list[Pair]]  # by part: dev, test.NAME
    notes: list[str]


def build_report(found: CleaningResult) -> CorpusReport:
    """The report without fingerprint and seconds, which only the written text has."""
    decision, cfg = found.decision, found.local.cfg
    corpus, n_kept = decision.corpus, decision.count("train")
    sizes = {part: len(pairs) for part, pairs in found.evaluation.items()}
    sizes |= {HELD_OUT[role]: count for role, count in decision.held_out.items()}
    parts = {"train": PartReport(len(corpus), n_kept, _rule_reports(decision))}
    parts |= {name: PartReport(n, n) for name, n in sorted(sizes.items())}
    problems = [*main_findings(decision), *corpus_problems(corpus)]
    worst_kept = []
    if len(decision.mismatch):
        worst_kept = nearest_pairs(decision, "mismatch", dropped=False, size=_N_SHOWN)
    drawn = decision.draw_rows(_N_PROFILED, cfg.seed)
    pairs: list[Pair] = [(src, tgt) for src, tgt in corpus.values_at(np.sort(drawn), "src", "tgt")]
    return CorpusReport(
        parts,
        decision.held_out,
        problems=problems,
        notes=found.notes,
        languages=cfg.languages,
        sources=_source_reports(found),
        profile=profile(pairs, cfg.languages) if pairs else None,
        shifted=shifted_lines(corpus),
        random_kept=_samples(corpus, drawn[:_N_SHOWN]),
        worst_kept=worst_kept,
    )


def main_findings(decision: Decisions) -> list[str]:
    """The reasons why most of a corpus is of no use, the cause first."""
    found = [finding for source in decision.corpus.sources for finding in source.findings]
    n_pairs = len(decision.corpus)
    n_dropped = sum(map(decision.count, DROPS))
    if n_pairs and n_dropped <= n_pairs / 2:
        return found
    told = tr("{:,} of {:,} pairs are dropped: {}", n_dropped, n_pairs, decision.drops())
    if n_dropped == n_pairs:
        told = tr("nothing is kept: {:,} pairs read; dropped: {}", n_pairs, decision.drops())
    if n_pairs:
        rule = max(DROPS, key=decision.count)
        samples = "; ".join(
            f"{sample.where} {clip(sample.src, _SHOWN_WIDTH)} | {clip(sample.tgt, _SHOWN_WIDTH)}"
            for sample in nearest_pairs(decision, rule, dropped=True, size=2)
        )
        told += tr("; the rule {} drops most ({}), e.g. {}", rule, MEANING[rule], samples)
    return [*found, told]


def corpus_problems(corpus: ScoredCorpus) -> list[str]:
    """Faults for a person to look at: each way in which a rule failed, and those of the lines."""
    rows: dict[str, list[int]] = {}
    for shard in corpus.shards:
        for row, why in shard.errors().items():
            rows.setdefault(why, []).append(shard.start + row)
    lines = []
    for why, found in rows.items():
        ((source, line),) = corpus.origins_at(np.array(found[:1]))
        lines.append(
            tr(
                "{:,} of {:,} pairs are dropped as {}: {}, first at {}:{}; that is a "
                "bug of tmt: please report it, with this pair",
                len(found),
                len(corpus),
                RULE_ERROR,
                why,
                source,
                line,
            )
        )
    return lines + [problem for source in corpus.sources for problem in source.problems]


def shifted_lines(corpus: ScoredCorpus) -> list[ShiftedLines]:
    """The first runs of lines that fit better one line apart, and the lines at both their ends."""
    found: list[ShiftedLines] = []
    for source, rows in zip(corpus.sources, corpus.source_rows, strict=True):
        for run in source.shifted[: _N_RUNS - len(found)]:
            begin, end = (
                _lines_around(corpus, rows, middle, run) for middle in (run.first, run.last)
            )
            ends = np.array([run.first, run.last]) + rows.start - 1
            first, last = (line for _, line in corpus.origins_at(ends))
            found.append(ShiftedLines(source.name, first, last, run.shift, begin, end))
    return found


def _lines_around(
    corpus: ScoredCorpus, rows: slice, middle: int, run: ShiftedRun
) -> list[ShiftedLine]:
    """A line, its neighbours, and their targets a line apart; `rows`: of the source."""
    n_lines, inside = rows.stop - rows.start, range(run.first, run.last + 1)
    near = range(max(1, middle - 2), min(n_lines, middle + 2) + 1)
    pairs = corpus.values_at(np.array(near) + rows.start - 1, "src", "tgt")
    texts = {
        line: (_shortened(src), _shortened(tgt))
        for line, (src, tgt) in zip(near, pairs, strict=True)
    }
    numbers = dict(zip(near, corpus.origins_at(np.array(near) + rows.start - 1), strict=True))
    return [
        ShiftedLine(
            numbers[line][1],
            *texts[line],
            shifted_tgt=texts[line + run.shift][1] if line + run.shift in texts else "",
            fits="own"
            if line not in inside
            else "shifted"
            if line + run.shift in inside
            else "none",
        )
        for line in near
        if abs(line - middle) <= 1
    ]


def _source_reports(found: CleaningResult) -> list[SourceReport]:
    corpus, fate = found.decision.corpus, found.decision.fate
    return [
        SourceReport(
            local.name,
            rows.stop - rows.start,
            int(np.count_nonzero(fate[rows] == TRAIN)),
            local.source.weight or 1.0,
            local.source.tag,
            local.origins,
        )
        for rows, local in zip(corpus.source_rows, found.local.train, strict=True)
    ]


def _rule_reports(decision: Decisions) -> dict[str, RuleReport]:
    reports = {}
    for rule in DROPS:
        found = (getattr(own, rule, False) for own in decision.thresholds)
        limits = list({(isinstance(x, bool), x): x for x in found}.values())  # 0 is not off
        n_dropped = decision.count(rule)
        if not any(limit is not False for limit in limits) and not n_dropped:
            continue
        threshold = _threshold(rule, limits)
        dropped = nearest_pairs(decision, rule, dropped=True) if n_dropped else []
        kept = nearest_pairs(decision, rule, dropped=False)
        reports[rule] = RuleReport(threshold, MEANING[rule], n_dropped, dropped, kept)
    return reports


def _threshold(rule: str, limits: list[Any]) -> int | float | str | None:
    """Of a rule: one for all sources, or those of some in words; None: it has none."""
    if rule == RULE_ERROR or all(isinstance(limit, bool) for limit in limits):
        return None
    if len(limits) == 1:
        return cast("int | float | str", limits[0])
    return ", ".join(tr("off") if limit is False else short(limit) for limit in limits)


def nearest_pairs(
    decision: Decisions, rule: str, *, dropped: bool, size: int = _N_NEAREST
) -> list[Sample]:
    """The pairs that a rule dropped with the lowest scores, or that stayed with the highest."""
    code, sign = (FATES.index(rule), 1) if dropped else (TRAIN, -1)
    rows, scores = np.zeros(0, np.int64), np.zeros(0, np.float32)
    for shard in decision.corpus.shards:
        values = scores_of(decision, shard, rule)
        chosen = decision.fate[shard.rows] == code
        if not dropped:  # 0 is as far from any threshold as a pair can be
            chosen &= values > 0
            chosen &= getattr(decision.thresholds[shard.source], rule, True) is not False
        if len(rows) == size:
            chosen &= sign * values < sign * scores[-1]
        inside = np.flatnonzero(chosen)
        rows = np.concatenate([rows, inside + shard.start])
        scores = np.concatenate([scores, values[inside]])
        order = np.argsort(sign * scores, kind="stable")[:size]
        rows, scores = rows[order], scores[order]
    return _samples(decision.corpus, rows, scores)


def scores_of(decision: Decisions, shard: Shard, rule: str) -> Floats:
    """(size,) the scores of a shard by a rule; 0 by rules that give no scores."""
    if rule in SCORED_RULES:
        return shard.columns(rule)[0]
    if rule == "length_ratio":
        src, tgt = shard.columns("src_chars", "tgt_chars")
        return length_ratio(src, tgt, decision.usual_ratio)
    if rule == "mismatch" and len(decision.mismatch):
        return decision.mismatch[shard.rows]
    return np.zeros(shard.size, dtype=np.float32)


def _samples(corpus: ScoredCorpus, rows: Ints, scores: Floats | None = None) -> list[Sample]:
    values = [None] * len(rows) if scores is None else [round(float(s), 4) for s in scores]
    return [
        Sample(f"{source}:{line}", _shortened(src), _shortened(tgt), value)
        for (source, line), (src, tgt), value in zip(
            corpus.origins_at(rows), corpus.values_at(rows, "src", "tgt"), values, strict=True
        )
    ]


def _shortened(text: str) -> str:
    return text if len(text) <= _SAMPLE_CHARACTERS else text[:_SAMPLE_CHARACTERS] + "…"
