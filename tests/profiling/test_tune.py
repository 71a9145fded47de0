"""Choosing a beam: on numbers, and on a toy model."""

from pathlib import Path

import pytest
import torch

from transformer_mt.config.experiment import Config
from transformer_mt.encoding.tokenizer import Tokenizer
from transformer_mt.errors import DataError
from transformer_mt.evaluation.test_sets import EvaluationSet
from transformer_mt.model_dir import build_model, load_model_dir, save_model_dir, weights_of
from transformer_mt.profiling.tune import ALPHAS, BEAMS, Choice, choose, tune, write_choice


@pytest.mark.parametrize(
    ("choices", "expected", "why"),
    [
        ([(1, 0.0, 30.0), (4, 0.6, 31.0), (8, 0.6, 31.05)], (4, 0.6), "8 brings too little"),
        ([(1, 0.0, 30.0), (4, 0.6, 31.0), (8, 0.6, 31.2)], (8, 0.6), "8 brings enough"),
        ([(4, 0.0, 31.0), (4, 1.0, 31.05), (1, 0.6, 10.0)], (4, 1.0), "the best of its beam"),
    ],
)
def test_the_smallest_beam_that_is_good(
    choices: list[tuple[int, float, float]], expected: tuple[int, float], why: str
) -> None:
    best = choose([Choice(*choice) for choice in choices])
    assert (best.beam, best.length_penalty) == expected, why


@pytest.fixture
def model_dir(
    toy_config: Config,
    tokenizers: tuple[Tokenizer, Tokenizer],
    tokenizer_dir: Path,
    tmp_path: Path,
) -> Path:
    torch.manual_seed(4)
    weights = weights_of(build_model(toy_config, tokenizers))
    save_model_dir(tmp_path / "model", toy_config, weights, tokenizer_dir, {"scores": {"x": 1}})
    return tmp_path / "model"


def test_scores_are_those_of_translations(
    model_dir: Path, toy_pairs: list[tuple[str, str]]
) -> None:
    pairs = toy_pairs[:8]
    dev = EvaluationSet("dev", "en", [zh for zh, _ in pairs], [en for _, en in pairs], "zh")
    found = tune(model_dir, "chrf", [dev])
    assert {(c.beam, c.length_penalty) for c in found.choices} == {
        (beam, alpha) for beam in BEAMS for alpha in ALPHAS
    }
    greedy = {c.score for c in found.choices if c.beam == 1}
    assert len(greedy) == 1, "one hypothesis has no rank"
    assert found.best in found.choices
    assert f"beam {found.best.beam}" in found.render()


def test_the_choice_is_written_and_nothing_else(model_dir: Path) -> None:
    before = load_model_dir(model_dir)
    write_choice(model_dir, Choice(3, 1.4, 0.0))
    after = load_model_dir(model_dir)
    assert (after.config.decode.beam, after.config.decode.length_penalty) == (3, 1.4)
    assert after.metadata["scores"] == {"x": 1}
    for name, weight in before.model.state_dict().items():
        assert after.model.state_dict()[name].equal(weight)


def test_a_model_without_a_run_needs_texts(model_dir: Path) -> None:
    with pytest.raises(DataError, match="give --src and --ref"):
        tune(model_dir, "bleu")
