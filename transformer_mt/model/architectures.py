"""The models by the name that `model.architecture` has for them."""

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


# The random initialisers of the models; `xavier_uniform_` arrives as `Tensor.uniform_`.
_DRAWS = (nn.init.kaiming_uniform_, nn.init.uniform_, nn.init.normal_, Tensor.uniform_)


class UndrawnNumbers(TorchFunctionMode):
    """Leave weights uninitialised: a file replaces them, and for large models the random numbers
    would take most of the time of loading."""

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
    """Args: model: in eval mode."""
    if isinstance(model, RecurrentModel):
        return model  # its steps need nothing that is prepared
    return IncrementalDecoder(cast(Transformer, model))
