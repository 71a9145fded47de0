"""A corpus and a configuration so small that a whole training takes a second.

Comes in: a folder. Goes out: `corpus/` and `toy.yaml` in it. This file knows nothing of faults.
"""

import random
from pathlib import Path

_NOUNS = {
    "猫": "cat", "狗": "dog", "鸟": "bird", "孩子": "child", "老师": "teacher", "朋友": "friend",
    "苹果": "apple", "书": "book", "街道": "street", "房子": "house", "船": "boat", "树": "tree",
}  # fmt: skip
_VERBS = {"看见": "sees", "喜欢": "likes", "找到": "finds", "画": "draws", "忘记": "forgets"}

CONFIG = """\
name: toy
languages: {src: zh, tgt: en}
data:
  root: corpus
  train: [train]
  dev: [dev]
  test: {toy: test}
  max_length: 60
  workers: 1
tokenizer: {vocab_size: 320}
model: {d_model: 16, heads: 2, ffn: 32, encoder_layers: 1, decoder_layers: 1, norm: pre}
train:
  precision: fp32
  max_tokens: 256
  tokens_per_update: 400
  max_updates: 6
  metric: loss
  lr: 5.0e-3
  warmup_updates: 2
  validate_every: 3
  log_every: 3
  keep_last: 2
  average: 2
decode: {beam: 2, max_length_ratio: 1.0}
"""


def pairs(n: int, seed: int) -> list[tuple[str, str]]:
    """Chinese sentences with their English translations, all different."""
    generator = random.Random(seed)
    found: dict[str, str] = {}
    while len(found) < n:
        parts = []
        for _ in range(generator.randint(1, 3)):
            (who, who_en), (what, what_en) = generator.sample(sorted(_NOUNS.items()), 2)
            verb, verb_en = generator.choice(sorted(_VERBS.items()))
            parts.append((f"{who}{verb}{what}", f"the {who_en} {verb_en} the {what_en}"))
        found["，".join(zh for zh, _ in parts) + "。"] = ", and ".join(en for _, en in parts) + "."
    return list(found.items())


def write_corpus(folder: Path, n_train: int, n_dev: int = 8) -> None:
    """`corpus/{train,dev,test}.{zh,en}`: more training pairs begin with the same ones."""
    corpus = folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for name, part in (
        ("train", pairs(n_train, 1)),
        ("dev", pairs(n_dev, 2)),
        ("test", pairs(4, 3)),
    ):
        for side, language in enumerate(("zh", "en")):
            text = "".join(f"{pair[side]}\n" for pair in part)
            (corpus / f"{name}.{language}").write_text(text, encoding="utf-8")


def write_experiment(folder: Path, n_train: int = 200, n_dev: int = 8) -> None:
    """The corpus and `toy.yaml`."""
    write_corpus(folder, n_train, n_dev)
    (folder / "toy.yaml").write_text(CONFIG, encoding="utf-8")
