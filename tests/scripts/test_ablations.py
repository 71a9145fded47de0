"""`scripts/bench/ablations.py`: variants trained from one preparation, and their table."""

import json
import sys
from pathlib import Path

import ablations
import pytest

from transformer_mt.config.experiment import load_config
from transformer_mt.evaluation.test_sets import describe_model
from transformer_mt.model_dir import read_metadata

CONFIG = """
name: toy
languages: {src: zh, tgt: en}
data:
  root: ROOT
  train: [train]
  dev: [dev]
  test: {toy: dev}
  clean: {mismatch: false, duplicate: false, length_ratio: false, numbers: false, repeated: false}
  workers: 1
tokenizer: {vocab_size: 320}
model: {d_model: 16, heads: 2, ffn: 24, encoder_layers: 1, decoder_layers: 1, norm: pre}
train: {max_tokens: 400, tokens_per_update: 400, warmup_updates: 5, lr: 1e-2, validate_every: 4,
        log_every: 2, keep_last: 2, average: 0, max_updates: 2, max_minutes: 0.001, patience: 1,
        precision: fp32}
decode: {beam: 1}
"""


def run(*words: str | Path) -> int | str | None:
    """Run the script's `main`; what it exits with."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as exited:
        patch.setattr(sys, "argv", ["ablations.py", *map(str, words)])
        ablations.main()
    return exited.value.code


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory, toy_pairs: list[tuple[str, str]]) -> Path:
    directory = tmp_path_factory.mktemp("ablations")
    for name, pairs in {"train": toy_pairs[:150], "dev": toy_pairs[150:170]}.items():
        for side, code in enumerate(("zh", "en")):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            (directory / f"{name}.{code}").write_text(text, encoding="utf-8")
    (directory / "toy.yaml").write_text(CONFIG.replace("ROOT", str(directory)), encoding="utf-8")
    return directory / "toy.yaml"


def test_variants_are_trained_alike_and_told_in_one_table(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/checkpoints").touch()  # a file where a directory must be
    status = run(
        config, "--updates", "6", "--out", tmp_path, "--jobs", "2", "--set", "model.dropout=0.2",
        "--variant", "base",
        "--variant", "modern 2+1: model.architecture=modern model.encoder_layers=2",
        "--variant", "broken", "--figure", tmp_path / "losses.png",
    )  # fmt: skip
    said = capsys.readouterr()
    table = [[cell.strip() for cell in line.split("|")[1:-1]] for line in said.out.split("\n")]
    head, rule, *rows, broken = table[:-1]
    assert set(rule) == {"---"} and len(head) == len(rule)
    for name, cells in zip(("base", "modern-2+1"), rows, strict=True):
        run_dir, facts = tmp_path / name, dict(zip(head, cells, strict=True))
        metadata = read_metadata(run_dir / "model")
        scores = metadata["scores"]["toy"]
        assert facts["variant"].replace(" ", "-") == name
        assert facts["updates"] == "6", "neither the file's clock nor its patience may end it"
        assert (
            facts["parameters"] == f"{describe_model(run_dir / 'model')['parameters'] / 1e6:.2f} M"
        )
        assert facts["toy BLEU / chrF"] == " / ".join(
            f"{scores[metric]['score']:.2f}" for metric in ("bleu", "chrf")
        )
        records = [
            json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()
        ]
        losses = [r["loss"] for r in records if r["event"] == "validation"]
        assert len(losses) == 2 and float(facts["best dev loss"]) == round(min(losses), 3)
        assert float(facts["tgt tokens/s"].replace(",", "")) > 0
        cfg = load_config(run_dir / "config.yaml")
        assert (cfg.model.dropout, cfg.model.modern) == (0.2, name != "base")
        log = (run_dir / "train.log").read_text(encoding="utf-8")
        assert log.count("up to date") == 3 and "making" not in log, "the data is shared"
    assert (tmp_path / "losses.png").read_bytes().startswith(b"\x89PNG")
    assert status == 1 and "broken: exit status" in said.err
    assert broken == ["broken", "not finished", *["–"] * (len(head) - 2)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--variant", "a/b: seed=2"], "--variant 'a/b: seed=2': expected NAME or 'NAME: section."),
        (["--variant", "x y", "--variant", "x-y"], "--variant: two variants would lie in "),
        (
            ["--variant", "big: modle.ffn=3"],
            "big: CONFIG: modle: unknown key (did you mean model?)",
        ),
        (["--variant", "a: seed"], "a: --set seed: expected section.key=value"),
    ],
)
def test_mistakes_are_told_before_anything_is_trained(
    words: list[str], message: str, config: Path, tmp_path: Path
) -> None:
    said = run(config, "--minutes", "1", "--out", tmp_path / "out", *words)
    assert message in str(said).replace(str(config), "CONFIG")
    assert not (tmp_path / "out").exists()


def test_seeds_are_runs_of_their_own_and_one_mean(tmp_path: Path) -> None:
    found = ablations.read_variants("a b: x.y=1", ["z=2"], tmp_path, 2)
    assert [v.run.directory.name for v in found] == ["a-b-seed1", "a-b-seed2"]
    assert [v.settings for v in found] == [["z=2", "x.y=1", f"seed={i}"] for i in (1, 2)]
    assert ablations.mean([1.0, 2.0, 3.0], ".2f") == "2.00 ± 0.58"  # √(1 / 3)
    assert ablations.mean([4.0], ".1f") == "4.0" and ablations.mean([], ".1f") == "–"
