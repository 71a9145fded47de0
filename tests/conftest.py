"""Shared by several test files: a toy language pair, its tokenizers, and a toy configuration."""

import gc
import os

# Before torch is loaded: tensors this small gain nothing from threads, and where cores are busy
# with something else, threads that wait for each other take twenty times as long.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import random
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from transformer_mt.config.experiment import Config, build_config
from transformer_mt.config.model import TokenizerConfig
from transformer_mt.encoding.tokenizer import Tokenizer, train_tokenizer
from transformer_mt.system.machine import usable_cores

if TYPE_CHECKING:
    from transformer_mt.translation.translator import Translator

# Before the files of tests: by itself an example that takes more than 0.2 s fails, and where cores
# are busy with something else any example may.
hypothesis.settings.register_profile("no-deadline", deadline=None)
hypothesis.settings.load_profile("no-deadline")

# Before torch loads Triton: without a GPU kernels are interpreted. Torch itself is not imported
# here, for which the process that starts those of the tests would have to wait.
if not Path("/proc/driver/nvidia").exists() or version("torch").endswith("+cpu"):
    os.environ.setdefault("TRITON_INTERPRET", "1")

_LONG = (
    "training/test_many_processes", "cli/test_terminal_lines", "cli/test_cli", "serve/test_service",
    "serve/test_schema", "pipeline/test_train", "pipeline/test_prepare",
    "system/processes/test_loopback", "profiling/test_dry_run", "scripts/test_fault_injection",
    "training/test_trainer", "pipeline/test_max_tokens", "cli/test_push_and_pull",
    "translation/documents/test_office", "system/processes/test_child_python",
    "profiling/test_plan", "scripts/test_fuzz_readers", "cli/test_typical_mistakes",
    "scripts/test_kill_faults", "test_readme", "cli/test_cli_output", "scripts/test_ablations",
    "test_api", "cli/test_distill", "translation/test_translator",
    "translation/documents/test_documents",
)  # fmt: skip


def pytest_configure() -> None:
    # Modules and thousands of tests are never garbage: looking through them, as often as Python
    # does by itself, takes a seventh of the time of the tests.
    gc.set_threshold(50_000, 20, 100)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: a test that waits for other programs leaves a core idle."""
    return usable_cores() + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The files that take longest begin first, so that no core is left with one at the end."""
    long = [f"tests/{name}.py" for name in _LONG]
    order = {path: place for place, path in enumerate(long)}
    items.sort(key=lambda item: order.get(item.nodeid.partition("::")[0], len(order)))


def pytest_collection_finish() -> None:
    gc.freeze()


_WORDS = {
    "猫": "cat", "狗": "dog", "鸟": "bird", "孩子": "child", "老师": "teacher", "朋友": "friend",
    "苹果": "apple", "书": "book", "街道": "street", "房子": "house", "船": "boat", "树": "tree",
}  # fmt: skip
_VERBS = {"看见": "sees", "喜欢": "likes", "找到": "finds", "画": "draws", "忘记": "forgets"}


def _pair(generator: random.Random) -> tuple[str, str]:
    parts = []
    for _ in range(generator.randint(1, 3)):
        (who, who_en), (what, what_en) = generator.sample(sorted(_WORDS.items()), 2)
        verb, verb_en = generator.choice(sorted(_VERBS.items()))
        parts.append((f"{who}{verb}{what}", f"the {who_en} {verb_en} the {what_en}"))
    return "，".join(zh for zh, _ in parts) + "。", ", and ".join(en for _, en in parts) + "."


@pytest.fixture(scope="session")
def toy_pairs() -> list[tuple[str, str]]:
    """200 Chinese sentences with their English translations."""
    generator = random.Random(5)
    return [_pair(generator) for _ in range(200)]


@pytest.fixture(scope="session")
def tokenizer_dir(
    tmp_path_factory: pytest.TempPathFactory, toy_pairs: list[tuple[str, str]]
) -> Path:
    """A folder with one SentencePiece model per side, of 320 pieces each, and a joint one."""
    from transformer_mt.model_dir import tokenizer_paths

    directory = tmp_path_factory.mktemp("tokenizers")
    cfg = TokenizerConfig(vocab_size=320)
    for side, path in enumerate(tokenizer_paths(directory, joint=False)):
        texts = [pair[side] for pair in toy_pairs]
        train_tokenizer(texts, path, cfg, [("zh", "en")[side]], seed=1)
    both = [text for pair in toy_pairs for text in pair]
    joint_path, _ = tokenizer_paths(directory, joint=True)
    train_tokenizer(both, joint_path, cfg, ["zh", "en"], seed=1)
    return directory


@pytest.fixture(scope="session")
def tokenizers(tokenizer_dir: Path) -> tuple[Tokenizer, Tokenizer]:
    from transformer_mt.model_dir import load_tokenizers

    return load_tokenizers(tokenizer_dir, joint=False)


@pytest.fixture(scope="session")
def toy_config() -> Config:
    """zh → en, d_model 32, two layers, no dropout; sizes fit the toy tokenizers."""
    tree: dict[str, Any] = {
        "name": "toy",
        "languages": {"src": "zh", "tgt": "en"},
        "data": {"train": [{"demo": True}], "max_length": 30},
        "tokenizer": {"vocab_size": 320},
        "model": {
            "d_model": 32,
            "heads": 4,
            "ffn": 64,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "dropout": 0.0,
        },
        "decode": {"beam": 3},
    }
    return build_config(tree, "toy")


@pytest.fixture(scope="session")
def translator(
    toy_config: Config,
    tokenizers: tuple[Tokenizer, Tokenizer],
    toy_pairs: list[tuple[str, str]],
) -> "Translator":
    """Trained for a second on the toy pairs; tests must not change it."""
    from toy_translator import trained

    return trained(toy_config, tokenizers, toy_pairs)


@pytest.fixture(scope="session")
def texts(toy_pairs: list[tuple[str, str]]) -> list[str]:
    """25 Chinese sentences that the translator has learned from."""
    return [zh for zh, _ in toy_pairs[:25]]
