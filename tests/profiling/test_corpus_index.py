"""Sizes of corpora that are not here: from the cache, from the index, or not at all."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from loopback import Server, running

from transformer_mt.config.data import Languages
from transformer_mt.config.experiment import Config
from transformer_mt.corpus.sources.cache import Cache
from transformer_mt.errors import ConfigError
from transformer_mt.profiling.corpus_index import CorpusIndex
from transformer_mt.profiling.corpus_sample import SourceSize, format_sources, measure_sources

QUERY = "/api/?corpus={}&source=en&target=zh&preprocessing=moses&version={}"
NEWS = {"corpora": [{"corpus": "News", "alignment_pairs": 252_777, "size": 27_712}]}
ZH_EN = Languages(src="zh", tgt="en")
UNKNOWN = (None, None)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """The server in place of the index, which knows one corpus."""
    with running() as server:
        monkeypatch.setenv("TMT_OPUS_API", server.base + "/api/")
        for version in ("v16", "latest"):
            server.serve(QUERY.format("News", version), json.dumps(NEWS).encode())
        yield server


def test_the_index_is_asked_unless_it_must_not_be(server: Server, tmp_path: Path) -> None:
    known = (252_777, 27_712 / 1024)
    index = CorpusIndex(ZH_EN, Cache(tmp_path), offline=False)
    assert index.look_up("News/v16") == index.look_up("News") == known
    assert list(tmp_path.iterdir()) == [], "nothing is kept"
    offline = CorpusIndex(ZH_EN, Cache(tmp_path), offline=True)
    assert offline.look_up("News") == UNKNOWN and len(server.requests) == 2
    Cache(tmp_path).fetch(server.base + QUERY.format("News", "latest"))
    assert offline.look_up("News") == known, "the cache holds the answer now"


@pytest.mark.parametrize("answer", [b"<html>", b"[]", b'{"corpora": [5, {"size": "big"}]}'])
def test_an_answer_of_another_form_says_nothing(
    answer: bytes, server: Server, tmp_path: Path
) -> None:
    server.serve("/api/", answer)
    assert CorpusIndex(ZH_EN, Cache(tmp_path), offline=False).look_up("Other") == UNKNOWN


def test_an_index_that_does_not_answer_is_asked_once(server: Server, tmp_path: Path) -> None:
    index = CorpusIndex(ZH_EN, Cache(tmp_path), offline=False)
    assert index.look_up("Other") == index.look_up("News") == UNKNOWN
    assert len(server.requests) == 1


def test_missing_corpora_are_a_line_each(
    experiment: Callable[..., Config], server: Server, tmp_path: Path
) -> None:
    cfg = experiment(["opus:News/v16", "opus:Other/v1", "a", "no/such"], {})
    update = {"offline": True, "cache": str(tmp_path)}
    cfg = cfg.model_copy(update={"data": cfg.data.model_copy(update=update)})
    with pytest.raises(ConfigError) as raised:
        measure_sources(cfg, offline=False)
    problems, _, rest = str(raised.value).partition("2 corpora are not on this machine yet:")
    assert "no/such" in problems
    lines = rest.split("\n")
    assert "opus:News/v16" in lines[1] and lines[1].split()[2:] == "252,777 pairs 27.1 MiB".split()
    assert "opus:Other/v1" in lines[2] and lines[2].endswith("size unknown")
    assert "tmt data download CONFIG" in lines[3] and len(lines) == 4
    assert max(map(len, lines)) <= 80


def test_a_corpus_is_a_line_with_size_and_licence() -> None:
    sizes = [
        SourceSize("train", "opus:News-Commentary/v16", 252_777, 1, 1, 2.0, 27.06, "CC BY 4.0"),
        SourceSize("test.wmt17", "https://example.org/" + "x" * 99, 2_001, 1, 1),
    ]
    first, second = format_sources(sizes).split("\n")
    assert first.split()[0] == "train" and "opus:News-Comm" in first
    assert first.endswith("252,777 pairs  27.1 MiB  weight 2, CC BY 4.0")
    assert "…" in second and "2,001 pairs" in second and max(len(first), len(second)) <= 80
