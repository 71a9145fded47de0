"""Sub-words of an epoch: a function of seed, epoch and sentence, made ahead, in any pieces."""

import multiprocessing
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from encoded import encode_pairs

from transformer_mt.config.model import TokenizerConfig
from transformer_mt.encoding import epochs, mixing
from transformer_mt.encoding.encoded_corpus import EncodedCorpus, open_corpus
from transformer_mt.encoding.epochs import BlockOf, EpochData, draw_rows, epoch_blocks
from transformer_mt.encoding.mixing import BLOCK_ENTRIES, Place
from transformer_mt.encoding.tags import Tagging
from transformer_mt.encoding.tokenizer import UNK_ID, train_tokenizer
from transformer_mt.system.state import fingerprint

Pairs = list[tuple[str, str]]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, toy_pairs: Pairs) -> EpochData:
    """Both directions of the toy pairs, with tags, 400 rows."""
    directory = tmp_path_factory.mktemp("plain")
    both = [text for pair in toy_pairs for text in pair]
    tokenizer = train_tokenizer(
        both, directory / "t.model", TokenizerConfig(vocab_size=400), ["zh", "en"], seed=1,
        tags=["<2en>", "<2zh>"],
    )  # fmt: skip
    en, zh = tokenizer.tags.values()
    encode_pairs(
        toy_pairs, (tokenizer, tokenizer), directory / "train", max_length=None,
        tagging=Tagging(directions=((en,), (zh,))), sources=np.zeros(200, dtype=np.uint16),
    )  # fmt: skip
    return EpochData(directory / "train", [1.0], (tokenizer, tokenizer), "bpe", 0.2, 1, 1000)


@contextmanager
def opened(data: EpochData, directory: Path, say: Callable[[str], None]) -> Iterator[BlockOf]:
    with epoch_blocks(data, directory, workers=1, say=say) as block_of:
        yield block_of


def ids(corpus: EncodedCorpus) -> list[list[list[int]]]:
    return [[side.sentence(i) for i in range(len(corpus))] for side in (corpus.src, corpus.tgt)]


def draw(data: EpochData, epoch: int, out_dir: Path, workers: int = 1) -> None:
    draw_rows(data, epoch, np.arange(len(open_corpus(data.corpus_dir))), out_dir, workers=workers)


def drawn(data: EpochData, epoch: int, out_dir: Path) -> list[list[list[int]]]:
    draw(data, epoch, out_dir)
    return ids(open_corpus(out_dir))


def test_the_same_text_and_tags_in_other_pieces(data: EpochData, tmp_path: Path) -> None:
    plain, other = ids(open_corpus(data.corpus_dir)), drawn(data, 0, tmp_path / "0")
    tokenizer = data.tokenizers[0]
    for side in (0, 1):
        assert tokenizer.decode(other[side]) == tokenizer.decode(plain[side])
        n_same = sum(a == b for a, b in zip(plain[side], other[side], strict=True))
        assert n_same < 100
    assert [row[0] for row in other[0]] == [row[0] for row in plain[0]]
    assert not set(tokenizer.tags.values()) & {id_ for row in other[1] for id_ in row}


def test_pieces_are_a_function_of_seed_and_epoch(
    data: EpochData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = drawn(data, 3, tmp_path / "a")
    assert drawn(data, 3, tmp_path / "b") == first
    monkeypatch.setattr(epochs, "CHUNK", 7)
    assert drawn(data, 3, tmp_path / "c") == first
    for number, changed in enumerate((replace(data, seed=2), data)):
        other = drawn(changed, 4 - (number == 0), tmp_path / str(number))
        n_same = sum(a == b for a, b in zip(first[0], other[0], strict=True))
        assert n_same < 200


def test_what_sampling_would_make_too_long_or_cannot_spell_stays(
    toy_pairs: Pairs, tmp_path: Path
) -> None:
    cfg = TokenizerConfig(vocab_size=60, byte_fallback=False)
    texts = [en for _, en in toy_pairs]
    tokenizer = train_tokenizer(texts, tmp_path / "t.model", cfg, ["en"], seed=1)
    pairs = [(f"{text} 龘", text) for text in texts]
    longest = max(map(len, tokenizer.encode(texts)))
    both = tokenizer, tokenizer
    encode_pairs(pairs, both, tmp_path / "train", max_length=None)
    data = EpochData(tmp_path / "train", [1.0], both, "bpe", 0.5, 1, longest)
    plain, other = ids(open_corpus(tmp_path / "train")), drawn(data, 0, tmp_path / "0")
    assert all(row.count(UNK_ID) == 1 for row in plain[0] + other[0])
    changed = [b for a, b in zip(plain[1], other[1], strict=True) if a != b]
    assert changed and max(map(len, changed)) <= longest
    assert any(a == b for a, b in zip(plain[1], other[1], strict=True))


def test_without_sampling_every_epoch_has_the_plain_corpus_and_nothing_is_made(
    data: EpochData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(epochs, "spawn_context", None)  # no process can start
    off = replace(data, strength=0.0)
    plain = ids(open_corpus(data.corpus_dir))
    with epoch_blocks(off, tmp_path / "epochs", workers=2, say=print) as block_of:
        for epoch in (0, 7):
            block = block_of(Place.start_of(epoch))
            assert ids(block.corpus) == plain and block.rows.tolist() == list(range(400))
    assert list(tmp_path.iterdir()) == []


def test_epochs_follow_each_other_and_old_ones_go(data: EpochData, tmp_path: Path) -> None:
    """What was made ahead is what would have been made at once; only the first is waited for."""
    told: list[str] = []
    directory = tmp_path / "epochs"
    found = []
    (directory / "0123456789abcdef").mkdir(parents=True)  # drawn with other settings
    with opened(data, directory, told.append) as block_of:
        for epoch in (0, 1, 2):
            block = block_of(Place.start_of(epoch))
            found.append(ids(block.corpus))
            assert block.rows.tolist() == list(range(400))
            (settings,) = directory.iterdir()
            oldest = min(path.name[:6] for path in settings.iterdir())
            assert oldest == f"{max(0, epoch - 1):06d}", (
                "the last update of the one before reads it"
            )
        deadline = time.monotonic() + 60
        while not (settings / f"000003-000000-{BLOCK_ENTRIES}").is_dir():
            assert time.monotonic() < deadline, "the next epoch is made while this one is read"
            time.sleep(0.05)
    assert told == ["  epoch 0: drawing sub-words"]
    for epoch in (0, 1, 2):
        assert drawn(data, epoch, tmp_path / str(epoch)) == found[epoch]
    with opened(data, directory, told.append) as block_of:
        block_of(Place.start_of(3))
    assert len(told) == 1, "what is there is not made again"


def test_if_the_process_beside_dies_the_epoch_is_made_when_it_is_needed(
    data: EpochData, tmp_path: Path
) -> None:
    told: list[str] = []
    with opened(data, tmp_path / "epochs", told.append) as block_of:
        block_of(Place.start_of(0))
        (process,) = multiprocessing.active_children()
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        found = ids(block_of(Place.start_of(1)).corpus)
    assert told == ["  epoch 0: drawing sub-words", "  epoch 1: drawing sub-words"]
    assert found == drawn(data, 1, tmp_path / "1")


def test_finished_shards_are_used_again(
    data: EpochData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(epochs, "SHARD", 100)
    whole = drawn(data, 0, tmp_path / "whole")
    begun: list[object] = []
    draw_shard = epochs._draw_shard

    def interrupted_once(*arguments: Any) -> None:
        begun.append(arguments)
        if len(begun) == 3:
            raise KeyboardInterrupt
        draw_shard(*arguments)

    monkeypatch.setattr(epochs, "_draw_shard", interrupted_once)
    with pytest.raises(KeyboardInterrupt):
        draw(data, 0, tmp_path / "parts")
    assert not (tmp_path / "parts").exists()
    assert len(list((tmp_path / "parts.shards").glob("*.npz"))) == 2
    assert drawn(data, 0, tmp_path / "parts") == whole
    assert len(begun) == 3 + 2
    assert {path.name for path in tmp_path.iterdir()} == {"whole", "parts"}


def test_several_processes_give_the_same_bytes_as_one(
    data: EpochData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(epochs, "SHARD", 150)
    one, two = (tmp_path / str(workers) for workers in (1, 2))
    for workers, place in enumerate((one, two), start=1):
        draw(data, 0, place, workers)
    for name in ("src.ids", "tgt.ids", "src.offsets.npy", "tgt.offsets.npy"):
        assert (one / name).read_bytes() == (two / name).read_bytes()


def test_of_several_processes_one_draws_and_waits_for_the_slowest_to_open(
    data: EpochData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when training resumes at the end of an epoch: one process asks for the next at once."""
    barrier = threading.Barrier(2, timeout=30)

    def open_late(place: Path) -> EncodedCorpus:
        if threading.current_thread().name.startswith("reader") and place != data.corpus_dir:
            time.sleep(0.5)
        return open_corpus(place)

    monkeypatch.setattr(epochs, "open_corpus", open_late)
    # Drawn before, so that nothing but the meeting keeps the one that draws from going on.
    drawn_dir = tmp_path / "e" / fingerprint(data.strength, data.seed, data.weights)
    draw(data, 1, drawn_dir / f"000001-000000-{BLOCK_ENTRIES}")

    def both_epochs(draws: bool) -> list[list[list[list[int]]]]:
        with epoch_blocks(
            data, tmp_path / "e", workers=1, say=print, draws=draws, meet=barrier.wait
        ) as block_of:
            return [ids(block_of(Place.start_of(epoch)).corpus) for epoch in (0, 1)]

    with ThreadPoolExecutor(1, thread_name_prefix="reader") as pool:
        reading = pool.submit(both_epochs, False)
        assert both_epochs(True) == reading.result()


def test_an_epoch_in_blocks_has_the_sub_words_of_an_epoch_in_one(
    data: EpochData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row by row, though shards, folders and processes are others; the disk holds two blocks."""
    monkeypatch.setattr(mixing, "CHUNK_ROWS", 16)
    monkeypatch.setattr(mixing, "BLOCK_ENTRIES", 150)
    told: list[str] = []
    place, seen = Place.start_of(2), []
    plain, whole = open_corpus(data.corpus_dir), drawn(data, 2, tmp_path / "whole")
    with opened(data, tmp_path / "blocks", told.append) as block_of:
        while place.epoch == 2:
            block = block_of(place)
            rows = block.in_encoded_corpus(block.rows)
            assert rows.tolist() == data.plain_block(place).rows.tolist()
            for side, expected in zip((block.corpus.src, block.corpus.tgt), whole, strict=True):
                found = [side.sentence(row) for row in block.rows]
                assert found == [expected[row] for row in rows]
            (settings,) = (tmp_path / "blocks").iterdir()
            assert len({path.name[:13] for path in settings.glob("[0-9]*")}) <= 2
            seen += rows.tolist()
            place = block.following
    assert told == ["  epoch 2, block 1 of 3: drawing sub-words"]
    assert sorted(seen) == list(range(len(plain)))


def test_a_block_without_rows(data: EpochData, tmp_path: Path) -> None:
    """As weights below 1 can leave it."""
    draw_rows(data, 0, np.arange(0), tmp_path / "none", workers=1)
    assert ids(open_corpus(tmp_path / "none")) == [[], []]
