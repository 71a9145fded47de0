"""A test set that sacreBLEU knows by name → two aligned text files, as sacreBLEU scores them.

sacreBLEU itself extracts source and first reference from archives that are fetched like others.
"""

import copy
import difflib
from functools import partial
from pathlib import Path
from typing import Any

from transformer_mt.config.data import Languages, Source, split_direction
from transformer_mt.corpus.readers.pairs import source_order
from transformer_mt.corpus.sources.cache import Cache, Download
from transformer_mt.corpus.sources.local import Obtained, local
from transformer_mt.errors import DataError
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.output import remove, writing_folder
from transformer_mt.system.state import fingerprint

_SIDES = ("source.txt", "reference.txt")


def obtain_test_set(source: Source, languages: Languages, cache: Cache) -> Obtained:
    """The set for the direction of the source, or else of the model."""
    dataset = _dataset(source)
    pair = _their_pair(source, dataset, source_order(source, languages))
    downloads = [cache.fetch(url) for url in dataset.data]
    # Another release of sacreBLEU may mean other bytes, or other files of them, by the same name.
    version = fingerprint([download.sha256 for download in downloads], dataset.langpairs[pair])
    name = f"{dataset.name.replace('/', '_')}.{pair}.{version}"
    directory = cache.folder / "sacrebleu" / name
    extract = partial(_extract, source, dataset, pair, downloads, directory)
    cache.make_once(directory, extract, tr("extracting {}", source))
    return Obtained(local(source, files=[str(directory / name) for name in _SIDES]), downloads)


def list_test_sets(languages: Languages) -> list[str]:
    """The sets that sacreBLEU has in a direction."""
    from sacrebleu import DATASETS

    order = (languages.src, languages.tgt)
    return [name for name, dataset in DATASETS.items() if _pair_in(dataset, order)]


def _dataset(source: Source) -> Any:
    from sacrebleu import DATASETS

    assert source.sacrebleu is not None
    if source.sacrebleu not in DATASETS:
        near = difflib.get_close_matches(source.sacrebleu, list(DATASETS), n=4, cutoff=0.4)
        raise DataError(
            tr(
                "{}: sacreBLEU knows no such set; near names: {} (all: sacrebleu --list)",
                source,
                ", ".join(near) or tr("none"),
            )
        )
    return DATASETS[source.sacrebleu]


def _their_pair(source: Source, dataset: Any, order: tuple[str, str]) -> str:
    if pair := _pair_in(dataset, order):
        return pair
    known = ", ".join(dataset.langpairs)
    back = "-".join(reversed(order))
    hint = tr(
        "; to use a set backwards write {{sacrebleu: {}, direction: {}}}", source.sacrebleu, back
    )
    raise DataError(
        tr("{}: has no {}, only {}", source, "-".join(order), known)
        + hint * (back in dataset.langpairs)
    )


def _pair_in(dataset: Any, order: tuple[str, str]) -> str | None:
    """Their name of a direction, if the set has it."""
    for pair in dataset.langpairs:
        try:
            if split_direction(pair) == order:
                return str(pair)
        except ValueError:
            continue  # a language that this program has no code for
    return None


def _extract(
    source: Source, dataset: Any, pair: str, downloads: list[Download], directory: Path
) -> None:
    """Let sacreBLEU extract from our files, in a folder that is removed with all its leftovers."""
    with writing_folder(directory, None) as temporary:
        work = temporary / "work"
        work.mkdir()
        dataset = copy.copy(dataset)
        dataset.data = [download.path.absolute().as_uri() for download in downloads]
        dataset._outdir, dataset._rawdir = str(work), str(work / "raw")
        try:
            paths = [dataset.get_source_file(pair), dataset.get_reference_files(pair)[0]]
        except (Exception, SystemExit) as error:  # it has no errors of its own, and exits
            files = ", ".join(str(download.path) for download in downloads)
            raise DataError(
                tr(
                    "{}: sacreBLEU cannot read {} from what was fetched ({}: {}); it "
                    "may be damaged: delete {} and try again",
                    source,
                    pair,
                    type(error).__name__,
                    error,
                    files,
                )
            ) from error
        for path, name in zip(paths, _SIDES, strict=True):
            Path(path).rename(temporary / name)
        remove(work)
