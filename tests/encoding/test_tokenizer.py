"""Tokenizer: what goes in comes out, nothing a user writes becomes a control id, errors say how."""

import io
import re
from functools import partial
from itertools import chain, product
from pathlib import Path
from typing import Any, Literal

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from transformer_mt.config.model import TokenizerConfig
from transformer_mt.encoding import tokenizer as tokenizer_file
from transformer_mt.encoding.tokenizer import (
    BOS_ID,
    EOS_ID,
    PAD_ID,
    UNK_ID,
    Tokenizer,
    train_tokenizer,
)
from transformer_mt.errors import TokenizerError

_ENGLISH, _CHINESE = (
    [form.format(*words) for words in product(*map(str.split, choices))]
    for form, *choices in (
        ("The {} {} {} the {}, didn't it?", "old tired small", "animal girl teacher",
         "crossed saw painted", "street house river"),
        ("{}的{}{}了{}，对吗？“好！”", "很老 疲倦 小", "动物 女孩 老师",
         "穿过 看见 画", "街道 房子 河流"),
    )
)  # fmt: skip


Kind = Literal["bpe", "unigram"]
KINDS: tuple[Kind, ...] = ("bpe", "unigram")
TAGS = ["<2en>", "<2zh>", "<bt>"]


def _train(
    texts: list[str],
    out_path: Path,
    languages: list[str],
    *,
    type: Kind = "bpe",
    vocab_size: int = 320,
    byte_fallback: bool = True,
    **others: Any,
) -> Tokenizer:
    cfg = TokenizerConfig(type=type, vocab_size=vocab_size, byte_fallback=byte_fallback)
    return train_tokenizer(texts, out_path, cfg, languages, **{"seed": 1, **others})


@pytest.fixture(scope="module")
def tokenizers_of(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tokenizer]:
    folder = tmp_path_factory.mktemp("models")
    return {
        "english": _train(_ENGLISH, folder / "en.model", ["en"]),
        "chinese": _train(_CHINESE, folder / "zh.model", ["zh"], vocab_size=340),
        "joint": _train(_CHINESE + _ENGLISH, folder / "joint", ["zh", "en"], vocab_size=400),
    }


@pytest.fixture
def english(tokenizers_of: dict[str, Tokenizer]) -> Tokenizer:
    return tokenizers_of["english"]


@pytest.fixture(scope="module")
def joint(tokenizers_of: dict[str, Tokenizer]) -> Tokenizer:
    return tokenizers_of["joint"]


@pytest.fixture(scope="module", params=KINDS)
def tagged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    path, texts = tmp_path_factory.mktemp("tagged") / "t", _CHINESE + _ENGLISH
    return _train(texts, path, ["zh", "en"], type=request.param, vocab_size=340, tags=TAGS)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("texts", "languages", "vocab_size"),
    [(_ENGLISH, ["en"], 290), (_CHINESE, ["zh"], 308), (_CHINESE + _ENGLISH, ["zh", "en"], 340)],
    ids=["en", "zh", "joint"],
)
def test_training_text_comes_back_exactly(
    kind: Kind,
    texts: list[str],
    languages: list[str],
    vocab_size: int,
    tmp_path: Path,
) -> None:
    tokenizer = _train(texts, tmp_path / "t.model", languages, type=kind, vocab_size=vocab_size)
    ids = tokenizer.encode(texts)
    assert tokenizer.vocab_size == vocab_size
    assert tokenizer.decode(ids) == texts
    assert not {PAD_ID, UNK_ID, BOS_ID, EOS_ID} & {id_ for sequence in ids for id_ in sequence}
    # It has learned something: fewer pieces than characters.
    assert sum(map(len, ids)) < sum(map(len, texts))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("很long" * 20_000, "long"),
        ("", "empty"),
        ("a", "one letter"),
        ("<s>", "spelling of BOS"),
        ("x </s> y</s>", "spelling of EOS"),
        ("<pad><pad>", "spelling of PAD"),
        ("<unk>", "spelling of UNK"),
        ("<0x41>", "spelling of a byte piece"),
        ("nul\x00, bell\x07, tab\tand\nnewline", "control characters"),
        ("😀👩‍👩‍👧🇨🇳", "emoji: outside the 16-bit plane, joined, flags"),
        ("，。！？“”（）", "full-width punctuation stays full-width"),
        ("ﬁ ½ … ＡＢＣ", "compatibility characters stay"),
        ("non\u00a0breaking \u3000 \u2028 \u0085 spaces", "not the ASCII space: kept"),
        ("\ufeff \ufffd \U0010ffff", "byte order mark, replacement, last code point"),
        ("龘靐齉", "characters never seen"),
        ("שלום नमस्ते สวัสดี", "other scripts"),
    ],
)
@pytest.mark.parametrize("which", ["english", "chinese", "joint"])
def test_any_text_comes_back(
    text: str, why: str, which: str, tokenizers_of: dict[str, Tokenizer]
) -> None:
    tokenizer = tokenizers_of[which]
    (ids,) = tokenizer.encode([text])
    assert tokenizer.decode([ids]) == [text], why
    assert not {PAD_ID, UNK_ID, BOS_ID, EOS_ID} & set(ids), why
    assert bool(ids) == bool(text), why


@given(st.text(st.sampled_from("ab ,。中文的é😀\x01<>/s"), max_size=40))
def test_random_text_comes_back(joint: Tokenizer, text: str) -> None:
    text = re.sub(" +", " ", text).strip(" ")
    assert joint.decode(joint.encode([text])) == [text]


def test_what_does_not_come_back(english: Tokenizer) -> None:
    assert english.decode(english.encode(["  The   old girl "])) == ["The old girl"]
    assert english.decode(english.encode(["a\udcffb"])) == ["a\ufffdb"], "a lone surrogate"
    assert english.encode(["", "   "]) == [[], []]
    assert english.encode([]) == english.decode([]) == []
    assert english.decode([[]]) == [""]


def test_decoding_leaves_out_special_ids_and_tags(english: Tokenizer, tagged: Tokenizer) -> None:
    for tokenizer in (english, tagged):
        (ids,) = tokenizer.encode(["The old girl"])
        noisy = [BOS_ID, ids[0], PAD_ID, *tokenizer.tags.values(), *ids[1:], EOS_ID, PAD_ID]
        assert tokenizer.decode([noisy, [BOS_ID, EOS_ID]]) == ["The old girl", ""]
    with pytest.raises(IndexError):
        english.decode([[english.vocab_size]])


def test_pieces_name_every_id(english: Tokenizer) -> None:
    names = english.pieces(range(english.vocab_size))
    assert names[:4] == ["<pad>", "<unk>", "<s>", "</s>"]
    assert len(set(names)) == english.vocab_size == 320
    assert names[4 + 0x41] == "<0x41>"


def test_only_spaced_languages_begin_with_a_space_piece(
    tokenizers_of: dict[str, Tokenizer],
) -> None:
    texts = {"english": "The girl", "joint": "动物", "chinese": "动物 Tom 女孩"}
    pieces = {
        name: tokenizers_of[name].pieces(tokenizers_of[name].encode([text])[0])
        for name, text in texts.items()
    }
    starts = {name: own[0].startswith("▁") for name, own in pieces.items()}
    assert starts == {"english": True, "joint": True, "chinese": False}
    assert " " not in "".join(_CHINESE), "its space is a piece, though the text had none"
    assert "▁" in pieces["chinese"]


def test_rates_count_unknown_and_byte_pieces(english: Tokenizer, tmp_path: Path) -> None:
    # Without bytes a character never seen is unknown.
    strict = _train(_ENGLISH, tmp_path / "t", ["en"], vocab_size=60, byte_fallback=False)
    learned = list(chain.from_iterable(strict.encode(_ENGLISH)))
    assert strict.unknown_rate(learned) == strict.byte_rate(learned) == 0
    (unknown,), (spelled,) = strict.encode(["龘"]), english.encode(["龘"])
    assert strict.unknown_rate(unknown) == 0.5  # "▁" and <unk>
    assert strict.decode([unknown]) == [" ⁇ "]
    assert english.unknown_rate(spelled) == 0
    assert english.byte_rate(spelled) == 0.75  # "▁" and three bytes
    assert english.unknown_rate([]) == english.byte_rate([]) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_call_writes_the_same_bytes(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of a large corpus, which is sampled with the seed."""
    for limit in (10**6, 1000):
        monkeypatch.setattr(tokenizer_file, "MAX_BYTES", limit)
        models = []
        for seed in (1, 1, 2):
            _train(_ENGLISH, tmp_path / "t", ["en"], type=kind, vocab_size=290, seed=seed)
            models.append((tmp_path / "t").read_bytes())
        assert models[0] == models[1] and (models[1] == models[2]) == (limit > 1000)
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


def test_tags_are_pieces_of_their_own_within_the_vocabulary(
    tagged: Tokenizer, english: Tokenizer
) -> None:
    assert tagged.vocab_size == 340 and list(tagged.tags) == TAGS and english.tags == {}
    assert tagged.pieces(list(tagged.tags.values())) == TAGS
    pieces = tagged.text_pieces()
    assert len(pieces) == 340 - 4 - 3 - 256, "those that stand for text"
    assert not {PAD_ID, UNK_ID, BOS_ID, EOS_ID, *tagged.tags.values()} & set(pieces)
    for ids in tagged.encode(_ENGLISH + _CHINESE):
        assert set(ids) <= set(pieces)
    for text in ("<bt>", "<2en> The girl", "a<bt>b <2zh>", "<bt", "动物<bt>。"):
        (ids,) = tagged.encode([text])
        assert not set(tagged.tags.values()) & set(ids), "text that spells a tag is text"
        assert tagged.decode([ids]) == [text]


def test_a_tokenizer_without_tags_is_what_it_was_before_there_were_any(tmp_path: Path) -> None:
    cfg = TokenizerConfig(vocab_size=300)
    train_tokenizer(_ENGLISH, tmp_path / "none", cfg, ["en"], seed=1, tags=[])
    plain = tokenizer_file._options(cfg, 300, ["en"], [])
    del plain["control_symbols"]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(_ENGLISH), model_writer=model, **plain
    )
    assert (tmp_path / "none").read_bytes() == model.getvalue()


@pytest.mark.parametrize("kind", KINDS)
def test_too_large_a_vocabulary_names_the_largest(kind: Kind, tmp_path: Path) -> None:
    with pytest.raises(TokenizerError) as caught:
        _train(_ENGLISH, tmp_path / "t", ["en"], type=kind, vocab_size=32000)
    message = re.fullmatch(
        r"tokenizer\.vocab_size 32000 is too large for this en text: the largest possible "
        r"is (\d+); set tokenizer\.vocab_size to \1 or less",
        str(caught.value),
    )
    assert message and list(tmp_path.iterdir()) == []
    largest = int(message[1])
    _train(_ENGLISH, tmp_path / "t", ["en"], type=kind, vocab_size=largest)
    with pytest.raises(TokenizerError, match=f"largest possible is {largest}"):
        _train(_ENGLISH, tmp_path / "t", ["en"], type=kind, vocab_size=largest + 1)


@pytest.mark.parametrize("byte_fallback", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_too_small_a_vocabulary_names_the_smallest(
    kind: Kind, byte_fallback: bool, tmp_path: Path
) -> None:
    train = partial(
        _train, _ENGLISH, tmp_path / "t", ["en"], type=kind, byte_fallback=byte_fallback
    )
    # 4 special pieces, the bytes, and the characters with the space among them.
    smallest = 4 + 256 * byte_fallback + len(set("".join(_ENGLISH)))
    bytes_ = "the 256 bytes of tokenizer.byte_fallback, " if byte_fallback else ""
    with pytest.raises(TokenizerError) as caught:
        train(vocab_size=20)
    assert str(caught.value) == (
        f"tokenizer.vocab_size 20 is too small for this en text: its characters, {bytes_}and 4 "
        f"special pieces need {smallest}; set tokenizer.vocab_size to {smallest} or more"
    )
    assert train(vocab_size=smallest).vocab_size == smallest


@pytest.mark.parametrize("texts", [[], ["", "  ", "\t"], ["x" * 20_000]])
def test_no_text_is_an_error(texts: list[str], tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match=r"no text to learn .*check data\.train"):
        _train(texts, tmp_path / "t", ["en"])


def test_overlong_lines_are_left_out_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    overlong = "字" * 6_000  # 18 000 bytes
    _train([*_ENGLISH, overlong, overlong], tmp_path / "with", ["en"])
    assert "2 lines longer than 16384 bytes" in caplog.text
    _train(_ENGLISH, tmp_path / "without", ["en"])
    assert (tmp_path / "with").read_bytes() == (tmp_path / "without").read_bytes()


def test_files_are_loaded_or_named(english: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "x.model"
    _train(_ENGLISH, path, ["en"])
    assert Tokenizer.load(path).encode(_ENGLISH) == english.encode(_ENGLISH)
    for content in (b"", b"no model", bytes(50)):
        path.write_bytes(content)
        with pytest.raises(TokenizerError, match=r"x\.model: not a SentencePiece model"):
            Tokenizer.load(path)
    with pytest.raises(TokenizerError, match=r"none: no such tokenizer; make it with tmt"):
        Tokenizer.load(tmp_path / "none")
    with pytest.raises(TokenizerError, match="cannot be read: Is a directory"):
        Tokenizer.load(tmp_path)


def test_a_model_with_other_special_ids_is_refused(tmp_path: Path) -> None:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(_ENGLISH), model_writer=model, vocab_size=100, model_type="bpe",
        minloglevel=2,
    )  # fmt: skip
    with pytest.raises(TokenizerError, match=(
        r"pad -1, unk 0, bos 1, eos 2 \(-1: none\), but tmt needs pad 0, unk 1, bos 2, eos 3"
    )):  # fmt: skip
        Tokenizer(model.getvalue(), where="foreign")
