"""Advice for a corpus, as far as it works when it is typed.

A vocabulary that is advised by the number of pairs may be larger, or smaller, than this text can
give: it is learned for a trial.
"""

import math
import tempfile
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from pathlib import Path

from transformer_mt.config.advice import Advice, changes, compare
from transformer_mt.config.experiment import Config, build_config
from transformer_mt.config.recipes import recommend
from transformer_mt.corpus.readers.lines import split_lines
from transformer_mt.encoding.tags import tag_pieces
from transformer_mt.encoding.tokenizer import train_tokenizer
from transformer_mt.errors import ConfigError, TokenizerError
from transformer_mt.messages.catalogue import tr
from transformer_mt.pipeline.run_dir import Run

# Bytes of text of both sides together that a trial reads; a part gives fewer pieces than the whole,
# and so much of it still gives more than are ever advised, unless the text says little.
MOST_TRIED = 6_000_000
_VOCABULARY = "tokenizer.vocab_size"
_N_TRIALS = 4


def workable_advice(
    cfg: Config, run: Run, n_pairs: int, tgt_tokens: int, device: str
) -> list[Advice]:
    """The settings that suit a corpus of this size and that `cfg` does not follow.

    Each works alone, and all of them together.

    Args:
        run: with the clean text of the corpus, or of a part of it.
        tgt_tokens: of an epoch.
        device: cpu or cuda.
    """
    advice = [
        piece
        for piece in recommend(n_pairs, tgt_tokens, languages=cfg.languages, device=device)
        if not _contradicts(piece, cfg)
    ]
    joint = next(
        (piece.value for piece in advice if piece.key == "tokenizer.joint"), cfg.tokenizer.joint
    )
    texts = [run.clean_dir / f"train.{side}" for side in ("src", "tgt")]
    if any(piece.key == _VOCABULARY for piece in compare(cfg, advice)):
        sharing = {cfg.tokenizer.joint, joint}
        advice = [_possible(piece, cfg, texts, sharing) for piece in advice]
    pieces = compare(cfg, advice)
    if not pieces or _is_valid(cfg, pieces):
        return pieces
    return changes(cfg, advice)


def _contradicts(piece: Advice, cfg: Config) -> bool:
    """Whether a setting can only be followed together with another one that is not advised."""
    if piece.key == "model.norm":
        return cfg.model.modern
    return piece.key == "tokenizer.joint" and not piece.value and cfg.model.tie_embeddings == "all"


def _possible(piece: Advice, cfg: Config, texts: Sequence[Path], sharing: set[bool]) -> Advice:
    """The advice, with the vocabulary nearest to it that the text can give."""
    if piece.key != _VOCABULARY:
        return piece
    size = piece.value
    for joint in sorted(sharing):
        size = possible_vocab_size(size, cfg, texts, joint=joint)
    if size == piece.value:
        return piece
    most, least = tr("the most that this text can give"), tr("the least that this text can give")
    return piece._replace(value=size, why=most if size < piece.value else least)


def possible_vocab_size(size: int, cfg: Config, texts: Sequence[Path], *, joint: bool) -> int:
    """The nearest size of vocabulary that both sides can give."""
    codes = [cfg.languages.src, cfg.languages.tgt]
    step = math.ceil(sum(path.stat().st_size for path in texts) / MOST_TRIED)
    alone = [([text], [code]) for text, code in zip(texts, codes, strict=True)]
    for paths, languages in [(list(texts), codes)] if joint else alone:
        for _ in range(_N_TRIALS):
            found = _tried(size, cfg, paths, languages, step)
            if found == size:
                break
            size = found
    return size


def _tried(size: int, cfg: Config, paths: Iterable[Path], languages: list[str], step: int) -> int:
    """The size if it can be learned from each `step`-th line, else the nearest one that can."""
    settings = cfg.tokenizer.model_copy(update={"vocab_size": size})
    lines = islice(chain.from_iterable(map(split_lines, paths)), 0, None, max(1, step))
    with tempfile.TemporaryDirectory() as folder:
        try:
            train_tokenizer(
                lines, Path(folder) / "x.model", settings, languages, seed=cfg.seed,
                tags=tag_pieces(cfg),
            )  # fmt: skip
        except TokenizerError as error:
            return error.possible or size
    return size


def _is_valid(cfg: Config, pieces: Sequence[Advice]) -> bool:
    """Can these settings be used together?"""
    tree = cfg.model_dump()
    for piece in pieces:
        section, name = piece.key.split(".")
        tree[section][name] = piece.value
    try:
        return bool(build_config(tree, "advice"))
    except ConfigError:
        return False
