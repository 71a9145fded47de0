"""A Hugging Face dataset, from the hub, its cache or a local folder → its rows, in order.

Comes in: a `Source` of the kind `hf`. Goes out: rows as plain dictionaries, read batch by batch
from memory-mapped files, so that the size of the dataset does not matter. This file does not know
which columns are the two sides.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from transformer_mt.config.data import Source
from transformer_mt.corpus.readers.lines import expand
from transformer_mt.errors import DataError

Role = Literal["train", "dev", "test"]

_BATCH = 5000  # rows
_SPLITS: dict[Role, str] = {"train": "train", "dev": "validation", "test": "test"}


def hub_rows(
    source: Source, *, root: Path, role: Role, offline: bool = False
) -> Iterator[Mapping[str, Any]]:
    """Stream the rows of a dataset.

    Args:
        source: names the dataset, or a folder below `root` with data files; and, if need be, the
            configuration and the split.
        role: chooses the split where the source names none.
        offline: use the cache of Hugging Face, and no network.
    Raises:
        DataError: the dataset cannot be loaded, or is damaged.
    """
    assert source.hf is not None
    folder = root / expand(source.hf)
    try:
        is_file = folder.is_file()
    except OSError as error:
        raise DataError(f"{str(folder)[:200]}: cannot be read: {error.strerror}") from error
    if is_file:
        raise DataError(
            f"{folder}: hf takes a dataset name or a folder; for a file write its path alone"
        )
    dataset = _load(source, folder, source.split or _SPLITS[role], offline)
    n_rows = 0
    for batch in dataset.with_format("arrow").iter(_BATCH):
        try:
            batch.validate(full=True)  # before anything follows its offsets
            rows = batch.to_pylist()
        except (ValueError, OverflowError) as error:  # also Arrow's; dates beyond those of Python
            cause = " ".join(str(error).split())
            raise DataError(
                f"{source}: rows {n_rows + 1} to {n_rows + len(batch)}: damaged: {cause}"
            ) from error
        n_rows += len(batch)
        yield from rows


def _load(source: Source, folder: Path, split: str, offline: bool) -> Any:
    import datasets

    name = str(folder) if folder.is_dir() else source.hf
    try:
        with _network(not offline):
            return datasets.load_dataset(name, source.config, split=split)
    except Exception as error:  # its errors have no common class
        cause = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        if not folder.exists():
            cause += f" (and there is no folder {folder})"
        if offline:
            cause += (
                "; the network is not to be used: get it with tmt data download CONFIG, or copy "
                "the Hugging Face cache of a machine that has it"
            )
        raise DataError(f"{source}: cannot load the split {split!r}: {cause}") from error


@contextmanager
def _network(allowed: bool) -> Iterator[None]:
    """Both packages ask their own constant, set at import, whether they may use the network."""
    import datasets
    import huggingface_hub

    places = (datasets.config, huggingface_hub.constants)
    before = [place.HF_HUB_OFFLINE for place in places]
    for place, offline in zip(places, before, strict=True):
        place.HF_HUB_OFFLINE = offline or not allowed
    try:
        yield
    finally:
        for place, offline in zip(places, before, strict=True):
            place.HF_HUB_OFFLINE = offline
