"""Pairs and size of a corpus of OPUS that is not on this machine, as the index of OPUS has them.

An answer that the cache holds is taken first; else the index is asked once, with little patience.
"""

import json
import os
import urllib.request
from contextlib import suppress
from http.client import HTTPException
from urllib.parse import urlencode

from transformer_mt.config.data import Languages
from transformer_mt.corpus.sources.cache import Cache
from transformer_mt.errors import DataError

_TIMEOUT_S = 4.0
_MOST_BYTES = 1 << 20  # of an answer


class CorpusIndex:
    """The index of OPUS; after an answer that does not come it is not asked again."""

    def __init__(self, languages: Languages, cache: Cache, *, offline: bool) -> None:
        self._languages, self._cache = languages, cache
        self._asks = not offline

    def look_up(self, name: str) -> tuple[int | None, float | None]:
        """Pairs and MiB of CORPUS/VERSION, or of the latest version of CORPUS; None: unknown."""
        corpus, _, version = name.partition("/")
        first, second = sorted((self._languages.src, self._languages.tgt))
        wanted = {"corpus": corpus, "source": first, "target": second}
        query = urlencode({**wanted, "preprocessing": "moses", "version": version or "latest"})
        api = os.environ.get("TMT_OPUS_API", "https://opus.nlpl.eu/opusapi/")
        with suppress(ValueError, LookupError, TypeError, AttributeError, RecursionError):
            entry = json.loads(self._answer(f"{api}?{query}"))["corpora"][0]
            pairs, kib = (_number(entry.get(key)) for key in ("alignment_pairs", "size"))
            return pairs, None if kib is None else kib / 1024
        return None, None

    def _answer(self, url: str) -> bytes:
        with suppress(DataError):
            return Cache(self._cache.folder, offline=True).fetch(url).path.read_bytes()
        if self._asks:
            try:
                with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as response:
                    return bytes(response.read(_MOST_BYTES))
            except (OSError, ValueError, HTTPException):
                self._asks = False
        return b""


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
