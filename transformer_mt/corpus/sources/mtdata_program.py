"""Ask mtdata's index for an entry: a program for a Python that has mtdata, but need not have tmt.

Comes in: an identifier and two languages. Goes out: one line of JSON, with the entry, or with what
is `missing` of mtdata, or with identifiers that are `near` an unknown one.
"""

import json
import sys
from typing import Any


def _ask_index(identifier: str, src: str, tgt: str) -> dict[str, Any]:
    import difflib

    try:
        from mtdata.entry import DatasetId
        from mtdata.index import INDEX
        from mtdata.iso.bcp47 import bcp47
    except ImportError as error:
        return {"missing": str(error)}
    try:
        entry = INDEX.entries.get(DatasetId.parse(identifier))
    except Exception:  # an identifier that cannot be parsed is unknown, too
        entry = None
    if entry is None:
        wanted = {bcp47(code.replace("-", "_")).lang for code in (src, tgt)}
        names = [
            str(key) for key in INDEX.entries if {language.lang for language in key.langs} == wanted
        ]
        return {"near": difflib.get_close_matches(identifier, names, n=4, cutoff=0.3)}
    return {
        "langs": [str(language) for language in entry.did.langs],
        "urls": [entry.url] if isinstance(entry.url, str) else list(entry.url),
        "in_paths": list(entry.in_paths or []),
        "form": entry.in_ext or entry.ext,
        "cols": list(entry.cols) if entry.cols else None,
    }


if __name__ == "__main__":
    print(json.dumps(_ask_index(*sys.argv[1:])))
