"""A corpus of OPUS by name → the two text files of its archive, fetched if they are not cached."""

import difflib
import os
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote, urlencode

from transformer_mt.config.data import Languages, Source
from transformer_mt.corpus.sources.cache import Cache
from transformer_mt.corpus.sources.http import Unavailable
from transformer_mt.corpus.sources.local import Obtained, local_sides
from transformer_mt.errors import DataError
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.state import Damaged, read_json

# Codes of OPUS for languages where they differ from ours, the usual code first.
_CODES = {
    "zh": ("zh", "zh_cn", "zh_CN", "zh_Hans"),
    "zh-Hant": ("zh_tw", "zh_TW", "zh_Hant", "zh_hk"),
}
_API = "https://opus.nlpl.eu/opusapi/"
_VERSION = re.compile(r"[A-Za-z0-9][\w.+-]{0,99}")
_ALL_NAMES = tr("large and small letters count; all names: tmt data find SRC TGT")
_Pair = tuple[str, str]  # OPUS codes of source and target


@dataclass(frozen=True)
class OpusCorpus:
    """The latest version of a corpus, as OPUS lists it."""

    name: str  # CORPUS/VERSION
    pairs: int
    size: int  # bytes of the archive


def list_corpora(languages: Languages) -> list[OpusCorpus]:
    """All corpora of OPUS in two languages, the largest first; the answer is not kept.

    Raises:
        DataError: OPUS cannot be asked.
    """
    found = []
    for first, second in dict.fromkeys(map(_sorted, _pairs(languages))):
        query = {"source": first, "target": second, "preprocessing": "moses", "version": "latest"}
        with TemporaryDirectory(prefix="tmt-opus-") as folder:
            answer = Cache(Path(folder), patient=False).fetch(f"{_api()}?{urlencode(query)}")
            found += [_listed(entry) for entry in _entries(answer.path)]
    return sorted(found, key=lambda corpus: (-corpus.pairs, corpus.name))


def _listed(entry: dict[str, Any]) -> OpusCorpus:
    sizes = [entry.get(key) for key in ("alignment_pairs", "size")]
    pairs, kilobytes = (size if isinstance(size, int) else 0 for size in sizes)
    return OpusCorpus(f"{entry['corpus']}/{entry['version']}", pairs, 1000 * kilobytes)


def _near_names(name: str, languages: Languages) -> str:
    """The corpora of OPUS whose names are near, as the end of a message; empty if none are."""
    try:
        listed = [corpus.name for corpus in list_corpora(languages)]
    except DataError:
        return ""
    plain = {_plain(known): known for known in reversed(listed)}
    near = difflib.get_close_matches(_plain(name), list(plain), n=4, cutoff=0.6)
    names = ", ".join(f"opus:{plain[key]}" for key in near)
    return tr("; near names for {}: {}", languages.pair, names) if names else ""


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", name.partition("/")[0]).casefold()


def obtain_opus(source: Source, languages: Languages, cache: Cache) -> Obtained:
    """CORPUS/VERSION, or the latest version of CORPUS."""
    assert source.opus is not None
    corpus, _, version = source.opus.partition("/")
    pairs = _pairs(languages)
    if not version:
        version, pair = _latest_version(source, corpus, languages, cache)
        pairs = [pair]
    base = os.environ.get("TMT_OPUS_URL", "https://object.pouta.csc.fi").rstrip("/")
    problems = []
    for pair in pairs:
        url = f"{base}/OPUS-{quote(corpus)}/{quote(version)}/moses/{_joined(pair)}.txt.zip"
        try:
            found = cache.content(url)
        except Unavailable as error:
            problems.append(str(error))
            continue
        stem = _stem(source, found.path, pair)
        sides = [stem.with_name(f"{stem.name}.{code}") for code in pair]
        named = dict(zip((languages.src, languages.tgt), sides, strict=True))
        return Obtained(local_sides(source, languages, named), [found])
    what = tr("not in the cache")
    if not cache.offline:
        near = _near_names(corpus, languages)
        what = tr("no such corpus for {} in this version{}; {}", languages.pair, near, _ALL_NAMES)
    raise DataError(tr("{}: {}. Tried:\n  ", source, what) + "\n  ".join(problems))


def _pairs(languages: Languages) -> list[_Pair]:
    """The codes that OPUS may have for the two languages."""
    codes = [_CODES.get(code, (code,)) for code in (languages.src, languages.tgt)]
    return [(src, tgt) for src in codes[0] for tgt in codes[1]]


def _sorted(pair: _Pair) -> _Pair:
    first, second = sorted(pair)
    return first, second


def _api() -> str:
    return os.environ.get("TMT_OPUS_API", _API)


def _joined(pair: _Pair) -> str:
    return "-".join(sorted(pair))


def _latest_version(
    source: Source, corpus: str, languages: Languages, cache: Cache
) -> tuple[str, _Pair]:
    """The version that OPUS calls the latest, and the pair it has it for.

    The answer stays in the cache, too, so that a run does not resume on another version.
    """

    def asked(pair: _Pair, offline: bool) -> Path:
        first, second = sorted(pair)
        wanted = {"corpus": corpus, "source": first, "target": second}
        query = urlencode({**wanted, "preprocessing": "moses", "version": "latest"})
        return replace(cache, offline=offline).fetch(f"{_api()}?{query}").path

    for pair in _pairs(languages):  # answered before
        with suppress(Unavailable):
            for entry in _entries(asked(pair, offline=True)):
                return str(entry["version"]), pair
    for pair in _pairs(languages):
        try:
            answer = asked(pair, cache.offline)
        except DataError as error:
            raise DataError(
                tr(
                    "{}: names no version, and OPUS cannot be asked for the latest; "
                    "name one, such as opus:{}/v1. {}",
                    source,
                    corpus,
                    error,
                )
            ) from error
        for entry in _entries(answer):
            return str(entry["version"]), pair
        answer.unlink()  # it may come to have it
    tried = ", ".join(map(_joined, _pairs(languages)))
    near = _near_names(corpus, languages)
    raise DataError(
        tr("{}: OPUS knows no such corpus for {}{}; {}", source, tried, near, _ALL_NAMES)
    )


def _entries(answer: Path) -> list[dict[str, Any]]:
    """What OPUS says about corpora; each has a name and a version."""
    try:
        corpora: list[dict[str, Any]] = (read_json(answer) or {})["corpora"]
        for corpus in corpora:
            if not (_VERSION.fullmatch(corpus["version"]) and _VERSION.fullmatch(corpus["corpus"])):
                raise KeyError(corpus["version"])
        return corpora
    except (Damaged, KeyError, TypeError) as error:
        text = answer.read_bytes()[:100].decode(errors="replace")
        answer.unlink()
        raise DataError(tr("the OPUS API gives an answer of another form: {!r}", text)) from error


def _stem(source: Source, directory: Path, pair: _Pair) -> Path:
    """The path of both files of an archive, without the code of the language at its end."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    stems = [{path.with_suffix("") for path in files if path.suffix == f".{c}"} for c in pair]
    both = sorted(stems[0] & stems[1])
    if len(both) != 1:
        names = ", ".join(sorted(path.name for path in files))
        first, second = sorted(pair)
        raise DataError(
            tr(
                "{}: expected one pair of files ending in .{} and .{}, found {} in {}: {}",
                source,
                first,
                second,
                len(both),
                directory,
                names,
            )
        )
    return both[0]
