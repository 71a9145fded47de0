"""Tokenizer: what goes in comes out, nothing a user writes becomes a control id, errors say how."""

import io
import random
import re
from pathlib import Path
from typing import Literal

import pytest
import sentencepiece

from transformer_mt.config.experiment import TokenizerConfig
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

_ENGLISH = [
    f"The {adjective} {noun} {verb} the {place}, didn't it?"
    for adjective in ("old", "tired", "small")
    for noun in ("animal", "girl", "teacher")
    for verb in ("crossed", "saw", "painted")
    for place in ("street", "house", "river")
]
_CHINESE = [
    f"{adjective}的{noun}{verb}了{place}，对吗？“好！”"
    for adjective in ("很老", "疲倦", "小")
    for noun in ("动物", "女孩", "老师")
    for verb in ("穿过", "看见", "画")
    for place in ("街道", "房子", "河流")
]


def _train(
    texts: list[str],
    out_path: Path,
    languages: list[str],
    *,
    type: Literal["bpe", "unigram"] = "bpe",
    vocab_size: int = 320,
    byte_fallback: bool = True,
    seed: int = 1,
) -> Tokenizer:
    cfg = TokenizerConfig(type=type, vocab_size=vocab_size, byte_fallback=byte_fallback)
    return train_tokenizer(texts, out_path, cfg, languages, seed=seed)


@pytest.fixture(scope="module")
def english(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return _train(_ENGLISH, tmp_path_factory.mktemp("en") / "en.model", ["en"])


@pytest.fixture(scope="module")
def chinese(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return _train(_CHINESE, tmp_path_factory.mktemp("zh") / "zh.model", ["zh"], vocab_size=340)


@pytest.fixture(scope="module")
def joint(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    path = tmp_path_factory.mktemp("joint") / "joint.model"
    return _train(_CHINESE + _ENGLISH, path, ["zh", "en"], vocab_size=400)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize(
    ("texts", "languages", "vocab_size"),
    [(_ENGLISH, ["en"], 290), (_CHINESE, ["zh"], 308), (_CHINESE + _ENGLISH, ["zh", "en"], 340)],
    ids=["en", "zh", "joint"],
)
def test_training_text_comes_back_exactly(
    kind: Literal["bpe", "unigram"],
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
    text: str, why: str, which: str, request: pytest.FixtureRequest
) -> None:
    tokenizer: Tokenizer = request.getfixturevalue(which)
    (ids,) = tokenizer.encode([text])
    assert tokenizer.decode([ids]) == [text], why
    assert not {PAD_ID, UNK_ID, BOS_ID, EOS_ID} & set(ids), why
    assert bool(ids) == bool(text), why


def test_random_text_comes_back(joint: Tokenizer) -> None:
    generator = random.Random(0)
    alphabet = "ab ,。中文的é😀\x01<>/s"
    texts = ["".join(generator.choices(alphabet, k=generator.randrange(40))) for _ in range(300)]
    texts = [re.sub(" +", " ", text).strip(" ") for text in texts]
    assert any(" " in text for text in texts) and len(set(texts)) > 250
    assert joint.decode(joint.encode(texts)) == texts


def test_long_text_comes_back(joint: Tokenizer) -> None:
    text = "很long" * 20_000
    assert joint.decode(joint.encode([text])) == [text]


def test_extra_spaces_are_dropped_and_blank_text_is_empty(english: Tokenizer) -> None:
    assert english.decode(english.encode(["  The   old girl "])) == ["The old girl"]
    assert english.encode(["", "   "]) == [[], []]


def test_lone_surrogates_become_replacement_characters(english: Tokenizer) -> None:
    assert english.decode(english.encode(["a\udcffb"])) == ["a\ufffdb"]


def test_nothing_in_nothing_out(english: Tokenizer) -> None:
    assert english.encode([]) == []
    assert english.decode([]) == []
    assert english.decode([[]]) == [""]


def test_decode_leaves_out_special_ids_wherever_they_stand(english: Tokenizer) -> None:
    (ids,) = english.encode(["The old girl"])
    assert len(ids) >= 2
    noisy = [BOS_ID, ids[0], PAD_ID, *ids[1:], EOS_ID, PAD_ID, PAD_ID]
    assert english.decode([noisy, [BOS_ID, EOS_ID]]) == ["The old girl", ""]


def test_decode_refuses_ids_outside_the_vocabulary(english: Tokenizer) -> None:
    with pytest.raises(IndexError):
        english.decode([[english.vocab_size]])


def test_pieces_name_every_id(english: Tokenizer) -> None:
    names = english.pieces(range(english.vocab_size))
    assert names[:4] == ["<pad>", "<unk>", "<s>", "</s>"]
    assert len(set(names)) == english.vocab_size == 320
    assert names[4 + 0x41] == "<0x41>"


def test_only_spaced_languages_begin_with_a_space_piece(
    english: Tokenizer, chinese: Tokenizer, joint: Tokenizer
) -> None:
    def first_piece(tokenizer: Tokenizer, text: str) -> str:
        return tokenizer.pieces(tokenizer.encode([text])[0])[0]

    assert first_piece(english, "The girl").startswith("▁")
    assert first_piece(joint, "动物").startswith("▁")
    assert not first_piece(chinese, "动物").startswith("▁")
    # A space within Chinese text is still kept, though the training text has none.
    assert " " not in "".join(_CHINESE)
    assert "▁" in chinese.pieces(chinese.encode(["动物 Tom 女孩"])[0])
    assert chinese.decode(chinese.encode(["动物 Tom 女孩"])) == ["动物 Tom 女孩"]


def test_rates_count_unknown_and_byte_pieces(english: Tokenizer, tmp_path: Path) -> None:
    strict = _train(
        _ENGLISH, tmp_path / "t.model", ["en"], vocab_size=60, byte_fallback=False
    )  # no bytes: a character never seen is unknown
    assert strict.unknown_rate(_ENGLISH) == strict.byte_rate(_ENGLISH) == 0
    assert strict.pieces(strict.encode(["a龘"])[0])[-1] == "<unk>"
    assert strict.unknown_rate(["龘"]) == 0.5  # "▁" and <unk>
    assert strict.decode(strict.encode(["龘"])) == [" ⁇ "]
    assert english.unknown_rate(["龘"]) == 0
    assert english.byte_rate(["龘"]) == 0.75  # "▁" and three bytes
    assert english.unknown_rate([]) == english.byte_rate([""]) == 0


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_same_text_same_bytes(kind: Literal["bpe", "unigram"], tmp_path: Path) -> None:
    for name in ("a", "b"):
        _train(_ENGLISH, tmp_path / name, ["en"], type=kind, vocab_size=290)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_large_corpora_are_sampled_with_the_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenizer_file, "MAX_CHARACTERS", 1000)
    models = []
    for seed in (1, 1, 2):
        _train(_ENGLISH, tmp_path / "t", ["en"], vocab_size=300, seed=seed)
        models.append((tmp_path / "t").read_bytes())
    assert models[0] == models[1] != models[2]


TAGS = ["<2en>", "<2zh>", "<bt>"]


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def tagged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    path = tmp_path_factory.mktemp("tagged") / "t.model"
    cfg = TokenizerConfig(type=request.param, vocab_size=340)
    return train_tokenizer(_CHINESE + _ENGLISH, path, cfg, ["zh", "en"], seed=1, tags=TAGS)


def test_tags_are_pieces_of_their_own_within_the_vocabulary(
    tagged: Tokenizer, english: Tokenizer
) -> None:
    assert tagged.vocab_size == 340
    assert list(tagged.tags) == TAGS
    assert tagged.pieces(tagged.tags.values()) == TAGS
    assert english.tags == {}


@pytest.mark.parametrize("text", ["<bt>", "<2en> The girl", "a<bt>b <2zh>", "<bt", "动物<bt>。"])
def test_text_that_spells_a_tag_is_text(tagged: Tokenizer, text: str) -> None:
    (ids,) = tagged.encode([text])
    assert not set(tagged.tags.values()) & set(ids)
    assert tagged.decode([ids]) == [text]


def test_decoding_leaves_tags_out(tagged: Tokenizer) -> None:
    (ids,) = tagged.encode(["The old girl"])
    assert tagged.decode([[tagged.tags["<2en>"], tagged.tags["<bt>"], *ids]]) == ["The old girl"]


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


def test_text_pieces_are_those_that_stand_for_text(tagged: Tokenizer) -> None:
    pieces = tagged.text_pieces()
    assert not {PAD_ID, UNK_ID, BOS_ID, EOS_ID, *tagged.tags.values()} & set(pieces)
    assert "<0x41>" not in {piece for piece, _ in pieces.values()}
    assert len(pieces) == 340 - 4 - 3 - 256
    for ids in tagged.encode(_ENGLISH + _CHINESE):
        assert set(ids) <= set(pieces)


def test_load_gives_the_same_tokenizer(chinese: Tokenizer, tmp_path: Path) -> None:
    _train(_CHINESE, tmp_path / "deep" / "zh.model", ["zh"], vocab_size=340)
    loaded = Tokenizer.load(tmp_path / "deep" / "zh.model")
    assert loaded.encode(_CHINESE) == chinese.encode(_CHINESE)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_too_large_a_vocabulary_names_the_largest(
    kind: Literal["bpe", "unigram"], tmp_path: Path
) -> None:
    with pytest.raises(TokenizerError) as caught:
        _train(_ENGLISH, tmp_path / "t", ["en"], type=kind, vocab_size=32000)
    message = re.fullmatch(
        r"tokenizer\.vocab_size 32000 is too large for this en text: the largest possible "
        r"is (\d+); set tokenizer\.vocab_size to \1 or less",
        str(caught.value),
    )
    assert message and list(tmp_path.iterdir()) == []
    largest = int(message[1])
    tokenizer = _train(_ENGLISH, tmp_path / "t", ["en"], type=kind, vocab_size=largest)
    assert tokenizer.vocab_size == largest
    with pytest.raises(TokenizerError, match=f"largest possible is {largest}"):
        _train(_ENGLISH, tmp_path / "t", ["en"], type=kind, vocab_size=largest + 1)


@pytest.mark.parametrize(
    ("byte_fallback", "reason"),
    [(True, "characters, the 256 bytes of tokenizer.byte_fallback, and 4 special pieces"),
     (False, "characters, and 4 special pieces")],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_too_small_a_vocabulary_names_the_smallest(
    kind: Literal["bpe", "unigram"], byte_fallback: bool, reason: str, tmp_path: Path
) -> None:
    def train(vocab_size: int) -> Tokenizer:
        return _train(
            _ENGLISH, tmp_path / "t", ["en"],
            type=kind, vocab_size=vocab_size, byte_fallback=byte_fallback,
        )  # fmt: skip

    # 4 special pieces, the bytes, and the characters with the space among them.
    smallest = 4 + 256 * byte_fallback + len(set("".join(_ENGLISH)))
    with pytest.raises(TokenizerError) as caught:
        train(20)
    assert "tokenizer.vocab_size 20 is too small for this en text" in str(caught.value)
    assert reason in str(caught.value)
    assert f"set tokenizer.vocab_size to {smallest} or more" in str(caught.value)
    assert train(smallest).vocab_size == smallest


@pytest.mark.parametrize("texts", [[], ["", "  ", "\t"], ["x" * 20_000]])
def test_no_text_is_an_error(texts: list[str], tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match="no text to learn a tokenizer from") as caught:
        _train(texts, tmp_path / "t", ["en"])
    assert "data.train" in str(caught.value)


def test_overlong_lines_are_left_out_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    overlong = "字" * 6_000  # 18 000 bytes
    _train([*_ENGLISH, overlong, overlong], tmp_path / "with", ["en"])
    assert "2 lines longer than 16384 bytes" in caplog.text
    _train(_ENGLISH, tmp_path / "without", ["en"])
    assert (tmp_path / "with").read_bytes() == (tmp_path / "without").read_bytes()


def test_missing_and_broken_files(tmp_path: Path) -> None:
    path = tmp_path / "x.model"
    with pytest.raises(TokenizerError, match=r"x\.model: no such tokenizer; make it with tmt"):
        Tokenizer.load(path)
    for content in (b"", b"no model", bytes(50)):
        path.write_bytes(content)
        with pytest.raises(TokenizerError, match=r"x\.model: not a SentencePiece model"):
            Tokenizer.load(path)
    with pytest.raises(TokenizerError, match="cannot be read: Is a directory"):
        Tokenizer.load(tmp_path)


def test_a_model_with_other_special_ids_is_refused(tmp_path: Path) -> None:
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(_ENGLISH),
        model_prefix=str(tmp_path / "foreign"),
        vocab_size=100,
        model_type="bpe",
        minloglevel=2,
    )
    with pytest.raises(TokenizerError) as caught:
        Tokenizer.load(tmp_path / "foreign.model")
    assert "special ids are pad -1, unk 0, bos 1, eos 2 (-1: none)" in str(caught.value)
    assert "tmt needs pad 0, unk 1, bos 2, eos 3" in str(caught.value)
