"""Both tokenizers of a model as one `tokenizer.json` of the package `tokenizers`.

That format has one vocabulary. Where a model has two, the ids of the target stay as they are, and
those of the source that are not special come after them:

    0 … 3            4 … V_tgt − 1              V_tgt … V_tgt + V_src − 5
    special pieces   pieces of the target       pieces of the source

A mark before its spelling keeps a piece from being found in a text: special pieces and tags, and of
two vocabularies the target's. Decoding takes the marks away.

Of tmt's normalisation it does NFC, white space, and the characters that become another or none:
curly quotes in English, full-width letters in Chinese. Entities of HTML, spaces between Chinese
characters and Traditional Chinese stay as they are.
"""

import unicodedata
from collections import defaultdict
from typing import Any

from transformer_mt.encoding.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Tokenizer
from transformer_mt.text.normalise import Normaliser

N_SPECIAL = 1 + max(PAD_ID, UNK_ID, BOS_ID, EOS_ID)
_MARK = "\ue000"  # a character of private use
_UNKNOWN = " ⁇ "  # how SentencePiece decodes UNK
_NEVER = -1e5  # a score that no other path of a unigram model is worse than
_SPACE = "▁"


def source_offset(src: Tokenizer, tgt: Tokenizer) -> int:
    """What is added to source ids that are not special; 0: there is one vocabulary."""
    return 0 if src.serialised == tgt.serialised else tgt.vocab_size - N_SPECIAL


def tokenizer_json(src: Tokenizer, tgt: Tokenizer, language: str) -> dict[str, Any]:
    """The content of `tokenizer.json`.

    Args:
        src: bpe, or unigram without bytes: transformers.js never looks for them there.
        language: of the source.
    """
    names = special_names(tgt)
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [
            {"id": id_, "content": names[id_], "single_word": False, "lstrip": False,
             "rstrip": False, "normalized": False, "special": True}
            for id_ in (PAD_ID, BOS_ID, EOS_ID)
        ],
        "normalizer": _sequence(
            "normalizers",
            {"type": "NFC"},
            *(_replace(f"[{old}]", new) for new, old in _replacements(language).items()),
            _replace(r"\s+", " "), _replace(r"\A | \z", ""),
        ),
        "pre_tokenizer": {
            "type": "Metaspace", "replacement": _SPACE, "split": True,
            "prepend_scheme": "always" if _begins_with_space(src) else "never",
        },
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"Sequence": {"id": "A", "type_id": 0}},
                       {"SpecialToken": {"id": names[EOS_ID], "type_id": 0}}],
            "pair": [],
            "special_tokens": {
                names[EOS_ID]: {"id": names[EOS_ID], "ids": [EOS_ID], "tokens": [names[EOS_ID]]}
            },
        },
        "decoder": _sequence(
            "decoders",
            _replace(_MARK, ""), _replace(_SPACE, " "),
            {"type": "ByteFallback"}, {"type": "Fuse"}, _replace(r"\s+", " "),
            {"type": "Strip", "content": " ", "start": 1, "stop": 1},
        ),
        "model": _model(src, tgt),
    }  # fmt: skip


def special_names(tgt: Tokenizer) -> list[str]:
    """How the special pieces are spelled, by id."""
    pieces = tgt.pieces(range(N_SPECIAL))
    pieces[UNK_ID] = _UNKNOWN
    return [_MARK + piece for piece in pieces]


def _model(src: Tokenizer, tgt: Tokenizer) -> dict[str, Any]:
    offset, texts = source_offset(src, tgt), src.text_pieces()
    spellings = special_names(tgt)
    if offset:
        spellings += [_MARK + piece for piece in tgt.pieces(range(N_SPECIAL, tgt.vocab_size))]
    hidden = {id_: _MARK + _MARK + tag for tag, id_ in src.tags.items()}
    pieces = src.pieces(range(src.vocab_size))
    spellings += [hidden.get(i, pieces[i]) for i in range(N_SPECIAL, src.vocab_size)]
    if src.kind == "bpe":
        return {
            "type": "BPE", "vocab": {piece: i for i, piece in enumerate(spellings)},
            "merges": _merges(texts), "unk_token": spellings[UNK_ID], "fuse_unk": True,
            "byte_fallback": has_bytes(src), "ignore_merges": False, "dropout": None,
            "continuing_subword_prefix": None, "end_of_word_suffix": None,
        }  # fmt: skip
    scores = [_NEVER] * len(spellings)
    for id_, (_, score) in texts.items():
        scores[id_ + offset] = score
    vocab = [list(pair) for pair in zip(spellings, scores, strict=True)]
    return {"type": "Unigram", "unk_id": UNK_ID, "vocab": vocab}


def _merges(texts: dict[int, tuple[str, float]]) -> list[list[str]]:
    """Every pair of pieces that is a piece, in the order in which SentencePiece merges them."""
    known = {piece for piece, _ in texts.values()}
    return [
        [piece[:i], piece[i:]]
        for piece, _ in sorted(texts.values(), key=lambda pair: -pair[1])
        for i in range(1, len(piece))
        if piece[:i] in known and piece[i:] in known
    ]


def has_bytes(tokenizer: Tokenizer) -> bool:
    """Whether characters that are no piece are spelled in bytes."""
    return "<0x00>" in tokenizer.pieces(range(tokenizer.vocab_size))


def _replacements(language: str) -> dict[str, str]:
    """New text → the characters that normalising alone turns into it; NFC and spaces apart."""
    normalise = Normaliser(language, None)
    found: dict[str, str] = defaultdict(str)
    for char in map(chr, [*range(0xD800), *range(0xE000, 0x10000)]):
        new = normalise(f"!{char}!")[1:-1]  # no mark composes with it
        if new != unicodedata.normalize("NFC", char) and not char.isspace():
            found[new] += char
    return found


def _replace(pattern: str, content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


def _begins_with_space(tokenizer: Tokenizer) -> bool:
    """Whether every text has a space put before it."""
    (ids,) = tokenizer.encode(["a"])
    return tokenizer.pieces(ids)[0].startswith(_SPACE)


def _sequence(parts: str, *steps: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", parts: list(steps)}
