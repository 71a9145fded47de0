"""What is advised can be typed."""

import gettext
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pairs_of_text import write_sides

from transformer_mt.config.advice import Advice
from transformer_mt.config.experiment import Config, build_config
from transformer_mt.config.recipes import recommend
from transformer_mt.encoding.tokenizer import train_tokenizer
from transformer_mt.errors import TokenizerError
from transformer_mt.messages import catalogue
from transformer_mt.pipeline.run_dir import Run
from transformer_mt.profiling import workable_advice as module
from transformer_mt.profiling.workable_advice import possible_vocab_size, workable_advice


@pytest.fixture
def run(toy_pairs: list[tuple[str, str]], tmp_path: Path) -> Run:
    """A run with 200 pairs of clean text."""
    run = Run(tmp_path)
    run.clean_dir.mkdir(parents=True)
    write_sides(run.clean_dir / "train", toy_pairs, ("src", "tgt"))
    return run


def vocab_size(advice: list[Advice]) -> int:
    return next(int(piece.value) for piece in advice if piece.key == "tokenizer.vocab_size")


def test_the_advised_vocabulary_can_be_learned(
    experiment: Callable[..., Config], run: Run, tmp_path: Path
) -> None:
    """The table advises thousands of pieces; this text gives some hundred."""
    cfg = experiment(["a"], {"vocab_size": 100_000})
    usual = vocab_size(recommend(200, 3000, languages=cfg.languages, device="cpu"))
    advice = workable_advice(cfg, run, 200, 3000, "cpu")
    size = vocab_size(advice)
    assert size < usual
    settings = cfg.tokenizer.model_copy(update={"vocab_size": size})
    for side, code in (("src", "zh"), ("tgt", "en")):
        lines = (run.clean_dir / f"train.{side}").read_text(encoding="utf-8").splitlines()
        found = train_tokenizer(lines, tmp_path / side, settings, [code], seed=1)
        assert found.vocab_size == size
    with pytest.raises(TokenizerError, match="too large"):
        larger = cfg.tokenizer.model_copy(update={"vocab_size": usual})
        train_tokenizer(lines, tmp_path / "x", larger, ["en"], seed=1)


def test_its_reason_is_told_in_the_language_of_the_user(
    experiment: Callable[..., Config], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    chinese = gettext.translation(catalogue.DOMAIN, catalogue.CATALOGUES, languages=["zh"])
    monkeypatch.setattr(catalogue, "_catalogue", chinese)
    cfg = experiment(["a"], {"vocab_size": 100_000})
    advice = workable_advice(cfg, run, 200, 3000, "cpu")
    (why,) = (piece.why for piece in advice if piece.key == "tokenizer.vocab_size")
    assert why and not re.search("[A-Za-z]", why)


@pytest.mark.parametrize("joint", [False, True])
def test_a_size_that_is_possible_stays(
    experiment: Callable[..., Config], run: Run, joint: bool
) -> None:
    cfg = experiment(["a"], {})
    texts = [run.clean_dir / f"train.{side}" for side in ("src", "tgt")]
    most = possible_vocab_size(50_000, cfg, texts, joint=joint)
    assert 270 < most < 2000
    assert possible_vocab_size(most, cfg, texts, joint=joint) == most
    least = possible_vocab_size(16, cfg, texts, joint=joint)
    assert 256 < least <= most


def test_of_much_text_a_part_is_read(
    experiment: Callable[..., Config], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gives fewer pieces than the whole."""
    texts = [run.clean_dir / f"train.{side}" for side in ("src", "tgt")]
    whole = possible_vocab_size(50_000, experiment(["a"], {}), texts, joint=False)
    n_bytes = sum(path.stat().st_size for path in texts)
    monkeypatch.setattr(module, "MOST_TRIED", n_bytes // 60)
    assert possible_vocab_size(50_000, experiment(["a"], {}), texts, joint=False) < whole


def test_settings_that_exclude_each_other_are_not_advised(
    experiment: Callable[..., Config], run: Run
) -> None:
    """Heads within the tolerance of the table do not divide another width."""
    cfg = experiment(["a"], {})
    tree = cfg.model_dump()
    tree["model"] |= {"d_model": 384, "heads": 6}
    cfg = build_config(tree, "test")
    advice = workable_advice(cfg, run, 5_000, 60_000, "cpu")
    for piece in advice:
        section, name = piece.key.split(".")
        tree[section][name] = piece.value
    settings: dict[str, Any] = build_config(tree, "test").model_dump()
    assert settings["model"]["d_model"] % settings["model"]["heads"] == 0
    assert {"model.d_model", "model.heads"} <= {piece.key for piece in advice}
