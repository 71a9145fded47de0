"""Commands from standard input, one after the other in one process → status and words, as JSON.

The language is chosen when a program starts: each needs a process of its own.
"""

import json
import sys

from command import tmt_here


def main() -> None:
    results = []
    for words in json.load(sys.stdin):
        done = tmt_here(*words, code=None)
        results.append([done.returncode, done.stdout + done.stderr])
    print(json.dumps(results))


if __name__ == "__main__":
    main()
