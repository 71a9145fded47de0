"""In a terminal of 80 and of 120 columns no line runs over the edge, nor is one in Chinese English.

The terminal is a real one, of tmux; without tmux the end of the output is read.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from chinese import english_lines

from transformer_mt.corpus.readers.demo import build_demo
from transformer_mt.system.terminal import columns_of

CONFIG = """
name: lines
languages: {src: zh, tgt: en}
data: {root: ., train: [train], dev: [dev], test: {own: test}, workers: 1}
tokenizer: {vocab_size: 900}
model: {d_model: 32, heads: 2, ffn: 32, encoder_layers: 2, decoder_layers: 1}
train: {max_updates: 12, max_tokens: 500, tokens_per_update: 500, validate_every: 4, log_every: 1,
        warmup_updates: 4}
"""
SENTENCE = "这只动物没有穿过街道，因为它太累了。"
TRAIN, EXPLAIN = "train lines.yaml --processes 1", f"explain -m runs/lines {SENTENCE}"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("a folder-whose-name-is-as-long-as-names-of-folders-can-be")
    demo = build_demo()
    parts = {"train": demo.train[:300], "dev": demo.dev[:20], "test": demo.test[:20]}
    for name, pairs in parts.items():
        for side, code in enumerate(("zh", "en")):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            (root / f"{name}.{code}").write_text(text, encoding="utf-8")
    (root / "lines.yaml").write_text(CONFIG)
    return root


def screens(words: list[str], columns: int, cwd: Path, language: str) -> Iterator[list[str]]:
    """The lines that a terminal shows while a program runs, and after it, each in one piece."""
    variables = {"TMT_LANG": language, "COLUMNS": str(columns), "PYTHONIOENCODING": "utf-8"}
    if shutil.which("tmux") is None:
        piped = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "encoding": "utf-8"}
        done = subprocess.run(words, cwd=cwd, env=os.environ | variables, **piped)
        yield [line.rstrip() for line in done.stdout.rstrip().split("\n")]
        return
    # A server that is ending takes no session more, so that each program has a server of its own.
    tmux, mark = ["tmux", "-L", f"tmt-{uuid.uuid4()}"], cwd / f"ended{columns}"
    mark.unlink(missing_ok=True)
    words = ["env", f"TMT_LANG={language}", *words]
    line = f"{shlex.join(words)}; touch {shlex.quote(str(mark))}; sleep 60"
    size = ["-x", str(columns), "-y", "300"]
    subprocess.run(
        [*tmux, "-f", "/dev/null", "new-session", "-d", *size, line], cwd=cwd, check=True
    )
    try:
        deadline, ended = time.monotonic() + 300, False
        while not ended:
            assert time.monotonic() < deadline
            time.sleep(0.2)
            ended = mark.exists()
            capture = [*tmux, "capture-pane", "-pJ"]  # J joins what has run over the edge
            done = subprocess.run(capture, capture_output=True, encoding="utf-8", check=True)
            yield [line.rstrip() for line in done.stdout.rstrip().split("\n")]
    finally:
        subprocess.run([*tmux, "kill-server"], check=True)


@pytest.mark.parametrize(
    ("columns", "language", "commands"),
    [
        (80, "en", [TRAIN, EXPLAIN, "data check dev.zh train.en --src zh --tgt en"]),
        (80, "zh", ["plan lines.yaml"]),
        (120, "zh", ["data check train.zh train.en", TRAIN, "eval -m runs/lines --confidence",
                     "runs", "doctor", EXPLAIN]),
    ],
)  # fmt: skip
def test_no_line_runs_over_the_edge(
    columns: int, language: str, commands: list[str], place: Path
) -> None:
    shutil.rmtree(place / "runs", ignore_errors=True)
    for command in commands:
        words = [sys.executable, "-m", "transformer_mt", *shlex.split(command)]
        shown: list[str] = []
        for shown in screens(words, columns, place, language):
            assert not [line for line in shown if columns_of(line) > columns], command
        text = "\n".join(shown)
        assert len(text) > 20 and not text.startswith("tmt: ") and "\ntmt: " not in text, text
        if language == "zh":
            assert re.search("[\u4e00-\u9fff]", text) and not english_lines(text), command
            assert " missing" not in text, "of a package, in doctor"


@pytest.mark.skipif(shutil.which("tmux") is None, reason="there is no tmux")
def test_a_line_over_the_edge_is_seen(tmp_path: Path) -> None:
    *_, shown = screens([sys.executable, "-c", "print('a ' * 60)"], 80, tmp_path, "en")
    assert columns_of(shown[0]) == 119
