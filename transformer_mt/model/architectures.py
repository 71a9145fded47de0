"""Builds the model that `model.architecture` names, and its step-by-step decoder."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, cast

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from transformer_mt.config.model import ModelConfig
from transformer_mt.model.encoder_decoder import EncoderDecoder
from transformer_mt.model.incremental_decoder import IncrementalDecoder
from transformer_mt.model.recurrent import RecurrentModel
from transformer_mt.model.transformer import Transformer


class Steps(Protocol):
    """A batch of sentences in step-by-step decoding; see `Decoding`."""

    def step(self, tokens: Tensor) -> Tensor:
        """(B, K) int64, the newest tokens → (B, K, V) logits of the next ones."""

    def select_beams(self, parents: Tensor) -> None:
        """Reorder the beams: beam k continues the old beam `parents[:, k]`, (B, K) int64."""

    def select_sentences(self, sentences: Tensor) -> None:
        """Keep only the sentences with these indices, (B',) int64."""


class StepDecoder(Protocol):
    """A model prepared for step-by-step decoding; its weights must not change afterwards."""

    def start(self, src: Tensor) -> Steps:
        """Encode the padded source, (B, S) int64; neighbours should have similar lengths."""


def new_model(
    cfg: ModelConfig, src_vocab: int, tgt_vocab: int, *, pad_id: int = 0
) -> EncoderDecoder:
    """A freshly initialised model; see `EncoderDecoder` for the arguments and errors."""
    kind = RecurrentModel if cfg.architecture == "rnn" else Transformer
    return kind(cfg, src_vocab, tgt_vocab, pad_id=pad_id)


# The random initialisers of the models; `xavier_uniform_` shows up as `Tensor.uniform_`.
_DRAWS = (nn.init.kaiming_uniform_, nn.init.uniform_, nn.init.normal_, Tensor.uniform_)


class UndrawnNumbers(TorchFunctionMode):
    """Skip random initialisation: a file replaces the weights, and for large models the random
    numbers would take most of the loading time."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = kwargs or {}
        if func in _DRAWS:
            return given["tensor"] if "tensor" in given else args[0]
        return func(*args, **given)


def step_decoder(model: EncoderDecoder) -> StepDecoder:
    """The step-by-step decoder of a model in eval mode."""
    if isinstance(model, RecurrentModel):
        return model  # its steps need no preparation
    return IncrementalDecoder(cast(Transformer, model))
