"""Text ↔ ids with one SentencePiece model: train, load, encode, decode.

Beside the four special ids a model may have tags: pieces such as `<bt>`, which stand for no text.
Encoding never gives one, whatever a text spells, and decoding leaves them out.
"""

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import sentencepiece

from transformer_mt.config.model import TokenizerConfig
from transformer_mt.corpus.readers.lines import split_lines
from transformer_mt.encoding.random_sample import RandomSample
from transformer_mt.errors import TokenizerError
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.output import writing
from transformer_mt.text.languages import is_unspaced
from transformer_mt.text.normalise import well_formed

PAD_ID, UNK_ID, BOS_ID, EOS_ID = 0, 1, 2, 3
PAD, UNK, BOS, EOS = "<pad>", "<unk>", "<s>", "</s>"

# In UTF-8. More text hardly changes the pieces, but takes memory: Chinese up to 50 times its size.
MAX_BYTES = 24_000_000
MAX_SENTENCE_BYTES = 16_384
# The scores of a unigram model depend on it, so it must not follow the number of cores.
_THREADS = 4

_log = logging.getLogger(__name__)


class Tokenizer:
    """A trained SentencePiece model with tmt's special ids."""

    def __init__(self, model: bytes, *, where: str) -> None:
        """Open the bytes of a model file, named `where` in errors.

        Raises:
            TokenizerError: not a SentencePiece model, or one with other special ids.
        """
        try:
            if not model:
                raise RuntimeError("the file is empty")
            self._model = sentencepiece.SentencePieceProcessor(model_proto=model)
            others = range(EOS_ID + 1, self.vocab_size)
            self.tags: dict[str, int] = {
                self._model.id_to_piece(i): i for i in others if self._model.is_control(i)
            }
        except (RuntimeError, UnicodeError) as error:
            raise TokenizerError(
                tr(
                    "{}: not a SentencePiece model ({}); copy the file again, or make "
                    "it with tmt tokenizer train",
                    where,
                    error,
                )
            ) from error
        names = ("pad", "unk", "bos", "eos")
        found = [getattr(self._model, f"{name}_id")() for name in names]
        if found != [PAD_ID, UNK_ID, BOS_ID, EOS_ID]:
            ids = ", ".join(f"{name} {id_}" for name, id_ in zip(names, found, strict=True))
            raise TokenizerError(
                tr(
                    "{}: its special ids are {} (-1: none), but tmt needs pad {}, unk "
                    "{}, bos {}, eos {}; make it with tmt tokenizer train",
                    where,
                    ids,
                    PAD_ID,
                    UNK_ID,
                    BOS_ID,
                    EOS_ID,
                )
            )
        # What no translation holds, and decoding leaves out.
        self.silent_ids = [PAD_ID, BOS_ID, *self.tags.values()]

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        """Read a model file.

        Raises:
            TokenizerError: missing, unreadable, or not a model made by tmt.
        """
        try:
            return cls(path.read_bytes(), where=str(path))
        except FileNotFoundError as error:
            raise TokenizerError(
                tr("{}: no such tokenizer; make it with tmt tokenizer train", path)
            ) from error
        except OSError as error:
            raise TokenizerError(tr("{}: cannot be read: {}", path, error.strerror)) from error

    @property
    def vocab_size(self) -> int:
        return self._model.get_piece_size()

    @property
    def kind(self) -> Literal["bpe", "unigram"]:
        """By its scores: BPE numbers its merges, a unigram model has log-probabilities."""
        scores = (score for _, score in self.text_pieces().values())
        return "bpe" if all(map(float.is_integer, scores)) else "unigram"

    @property
    def serialised(self) -> bytes:
        """The model file; equal for tokenizers that do the same."""
        return bytes(self._model.serialized_model_proto())

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text, without BOS and EOS; an empty or blank text gives [].

        No text gives a special id other than UNK_ID: a literal `</s>` is three or four characters.
        """
        try:
            if len(texts) == 1:  # a list takes 14 times as long to be set up
                return [self._model.encode(_utf8(texts[0]))]
            return self._model.encode(list(texts), num_threads=1)
        except TypeError:  # a lone surrogate
            return self._model.encode([_utf8(text) for text in texts], num_threads=1)

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Text of each sequence; PAD, BOS, EOS and tags are left out, UNK_ID shows as ⁇.

        Raises:
            IndexError: an id is not below `vocab_size`.
        """
        silent = {*self.silent_ids, EOS_ID}
        kept = [[int(id_) for id_ in sequence if id_ not in silent] for sequence in ids]
        return self._model.decode(kept) if kept else []

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Spelling of each id; `▁` is a space, `<0x41>` a byte."""
        return [self._model.id_to_piece(int(id_)) for id_ in ids]

    def text_pieces(self) -> dict[int, tuple[str, float]]:
        """Spelling and score of each id that stands for text: no special id, tag or byte."""
        model = self._model
        return {
            id_: (model.id_to_piece(id_), model.get_score(id_))
            for id_ in range(self.vocab_size)
            if not (model.is_control(id_) or model.is_unknown(id_) or model.is_byte(id_))
        }

    def spelled_share(self, ids: Sequence[int]) -> float:
        """Share of ids that are bytes or UNK_ID: characters that are not in the vocabulary."""
        model = self._model
        return sum(model.is_byte(id_) or model.is_unknown(id_) for id_ in ids) / max(1, len(ids))

    def unknown_rate(self, ids: Sequence[int]) -> float:
        """Share of ids that are UNK_ID, in [0, 1]: text which decoding cannot give back."""
        return sum(map(self._model.is_unknown, ids)) / max(1, len(ids))

    def byte_rate(self, ids: Sequence[int]) -> float:
        """Share of ids that are single bytes, in [0, 1]: characters outside the vocabulary."""
        return sum(map(self._model.is_byte, ids)) / max(1, len(ids))


def train_tokenizer(
    texts: Iterable[str],
    out_path: Path,
    cfg: TokenizerConfig,
    languages: Sequence[str],
    *,
    seed: int,
    side: int = 0,
    tags: Sequence[str] = (),
) -> Tokenizer:
    """Learn a vocabulary and write it to `out_path`; the same call writes the same bytes.

    Args:
        texts: one sentence each; of more than `MAX_BYTES` a part is used, drawn with `seed`.
        side: 0 or 1, source or target: which of `cfg.vocab_sizes` counts.
        tags: pieces that stand for no text, such as `<bt>`; they are part of the vocabulary.
    Raises:
        TokenizerError: no text, or a vocabulary size that this text cannot give.
    """
    # SentencePiece can sample too, but with a seed of its own that cannot be set.
    sample: RandomSample[bytes] = RandomSample(MAX_BYTES, seed)
    for line in _usable(texts, out_path):
        sample.add(line, len(line))
    if not sample.items:
        raise TokenizerError(
            tr(
                "no text to learn a tokenizer from: all lines are blank or longer than "
                "{} bytes; check data.train",
                MAX_SENTENCE_BYTES,
            )
        )
    model = BytesIO()
    vocab_size = cfg.vocab_sizes[side]
    text_name = tr("this {} text", " + ".join(languages))
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sample.items),
            model_writer=model,
            **_options(cfg, vocab_size, languages, tags),
        )
    except RuntimeError as error:
        raise _training_error(error, cfg, vocab_size, text_name, len(tags)) from error
    tokenizer = Tokenizer(model.getvalue(), where=str(out_path))
    if tokenizer.vocab_size < vocab_size:
        raise TokenizerError(
            tr(
                "tokenizer.vocab_size {} is too large for {}: the largest possible is "
                "{}; set tokenizer.vocab_size to {} or less",
                vocab_size,
                text_name,
                tokenizer.vocab_size,
                tokenizer.vocab_size,
            ),
            possible=tokenizer.vocab_size,
        )
    with writing(out_path) as temporary:
        temporary.write_bytes(model.getvalue())
    return tokenizer


@dataclass(frozen=True)
class TokenizerTask:
    """The arguments of `train_tokenizer`, with the text in files."""

    text_paths: list[Path]
    out_path: Path
    cfg: TokenizerConfig
    languages: list[str]
    seed: int
    side: int
    tags: list[str]


def train_on_files(task: TokenizerTask) -> None:
    """`train_tokenizer` as a function for another process, whose memory goes with it."""
    train_tokenizer(
        chain.from_iterable(map(split_lines, task.text_paths)),
        task.out_path,
        task.cfg,
        task.languages,
        seed=task.seed,
        side=task.side,
        tags=task.tags,
    )


def _options(
    cfg: TokenizerConfig, vocab_size: int, languages: Sequence[str], tags: Sequence[str]
) -> dict[str, Any]:
    """SentencePiece's settings for a vocabulary of these languages."""
    unspaced = [is_unspaced(code) for code in languages]
    coverage = cfg.character_coverage
    if coverage == "auto":
        # Scripts of thousands of characters have a tail that would crowd out whole words.
        coverage = 0.9995 if any(unspaced) else 1.0
    return {
        "model_type": cfg.type,
        "vocab_size": vocab_size,
        # Too large a vocabulary gives the largest possible one, whose size the error can then name.
        "hard_vocab_limit": False,
        "character_coverage": coverage,
        "byte_fallback": cfg.byte_fallback,
        # The other rules are not undone by decoding: they fold ，。！ into ASCII, … into three
        # dots, ½ into 1⁄2. Cleaning has already brought text to NFC, so nothing is left to unify.
        "normalization_rule_name": "identity",
        # Without spaces between words, a first piece that stands for a space wastes one token.
        "add_dummy_prefix": not all(unspaced),
        # A corpus without any space would else spell one as three bytes, decoded to a visible ▁.
        "required_chars": "▁",
        "max_sentence_length": MAX_SENTENCE_BYTES,
        "num_threads": _THREADS,
        "minloglevel": 2,
        "control_symbols": list(tags),
        **{"pad_id": PAD_ID, "unk_id": UNK_ID, "bos_id": BOS_ID, "eos_id": EOS_ID},
        **{"pad_piece": PAD, "unk_piece": UNK, "bos_piece": BOS, "eos_piece": EOS},
    }


def _usable(texts: Iterable[str], out_path: Path) -> Iterator[bytes]:
    """UTF-8 of the texts, without blank ones and those that SentencePiece drops without a word."""
    too_long = 0
    for text in texts:
        line = _utf8(text)
        if len(line) > MAX_SENTENCE_BYTES:
            too_long += 1
        elif text and not text.isspace():
            yield line
    if too_long:
        _log.warning(
            tr("%s: %d lines longer than %d bytes are left out of the training of the tokenizer"),
            *(out_path, too_long, MAX_SENTENCE_BYTES),
        )


def _training_error(
    error: RuntimeError, cfg: TokenizerConfig, vocab_size: int, text_name: str, n_tags: int
) -> TokenizerError:
    needed = re.search(r"smaller than required_chars\. \d+ vs (\d+)", str(error))
    if needed is None:
        return TokenizerError(tr("SentencePiece cannot learn a tokenizer: {}", error))
    least = int(needed[1])
    bytes_ = tr("the 256 bytes of tokenizer.byte_fallback, ") if cfg.byte_fallback else ""
    return TokenizerError(
        tr(
            "tokenizer.vocab_size {} is too small for {}: its characters, {}and {} "
            "special pieces need {}; set tokenizer.vocab_size to {} or more",
            vocab_size,
            text_name,
            bytes_,
            4 + n_tags,
            least,
            least,
        ),
        possible=least,
    )


def _utf8(text: str) -> bytes:
    """UTF-8, with U+FFFD for lone surrogates."""
    return well_formed(text).encode()
