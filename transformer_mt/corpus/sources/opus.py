"""A corpus of OPUS by name → the two text files of its archive, fetched if they are not cached."""

import os
import re
from pathlib import Path
from urllib.parse import quote, urlencode

from transformer_mt.config.data import Languages, Source
from transformer_mt.corpus.sources.cache import Cache
from transformer_mt.corpus.sources.http import Unavailable
from transformer_mt.corpus.sources.local import Obtained, local_sides
from transformer_mt.errors import DataError
from transformer_mt.system.state import Damaged, read_json

# Codes of OPUS for languages where they differ from ours, the usual code first.
_CODES = {
    "zh": ("zh", "zh_cn", "zh_CN", "zh_Hans"),
    "zh-Hant": ("zh_tw", "zh_TW", "zh_Hant", "zh_hk"),
}
_VERSION = re.compile(r"[A-Za-z0-9][\w.+-]{0,99}")
_Pair = tuple[str, str]  # OPUS codes of source and target


def obtain_opus(source: Source, languages: Languages, cache: Cache) -> Obtained:
    """CORPUS/VERSION, or the latest version of CORPUS."""
    assert source.opus is not None
    corpus, _, version = source.opus.partition("/")
    codes = [_CODES.get(code, (code,)) for code in (languages.src, languages.tgt)]
    pairs = [(src, tgt) for src in codes[0] for tgt in codes[1]]
    if not version:
        version, pair = _latest_version(source, corpus, pairs, cache)
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
    what = (
        f"no such corpus for {languages.pair} in this version; names are spelt as on "
        "opus.nlpl.eu, large and small letters count"
    )
    if cache.offline:
        what = "not in the cache"
    raise DataError(f"{source}: {what}. Tried:\n  " + "\n  ".join(problems))


def _joined(pair: _Pair) -> str:
    return "-".join(sorted(pair))


def _latest_version(
    source: Source, corpus: str, pairs: list[_Pair], cache: Cache
) -> tuple[str, _Pair]:
    """The version that OPUS calls the latest, and the pair it has it for.

    The answer stays in the cache, too, so that a run does not resume on another version.
    """
    api = os.environ.get("TMT_OPUS_API", "https://opus.nlpl.eu/opusapi/")
    for pair in pairs:
        first, second = sorted(pair)
        wanted = {"corpus": corpus, "source": first, "target": second}
        query = urlencode({**wanted, "preprocessing": "moses", "version": "latest"})
        try:
            answer = Cache(cache.folder, cache.offline).fetch(f"{api}?{query}")
        except DataError as error:
            raise DataError(
                f"{source}: names no version, and OPUS cannot be asked for the latest; name one, "
                f"such as opus:{corpus}/v1. {error}"
            ) from error
        for version in _versions(answer.path):
            return version, pair
        answer.path.unlink()  # it may come to have it
    raise DataError(
        f"{source}: OPUS knows no such corpus for {', '.join(map(_joined, pairs))}; names are "
        "spelt as on opus.nlpl.eu, large and small letters count"
    )


def _versions(answer: Path) -> list[str]:
    try:
        corpora = (read_json(answer) or {})["corpora"]
        return [_VERSION.fullmatch(corpus["version"])[0] for corpus in corpora]  # type: ignore[index]
    except (Damaged, KeyError, TypeError) as error:
        text = answer.read_bytes()[:100].decode(errors="replace")
        answer.unlink()
        raise DataError(f"the OPUS API gives an answer of another form: {text!r}") from error


def _stem(source: Source, directory: Path, pair: _Pair) -> Path:
    """The path of both files of an archive, without the code of the language at its end."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    stems = [{path.with_suffix("") for path in files if path.suffix == f".{c}"} for c in pair]
    both = sorted(stems[0] & stems[1])
    if len(both) != 1:
        names = ", ".join(sorted(path.name for path in files))
        first, second = sorted(pair)
        raise DataError(
            f"{source}: expected one pair of files ending in .{first} and .{second}, found "
            f"{len(both)} in {directory}: {names}"
        )
    return both[0]
