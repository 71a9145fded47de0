"""A model of both directions: it is asked by a tag, never writes one, and is scored both ways."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from transformer_mt.cli.translation_files import TranslationFiles
from transformer_mt.config.experiment import Config
from transformer_mt.config.model import TokenizerConfig
from transformer_mt.encoding.tags import tag_pieces
from transformer_mt.encoding.tokenizer import BOS_ID, EOS_ID, train_tokenizer
from transformer_mt.errors import TmtError
from transformer_mt.evaluation.metrics import Score
from transformer_mt.evaluation.system_names import name_systems
from transformer_mt.evaluation.systems import evaluate_systems
from transformer_mt.evaluation.test_sets import (
    describe_model,
    files_test_set,
    read_dev_sets,
    run_test_sets,
)
from transformer_mt.model_dir import (
    build_model,
    load_tokenizers,
    save_model_dir,
    tokenizer_paths,
    weights_of,
)
from transformer_mt.search.engine import Engine, Request
from transformer_mt.search.options import SearchOptions
from transformer_mt.translation.translator import Translator

Pairs = list[tuple[str, str]]


@pytest.fixture(scope="module")
def cfg(toy_config: Config) -> Config:
    tree = toy_config.model_dump()
    tree["tokenizer"] |= {"joint": True, "vocab_size": 400}
    tree["languages"]["bidirectional"] = True
    return Config.model_validate(tree)


@pytest.fixture(scope="module")
def run_dir(cfg: Config, toy_pairs: Pairs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained model in a run directory with a dev and a test set."""
    directory = tmp_path_factory.mktemp("run")
    texts = [text for pair in toy_pairs for text in pair]
    path, _ = tokenizer_paths(directory, joint=True)
    tokenizer_cfg = TokenizerConfig(vocab_size=400)
    tags = tag_pieces(cfg)
    train_tokenizer(texts, path, tokenizer_cfg, ["zh", "en"], seed=1, tags=tags)
    torch.manual_seed(1)
    model = build_model(cfg, load_tokenizers(directory, joint=True))
    weights = weights_of(model)
    metadata = {"trained": {}, "data": {}, "decode": {}, "scores": {}}
    save_model_dir(directory / "model", cfg, weights, directory, metadata)
    clean_dir = directory / "data" / "clean"
    clean_dir.mkdir(parents=True)
    for part in ("dev", "test.toy"):
        for side, name in enumerate(("src", "tgt")):
            lines = "".join(f"{pair[side]}\n" for pair in toy_pairs[:5])
            (clean_dir / f"{part}.{name}").write_text(lines, encoding="utf-8")
    return directory


@pytest.fixture(scope="module")
def translator(run_dir: Path) -> Translator:
    return Translator.load(run_dir / "model", precision="fp32")


@pytest.mark.parametrize("to", [None, "en", "zh"])
def test_the_encoder_reads_the_tag_first(translator: Translator, to: str | None) -> None:
    for text in ("猫看见狗。", "the cat sees the dog."):
        wanted = to or ("en" if text[0] == "猫" else "zh")
        src_ids, _ = translator.forced_ids(text, "x", to=to)
        (plain,) = translator.src_tokenizer.encode([text])
        assert src_ids == [translator.src_tokenizer.tags[f"<2{wanted}>"], *plain, EOS_ID]
        assert translator.attention(text, "x", to=to).src_pieces[0] == f"<2{wanted}>"


def test_what_it_is_asked_for_decides_what_it_says(translator: Translator) -> None:
    text = "猫看见狗。"
    into = {code: translator.translate([text], to=code)[0] for code in ("en", "zh")}
    assert into["en"].text != into["zh"].text
    assert translator.translate([text])[0] == into["en"]
    mixed = translator.translate([text, "the cat sees.", "", text])
    assert mixed[0] == mixed[3]
    assert mixed[0].text == into["en"].text
    assert mixed[0].score == pytest.approx(into["en"].score, rel=1e-5)
    (alone,) = translator.translate(["the cat sees."], to="zh")
    assert mixed[1].text == alone.text
    assert mixed[1].score == pytest.approx(alone.score, rel=1e-5)


def test_the_score_of_a_pair_is_that_of_its_direction(translator: Translator) -> None:
    src, tgt = "猫看见狗。", "the cat sees the dog."
    tokenizer, model = translator.src_tokenizer, translator.model
    src_ids, tgt_ids = tokenizer.encode([src, tgt])
    for to in ("en", "zh"):
        encoder_input = torch.tensor([[tokenizer.tags[f"<2{to}>"], *src_ids, EOS_ID]])
        with torch.no_grad():
            hidden = model(encoder_input, torch.tensor([[BOS_ID, *tgt_ids]]))
            log_probs = model.project(hidden)[0].log_softmax(-1)
        expected = sum(log_probs[t, id_].item() for t, id_ in enumerate([*tgt_ids, EOS_ID]))
        (found,) = translator.score_pairs([src], [tgt], to=to)
        assert found.log_prob == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("beam", [1, 3])
def test_tags_are_never_written(run_dir: Path, beam: int) -> None:
    """Even by a model that would like nothing better."""
    tempted = Translator.load(run_dir / "model", precision="fp32")
    tags = list(tempted.tgt_tokenizer.tags.values())
    output = tempted.model.output
    output.bias = torch.nn.Parameter(torch.zeros(output.out_features))
    output.bias.data[tags] = 1000.0

    def written(silent_ids: Sequence[int]) -> set[int]:
        engine = Engine([tempted.model], silent_ids)
        return set(engine.search([Request([7, 8, 9])], SearchOptions(beam=beam))[0][0].ids)

    assert written([]) <= set(tags), "it must be tempted"
    found = written(tempted.tgt_tokenizer.silent_ids)
    assert found and not set(tags) & found


def scores(run_dir: Path, cfg: Config, to: str | None, *files: Path) -> dict[str, dict[str, Score]]:
    """BLEU of the run's own test sets, or of files."""
    model, languages = run_dir / "model", cfg.languages
    own = run_test_sets(model, languages, to)
    tests = [files_test_set(*files, languages, to)] if files else list(own)
    return evaluate_systems(name_systems([(model, True)]), tests, ("bleu",)).only_scores()


def test_test_sets_are_scored_both_ways(run_dir: Path, cfg: Config) -> None:
    """Each with the scorer of its target language."""
    found = scores(run_dir, cfg, None)
    assert list(found) == ["toy.zh-en", "toy.en-zh"]
    assert "tok:13a" in found["toy.zh-en"]["bleu"].signature
    assert "tok:zh" in found["toy.en-zh"]["bleu"].signature
    only = scores(run_dir, cfg, "zh")
    assert list(only) == ["toy.en-zh"]
    assert only["toy.en-zh"] == found["toy.en-zh"]


def test_a_test_set_of_files_needs_its_direction(run_dir: Path, cfg: Config) -> None:
    clean = run_dir / "data" / "clean"
    en, zh = clean / "test.toy.tgt", clean / "test.toy.src"
    with pytest.raises(TmtError, match=r"test\.toy\.tgt: .* --to zh or --to en"):
        scores(run_dir, cfg, None, en, zh)
    found = scores(run_dir, cfg, "zh", en, zh)
    expected = scores(run_dir, cfg, "zh")
    assert found["test.toy.tgt"] == expected["toy.en-zh"]


def test_dev_comes_once_for_each_direction(run_dir: Path, cfg: Config) -> None:
    first, second = read_dev_sets(run_dir / "data" / "clean", cfg.languages)
    assert (first.name, first.tgt, second.name, second.tgt) == (
        "dev.zh-en", "en", "dev.en-zh", "zh",
    )  # fmt: skip
    assert (first.srcs, first.refs) == (second.refs, second.srcs)
    one_way = cfg.languages.model_copy(update={"bidirectional": False})
    (only,) = read_dev_sets(run_dir / "data" / "clean", one_way)
    assert (only.name, only.tgt, only.srcs) == ("dev", "en", first.srcs)


def test_a_model_says_that_it_goes_both_ways(run_dir: Path) -> None:
    found = describe_model(run_dir / "model")
    assert found["languages"] == "Chinese ↔ English"
    assert found["tags"] == {"<2en>": 4, "<2zh>": 5}


def test_a_document_is_translated_in_one_direction(cfg: Config, tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("# Installation\n\n猫看见狗。\n\n狗看见猫，也看见孩子。\n", encoding="utf-8")
    assert TranslationFiles(path, None, "markdown", "text").target(cfg.languages) == "en"
    path.write_text("# 安装\n\nThe cat sees the dog.\n\nThe dog sees.\n", encoding="utf-8")
    assert TranslationFiles(path, None, "markdown", "text").target(cfg.languages) == "zh"
