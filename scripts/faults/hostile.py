"""Hostile texts through the commands, as a user would run them: five commands for each text.

    python scripts/faults/hostile.py -m runs/tiny --n 2000 --seed 1 [--commands translate,score]

translate (lines of a file), documents (Markdown, HTML, SRT and JSONL by turns), score, data check
(texts as pairs, in two files), and tokenizer encode and decode, all within this process by the
function behind `tmt`. Texts of one kind go together. For every call: no exception, but a `TmtError`
told in one line; a line out for each line in; no more time than fuzz_translate.py allows. Prints a
line for each command and kind, the failures below. Exit status 1: there is a failure.
"""

import argparse
import io
import json
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from unittest.mock import patch

from fuzz_translate import SHOWN, allowed_s, chunks_of
from hostile_texts import Hostile, hostile_texts

from transformer_mt.cli.main import main as tmt
from transformer_mt.pipeline.run_dir import find_model

LOADING_S = 10.0  # allowed for what a command does before the first text
ENDINGS = {"markdown": ".md", "html": ".html", "srt": ".srt", "jsonl": ".jsonl"}


class Outcome(NamedTuple):
    """What a command has done; `crash` is the traceback of anything but an exit."""

    status: int
    out: bytes
    err: str
    crash: str


@dataclass
class Tally:
    """What was seen of one command with one kind of text."""

    n: int = 0
    n_refused: int = 0  # by a TmtError
    slowest: float = 0.0  # share of the time that was allowed
    failures: list[str] = field(default_factory=list)


def run(*arguments: str | Path, given: bytes = b"") -> Outcome:
    """One command line, within this process, with the streams of a UTF-8 terminal."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    status, crash = 0, ""
    with ExitStack() as stack:
        stack.enter_context(patch("sys.argv", ["tmt", *map(str, arguments)]))
        stack.enter_context(patch("sys.stdin", io.TextIOWrapper(io.BytesIO(given), "utf-8")))
        stack.enter_context(redirect_stdout(out))
        stack.enter_context(redirect_stderr(err))
        try:
            tmt()
        except SystemExit as exit_:
            status = exit_.code if isinstance(exit_.code, int) else int(bool(exit_.code))
        except BaseException:  # what a user would see as a traceback
            crash = traceback.format_exc(limit=-4)
    return Outcome(status, out.buffer.getvalue(), err.buffer.getvalue().decode(), crash)


def told_in_one_line(outcome: Outcome) -> bool:
    """Whether a command that refused its input says so in one line, the last one."""
    if outcome.status != 2:
        return False
    lines = outcome.err.rstrip("\n").split("\n")
    return sum(line.startswith("tmt: ") for line in lines) == 1 and lines[-1].startswith("tmt: ")


def count_lines(content: bytes) -> int:
    return content.count(b"\n")


Command = Callable[[list[str], "Setting"], Iterator[str]]


@dataclass
class Setting:
    """Where a command finds what it needs, and what it did."""

    model: Path
    folder: Path
    n_calls: int = 0
    n_refused: int = 0

    def file(self, name: str, content: str) -> Path:
        path = self.folder / name
        path.write_bytes(content.encode())
        return path

    def call(self, *arguments: str | Path, given: bytes = b"") -> Outcome:
        self.n_calls += 1
        return run(*arguments, given=given)

    def bad(self, outcome: Outcome, *, may_refuse: bool = False, ok: tuple[int, ...] = (0,)) -> str:
        """What is wrong with how a command has ended; empty: nothing."""
        if outcome.crash:
            return outcome.crash
        if outcome.status in ok:
            return ""
        if may_refuse and told_in_one_line(outcome):
            self.n_refused += 1
            return ""
        return f"exit status {outcome.status}: {outcome.err[-SHOWN:]!r}"


def _lines(texts: list[str]) -> str:
    return "".join(f"{text}\n" for text in texts)


def translate(texts: list[str], at: Setting) -> Iterator[str]:
    """Lines of a file."""
    path = at.file("texts.txt", _lines(texts))
    outcome = at.call("translate", "-m", at.model, "-i", path, "--engine", "native")
    if problem := at.bad(outcome):
        yield problem
    elif count_lines(outcome.out) != count_lines(path.read_bytes()):
        yield f"{count_lines(outcome.out)} lines for {count_lines(path.read_bytes())}"


def documents(texts: list[str], at: Setting) -> Iterator[str]:
    """A document of all texts, of another form each time; JSONL as objects."""
    form = list(ENDINGS)[at.n_calls % len(ENDINGS)]
    content = _lines([json.dumps({"text": text}) for text in texts])
    if form != "jsonl":
        content = "\n\n".join(texts)
    path = at.file(f"texts{ENDINGS[form]}", content)
    out = at.folder / f"out{ENDINGS[form]}"
    arguments = "translate", "-m", at.model, "-i", path, "-o", out, "--engine", "native"
    if problem := at.bad(at.call(*arguments)):
        yield f"{form}: {problem}"
        return
    if count_lines(out.read_bytes()) != count_lines(path.read_bytes()):
        yield f"{form}: {count_lines(out.read_bytes())} lines for {count_lines(path.read_bytes())}"
    if form == "jsonl":
        for line in out.read_text(encoding="utf-8").split("\n")[:-1]:
            if list(json.loads(line)) != ["text"]:
                yield f"jsonl: {line[:SHOWN]!r}"


def score(texts: list[str], at: Setting) -> Iterator[str]:
    """Each text as the translation of itself, line by line."""
    path = at.file("texts.txt", _lines(texts))
    outcome = at.call("score", "-m", at.model, "--src", path, "--tgt", path)
    if problem := at.bad(outcome):
        yield problem
    elif count_lines(outcome.out) != count_lines(path.read_bytes()):
        yield f"{count_lines(outcome.out)} lines for {count_lines(path.read_bytes())}"


def data_check(texts: list[str], at: Setting) -> Iterator[str]:
    """Each line with the next one as its translation, and with itself."""
    lines = _lines(texts).split("\n")[:-1]
    src = at.file("texts.zh", _lines([*lines, *lines]))
    tgt = at.file("texts.en", _lines([*lines, *lines[1:], *lines[:1]]))
    outcome = at.call("data", "check", src, tgt, "--src", "zh", "--tgt", "en", "--json")
    if problem := at.bad(outcome, ok=(0, 1)):
        yield problem
        return
    report = json.loads(outcome.out)
    if report["parts"]["pairs"]["read"] != 2 * len(lines):
        yield f"{report['parts']['pairs']['read']} pairs read of {2 * len(lines)}"
    yield from (problem for problem in report["problems"] if "rule_error" in problem)


def tokenizer(texts: list[str], at: Setting) -> Iterator[str]:
    """Ids of each line, and the text of these ids."""
    model = next(iter(sorted(at.model.glob("tokenizer*.model"))))
    given = _lines(texts).encode()
    encoded = at.call("tokenizer", "encode", model, "--ids", given=given)
    decoded = at.call("tokenizer", "decode", model, given=encoded.out)
    pieces = at.call("tokenizer", "encode", model, given=given)
    for outcome in (encoded, decoded, pieces):
        if problem := at.bad(outcome):
            yield problem
        elif count_lines(outcome.out) != count_lines(given):
            yield f"{count_lines(outcome.out)} lines for {count_lines(given)}"
    outcome = at.call("tokenizer", "decode", model, given=given)  # texts that are no ids
    if problem := at.bad(outcome, may_refuse=True):
        yield problem


COMMANDS: dict[str, Command] = {
    "translate": translate,
    "documents": documents,
    "score": score,
    "data check": data_check,
    "tokenizer": tokenizer,
}


def check(command: Command, chunk: list[Hostile], at: Setting, tally: Tally) -> None:
    """Texts of one kind together; one by one if that fails, to see which one it is."""
    texts = [hostile.text for hostile in chunk]
    before, started = at.n_calls, time.perf_counter()
    at.n_refused = 0
    problems = list(command(texts, at))
    taken_s = time.perf_counter() - started
    allowed = (at.n_calls - before) * LOADING_S + sum(map(allowed_s, texts))
    alone = len(chunk) == 1
    if alone and taken_s > allowed:
        problems.append(f"{taken_s:.1f} s")
    # Of many, one may take the time of all.
    is_slow = taken_s > (at.n_calls - before) * LOADING_S + min(map(allowed_s, texts))
    if not alone and (problems or is_slow):
        n_failures = len(tally.failures)
        for hostile in chunk:
            check(command, [hostile], at, tally)
        if problems and len(tally.failures) == n_failures:
            tally.failures.append(f"only together: {problems[0]}")
        return
    tally.n += len(chunk)
    tally.n_refused += at.n_refused
    tally.slowest = max(tally.slowest, taken_s / allowed)
    for problem in problems:
        shown = ascii(chunk[0].text[:SHOWN])
        tally.failures.append(f"{len(chunk[0].text)} characters, {shown}: {problem}")


def render(tallies: dict[tuple[str, str], Tally]) -> Iterator[str]:
    yield f"{'command':<12} {'kind':<20} {'texts':>5} {'refused':>7} {'failures':>8} {'time':>6}"
    for (name, kind), tally in tallies.items():
        counts = f"{tally.n:>5} {tally.n_refused:>7} {len(tally.failures):>8}"
        yield f"{name:<12} {kind:<20} {counts} {tally.slowest:>6.0%}"
    n_texts = sum(tally.n for tally in tallies.values())
    n_failures = sum(len(tally.failures) for tally in tallies.values())
    yield f"{n_texts} inputs, {n_failures} failures"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-m", "--model", type=Path, help="model or run directory")
    parser.add_argument("--n", type=int, default=2000, help="texts for each command")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--commands", default=",".join(COMMANDS), help="with commas between them")
    arguments = parser.parse_args()
    tallies: dict[tuple[str, str], Tally] = {}
    with TemporaryDirectory(prefix="tmt-hostile-") as folder:
        at = Setting(find_model(arguments.model), Path(folder))
        for name in arguments.commands.split(","):
            for chunk in chunks_of(hostile_texts(arguments.n, arguments.seed)):
                tally = tallies.setdefault((name, chunk[0].kind), Tally())
                check(COMMANDS[name], chunk, at, tally)
                if sys.stderr.isatty():
                    print(f"\r{name:<12} {chunk[0].kind:<20}", end="", file=sys.stderr, flush=True)
    print("\n".join(render(tallies)))
    for (name, kind), tally in tallies.items():
        for failure in tally.failures:
            print(f"{name}, {kind}: {failure}")
    sys.exit(1 if any(tally.failures for tally in tallies.values()) else 0)


if __name__ == "__main__":
    main()
