"""Other sub-words of the same text: they spell it, from a seed, as often as probability says."""

import json
import math
import subprocess
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Literal

import pytest
from places import ROOT

from transformer_mt.config.model import TokenizerConfig
from transformer_mt.encoding.subword_sampling import SubwordSampler, _MergeDropout
from transformer_mt.encoding.tokenizer import EOS_ID, UNK_ID, Tokenizer, train_tokenizer

Kind = Literal["bpe", "unigram"]
Pairs = list[tuple[str, str]]
KINDS: tuple[Kind, ...] = ("bpe", "unigram")
ODD = ["龘 😀", "a", "", "<bt> Tom 看见", "  x  y ", "the the the", "猫" * 40]


SCRIPT = """
import json, sys
from pathlib import Path
from transformer_mt.encoding.subword_sampling import SubwordSampler
from transformer_mt.encoding.tokenizer import Tokenizer
sampler = SubwordSampler(Tokenizer.load(Path(sys.argv[1])), sys.argv[2], 0.2)
rows = json.load(sys.stdin)
for seed in reversed(range(len(rows))):
    rows[seed] = sampler.sample(rows[seed], seed)
print(json.dumps(rows))
"""


@pytest.fixture(scope="module")
def tokenizer_of(
    tmp_path_factory: pytest.TempPathFactory, toy_pairs: Pairs
) -> Callable[[Kind], Tokenizer]:
    directory = tmp_path_factory.mktemp("tokenizers")
    texts = [text for pair in toy_pairs for text in pair]
    trained = {}
    for kind in KINDS:
        cfg = TokenizerConfig(type=kind, vocab_size=400)
        trained[kind] = train_tokenizer(
            texts, directory / kind, cfg, ["zh", "en"], seed=1, tags=["<bt>"]
        )
    return trained.__getitem__


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strength", [0.05, 0.3, 0.9])
def test_they_spell_the_same_text(
    kind: Kind, strength: float, tokenizer_of: Callable[[Kind], Tokenizer], toy_pairs: Pairs
) -> None:
    tokenizer = tokenizer_of(kind)
    texts = [text for pair in toy_pairs for text in pair] + ODD
    plain = tokenizer.encode(texts)
    sampler = SubwordSampler(tokenizer, kind, strength)
    drawn = [sampler.sample(ids, seed) for seed, ids in enumerate(plain)]
    assert tokenizer.decode(drawn) == tokenizer.decode(plain)
    assert drawn != plain


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_text_stays_in_its_place(
    kind: Kind, tokenizer_of: Callable[[Kind], Tokenizer]
) -> None:
    tokenizer = tokenizer_of(kind)
    (ids,) = tokenizer.encode(["the teacher 龘 sees"])
    row = [tokenizer.tags["<bt>"], *ids, UNK_ID, EOS_ID]
    texts = set(tokenizer.text_pieces())
    sampler = SubwordSampler(tokenizer, kind, 0.5)
    others = [[i for i in sampler.sample(row, seed) if i not in texts] for seed in range(20)]
    assert others == [[i for i in row if i not in texts]] * 20
    assert all(sampler.sample(row, seed)[-2:] == [UNK_ID, EOS_ID] for seed in range(20))
    assert sampler.sample([], 1) == []


def test_without_a_merge_left_out_it_is_bpe(
    tokenizer_of: Callable[[Kind], Tokenizer], toy_pairs: Pairs
) -> None:
    """The merging of characters here is that of SentencePiece."""
    tokenizer = tokenizer_of("bpe")
    merging = SubwordSampler(tokenizer, "bpe", 0.5)._word
    assert isinstance(merging, _MergeDropout)
    pieces = tokenizer.text_pieces()
    for ids in tokenizer.encode([text for pair in toy_pairs for text in pair] + ["the" * 30]):
        word: list[str] = []
        for piece in (*tokenizer.pieces(ids), "▁"):
            if piece[0] == "▁" and word:
                merging._before_next = 10**9
                assert merging.merge(list("".join(word)), Random(0)) == word
                word = []
            word.append(piece)
        assert set(ids) <= set(pieces)


@pytest.mark.parametrize("strength", [0.1, 0.4])
def test_merges_are_left_out_as_often_as_they_should(
    strength: float, tokenizer_of: Callable[[Kind], Tokenizer]
) -> None:
    """A word of m merges stays as it is with a probability of (1 - strength)^m."""
    tokenizer = tokenizer_of("bpe")
    (ids,) = tokenizer.encode(["the teacher sees the street"])
    pieces = tokenizer.pieces(ids)
    m = sum(map(len, pieces)) - len(pieces)
    sampler = SubwordSampler(tokenizer, "bpe", strength)
    n = 20_000
    n_same = sum(sampler.sample(ids, seed) == ids for seed in range(n))
    expected = (1 - strength) ** m
    assert m > 3
    assert abs(n_same / n - expected) < 5 * math.sqrt(expected / n)


def test_unigram_segmentations_come_as_often_as_their_probability_says(
    tmp_path: Path,
) -> None:
    """Against all segmentations of a word, written out."""
    cfg, strength = TokenizerConfig(type="unigram", vocab_size=40, byte_fallback=False), 0.3
    random = Random(2)
    syllables = ["ba", "na", "da", "tana", "dab"]
    texts = ["".join(random.choices(syllables, k=random.randint(1, 4))) for _ in range(2000)]
    tokenizer = train_tokenizer(texts, tmp_path / "t.model", cfg, ["en"], seed=1)
    pieces = tokenizer.text_pieces()
    scores = dict(pieces.values())
    text = "▁banadab"

    def segmentations(rest: str) -> list[list[str]]:
        if not rest:
            return [[]]
        return [
            [rest[:end], *others]
            for end in range(1, len(rest) + 1)
            if rest[:end] in scores
            for others in segmentations(rest[end:])
        ]

    weights = {
        tuple(found): math.exp(strength * sum(scores[piece] for piece in found))
        for found in segmentations(text)
    }
    total = sum(weights.values())
    (ids,) = tokenizer.encode(["banadab"])
    sampler = SubwordSampler(tokenizer, "unigram", strength)
    n = 20_000
    counts = Counter(tuple(tokenizer.pieces(sampler.sample(ids, seed))) for seed in range(n))
    assert len(weights) > 5 and set(counts) <= set(weights)
    for found, weight in weights.items():
        expected = weight / total
        assert abs(counts[found] / n - expected) < 5 * math.sqrt(expected / n) + 1e-4


@pytest.mark.parametrize("kind", KINDS)
def test_another_process_draws_the_same(
    kind: Kind,
    tokenizer_of: Callable[[Kind], Tokenizer],
    toy_pairs: Pairs,
    tmp_path: Path,
) -> None:
    """Also with another order of sets and hashes."""
    path, tokenizer = tmp_path / "t.model", tokenizer_of(kind)
    path.write_bytes(tokenizer.serialised)
    plain = tokenizer.encode([text for pair in toy_pairs for text in pair])
    sampler = SubwordSampler(tokenizer, kind, 0.2)
    drawn = [sampler.sample(ids, seed) for seed, ids in enumerate(plain)]
    program = [sys.executable, "-c", SCRIPT, str(path), kind]
    environment = {"PYTHONHASHSEED": "7", "PYTHONPATH": str(ROOT)}
    found = subprocess.check_output(program, input=json.dumps(plain), text=True, env=environment)
    assert json.loads(found) == drawn
    others = [sampler.sample(ids, seed + 1) for seed, ids in enumerate(plain)]
    n_same = sum(a == b for a, b in zip(drawn, others, strict=True))
    assert n_same < 0.5 * len(plain), "another seed, other pieces"


def test_sentences_without_spaces_are_not_kept(tokenizer_of: Callable[[Kind], Tokenizer]) -> None:
    tokenizer, random = tokenizer_of("unigram"), Random(1)
    sampler = SubwordSampler(tokenizer, "unigram", 0.2)
    characters = [piece for piece, _ in tokenizer.text_pieces().values() if "一" <= piece <= "龥"]
    rows = tokenizer.encode(["".join(random.choices(characters, k=60)) for _ in range(300)])
    tracemalloc.start()
    try:
        for row in rows:
            sampler.sample(row, 1)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1000 * len(rows)
