"""Attention weights of one translation, of every layer and head, with labels.

Layers and heads are numbered from 1 here, as in the paper and on every picture. This file does not
know where weights come from or how they are drawn.
"""

import re
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from transformer_mt.errors import ConfigError
from transformer_mt.messages.catalogue import tr

Kind = Literal["encoder", "decoder", "cross"]
Choice = int | Literal["mean"]  # one layer or head, from 1, or the mean over all of them

KINDS: tuple[Kind, ...] = get_args(Kind)
TITLES: dict[Kind, str] = {
    "encoder": tr("Encoder self-attention"),
    "decoder": tr("Decoder self-attention"),
    "cross": tr("Cross-attention"),
}
EXPLANATIONS: dict[Kind, str] = {
    "encoder": tr(
        "Each row is a source piece and shows how much of every source piece it takes in; "
        "queries, keys and values all come from the source."
    ),
    "decoder": tr(
        "Each row is a step of the decoder and shows which target pieces it takes in; a step "
        "cannot see the pieces that come after it, so the upper triangle is exactly 0."
    ),
    "cross": tr(
        "Each row is a step of the decoder and shows which source pieces it takes in; queries "
        "come from the decoder, keys and values from the encoder's output."
    ),
}


@dataclass(frozen=True, eq=False)
class AttentionMaps:
    """The weights of one sentence; each row of a map sums to 1 (L layers, H heads).

    L is 0 for a kind of attention that the model does not have.
    """

    src_pieces: list[str]  # S, ends with "</s>"
    tgt_in_pieces: list[str]  # T, starts with "<s>": what step t reads
    tgt_out_pieces: list[str]  # T, ends with "</s>": what step t writes
    encoder: NDArray[np.float32]  # (L, H, S, S)
    decoder: NDArray[np.float32]  # (L, H, T, T)
    cross: NDArray[np.float32]  # (L, H, T, S)
    top_words: list[list[tuple[str, float]]]  # T entries: best next pieces with probability
    translation: str
    source: str

    @property
    def kinds(self) -> list[Kind]:
        """Those that the model has; a recurrent one attends to the source alone."""
        return [kind for kind in KINDS if len(self.weights(kind))]

    def weights(self, kind: Kind) -> NDArray[np.float32]:
        """All weights of a kind, (L, H, rows, columns)."""
        found: NDArray[np.float32] = getattr(self, kind)
        return found

    def pick(self, kind: Kind, layer: Choice, head: Choice) -> NDArray[np.float32]:
        """One map, or the mean of several: (rows, columns), in which every row sums to 1.

        Raises:
            ConfigError: there is no such layer or head, or no attention of this kind.
        """
        if kind not in self.kinds:
            raise ConfigError(tr("this model has no attention of the kind {}", kind))
        weights = _pick_axis(self.weights(kind), layer, tr("{} attention: layer", kind))
        return _pick_axis(weights, head, tr("{} attention: head", kind))

    def masked(self, kind: Kind) -> NDArray[np.bool_]:
        """(rows, columns), True = may not be seen: exactly 0 in all layers and heads."""
        return np.asarray((self.weights(kind) == 0).all(axis=(0, 1)))

    def row_pieces(self, kind: Kind) -> list[str]:
        """The pieces whose queries ask: those that the encoder or the decoder reads."""
        return self.src_pieces if kind == "encoder" else self.tgt_in_pieces

    def column_pieces(self, kind: Kind) -> list[str]:
        """The pieces whose keys answer."""
        return self.tgt_in_pieces if kind == "decoder" else self.src_pieces

    def written_pieces(self, kind: Kind) -> list[str] | None:
        """What the step of each row writes; None for the encoder, which writes nothing."""
        return None if kind == "encoder" else self.tgt_out_pieces


def _pick_axis(weights: NDArray[np.float32], choice: Choice, what: str) -> NDArray[np.float32]:
    """Take one entry of the first axis of the two leading ones, or their mean."""
    if choice == "mean":
        return np.asarray(weights.mean(axis=0, dtype=np.float32))
    check_choice(choice, len(weights), what)
    return np.asarray(weights[choice - 1])


def check_choice(choice: int, n_choices: int, what: str) -> None:
    """Raises: ConfigError: there is no such number; `what` is, say, "cross attention: layer"."""
    if not 1 <= choice <= n_choices:
        allowed = tr("only 1") if n_choices == 1 else tr("1 to {}", n_choices)
        raise ConfigError(
            tr("{} {}: this model has {}; or ask for the mean", what, choice, allowed)
        )


def parse_choice(text: str, option: str) -> Choice:
    """Raises: ConfigError: `text` is neither a number from 1 nor "mean"; names the option."""
    if text == "mean":
        return "mean"
    if not re.fullmatch("0*[1-9][0-9]{0,5}", text, re.ASCII):
        raise ConfigError(tr("{} {}: expected a number, counted from 1, or mean", option, text))
    return int(text)


def parse_kind(text: str, option: str = "--kind") -> Kind:
    """Raises: ConfigError: `text` is not one of encoder, decoder, cross."""
    for kind in KINDS:
        if kind == text:
            return kind
    raise ConfigError(tr("{} {}: allowed are {}", option, text, ", ".join(KINDS)))
