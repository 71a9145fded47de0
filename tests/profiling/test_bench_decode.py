"""The benchmark of translating: what it counts, and that its numbers fit each other."""

import json
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from typer.testing import CliRunner

from transformer_mt.cli.main import app
from transformer_mt.config.model import ModelConfig
from transformer_mt.errors import TmtError
from transformer_mt.profiling import bench_decode
from transformer_mt.profiling.bench_decode import BATCHES, BEAMS, RANDOM_LENGTH, bench_size
from transformer_mt.rendering.progress import Stages
from transformer_mt.translation.translator import Translator

SMALLEST = ModelConfig(
    d_model=16, heads=2, ffn=16, encoder_layers=1, decoder_layers=1, tie_embeddings="all"
)


def test_random_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_decode, "peak_memory_on", lambda device: {"cpu": 77.0}[device.type])
    report = bench_size(
        "smallest", SMALLEST, precision="fp32", n_sentences=32, rounds=1, stages=Stages()
    )
    assert [(r.beam, r.batch) for r in report.rates] == [(k, b) for k in BEAMS for b in BATCHES]
    for rate in report.rates:
        tokens = rate.tokens_per_s / rate.sentences_per_s
        assert RANDOM_LENGTH <= tokens <= RANDOM_LENGTH + 1
    assert (report.cold_start_s, report.peak_memory_mib) == (None, 77.0)
    text = report.render()
    assert "float32" in text and "sentences/s" in text and "peak memory" in text
    assert json.loads(json.dumps(asdict(report)))["rates"][0]["beam"] == 5


def test_a_model_needs_text(tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["bench", "decode", "--src", str(tmp_path / "x")])
    assert isinstance(found.exception, TmtError)
    with pytest.raises(TmtError, match="go together"):
        raise found.exception


def test_a_command_that_fails_says_why(
    translator: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.zh").write_text("猫\n", "utf-8")
    monkeypatch.setattr(bench_decode.Translator, "load", lambda *_, **__: translator)
    command = [sys.executable, "-c", "raise SystemExit('no memory')"]
    monkeypatch.setattr(bench_decode, "python_command", lambda *_: command)
    with pytest.raises(TmtError, match="tmt translate ended with 1: no memory"):
        bench_decode.bench_model(
            tmp_path, tmp_path / "a.zh", precision="fp32", n_sentences=1, rounds=1, stages=Stages()
        )
