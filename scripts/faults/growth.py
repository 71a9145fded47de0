"""Does the time of any function of the text path grow faster than the text?

    python scripts/faults/growth.py --shapes 3000 --seed 1 [--start 0] [-m MODEL] [--only NAME]

A shape is head + n times a unit + tail, over a grammar of characters, markup and words. Each shape
goes to one function, by turns. Its CPU time is taken at a length n where it can be measured, and at
2n; above 2.5 times as much, again, several times each, and on at 4n, 8n … A shape fails if all
steps stay above until a call takes 1 s, or if the function raises anything but a `TmtError`.
Quadratic time within a bound, such as a few hundred words, passes. Shape i follows from seed and i
alone, so that `--start` goes on where a run was stopped. Prints for each function the shapes, the
failures and the worst ratio; exit status 1: there is a failure.
"""

import argparse
import random
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from text_path import text_functions

from transformer_mt.errors import TmtError

LONGEST = 50_000  # characters at n
MEASURABLE_S = 0.002
SLOW_S = 1.0  # a call up to here is quick, however it has grown
MOST_S = 20.0  # of one call, above which a shape fails at any ratio
RATIO = 2.5  # of the times at 2n and n, above which time grows faster than the text
REPEATS = 3
SHOWN = 60  # characters of a part of a shape in a message

Function = Callable[[str], object]

CHARACTERS = (
    "abcxyzABC",
    "0123456789",
    "０１９٣३",
    ".,;:!?",
    "。，；：！？、",
    "…—–-_~",
    "'\"`",
    "“”‘’«»„‚",
    "()[]{}",
    "（）【】《》「」『』",
    "<>/\\|=",
    "@#$%^&*+",
    " ",
    " \t\u3000\xa0",
    "\n",
    "\r",
    "\r\n",
    "\u0301",
    "\u0301\u0323\u0308",
    "\u0f71\u0f73\u3099",
    "一二三十百千万亿",
    "的我你好天气",
    "體這個",
    "かなカナ",
    "한국어",
    "привет",
    "שלום",
    "مرحبا",
    "ไทย",
    "नमस्ते",
    "😀👍🏿❤️",
    "👩\u200d",
    "🇨🇳",
    "\u202e\u2066\u200f",
    "\u200b\u200d\ufeff\u00ad",
    "\x00\x01\x1f\x7f",
    "\u2028\u2029\x85\x0b\x0c",
    "ｱﾞﾊﾟ",
    "ﬁÅẹ̀",
    "\U000e0020",
)
FRAGMENTS = (
    "&",
    "&amp;",
    "amp;",
    "&#38;",
    "#38;",
    "&lt;",
    "&#x26;",
    "<a ",
    "<b>",
    "</b>",
    "<!--",
    "-->",
    "<![CDATA[",
    "]]>",
    "<p",
    "<script>",
    "<td>",
    "<seg id=1>",
    "http://",
    "https://a.b/",
    "www.",
    "a@b.",
    "@",
    "://",
    "mailto:",
    "{{",
    "}}",
    "${",
    "%(a)s",
    "%",
    "**",
    "__",
    "~~",
    "``",
    "```\n",
    "[a](",
    "![",
    "](",
    "[^1]: ",
    "> ",
    "- ",
    "1. ",
    "# ",
    "|a|b|\n",
    "|-|-|\n",
    "---\n",
    "    ",
    "\n\n",
    "00:00:01,000 --> 00:00:02,000\n",
    "1\n",
    '{"text": "',
    '"}',
    '{"a": [',
    "\\u4f60",
    "\\ud83d",
    "\\",
    '\\"',
    "a: ",
    "- a\n",
    "&x ",
    "*x ",
    "? ",
    "Mr. ",
    "e.g. ",
    "A.",
    "said ",
    "他说：“",
    "！”",
    "20世纪90年代",
    "three hundred ",
    "and ",
    "1,000",
    "1.",
    "9",
    "the cat ",
    "hahaha",
    "哈",
    "\ta",
    "a\t",
    "$x^",
    "<unk>",
    "▁",
    "<2en>",
    "<0x0A>",
    "‘",
    "'s ",
)


class Shape(NamedTuple):
    """A text of any length."""

    head: str
    unit: str
    tail: str

    def text(self, n_characters: int) -> str:
        """The text with about so many characters."""
        return self.head + self.unit * (n_characters // len(self.unit) + 1) + self.tail

    def __str__(self) -> str:
        parts = (ascii(part[:SHOWN]) for part in self)
        return "{} + {} * n + {}".format(*parts)


@dataclass
class Tally:
    """What was seen of one function."""

    n: int = 0
    worst: float = 0.0
    failures: list[str] = field(default_factory=list)


class TooSlow(Exception):
    """A single call took `MOST_S`."""


def make_shape(seed: int, index: int) -> Shape:
    """The shape of a number."""
    rng = random.Random(f"{seed}-{index}")
    return Shape(_part(rng, 0, 3), _part(rng, 1, 3), _part(rng, 0, 2))


def _part(rng: random.Random, fewest: int, most: int) -> str:
    return "".join(_token(rng) for _ in range(rng.randint(fewest, most)))


def _token(rng: random.Random) -> str:
    """A fragment, some characters of a class, or any character but a surrogate."""
    kind = rng.random()
    if kind < 0.45:
        return rng.choice(FRAGMENTS)
    if kind < 0.9:
        return "".join(rng.choices(rng.choice(CHARACTERS), k=rng.choice((1, 1, 2, 4))))
    code = rng.randrange(rng.choice((0x3000, 0x10000, 0x110000)))
    return chr(code) if not 0xD800 <= code <= 0xDFFF else "x"


def seconds(function: Function, text: str, repeats: int = 1) -> float:
    """CPU time of a call, the least of some; what a user would be told counts as an outcome."""
    times = []
    for _ in range(repeats):
        started = time.process_time()
        with suppress(TmtError):
            function(text)
        times.append(time.process_time() - started)
        if times[-1] > MOST_S:
            raise TooSlow(f"{times[-1]:.0f} s for {len(text)} characters")
    return min(times)


def growth(function: Function, shape: Shape) -> float:
    """Time at 2n over time at n; 0, if no length up to `LONGEST` takes a measurable time.

    Of a shape that seems to grow too fast, the least of the careful ratios at n, 2n, 4n …
    """
    n, base = 256, seconds(function, shape.text(0))
    while (first := seconds(function, shape.text(n))) < MEASURABLE_S + 2 * base:
        n *= 2
        if n > LONGEST:
            return 0.0
    ratio = seconds(function, shape.text(2 * n)) / first
    if ratio <= RATIO:
        return ratio
    first, ratios = seconds(function, shape.text(n), REPEATS), [ratio]
    while ratios[-1] > RATIO and first < SLOW_S and n < 8 * LONGEST:
        n *= 2
        then = seconds(function, shape.text(n), REPEATS)
        ratios.append(then / first)
        first = then
    return min(ratios)


def check(function: Function, shape: Shape, tally: Tally) -> None:
    """One shape for one function."""
    tally.n += 1
    try:
        ratio = growth(function, shape)
    except Exception as error:  # whatever a function raises is what is looked for
        tally.failures.append(f"{type(error).__name__}: {str(error)[:200]}: {shape}")
        return
    tally.worst = max(tally.worst, ratio)
    if ratio > RATIO:
        tally.failures.append(f"{ratio:.1f} times for twice the text: {shape}")


def check_shapes(
    functions: dict[str, Function], seed: int, numbers: Sequence[int], *, tell: bool = False
) -> dict[str, Tally]:
    """Shapes by number, each for the function whose turn it is."""
    tallies: dict[str, Tally] = defaultdict(Tally)
    names = list(functions)
    for index in numbers:
        name = names[index % len(names)]
        check(functions[name], make_shape(seed, index), tallies[name])
        if tell:
            n_failures = sum(len(tally.failures) for tally in tallies.values())
            told = f"\r{index + 1} {n_failures} failures {name:<24}"
            print(told, end="", file=sys.stderr, flush=True)
    return tallies


def render(tallies: dict[str, Tally]) -> Iterator[str]:
    yield f"{'function':<28} {'shapes':>6} {'failures':>8} {'worst ratio':>11}"
    for name, tally in sorted(tallies.items()):
        yield f"{name:<28} {tally.n:>6} {len(tally.failures):>8} {tally.worst:>11.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--shapes", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--start", type=int, default=0, help="number of the first shape")
    parser.add_argument("--only", help="functions with this in their name")
    parser.add_argument("-m", "--model", type=Path, help="model directory, for its tokenizers")
    arguments = parser.parse_args()
    numbers = range(arguments.start, arguments.start + arguments.shapes)
    with TemporaryDirectory(prefix="tmt-growth-") as folder:
        functions = text_functions(Path(folder), arguments.model)
        chosen = {name: f for name, f in functions.items() if (arguments.only or "") in name}
        tallies = check_shapes(chosen, arguments.seed, numbers, tell=sys.stderr.isatty())
    print("\n".join(render(tallies)))
    failures = [(name, text) for name, tally in tallies.items() for text in tally.failures]
    for name, text in failures:
        print(f"{name}: {text}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
