"""Looks for texts that a reader takes more than linear time for.

    python scripts/faults/fuzz_time.py --seconds 60 --seed 1

Texts are head + unit · n + tail over a grammar of marks. A reader's time for 2n is compared with
that for n; more than `RATIO` times, measured again and at a size that takes long enough, is a
finding. Prints the reader, the three parts and the times. Exit status 1: there is a finding.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from transformer_mt.config.data import Languages
from transformer_mt.config.yaml_text import parse_yaml
from transformer_mt.corpus.readers.sgm import read_sgm_pair
from transformer_mt.corpus.readers.spreadsheets import read_table
from transformer_mt.corpus.readers.tables import read_jsonl
from transformer_mt.corpus.readers.tmx_xliff import read_markup
from transformer_mt.errors import TmtError
from transformer_mt.translation.documents.forms import FORMS, Form
from transformer_mt.translation.documents.translate import read_document
from transformer_mt.translation.glossary import Glossary

RATIO = 2.5
FIRST, LARGEST = 2_000, 128_000  # characters
SLOW_S = 0.05  # less is not measured well enough for a ratio
ATOMS = (
    "a", "b ", " ", "\t", "\n", "\r\n", "\n\n", "0", "1. ", "é", "好", "。", "<", ">", "</", "/>",
    "<a ", "<!--", "-->", "<![CDATA[", "]]>", "<?", "&", "&amp;", "&amp;amp;", "&#1", ";", "=", '"',
    "'", "='", '="', "x=", "<seg>", "<seg id=1>", "</seg", "</seg>", "<doc ", "<script>", "<pre>",
    "</pre>", "<code>", " translate=no", "[", "]", "(", ")", "](", "][", "![", "[^", "]:", "`",
    "``", "```", "*", "**", "_", "~~", "~~~", "\\", "\\\\", "|", "| ", "-", "--", "---", "- ", "> ",
    "# ", "+++", ":", ": ", ",", "{", "}", "{{", "${", "%", "%(", "http://", "www.", "a@",
    ".", "a.", "00:00:01,000 --> ", "\u2028", "\ufeff", "\\u00e9", "\\ud83d", "\\n", '{"text": "',
    '"}', '{"zh": "', '", "en": "', "null", "!", "&a ", "*a", "!!", "? ", "<<: ", "%YAML", "    ",
)  # fmt: skip
ZH_EN = Languages(src="zh", tgt="en")


def readers(folder: Path) -> dict[str, Callable[[str], object]]:
    def of_file(ending: str, read: Callable[[Path], object]) -> Callable[[str], object]:
        def use(text: str) -> object:
            path = folder / f"t{ending}"
            path.write_text(text, encoding="utf-8", newline="")
            return read(path)

        return use

    def document(form: Form) -> Callable[[str], object]:
        def use(text: str) -> object:
            found = read_document(text, form)
            return found.rebuild([f"{segment} *x*" for segment in found.segments])

        return use

    found: dict[str, Callable[[str], object]] = {form: document(form) for form in FORMS}
    found |= {
        "sgm": of_file(".sgm", lambda path: list(read_sgm_pair(path, path))),
        "tmx": of_file(".tmx", lambda path: list(read_markup(path, ZH_EN))),
        "pairs jsonl": of_file(".jl", lambda path: list(read_jsonl(path, ZH_EN, swapped=False))),
        "tsv": of_file(".tsv", lambda path: list(read_table(path, ZH_EN, swapped=False))),
        "csv": of_file(".csv", lambda path: list(read_table(path, ZH_EN, swapped=False))),
        "glossary": of_file(".txt", lambda path: Glossary.read(path).required("a b" * 50)),
        "yaml": lambda text: parse_yaml(text, "t.yaml"),
    }
    return found


FRAMES = {
    "jsonl": [('{"text": "', '"}')],
    "sgm": [("<doc docid=1><seg id=1>", "</seg>"), ("<doc ", "><seg id=1>x</seg>")],
    "tmx": [("<tmx><tu><tuv xml:lang='zh'><seg>", "</seg></tuv></tu></tmx>"), ("<tmx a='", "'/>")],
    "pairs jsonl": [('{"zh": "', '", "en": "x"}')],
    "srt": [("1\n00:00:01,000 --> 00:00:02,000\n", "\n")],
    "markdown": [("", ""), ("# ", ""), ("| a | b |\n|---|---|\n", "")],
    "yaml": [("a: [", "]"), ('a: "', '"')],
}


def seconds(use: Callable[[str], object], parts: tuple[str, str, str], size: int) -> float:
    """The least of two runs, or of one that takes long; a text that is refused counts as well."""
    head, unit, tail = parts
    text = head + unit * (size // len(unit)) + tail
    best = float("inf")
    for _ in range(2):
        start = time.process_time()
        with suppress(TmtError):
            use(text)
        best = min(best, time.process_time() - start)
        if best > 1:
            break
    return best


def superlinear(
    use: Callable[[str], object], parts: tuple[str, str, str]
) -> tuple[float, float] | None:
    """The times at n and 2n if they tell more than linear growth."""
    size, before = FIRST, seconds(use, parts, FIRST)
    while size < LARGEST:
        size, now = 2 * size, seconds(use, parts, 2 * size)
        if now > SLOW_S and now > RATIO * before:
            again = seconds(use, parts, size // 2), seconds(use, parts, size)
            if again[1] > RATIO * again[0]:
                return again
        if now > 4 * SLOW_S:
            return None
        before = now
    return None


def random_parts(choose: random.Random, frames: list[tuple[str, str]]) -> tuple[str, str, str]:
    def some(most: int) -> str:
        return "".join(choose.choices(ATOMS, k=choose.randint(0, most)))

    start, end = choose.choice(frames)
    return start + some(3), some(3) or choose.choice(ATOMS), some(3) + end


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--reader", action="append", help="default: all in turn")
    arguments = parser.parse_args()
    choose = random.Random(arguments.seed)
    n_tried = n_found = 0
    with tempfile.TemporaryDirectory() as folder:
        known = readers(Path(folder))
        names = arguments.reader or list(known)
        end = time.monotonic() + arguments.seconds
        while time.monotonic() < end:
            name = names[n_tried % len(names)]
            parts = random_parts(choose, [*FRAMES.get(name, []), ("", "")])
            times = superlinear(known[name], parts)
            n_tried += 1
            if times:
                n_found += 1
                print(f"{name}: {times[0]:.3f} s, then {times[1]:.3f} s: {parts!r}", flush=True)
    print(f"{n_tried} texts, {n_found} findings", file=sys.stderr)
    return 1 if n_found else 0


if __name__ == "__main__":
    sys.exit(main())
