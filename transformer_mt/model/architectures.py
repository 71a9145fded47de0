"""The models by the name that `model.architecture` has for them."""

from typing import Protocol, cast

from torch import Tensor

from transformer_mt.config.model import ModelConfig
from transformer_mt.model.encoder_decoder import EncoderDecoder
from transformer_mt.model.incremental_decoder import IncrementalDecoder
from transformer_mt.model.recurrent import RecurrentModel
from transformer_mt.model.transformer import Transformer


class Steps(Protocol):
    """Sentences that are decoded side by side, see `Decoding`."""

    def step(self, tokens: Tensor) -> Tensor:
        """The newest tokens, (B, K) int64 → logits of the next, (B, K, V)."""

    def select_beams(self, parents: Tensor) -> None:
        """Let beam k continue the former beam `parents[:, k]`, (B, K) int64."""

    def select_sentences(self, sentences: Tensor) -> None:
        """Keep these of the B sentences, (B',) int64."""


class StepDecoder(Protocol):
    """A model made ready to decode step by step; its weights must not change any more."""

    def start(self, src: Tensor) -> Steps:
        """Read the source, (B, S) int64, padded; sentences of like lengths should be neighbours."""


def new_model(
    cfg: ModelConfig, src_vocab: int, tgt_vocab: int, *, pad_id: int = 0
) -> EncoderDecoder:
    """A freshly initialised model; see `EncoderDecoder` for the arguments and errors."""
    kind = RecurrentModel if cfg.architecture == "rnn" else Transformer
    return kind(cfg, src_vocab, tgt_vocab, pad_id=pad_id)


def step_decoder(model: EncoderDecoder) -> StepDecoder:
    """Args: model: in eval mode."""
    if isinstance(model, RecurrentModel):
        return model  # its steps need nothing that is prepared
    return IncrementalDecoder(cast(Transformer, model))
