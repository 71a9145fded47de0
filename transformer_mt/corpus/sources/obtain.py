"""An experiment's sources, brought to this machine: local files, and a record of downloads."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from transformer_mt.config.data import Languages, Source
from transformer_mt.config.experiment import Config
from transformer_mt.corpus.readers.lines import expand
from transformer_mt.corpus.readers.pairs import (
    Pair,
    Role,
    describe_tables,
    read_numbered,
    read_pairs,
    source_files,
    split_source,
    turned_source,
)
from transformer_mt.corpus.readers.parts import LinesOfFiles
from transformer_mt.corpus.sources.cache import Cache, Download, cache_folder
from transformer_mt.corpus.sources.local import Obtained, local
from transformer_mt.corpus.sources.mtdata_index import obtain_mtdata
from transformer_mt.corpus.sources.opus import obtain_opus
from transformer_mt.corpus.sources.sacrebleu_sets import obtain_test_set
from transformer_mt.system.state import sha256
from transformer_mt.system.terminal import Say


@dataclass(frozen=True)
class LocalSource:
    """A source that can be read on this machine."""

    name: str  # as the configuration calls it
    source: Source  # local files, the bundled corpus, or a Hugging Face dataset
    languages: Languages
    root: Path  # that relative paths start from
    role: Role
    offline: bool
    downloads: list[Download]  # none for the user's own files

    @property
    def origins(self) -> list[dict[str, Any]]:
        """What was downloaded, as the report has it."""
        keys = ("url", "sha256", "size", "licence")
        return [{"name": self.name, **{k: vars(d)[k] for k in keys}} for d in self.downloads]

    @cached_property
    def digests(self) -> list[tuple[str, str]]:
        """Name and SHA-256 of each file of the source; every byte is read, once."""
        files = source_files(self.source, self.languages, self.root)
        return [(path.name, sha256(path)) for path in files]

    @property
    def n_bytes(self) -> int:
        """Of the files of the source; 0 for what is neither a file nor a folder."""
        files = source_files(self.source, self.languages, self.root)
        return sum(path.stat().st_size for path in files)

    def turned(self) -> str:
        """How a configuration names it to have it read the other way round."""
        return turned_source(self.source, self.languages, self.root)

    def tables(self) -> list[str]:
        """A line about each of its tables: what was taken for what."""
        return describe_tables(self.source, self.languages, self.root)

    def anywhere(self) -> "LocalSource":
        """The same for a process that has another working directory."""
        return replace(self, root=self.root.absolute())

    def parts(self, every: int) -> Iterator[LinesOfFiles] | None:
        """See `split_source`."""
        return split_source(self.source, self.languages, self.root, every)

    def read(self) -> Iterator[Pair]:
        """Stream the pairs, in order; see `read_pairs`."""
        return read_pairs(
            self.source, self.languages, root=self.root, role=self.role, offline=self.offline
        )

    def read_numbered(self) -> Iterator[tuple[int, Pair]]:
        """`read` with the line of each pair; see `pairs.read_numbered`."""
        return read_numbered(
            self.source, self.languages, root=self.root, role=self.role, offline=self.offline
        )


@dataclass(frozen=True)
class LocalData:
    """A configuration as the user wrote it, and its sources on this machine."""

    cfg: Config
    train: list[LocalSource]
    dev: list[LocalSource]
    test: dict[str, LocalSource]

    @property
    def sources(self) -> list[LocalSource]:
        return [*self.train, *self.dev, *self.test.values()]


def obtain(source: Source, languages: Languages, cache: Cache) -> Obtained:
    """Local files for a source; a local source, and `hf`, come back unchanged.

    Raises:
        DataError: the name is unknown, the server does not give the file, or it is not in the
            cache; an archive is damaged or dangerous.
    """
    if source.opus is not None:
        return obtain_opus(source, languages, cache)
    if source.sacrebleu is not None:
        return obtain_test_set(source, languages, cache)
    if source.mtdata is not None:
        return obtain_mtdata(source, languages, cache)
    if source.url is not None:
        found = cache.content(source.url, source.sha256)
        return Obtained(local(source, path=str(found.path)), [found])
    return Obtained(source, [])


def obtain_source(cfg: Config, source: Source, role: Role, say: Say) -> LocalSource:
    """One source, downloaded if it is named and not in the cache."""
    data, languages = cfg.data, cfg.languages
    cache = Cache(cache_folder(data.cache), data.offline, say)
    found, downloads = obtain(source, languages, cache)
    root = expand(data.root)
    return LocalSource(str(source), found, languages, root, role, data.offline, downloads)


def obtain_sources(cfg: Config, say: Say) -> LocalData:
    """All sources of an experiment; see `obtain_source`."""
    expand(cfg.data.root)  # a mistake in it is told before anything is downloaded
    return LocalData(
        cfg,
        [obtain_source(cfg, source, "train", say) for source in cfg.data.train],
        [obtain_source(cfg, source, "dev", say) for source in cfg.data.dev],
        {name: obtain_source(cfg, source, "test", say) for name, source in cfg.data.test.items()},
    )


def obtain_datasets(local: LocalData) -> None:
    """Bring the Hugging Face datasets of an experiment into the cache of that library."""
    for source in local.sources:
        if source.source.hf is not None:
            next(source.read(), None)
