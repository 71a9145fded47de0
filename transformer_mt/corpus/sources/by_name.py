"""A source by name → the same source as local files, fetched if they are not in the cache.

Comes in: a `Source` of any kind. Goes out: one that `readers.pairs` opens, and where its
text came from. This file knows how names become addresses, not the content of the files.
"""

import json
import os
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from transformer_mt.config.data import Languages, Source
from transformer_mt.corpus.readers.huggingface import Role
from transformer_mt.corpus.sources.archives import is_archive
from transformer_mt.corpus.sources.cache import fetch
from transformer_mt.corpus.sources.http import Unavailable
from transformer_mt.corpus.sources.mtdata_index import obtain_mtdata
from transformer_mt.corpus.sources.provenance import (
    Obtained,
    Origin,
    in_order,
    licence_in,
    local,
    origin,
    unpacked,
)
from transformer_mt.corpus.sources.sacrebleu_sets import obtain_test_set
from transformer_mt.errors import DataError
from transformer_mt.system.terminal import Say

__all__ = ["Obtained", "Origin", "obtain"]

# Codes of OPUS for languages where they differ from ours, the usual code first.
_OPUS_CODES = {
    "zh": ("zh", "zh_cn", "zh_CN", "zh_Hans"),
    "zh-Hant": ("zh_tw", "zh_TW", "zh_Hant", "zh_hk"),
}
_LARGEST_ANSWER = 16 << 20  # bytes of JSON
_VERSION = re.compile(r"[A-Za-z0-9][\w.+-]{0,99}")
_Pair = tuple[str, str]  # OPUS codes, in alphabetical order


def obtain(
    source: Source,
    languages: Languages,
    *,
    role: Role,
    cache_dir: Path,
    offline: bool = False,
    say: Say | None = None,
) -> Obtained:
    """Local files for a source; a local source, and `hf`, come back unchanged.

    Args:
        role: unused, since no kind that is fetched here has splits to choose from.
        cache_dir: the folder of all downloads, shared by all experiments.
        offline: use the cache alone.
        say: told of downloads and waits; None: be quiet.
    Raises:
        DataError: the name is unknown, the server does not give the file, or it is not in the
            cache; an archive is damaged or dangerous.
    """
    if source.opus is not None:
        return _obtain_opus(source, languages, cache_dir, offline, say)
    if source.url is not None:
        return _obtain_url(source, cache_dir, offline, say)
    if source.sacrebleu is not None:
        return obtain_test_set(source, languages, cache_dir=cache_dir, offline=offline, say=say)
    if source.mtdata is not None:
        return obtain_mtdata(source, languages, cache_dir=cache_dir, offline=offline, say=say)
    return Obtained(source, [])


def _obtain_url(source: Source, cache_dir: Path, offline: bool, say: Say | None) -> Obtained:
    assert source.url is not None
    download = fetch(source.url, cache_dir, sha256=source.sha256, offline=offline, say=say)
    if not is_archive(download.path):
        place = local(source, path=str(download.path))
        return Obtained(place, [origin(str(source), download)])
    directory = unpacked(download, cache_dir, say)
    place = local(source, path=str(directory))
    return Obtained(place, [origin(str(source), download, licence_in(directory))])


def _obtain_opus(
    source: Source, languages: Languages, cache_dir: Path, offline: bool, say: Say | None
) -> Obtained:
    assert source.opus is not None
    corpus, _, version = source.opus.partition("/")
    pairs = list(_opus_pairs(languages))
    if not version:
        version, pair = _latest_version(source, corpus, pairs, cache_dir, offline)
        pairs = [pair]
    problems = []
    for pair in pairs:
        url = _opus_url(corpus, version, pair)
        try:
            download = fetch(url, cache_dir, offline=offline, say=say)
        except Unavailable as error:
            problems.append(str(error))
            continue
        directory = unpacked(download, cache_dir, say)
        files = in_order(_opus_sides(source, directory, pair, languages), source, languages)
        found = origin(str(source), download, licence_in(directory))
        return Obtained(local(source, files=files), [found])
    what = (
        f"no such corpus for {languages.pair} in this version; names are spelt as on "
        "opus.nlpl.eu, large and small letters count"
    )
    if offline:
        what = "not in the cache"
    raise DataError(f"{source}: {what}. Tried:\n  " + "\n  ".join(problems))


def _opus_pairs(languages: Languages) -> Iterator[_Pair]:
    sides = [_OPUS_CODES.get(code, (code,)) for code in (languages.src, languages.tgt)]
    for pair in product(*sides):
        first, second = sorted(pair)
        yield first, second


def _opus_url(corpus: str, version: str, pair: _Pair) -> str:
    base = os.environ.get("TMT_OPUS_URL", "https://object.pouta.csc.fi").rstrip("/")
    return f"{base}/OPUS-{quote(corpus)}/{quote(version)}/moses/{'-'.join(pair)}.txt.zip"


def _latest_version(
    source: Source, corpus: str, pairs: list[_Pair], cache_dir: Path, offline: bool
) -> tuple[str, _Pair]:
    """The version that OPUS calls the latest, and the pair it has it for.

    The answer stays in the cache, too, so that a run does not resume on another version.
    """
    api = os.environ.get("TMT_OPUS_API", "https://opus.nlpl.eu/opusapi/")
    for pair in pairs:
        wanted = {"corpus": corpus, "source": pair[0], "target": pair[1]}
        query = urlencode({**wanted, "preprocessing": "moses", "version": "latest"})
        try:
            answer = fetch(f"{api}?{query}", cache_dir, offline=offline)
        except DataError as error:
            raise DataError(
                f"{source}: names no version, and OPUS cannot be asked for the latest; name one, "
                f"such as opus:{corpus}/v1. {error}"
            ) from error
        for version in _versions(answer.path):
            return version, pair
        answer.path.unlink()  # it may come to have it
    codes = ", ".join("-".join(pair) for pair in pairs)
    raise DataError(
        f"{source}: OPUS knows no such corpus for {codes}; names are spelt as on opus.nlpl.eu, "
        "large and small letters count"
    )


def _versions(answer: Path) -> list[str]:
    with answer.open("rb") as file:
        content = file.read(_LARGEST_ANSWER)
    try:
        corpora: Any = json.loads(content)["corpora"]
        return [_VERSION.fullmatch(corpus["version"])[0] for corpus in corpora]  # type: ignore[index]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        text = content[:100].decode(errors="replace")
        answer.unlink()
        raise DataError(f"the OPUS API gives an answer of another form: {text!r}") from error


def _opus_sides(
    source: Source, directory: Path, pair: _Pair, languages: Languages
) -> dict[str, Path]:
    """The file of each language: two names that differ in their ending alone."""
    stems = [
        {path.with_suffix("") for path in directory.rglob(f"*.{code}") if path.is_file()}
        for code in pair
    ]
    both = sorted(stems[0] & stems[1])
    if len(both) != 1:
        names = ", ".join(sorted(path.name for path in directory.rglob("*") if path.is_file()))
        raise DataError(
            f"{source}: expected one pair of files ending in .{pair[0]} and .{pair[1]}, found "
            f"{len(both)} in {directory}: {names}"
        )
    ours = {code: _OPUS_CODES.get(code, (code,)) for code in (languages.src, languages.tgt)}
    return {
        code: both[0].with_name(f"{both[0].name}.{opus_code}")
        for code, spellings in ours.items()
        for opus_code in pair
        if opus_code in spellings
    }
