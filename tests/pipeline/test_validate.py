"""Validation in training."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import pytest
import torch

from transformer_mt.config.experiment import Config
from transformer_mt.encoding.encoded_corpus import EncodedCorpus, EncodedSide
from transformer_mt.encoding.tokenizer import BOS_ID, EOS_ID, Tokenizer
from transformer_mt.evaluation.test_sets import EvaluationSet
from transformer_mt.model import few_rows
from transformer_mt.model_dir import build_model
from transformer_mt.pipeline import validate as scoring
from transformer_mt.pipeline.prepare import Prepared
from transformer_mt.pipeline.run_dir import Run
from transformer_mt.system.processes.distributed import ALONE, Ranks
from transformer_mt.translation.translator import Translator

T = TypeVar("T")


@pytest.mark.parametrize("min_elements", [1, 1 << 30], ids=["onednn", "transposed"])
def test_a_validation_scores_the_weights_of_its_time(
    min_elements: int,
    toy_config: Config,
    toy_pairs: list[tuple[str, str]],
    tokenizers: tuple[Tokenizer, Tokenizer],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The decoder keeps copies of weights in another layout: they must not outlive an update."""
    monkeypatch.setattr(few_rows, "ONEDNN_MIN_ELEMENTS", min_elements)
    monkeypatch.setattr(scoring, "dev_loss", lambda *_: 0.0)
    run = Run(tmp_path)
    run.clean_dir.mkdir(parents=True)
    for side, name in enumerate(("src", "tgt")):
        text = "".join(f"{pair[side]}\n" for pair in toy_pairs[:20])
        (run.clean_dir / f"dev.{name}").write_text(text, encoding="utf-8")
    torch.manual_seed(1)
    model = build_model(toy_config, tokenizers).eval()
    unread: Any = None
    prepared = Prepared(tokenizers, unread, unread, "")
    validate = scoring.dev_validation(toy_config, run, prepared, model, ALONE)
    before = validate()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    after = validate()
    assert after == scoring.dev_validation(toy_config, run, prepared, model, ALONE)()
    assert after["chrf"] != before["chrf"]


def test_the_loss_on_dev_is_that_of_each_sentence_alone(
    toy_config: Config, tokenizers: tuple[Tokenizer, Tokenizer]
) -> None:
    torch.manual_seed(2)
    model = build_model(toy_config, tokenizers).eval()
    random = np.random.default_rng(1)
    rows = [random.integers(4, 300, length).tolist() for length in random.integers(1, 90, 60)]
    ids = np.array([token for row in rows for token in (*row, EOS_ID)], dtype=np.uint16)
    side = EncodedSide(ids, np.cumsum([0, *(len(row) + 1 for row in rows)]))
    total, n_tokens = 0.0, 0
    with torch.no_grad():
        for row in rows:
            src, tgt_in = torch.tensor([[*row, EOS_ID]]), torch.tensor([[BOS_ID, *row]])
            log_probs = model.project(model(src, tgt_in))[0].log_softmax(dim=-1)
            total -= log_probs.gather(1, src[0, :, None]).sum().item()
            n_tokens += len(row) + 1
    dev = EncodedCorpus(side, side)
    found = scoring.dev_loss(model, dev)
    assert found == pytest.approx(total / n_tokens, rel=1e-5)
    shares = together(3, lambda ranks: scoring.dev_loss(model, dev, ranks))
    assert shares == pytest.approx([found] * 3, rel=1e-6)


@dataclass(frozen=True)
class Thread(Ranks):
    """One of several threads in the place of processes."""

    told: list[Any] = field(default_factory=list)
    barrier: threading.Barrier = field(default_factory=lambda: threading.Barrier(1))

    def gather(self, value: T) -> list[T]:
        self.told[self.rank] = value
        self.barrier.wait(timeout=120)
        values = list(self.told)
        self.barrier.wait(timeout=120)
        return values

    def sum(self, tensor: torch.Tensor) -> torch.Tensor:
        return torch.stack(self.gather(tensor)).sum(dim=0)


def together(n: int, work: Callable[[Ranks], T]) -> list[T]:
    """What each of `n` processes finds."""
    told, barrier = [None] * n, threading.Barrier(n)
    ranks = [Thread(rank, n, told=told, barrier=barrier) for rank in range(n)]
    with ThreadPoolExecutor(n) as pool:
        return list(pool.map(work, ranks))


class Upper:
    """Translates into capital letters, and remembers what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def translate_texts(self, texts: Sequence[str], **_: Any) -> list[str]:
        self.asked.extend(texts)
        return [text.upper() for text in texts]


@pytest.mark.parametrize("n", [1, 2, 3])
def test_processes_share_a_test_set_and_find_the_same_scores(n: int, tmp_path: Path) -> None:
    """Each has as much to translate, even where long and short sentences take turns."""
    words = "the cat saw a dog near that old house and ran home again".split()
    srcs = [" ".join(words[: 2 if i % 2 else len(words)]) + f" {i * 7 % 20}" for i in range(20)]
    refs = [src.upper() for src in srcs]
    refs[3] += " WRONG"
    test = EvaluationSet("toy", "en", srcs, refs)
    translators = [Upper() for _ in range(n)]
    run = Run(tmp_path)

    def score(ranks: Ranks) -> Any:
        return scoring.score_test(cast(Translator, translators[ranks.rank]), run, test, ranks)

    scores = together(n, score)
    assert all(found == scores[0] for found in scores)
    assert list(scores[0]) == ["bleu", "chrf"]
    assert scores[0]["bleu"].name == "BLEU" and scores[0]["chrf"].name == "chrF2"
    assert 90 < scores[0]["bleu"].score < 100
    written = (run.translations_dir / "toy.txt").read_text(encoding="utf-8")
    assert written.splitlines() == [src.upper() for src in srcs]
    assert sorted(text for one in translators for text in one.asked) == sorted(srcs)
    letters = [sum(map(len, one.asked)) for one in translators]
    assert max(letters) - min(letters) <= max(map(len, srcs))
