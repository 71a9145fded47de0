"""The translation of a text, put together from those of its segments."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from transformer_mt.text.normalise import well_formed
from transformer_mt.translation.confidence import ConfidenceCurve
from transformer_mt.translation.input_checks import USUAL, InputCheck
from transformer_mt.translation.output_checks import is_loop
from transformer_mt.translation.segment_translation import SegmentTranslation, joined_text


@dataclass(frozen=True)
class Alternative:
    text: str
    # Log-probability over the length penalty, and what `decode.channel` adds, summed over the
    # segments of a long text.
    score: float


@dataclass(frozen=True)
class Translation:
    source: str
    text: str
    score: float
    complete: bool  # False: the output was cut at the length limit
    pieces: int  # number of segments of the source; 1 unless it was too long
    alternatives: list[Alternative]  # n-best, the translation itself first; empty for split texts
    # Names of `output_checks.FAULT_MEANING`; term: a required word is missing, banned: a banned one
    # is there.
    faults: tuple[str, ...] = ()
    retried: bool = False  # a second search, made because of faults, was better
    input: InputCheck = USUAL
    log_prob: float = 0.0  # mean over the tokens, EOS included, in nats
    confidence: float | None = None  # the chrF to expect, from 0 to 1; see `ConfidenceCurve`

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def joined_translation(
    source: str,
    tgt: str,
    segments: Sequence[SegmentTranslation],
    check: InputCheck = USUAL,
    curve: ConfidenceCurve | None = None,
) -> Translation:
    """The translations of the segments of a text as one; none: of an empty text."""
    source = well_formed(source)
    if not segments:
        return Translation(source, "", 0.0, True, 1, [], input=check)
    best = [segment.hypotheses[0] for segment in segments]
    text = joined_text(segments, tgt)
    faults = dict.fromkeys(fault for segment in segments for fault in segment.faults)
    if len(segments) > 1 and is_loop(source, text):
        faults["loop"] = None
    alternatives = []
    if len(segments) == 1:
        (only,) = segments
        scores = [hypothesis.score for hypothesis in only.hypotheses]
        alternatives = list(map(Alternative, only.texts, scores))
    n_tokens = sum(len(segment.hypotheses[0].ids) + segment.n_ends for segment in segments)
    log_prob = sum(hypothesis.log_prob for hypothesis in best) / n_tokens
    return Translation(
        source,
        text,
        sum(hypothesis.score for hypothesis in best),
        all(hypothesis.complete for hypothesis in best),
        len(segments),
        alternatives,
        tuple(faults),
        any(segment.retried for segment in segments),
        check,
        round(log_prob, 4),
        curve.expected_chrf(log_prob) if curve else None,
    )
