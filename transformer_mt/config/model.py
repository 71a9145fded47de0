"""Names, types and ranges of the settings of the model and of its vocabularies."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from transformer_mt.config.data import (
    Section,
    Share,
    VocabSize,
)
from transformer_mt.messages.catalogue import tr


class TokenizerConfig(Section):
    type: Literal["bpe", "unigram"] = "bpe"
    vocab_size: VocabSize | Annotated[list[VocabSize], Field(min_length=2, max_length=2)] = 32000
    joint: bool = False
    byte_fallback: bool = True
    character_coverage: Annotated[float, Field(ge=0.98, le=1)] | Literal["auto"] = "auto"
    # Sub-word sampling, other segmentations in each epoch: the share of BPE merges left out, or the
    # smoothing of a unigram model's distribution over segmentations. 0: always the best one.
    sampling: Share = 0.0
    # A folder with finished tokenizers, such as a model directory: they are taken, none is trained.
    path: str | None = None

    @model_validator(mode="after")
    def _one_size_for_one_vocabulary(self) -> Self:
        if self.joint and isinstance(self.vocab_size, list):
            raise ValueError(
                tr("joint is one vocabulary, but vocab_size names two: {}", self.vocab_size)
            )
        return self

    @property
    def vocab_sizes(self) -> tuple[int, int]:
        """Vocabulary sizes of source and target; a single size counts for both."""
        size = self.vocab_size
        return (size, size) if isinstance(size, int) else (size[0], size[1])


Width = Annotated[int, Field(gt=0, le=1 << 16)]


Layers = Annotated[int, Field(gt=0, le=1000)]


_MOST_PARAMETERS = 10**11  # of the layers alone


class ModelConfig(Section):
    d_model: Width = 512
    heads: Width = 8
    ffn: Annotated[int, Field(gt=0, le=1 << 20)] = 2048
    encoder_layers: Layers = 6
    decoder_layers: Layers = 6
    dropout: Share = 0.1
    # modern: rotary positions, SwiGLU, RMSNorm, no biases (model/modern.py); rnn: recurrent layers,
    # for comparison, without heads and feed-forward networks (model/recurrent.py)
    architecture: Literal["paper", "modern", "rnn"] = "paper"
    norm: Literal["post", "pre"] = "post"  # modern: "pre", and nothing else
    tie_embeddings: Literal["auto", "all", "decoder", "none"] = "auto"

    @model_validator(mode="before")
    @classmethod
    def _modern_is_pre_norm_unless_told(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("architecture") == "modern":
            return {"norm": "pre", **values}
        return values

    @model_validator(mode="after")
    def _sizes_fit(self) -> Self:
        if self.d_model % self.heads:
            near = [h for h in range(1, self.d_model + 1) if self.d_model % h == 0]
            near = sorted(sorted(near, key=lambda h: abs(h - self.heads))[:3])
            raise ValueError(
                tr(
                    "d_model {} is not divisible by heads {}; heads could be {}",
                    self.d_model,
                    self.heads,
                    ", ".join(map(str, near)),
                )
            )
        if self.d_model % 2:
            raise ValueError(
                tr("d_model {} must be even: positions are sine and cosine pairs", self.d_model)
            )
        if self.matrix_parameters > _MOST_PARAMETERS:
            raise ValueError(
                tr(
                    "the layers would have {:,} parameters, more than {:,}: make "
                    "d_model, ffn or the number of layers smaller",
                    self.matrix_parameters,
                    _MOST_PARAMETERS,
                )
            )
        if self.modern and self.norm != "pre":
            raise ValueError(
                tr(
                    "architecture: modern normalises before each sub-layer, but norm "
                    "is {}; set norm: pre, or leave norm out",
                    self.norm,
                )
            )
        if self.modern and self.d_model // self.heads % 2:
            raise ValueError(
                tr(
                    "architecture: modern turns pairs of features, so that d_model / "
                    "heads must be even, found {} / {} = {}",
                    self.d_model,
                    self.heads,
                    self.d_model // self.heads,
                )
            )
        return self

    @property
    def matrix_parameters(self) -> int:
        """Numbers in the matrices of the layers, without embeddings, biases and norms."""
        if self.architecture == "rnn":  # three gates for each layer, of its input and its state
            attention, encoder, decoder = 2, 4.5 * self.encoder_layers, 6 * self.decoder_layers
            of_the_decoder = 3 + self.decoder_layers / 2 + 3  # wider input; begin; read out
            return int((attention + encoder + decoder + of_the_decoder) * self.d_model**2)
        attention, ffn = 4 * self.d_model**2, 2 * self.d_model * self.ffn
        n_parameters = self.encoder_layers * (attention + ffn)
        return n_parameters + self.decoder_layers * (2 * attention + ffn)

    @property
    def modern(self) -> bool:
        return self.architecture == "modern"
