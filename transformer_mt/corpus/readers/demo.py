"""The bundled Chinese–English corpus: 30,000 pairs to train on, dev, test, and a contrast set.

The grammar that wrote `demo.tsv.bz2` is in `scripts/demo/`.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from transformer_mt.config.data import Languages
from transformer_mt.corpus.readers.lines import split_lines
from transformer_mt.corpus.readers.tables import Pair, Role
from transformer_mt.errors import DataError
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.output import writing_files

DEMO_PATH = Path(__file__).with_name("demo.tsv.bz2")


class DemoCorpus(NamedTuple):
    train: list[Pair]  # (Chinese, English)
    dev: list[Pair]
    test: list[Pair]
    contrast: list[tuple[str, str, str]]  # source, reference, the reference with a wrong pronoun


@cache
def build_demo() -> DemoCorpus:
    """The corpus: the same pairs, in the same order, in every version of tmt."""
    parts: dict[str, list[Any]] = {name: [] for name in DemoCorpus._fields}
    for line in split_lines(DEMO_PATH):
        part, *texts = line.split("\t")
        parts[part].append(tuple(texts))
    return DemoCorpus(**parts)


def read_demo(languages: Languages, role: Role) -> Iterator[Pair]:
    """The (source, target) pairs of one part."""
    if {languages.src, languages.tgt} != {"zh", "en"}:
        raise DataError(
            tr(
                "demo: the bundled corpus is zh-en; languages are {} → {}: set "
                "languages: {{src: zh, tgt: en}} or {{src: en, tgt: zh}}, or give "
                "other data",
                languages.src,
                languages.tgt,
            )
        )
    pairs: list[Pair] = getattr(build_demo(), role)
    for zh, en in pairs:
        yield (zh, en) if languages.src == "zh" else (en, zh)


def write_demo(out_dir: Path) -> list[Path]:
    """Write `{train,dev,test}.{zh,en}` and `contrast.tsv` (source, right, wrong) into a directory.

    Raises:
        TmtError: the directory cannot be written, or holds files of these names that are not ours.
    """
    texts: dict[str, list[str]] = {}
    for part, rows in build_demo()._asdict().items():
        if part == "contrast":
            texts["contrast.tsv"] = ["\t".join(row) for row in rows]
        else:
            texts[f"{part}.zh"], texts[f"{part}.en"] = ([pair[i] for pair in rows] for i in (0, 1))
    with writing_files(out_dir) as folder:
        for name, lines in texts.items():
            text = "".join(f"{line}\n" for line in lines)
            (folder / name).write_text(text, "utf-8", newline="\n")
    return [out_dir / name for name in texts]
