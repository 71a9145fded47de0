"""An experiment's sources, brought to this machine.

Comes in: a configuration that may name public corpora. Goes out: the same one with local sources,
and where they came from. This file does not know how anything is downloaded: see `by_name.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from transformer_mt.config.data import Source
from transformer_mt.config.experiment import Config
from transformer_mt.corpus.readers.lines import expand
from transformer_mt.corpus.readers.pairs import Role, read_pairs
from transformer_mt.corpus.sources.by_name import Obtained, Origin, obtain
from transformer_mt.corpus.sources.cache import default_cache

Say = Callable[[str], None]


@dataclass(frozen=True)
class Local:
    """An experiment whose sources lie on this machine."""

    original: Config  # as the user wrote it
    cfg: Config  # the same with sources that can be read
    origins: list[list[Origin]]  # of each training source; none for the user's own files

    @property
    def names(self) -> list[str]:
        """Of the training sources, as the user's configuration calls them."""
        return [str(source) for source in self.original.data.train]


def obtain_source(cfg: Config, source: Source, role: Role, say: Say) -> Obtained:
    """One source, downloaded if it is named and not in the cache.

    Raises:
        DataError: it cannot be had.
    """
    data = cfg.data
    return obtain(
        source,
        cfg.languages,
        role=role,
        cache_dir=expand(data.cache) if data.cache else default_cache(),
        offline=data.offline,
        say=say,
    )


def obtain_sources(cfg: Config, say: Say) -> Local:
    """All sources of an experiment.

    Raises:
        DataError: one cannot be had, or `data.root` is no path here.
    """
    data = cfg.data
    expand(data.root)
    train = [obtain_source(cfg, source, "train", say) for source in data.train]
    test = {name: obtain_source(cfg, source, "test", say) for name, source in data.test.items()}
    sources = {
        "train": [obtained.source for obtained in train],
        "dev": [obtain_source(cfg, source, "dev", say).source for source in data.dev],
        "test": {name: obtained.source for name, obtained in test.items()},
    }
    return Local(
        cfg,
        cfg.model_copy(update={"data": data.model_copy(update=sources)}),
        [obtained.origins for obtained in train],
    )


def obtain_datasets(cfg: Config) -> None:
    """Bring the Hugging Face datasets of an experiment into the cache of that library.

    Raises:
        DataError: one cannot be had.
    """
    data = cfg.data
    root = expand(data.root)
    sources: list[tuple[Role, list[Source]]] = [
        ("train", data.train), ("dev", data.dev), ("test", list(data.test.values()))
    ]  # fmt: skip
    for role, named in sources:
        for source in named:
            if source.hf is not None:
                next(read_pairs(source, cfg.languages, root=root, role=role), None)
