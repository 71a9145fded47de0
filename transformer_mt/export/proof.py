"""Whether an exported model translates as the one it was made from.

Comes in: a translator, and what another program makes of its export. Goes out: a `Proof`, which is
written beside the export. This file knows no format.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

from transformer_mt.errors import TmtError
from transformer_mt.evaluation.metrics import Scorer
from transformer_mt.messages.catalogue import tr
from transformer_mt.model.transformer import Transformer
from transformer_mt.system.state import Damaged, content_of, read_manifest, write_manifest
from transformer_mt.translation.translator import Translator

MANIFEST = "made_from.json"
N_TEXTS = 500  # that both translate
N_SCORED = 100  # pairs of which both give the log-probability
TOLERANCE = 0.01  # nats per token
MOST_BLEU_LOST = 0.3


class ExportedModel(Protocol):
    """What another program makes of an export, from text to text with its own tokenizer."""

    def translate(self, texts: Sequence[str]) -> list[str]:
        """The greedy translation of each text, none of which is empty."""

    def log_probs(self, srcs: Sequence[str], tgts: Sequence[str]) -> list[float] | None:
        """ln p(target | source), end of sentence included; None: the program does not tell it."""


@dataclass(frozen=True)
class ExportTask:
    """What is to be exported, and the texts that it is proven on.

    Attributes:
        translator: in fp32 on the CPU.
        quantization: one of the format's.
        srcs: texts, as cleaning leaves them; of a model of both directions in its first language.
        refs: their translations; may be empty.
    """

    translator: Translator
    quantization: str
    srcs: Sequence[str]
    refs: Sequence[str] = ()

    @property
    def model(self) -> Transformer:
        """Of the translator; `refusals_of` lets no other architecture through."""
        return cast(Transformer, self.translator.model)


@dataclass(frozen=True)
class Proof:
    """How two engines compare. Texts that tmt itself cuts or does not end count for nothing."""

    texts: int
    identical: float  # share of the texts
    worst_log_prob: float | None  # the largest difference, in nats per token
    bleu: float | None = None  # of the export
    own_bleu: float | None = None

    @property
    def bleu_lost(self) -> float:
        return 0.0 if self.bleu is None or self.own_bleu is None else self.own_bleu - self.bleu

    def problems(self, *, exact: bool, most_bleu_lost: float = MOST_BLEU_LOST) -> list[str]:
        """What is not good enough.

        Args:
            exact: the weights are in fp32. Of others the score decides, if there are references:
                with rounded weights, many a translation is another, and as good.
        """
        least = 0.99 if exact else 0.95
        found = []
        if self.identical < least and (exact or self.bleu is None):
            found.append(
                tr("{:.1%} of the translations are the same, at least {:.0%} must be",
                   self.identical, least)
            )  # fmt: skip
        if exact and (self.worst_log_prob or 0.0) > TOLERANCE:
            found.append(
                tr("log-probabilities differ by {:.3f} nats per token, at most {} may be",
                   self.worst_log_prob, TOLERANCE)
            )  # fmt: skip
        if self.bleu_lost > most_bleu_lost:
            found.append(
                tr("{:.2f} BLEU are lost, at most {} may be", self.bleu_lost, most_bleu_lost)
            )
        return found

    def __str__(self) -> str:
        parts = [tr("{:.1%} of {} translations are the same", self.identical, self.texts)]
        if self.worst_log_prob is not None:
            parts.append(
                tr("log-probabilities differ by at most {:.1e} nats per token", self.worst_log_prob)
            )
        if self.bleu is not None:
            parts.append(tr("{:.2f} BLEU, {:.2f} here", self.bleu, self.own_bleu))
        return "; ".join(parts)


def prove(task: ExportTask, exported: ExportedModel) -> Proof:
    """Translate with both, greedily: no length rule and no pruning can hide a wrong weight."""
    translator = task.translator
    own = translator.translate(task.srcs[:N_TEXTS], to=translator.cfg.languages.tgt, beam=1)
    compared = [i for i, one in enumerate(own) if one.complete and one.pieces == 1 and one.text]
    mine, srcs = [own[i].text for i in compared], [task.srcs[i] for i in compared]
    refs = [task.refs[i] for i in compared] if task.refs else []
    theirs = exported.translate(srcs) if srcs else []
    same = sum(one == two for one, two in zip(mine, theirs, strict=True))
    scored = [i for i, one in enumerate(own) if one.pieces == 1 and one.text][:N_SCORED]
    worst = _worst(
        translator, exported, [task.srcs[i] for i in scored], [own[i].text for i in scored]
    )
    if worst is None and not compared:
        raise TmtError(tr("no text is translated by the model to its end; train longer"))
    return Proof(
        texts=len(compared),
        identical=same / len(compared) if compared else 1.0,
        worst_log_prob=worst,
        bleu=_bleu(translator, theirs, refs),
        own_bleu=_bleu(translator, mine, refs),
    )


def _worst(
    translator: Translator, exported: ExportedModel, srcs: Sequence[str], tgts: Sequence[str]
) -> float | None:
    theirs = exported.log_probs(srcs, tgts) if srcs else None
    if theirs is None:
        return None
    scores = translator.score_pairs(srcs, tgts, to=translator.cfg.languages.tgt)
    pairs = zip(scores, theirs, strict=True)
    return max(abs(own.log_prob - their) / own.n_tokens for own, their in pairs)


def _bleu(translator: Translator, found: Sequence[str], refs: Sequence[str]) -> float | None:
    if not refs:
        return None
    return Scorer(translator.cfg.languages.tgt).score(found, refs, ["bleu"])["bleu"].score


@dataclass(frozen=True)
class ExportOrigin:
    """The weights of an export, and its proof. It is written when both have been compared."""

    weights: str  # SHA-256 of the file with the weights
    quantization: str
    format: str = "ctranslate2"
    proof: dict[str, Any] = field(default_factory=dict, compare=False)

    def write(self, path: Path) -> None:
        """Args: path: the folder of the export."""
        write_manifest(path, MANIFEST, asdict(self))

    @classmethod
    def read(cls, path: Path) -> "ExportOrigin | None":
        """None: there is no export, or nothing is known about it.

        Raises:
            Damaged: what is written about it has been altered.
        """
        manifest = read_manifest(path, MANIFEST)
        if manifest is None:
            return None
        try:
            return cls(**content_of(manifest))
        except TypeError as error:
            raise Damaged(tr("{}: damaged: {}", path / MANIFEST, error)) from error
