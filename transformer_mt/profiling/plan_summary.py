"""What a plan has found, as lines for people."""

import json
from dataclasses import dataclass

from rich.cells import cell_len

from transformer_mt.config.advice import Advice
from transformer_mt.messages.catalogue import tr
from transformer_mt.profiling.corpus_sample import (
    SourceSize,
    format_sources,
)
from transformer_mt.profiling.timed_updates import TrainingSetup
from transformer_mt.rendering.cells import fit, wrap_cells

_WIDTH = 80  # columns of a line that people read


_LABEL_WIDTH = 17


@dataclass(frozen=True)
class Plan(TrainingSetup):
    name: str
    sources: list[SourceSize]
    corpus: str  # in which the tokens are counted
    pairs_per_epoch: int
    src_tokens_per_epoch: int
    tgt_tokens_per_epoch: int
    updates_per_epoch: int
    micro_batches_per_update: float
    peak_lr: float
    tgt_tokens_per_s: float  # measured, as training will log it
    preparation_minutes: float  # still to come; 0 if it is done
    validation_seconds: float  # of each, with its checkpoint
    updates: int  # until max_updates, or the clock of max_minutes
    training_hours: float  # of the updates alone
    hours: float  # of the updates and the validations
    epochs: float  # seen by then
    advice: list[Advice]  # where settings differ from what suits a corpus of this size

    def render(self) -> str:
        """Lines of at most 80 columns."""
        where = self.device if self.processes == 1 else f"{self.processes} × {self.device}"
        facts = {
            tr("one epoch"): tr(
                "about {:,} pairs ({}), {:,} source and {:,} target tokens, {:,} updates",
                self.pairs_per_epoch,
                self.corpus,
                self.src_tokens_per_epoch,
                self.tgt_tokens_per_epoch,
                self.updates_per_epoch,
            ),
            tr("one update"): tr(
                "{:.1f} micro-batches of at most {} tokens, padding {:.1%} of source "
                "and {:.1%} of target; peak lr {:.2e}",
                self.micro_batches_per_update,
                self.max_tokens,
                self.src_padding,
                self.tgt_padding,
                self.peak_lr,
            ),
            tr("measured here"): tr(
                "{:,.0f} target tokens/s, {:,.0f} MiB, {:.1f} s a validation",
                self.tgt_tokens_per_s,
                self.peak_memory_mib,
                self.validation_seconds,
            ),
            tr("preparation"): _duration(self.preparation_minutes / 60),
            tr("training"): tr(
                "at most {:,} updates, {:.1f} epochs: {}, with validations {}",
                self.updates,
                self.epochs,
                _duration(self.training_hours),
                _duration(self.hours),
            ),
        }
        size = tr(
            "{}: {:.1f} M parameters, {} on {}",
            self.name,
            self.parameters / 1e6,
            self.precision,
            where,
        )
        lines = [size, format_sources(self.sources)]
        for label, text in facts.items():
            lines += _wrapped(text, "  " + fit(label, _LABEL_WIDTH - 2), " " * _LABEL_WIDTH)
        if self.advice:
            lines.append(tr("  worth a try for a corpus of this size; the score on dev decides:"))
        for piece in self.advice:
            lines.append(tr("    --set {}={}", piece.key, json.dumps(piece.value)))
            lines += _wrapped(piece.why, " " * 10, " " * 10)
        return "\n".join(lines)


def _wrapped(text: str, first: str, others: str) -> list[str]:
    lines = wrap_cells(text, _WIDTH - cell_len(others)).split("\n")
    return [(others if i else first) + line for i, line in enumerate(lines)]


def _duration(hours: float) -> str:
    if hours == 0:
        return tr("done")
    return tr("about {:.1f} minutes", 60 * hours) if hours < 1 else tr("about {:.1f} hours", hours)
