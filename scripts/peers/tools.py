"""How each tool is installed and started, for one model size and one corpus.

Comes in: where the data, the vocabulary and the environments lie. Goes out: commands with the files
that they need. A task is a JSON file: src, tgt, dev_src, dev_tgt (clean text), tokenizer
(SentencePiece), work_dir, log (see `update_log.py`), precision, keep_memory, max_length (tokens of
a sentence), max_tokens and sentences (of a batch), accumulate (batches of an update), model. This
file measures nothing.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from watch import Window

from transformer_mt.system.processes.environment import DEFAULTS, allocator_variables

HERE = Path(__file__).resolve().parent
# Of each tool that is not tmt: its driver and its environment; None: the one that runs this.
DRIVERS = {
    "joeynmt": ("joey_driver.py", "joeynmt"),
    "hf": ("hf_driver.py", "huggingface"),
    "hf-malloc": ("hf_driver.py", "huggingface"),
    "naive": ("naive_driver.py", None),
}
# tmt as it comes; with so many processes; with an update for each batch or two, as the others have.
TMT = {
    "tmt": [],
    "tmt-1p": ["--processes", "1"],
    "tmt-2p": ["--processes", "2"],
    "tmt-short": ["--set", "train.tokens_per_update={short_update}"],
}
TOOLS = [*TMT, *DRIVERS]
MAX_LENGTH = 100


@dataclass(frozen=True)
class Size:
    """One model, for every tool."""

    d_model: int
    heads: int
    ffn: int
    layers: int  # of the encoder, and as many of the decoder
    dropout: float


@dataclass(frozen=True)
class Scale:
    """A model size, and batches of about as many target tokens for every tool."""

    model: Size
    window: Window  # its seconds are the default of --seconds
    short_update: int  # real tokens of an update of `tmt-short`
    joey_max_tokens: int  # of a batch, padding counted: less than half of them are real
    hf_sentences: int
    naive_sentences: int


SCALES = {
    "tiny": Scale(
        Size(d_model=128, heads=4, ffn=256, layers=4, dropout=0.3),
        Window(warmup=5, seconds=60, updates=10),
        short_update=4096,
        joey_max_tokens=4096,
        hf_sentences=256,
        naive_sentences=128,
    ),
    "base": Scale(
        Size(d_model=512, heads=8, ffn=2048, layers=6, dropout=0.1),
        Window(warmup=1, seconds=20, updates=3),
        short_update=2000,
        joey_max_tokens=4096,
        hf_sentences=96,
        naive_sentences=128,
    ),
}


@dataclass(frozen=True)
class Bench:
    """Where everything lies."""

    work_dir: Path
    venvs_dir: Path
    src: Path
    tgt: Path
    dev: tuple[Path, Path] | None
    scale: Scale
    accumulate: int = 1  # batches of an update of JoeyNMT and Hugging Face

    @property
    def run_dir(self) -> Path:
        return self.work_dir / "tmt"

    @property
    def tokenizer_path(self) -> Path:
        return self.run_dir / "data" / "tokenizer" / "tokenizer.model"

    def start_of(self, tool: str, precision: str) -> tuple[list[str], Path]:
        """The command of a tool, and the file in which it will tell its updates."""
        if tool in TMT:
            return self._start_of_tmt(tool), self.run_dir / "metrics.jsonl"
        driver, venv = DRIVERS[tool]
        task_path = self._write_task(tool, precision)
        python = sys.executable if venv is None else str(python_of(self.venvs_dir / venv))
        return [python, str(HERE / driver), str(task_path)], task_path.with_name("updates.jsonl")

    def _start_of_tmt(self, tool: str) -> list[str]:
        model, scale = self.scale.model, self.scale
        files = [str(path.resolve()) for path in (self.src, self.tgt)]
        tree = {
            "name": "bench",
            "languages": {"src": self.src.suffix[1:], "tgt": self.tgt.suffix[1:]},
            "data": {"train": [{"files": files}], "max_length": MAX_LENGTH},
            "tokenizer": {"vocab_size": 8000, "joint": True, "byte_fallback": False},
            "model": {
                "d_model": model.d_model,
                "heads": model.heads,
                "ffn": model.ffn,
                "encoder_layers": model.layers,
                "decoder_layers": model.layers,
                "dropout": model.dropout,
            },
            "train": {
                "max_updates": 1_000_000,
                "validate_every": 1_000_000,
                "log_every": 1,
            },
        }
        if self.dev:
            tree["data"]["dev"] = [{"files": [str(path.resolve()) for path in self.dev]}]
        config_path = self.work_dir / "tmt.yaml"
        config_path.write_text(json.dumps(tree), encoding="utf-8")  # JSON is YAML
        return [
            sys.executable, "-m", "transformer_mt", "train", str(config_path),
            "--run-dir", str(self.run_dir), "--fresh",
            *(option.format(short_update=scale.short_update) for option in TMT[tool]),
        ]  # fmt: skip

    def _write_task(self, tool: str, precision: str) -> Path:
        work_dir = self.work_dir / f"{tool}-{precision}"
        work_dir.mkdir(exist_ok=True)
        clean_dir = self.run_dir / "data" / "clean"
        texts = {"src": "train.src", "tgt": "train.tgt", "dev_src": "dev.src", "dev_tgt": "dev.tgt"}
        sentences = self.scale.naive_sentences if tool == "naive" else self.scale.hf_sentences
        task = {
            **{key: str(clean_dir / name) for key, name in texts.items()},
            "tokenizer": str(self.tokenizer_path),
            "work_dir": str(work_dir),
            "log": str(work_dir / "updates.jsonl"),
            "precision": precision,
            "keep_memory": tool == "hf-malloc",
            "max_length": MAX_LENGTH,
            "max_tokens": self.scale.joey_max_tokens,
            "sentences": sentences,
            "accumulate": self.accumulate,
            "model": asdict(self.scale.model),
        }
        path = work_dir / "task.json"
        path.write_text(json.dumps(task, indent=1), encoding="utf-8")
        return path


def environment(tool: str = "") -> dict[str, str]:
    """What a tool sees: this process's variables, no GPU, no questions to a model hub."""
    # With tmt's settings go the large pages and the allocator that its training processes have.
    pages: dict[str, str] = {}
    if tool == "hf-malloc":
        pages = {"GLIBC_TUNABLES": DEFAULTS["GLIBC_TUNABLES"], **allocator_variables()}
    return {
        **os.environ,
        **pages,
        "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
        "PYTHONUNBUFFERED": "1",
    }


def precisions(tool: str, native: str, bf16_pays: bool) -> list[str]:
    """What a tool is measured in.

    Args:
        native: what tmt takes by itself on this machine.
        bf16_pays: a plain product is faster in bf16 than in fp32; otherwise no tool can gain by it.
    """
    if tool in TMT:
        return [native]
    if tool == "joeynmt":
        return ["fp32"]  # it switches anything else off on a CPU
    return ["fp32", "bf16"] if bf16_pays else ["fp32"]


def python_of(venv: Path) -> Path:
    return venv / ("Scripts" if os.name == "nt" else "bin") / "python"


def make_environments(venvs_dir: Path, tools: list[str], say: Callable[[str], None]) -> None:
    """Install what is missing, with the torch that runs here.

    pip follows its own settings; with a torch for CPUs only, PIP_CONSTRAINT or PIP_FIND_LINKS
    should name it.
    """
    import torch

    torch_pin = f"torch=={torch.__version__.partition('+')[0]}"
    for name in sorted({venv for tool, (_, venv) in DRIVERS.items() if venv and tool in tools}):
        venv, requirements = venvs_dir / name, HERE / f"{name}.txt"
        wanted = f"{torch_pin}\n{requirements.read_text(encoding='utf-8')}"
        installed = venv / "installed.txt"
        if installed.is_file() and installed.read_text(encoding="utf-8") == wanted:
            continue
        say(f"installing {name} into {venv}")
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        install = [str(python_of(venv)), "-m", "pip", "install", "--quiet", torch_pin]
        subprocess.run([*install, "--requirement", str(requirements)], check=True)
        installed.write_text(wanted, encoding="utf-8")
