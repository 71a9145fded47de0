"""Advice by corpus size: valid, monotone, with a reason, and what the bundled files follow."""

from itertools import pairwise, product
from typing import Any

import pytest

from transformer_mt.config.advice import Advice, apply_advice, changes, compare
from transformer_mt.config.data import Languages
from transformer_mt.config.experiment import Config, build_config, load_experiment
from transformer_mt.config.recipes import Budget, recommend, starting_point, training_that_ends

SIZES = [100, 5_000, 19_999, 20_000, 60_000, 99_999, 300_000, 999_999, 2_500_000, 50_000_000, 10**9]
PAIRS = [("en", "de"), ("zh", "en"), ("en", "zh"), ("zh", "ja"), ("en", "ru"), ("ru", "uk")]
DEVICES = ["cpu", "cuda"]


def languages_of(src: str, tgt: str, *, bidirectional: bool = False) -> Languages:
    return Languages(src=src, tgt=tgt, bidirectional=bidirectional)


def config_of(languages: Languages, **sections: Any) -> Config:
    tokenizer = {"joint": languages.bidirectional, **sections.pop("tokenizer", {})}
    tree = {"name": "x", "languages": languages.model_dump(), "data": {"train": ["a"]}}
    return build_config({**tree, "tokenizer": tokenizer, **sections}, "x")


def advise(
    n_pairs: int, device: str = "cuda", pair: tuple[str, str] = ("en", "de")
) -> list[Advice]:
    return recommend(n_pairs, 15 * n_pairs, languages=languages_of(*pair), device=device)


def values(advice: list[Advice]) -> dict[str, Any]:
    assert len({a.key for a in advice}) == len(advice), "each key once"
    return {a.key: a.value for a in advice}


@pytest.mark.parametrize("n_pairs", SIZES)
def test_every_advice_is_a_valid_configuration(n_pairs: int) -> None:
    for pair, bidirectional, device in product(PAIRS, [False, True], DEVICES):
        languages = languages_of(*pair, bidirectional=bidirectional)
        advice = recommend(n_pairs, 15 * n_pairs, languages=languages, device=device)
        advised = apply_advice(config_of(languages), advice)
        for a in advice:
            section, name = a.key.split(".")
            assert getattr(getattr(advised, section), name) == a.value
            assert a.why and "\n" not in a.why and len(a.why) < 130
        assert compare(advised, advice) == [], "a configuration that follows differs nowhere"
        assert advised.tokenizer.joint or not bidirectional


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("pair", PAIRS)
def test_more_text_never_means_a_smaller_model_or_more_dropout(
    pair: tuple[str, str], device: str
) -> None:
    rows = [values(advise(n, device, pair)) for n in SIZES]
    on_gpu = [values(advise(n, "cuda", pair)) for n in SIZES]
    sizes = ("model.d_model", "model.ffn", "model.encoder_layers", "tokenizer.vocab_size")
    for row, larger in zip(rows, on_gpu, strict=True):
        assert all(row[key] <= larger[key] for key in sizes)
    has_characters = {"zh", "ja"} & {*pair}
    assert (rows[0]["tokenizer.vocab_size"] >= 5000) == bool(has_characters), "room for them"
    grow = (
        "model.d_model", "model.ffn", "model.encoder_layers", "model.decoder_layers",
        "tokenizer.vocab_size", "train.tokens_per_update", "train.warmup_updates",
    )  # fmt: skip
    for fewer, more in pairwise(rows):
        assert all(fewer[key] <= more[key] for key in grow)
        assert fewer["model.dropout"] >= more["model.dropout"]
        assert fewer["tokenizer.sampling"] >= more["tokenizer.sampling"]
        assert fewer["model.norm"] == more["model.norm"] or more["model.norm"] == "post"
    assert rows[0] != rows[-1]


@pytest.mark.parametrize(
    ("pair", "bidirectional", "joint", "why"),
    [
        (("en", "de"), False, True, "both Latin"),
        (("ru", "uk"), False, True, "both Cyrillic"),
        (("zh", "ja"), False, True, "both have Chinese characters"),
        (("en", "ru"), False, False, "two scripts"),
        (("zh", "en"), False, False, "two scripts"),
        (("el", "ru"), False, False, "neither Latin, nor the same"),
        (("zh", "en"), True, True, "one model for both directions needs it"),
    ],
)
def test_one_vocabulary_for_one_script(
    pair: tuple[str, str], bidirectional: bool, joint: bool, why: str
) -> None:
    languages = languages_of(*pair, bidirectional=bidirectional)
    found = values(recommend(10**5, 10**6, languages=languages, device="cpu"))
    assert found["tokenizer.joint"] is joint, why


@pytest.mark.parametrize("tgt_tokens", [10_000, 60_000, 140_000, 400_000, 10**9])
def test_an_epoch_is_more_than_a_few_updates(tgt_tokens: int) -> None:
    languages = languages_of("en", "de")
    found = values(recommend(50_000, tgt_tokens, languages=languages, device="cpu"))
    tokens = found["train.tokens_per_update"]
    assert tgt_tokens / tokens >= min(50, tgt_tokens / 500)
    assert tokens <= values(advise(50_000))["train.tokens_per_update"]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"model": {"dropout": 0.1}}, {"model.dropout"}),
        ({"model": {"dropout": 0.27}}, set()),
        ({"model": {"d_model": 160}}, set()),
        ({"model": {"d_model": 512}}, {"model.d_model"}),
        ({"tokenizer": {"vocab_size": [7000, 32000]}}, {"tokenizer.vocab_size"}),
        ({"tokenizer": {"vocab_size": [7000, 8000]}}, set()),
        ({"train": {"lr": "paper"}}, {"train.lr"}),
        ({"train": {"lr": 4e-3}}, set()),
    ],
)
def test_only_notable_differences_are_named(
    changes: dict[str, dict[str, Any]], named: set[str]
) -> None:
    languages = languages_of("zh", "en")
    advice = recommend(30_000, 400_000, languages=languages, device="cpu")
    tree = apply_advice(config_of(languages), advice).model_dump()
    for section, settings in changes.items():
        tree[section] |= settings
    found = compare(build_config(tree, "x"), advice)
    assert {a.key for a in found} == named
    assert all(a in advice for a in found), "the advice itself, with its reason"


@pytest.mark.parametrize("n_pairs", SIZES)
def test_a_training_that_ends_suits_its_text_and_its_time(n_pairs: int) -> None:
    """More time never means smaller updates, a shorter warm-up or less dropout; no time is too
    short, and none is too long."""
    languages, tgt_tokens = languages_of("en", "de"), 15 * n_pairs
    rows = []
    for tokens in (1, 1e3, 1e5, 1e6, 2.5e6, 5e6, 2e7, 9.9e7):
        budget = Budget(minutes=tokens / 4e5, tokens=tokens)
        advice = training_that_ends(
            n_pairs, tgt_tokens, languages=languages, device="cpu", budget=budget
        )
        found = values(advice)
        advised = apply_advice(config_of(languages), advice)
        assert advised.model.modern and advised.train.max_minutes == budget.minutes
        assert changes(advised, advice) == []
        n_updates = tokens / found["train.tokens_per_update"]
        assert found["train.warmup_updates"] <= max(1, n_updates / 5)
        assert found["train.max_updates"] > 10 * n_updates, "the clock ends it"
        assert advised.train.momentum_warmup == 1_000 * (tokens < 8 * tgt_tokens)
        rows.append(found)
    for shorter, longer in pairwise(rows):
        grow = ("train.tokens_per_update", "train.warmup_updates", "model.dropout", "model.d_model")
        assert all(shorter[key] <= longer[key] for key in grow)
    assert {row["model.d_model"] for row in rows} == {128}, "so little time is for a small model"


@pytest.mark.parametrize("n_pairs", SIZES)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_schedule_is_as_long_as_its_training(n_pairs: int, device: str) -> None:
    """Where a model grows with the budget, its updates become few: the rate still reaches its
    peak, which is the paper's at most."""
    languages = languages_of("en", "de")
    for tokens in (1e8, 3e8, 1e9, 1e10, 1e12):
        budget = Budget(minutes=60, tokens=tokens)
        advice = training_that_ends(
            n_pairs, 15 * n_pairs, languages=languages, device=device, budget=budget
        )
        found, cfg = values(advice), apply_advice(config_of(languages), advice)
        n_updates = 8 * found["train.validate_every"]
        assert found["train.warmup_updates"] <= max(1, n_updates / 5)
        paper = (cfg.model.d_model * 4000) ** -0.5
        assert cfg.train.peak_lr(cfg.model.d_model) <= max(1.001 * paper, 8e-3)
        assert cfg.model.modern or found["train.warmup_updates"] == 4000


def test_hours_on_a_gpu_are_for_the_model_that_suits_the_corpus() -> None:
    languages = languages_of("en", "de")
    for n_pairs, tokens, width in [(29_000, 1e10, 128), (10**6, 1e10, 512), (10**6, 5e7, 128)]:
        found = training_that_ends(
            n_pairs, 15 * n_pairs, languages=languages, device="cuda", budget=Budget(60, tokens)
        )
        assert values(found)["model.d_model"] == width


@pytest.mark.parametrize("width", [64, 512])
def test_a_model_whose_size_stays_has_the_schedule_of_its_own_speed(width: int) -> None:
    """It reads as many tokens less as it has more to compute for each."""
    languages, work = languages_of("en", "de"), []
    for kept in ({}, {"model.d_model": width, "model.ffn": 4 * width}):
        advice = training_that_ends(
            29_000, 460_000, languages=languages, device="cpu", budget=Budget(30, 4e7), kept=kept
        )
        cfg = apply_advice(config_of(languages), advice)
        assert cfg.model.d_model == (width if kept else 128)
        updates = 8 * cfg.train.validate_every
        work.append(updates * cfg.train.tokens_per_update * cfg.model.matrix_parameters)
        assert cfg.train.warmup_updates <= updates / 5
    assert work[1] == pytest.approx(work[0], rel=0.02)


@pytest.mark.parametrize("n_pairs", SIZES)
def test_advice_suits_the_settings_that_stay(n_pairs: int) -> None:
    languages = languages_of("zh", "en")
    for kept in (
        {"tokenizer.joint": True},
        {"tokenizer.vocab_size": [500, 600]},
        {"model.norm": "post", "train.lr": "paper"},
        {"model.architecture": "paper", "train.tokens_per_update": 700, "model.dropout": 0.25},
    ):
        advice = starting_point(
            n_pairs, 15 * n_pairs, characters=(4_000, 60), words=(0, 500), languages=languages,
            device="cpu", budget=Budget(9, 1e7), kept=kept,
        )  # fmt: skip
        found = values(advice)
        assert all(found[key] == value for key, value in kept.items() if key in found)
        advised = apply_advice(config_of(languages), advice)
        assert advised.model.norm == kept.get("model.norm", "pre")
        assert advised.tokenizer.vocab_sizes[0] >= (500 if "vocab_size" in str(kept) else 4_000)


SHORT = "minutes on two cores: smaller and less regularised than a training without a clock"
# Corpus: pairs and target tokens of the files that come with tmt, and why they differ from advice.
BUNDLED: dict[str, tuple[int, int, str, dict[str, str]]] = {
    "tiny": (30_000, 340_000, "cpu", {
        "tokenizer.vocab_size": "the grammar knows some hundred words",
        "model.dropout": "the text has no noise, and the run ends after minutes",
        "train.warmup_updates": "660 updates in all",
    }),
    "multi30k-en-de": (29_000, 430_000, "cpu", {
        "model.dropout": "less, for a run of a quarter of an hour",
        "train.warmup_updates": "a quarter of it, for a run of a quarter of an hour",
    }),
    "tatoeba-zh-en": (27_000, 275_000, "cpu", {
        "train.warmup_updates": "half of it, as measured with the cool-down",
    }),
    "mixed-zh-en": (109_637, 2_100_000, "cpu", {
        **dict.fromkeys(
            ("model.d_model", "model.ffn", "tokenizer.vocab_size", "model.dropout",
             "train.tokens_per_update", "train.lr",
             "train.warmup_updates"), SHORT),
        "tokenizer.joint": "so that the same file can be bidirectional",
    }),
    "base": (1_000_000, 25_000_000, "cuda", {}),
    "zh-en": (2_500_000, 70_000_000, "cuda", {}),
    "en-zh": (2_500_000, 70_000_000, "cuda", {}),
    "zh-en-bidirectional": (2_500_000, 140_000_000, "cuda", {}),
    "big": (1_000_000, 25_000_000, "cuda", {
        **dict.fromkeys(("model.d_model", "model.heads", "model.ffn"), "the paper's big model"),
        "model.dropout": "as in the paper, and its text is less than the paper's",
        "train.lr": "the paper's, for its width",
    }),
}  # fmt: skip


@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_files_follow_the_advice_or_have_a_reason(name: str) -> None:
    n_pairs, tgt_tokens, device, reasons = BUNDLED[name]
    cfg = load_experiment(name)
    advice = recommend(n_pairs, tgt_tokens, languages=cfg.languages, device=device)
    assert {a.key for a in compare(cfg, advice)} <= reasons.keys()
