"""Commands one after the other in one process, in a language → status and words of each.

The language is chosen when a program starts: each needs a process of its own.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from transformer_mt.messages.catalogue import translate_libraries


def said(commands: Sequence[Sequence[str]], language: str, cwd: Path) -> list[tuple[int, str]]:
    """What each `tmt` command ends with, and prints on both streams, 100 columns wide."""
    done = subprocess.run(
        [sys.executable, __file__],
        input=json.dumps(commands),
        cwd=cwd,
        env={**os.environ, "TMT_LANG": language, "COLUMNS": "100", "HOME": str(cwd)},
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    return [(status, words) for status, words in json.loads(done.stdout)]


def main() -> None:
    translate_libraries()  # before Typer is imported, as in `__main__`
    from command import tmt_here

    results = []
    for words in json.load(sys.stdin):
        done = tmt_here(*words, code=None)
        results.append([done.returncode, done.stdout + done.stderr])
    print(json.dumps(results))


if __name__ == "__main__":
    main()
