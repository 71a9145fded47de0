"""The bundled Chinese–English corpus: 30,000 pairs to train on, dev, test, and a contrast set.

Comes in: `demo.tsv.bz2`, which lies next to this file. Goes out: a `DemoCorpus`, pairs, or files.
This file does not know the grammar that wrote the sentences: that is in `scripts/demo/`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from transformer_mt.config.data import Languages
from transformer_mt.corpus.readers.huggingface import Role
from transformer_mt.corpus.readers.lines import split_lines
from transformer_mt.corpus.readers.tables import Pair
from transformer_mt.errors import DataError
from transformer_mt.system.output import writing_files

DEMO_PATH = Path(__file__).with_name("demo.tsv.bz2")


@dataclass(frozen=True)
class DemoCorpus:
    train: list[Pair] = field(default_factory=list)  # (Chinese, English)
    dev: list[Pair] = field(default_factory=list)
    test: list[Pair] = field(default_factory=list)
    # source, reference, the reference with one wrong pronoun
    contrast: list[tuple[str, str, str]] = field(default_factory=list)


@cache
def build_demo() -> DemoCorpus:
    """The corpus: the same pairs, in the same order, in every version of tmt."""
    corpus = DemoCorpus()
    parts = vars(corpus)
    for line in split_lines(DEMO_PATH):
        part, *texts = line.split("\t")
        parts[part].append(tuple(texts))
    return corpus


def read_demo(languages: Languages, role: Role) -> Iterator[Pair]:
    """The (source, target) pairs of one part.

    Raises:
        DataError: the languages are others.
    """
    if {languages.src, languages.tgt} != {"zh", "en"}:
        raise DataError(
            f"demo: the bundled corpus is zh-en; languages are {languages.src} → {languages.tgt}: "
            "set languages: {src: zh, tgt: en} or {src: en, tgt: zh}, or give other data"
        )
    pairs: list[Pair] = getattr(build_demo(), role)
    for zh, en in pairs:
        yield (zh, en) if languages.src == "zh" else (en, zh)


def write_demo(out_dir: Path) -> list[Path]:
    """Write `{train,dev,test}.{zh,en}` and `contrast.tsv` (source, right, wrong) into a directory.

    A file that is there already is replaced only if tmt has written it.

    Returns:
        The paths of the files, in the order above.
    Raises:
        TmtError: the directory cannot be written, or holds other files of these names.
    """
    corpus = build_demo()
    texts: dict[str, list[str]] = {}
    for part, pairs in (("train", corpus.train), ("dev", corpus.dev), ("test", corpus.test)):
        texts[f"{part}.zh"] = [zh for zh, _ in pairs]
        texts[f"{part}.en"] = [en for _, en in pairs]
    texts["contrast.tsv"] = ["\t".join(row) for row in corpus.contrast]
    with writing_files(out_dir) as folder:
        for name, lines in texts.items():
            text = "".join(f"{line}\n" for line in lines)
            (folder / name).write_text(text, "utf-8", newline="\n")
    return [out_dir / name for name in texts]
