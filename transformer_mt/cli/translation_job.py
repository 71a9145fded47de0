"""One call of `tmt translate`: texts in, translations out, some at a time.

Faults are told, progress is shown, and what is done of a long file is kept if the call is stopped.
"""

import json
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from typing import TYPE_CHECKING, Any

import typer

from transformer_mt.cli.options import say
from transformer_mt.errors import STOPPED
from transformer_mt.messages.catalogue import tr

if TYPE_CHECKING:
    from transformer_mt.translation.documents.marks import Align
    from transformer_mt.translation.partial_output import PartialOutput
    from transformer_mt.translation.result import Translation

SHOWN_FAULTS = 5  # flagged translations that are named; the others are counted
TEXTS_AT_ONCE = 500  # what a stop loses; fewer cost time, since batches are less alike in length

Write = Callable[["Translation"], str]  # a translation as it is written


class TranslationJob:
    """Use with `with`, around the writing of the output as well."""

    def __init__(
        self,
        translate: "Callable[[list[str]], list[Translation]]",
        *,
        at_once: int = TEXTS_AT_ONCE,
        keep: "Callable[[int], PartialOutput] | None" = None,
        bar: bool = False,
    ) -> None:
        """Args:
        at_once: texts that are translated together.
        keep: opens the file for what is done, for `at_once` texts; None: nothing is kept.
        bar: show the progress, if standard error is a terminal.
        """
        self._translate, self._at_once, self._keep = translate, at_once, keep
        self._has_bar = bar and sys.stderr.isatty()
        self._stack = ExitStack()
        self._kept: PartialOutput | None = None
        self._n_texts = self._n_flagged = self._n_read = self._n_strange = self._n_placed = 0
        self._say_placed: Callable[[str], None] = lambda text: None
        self._faults: Counter[str] = Counter()

    def __enter__(self) -> "TranslationJob":
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        self._stack.__exit__(kind, error, traceback)
        if kind is None:
            self._tell_of_faults()
        elif kind is KeyboardInterrupt and self._kept is not None and self._kept.n_kept:
            say(
                tr(
                    "stopped: {:,} translations are kept in {}; to go on, give the "
                    "same command: tmt {}",
                    self._kept.n_kept,
                    self._kept.path,
                    shlex.join(sys.argv[1:]),
                )
            )
            raise typer.Exit(STOPPED) from error

    def outputs(self, texts: Iterable[str], n_texts: int | None, write: Write) -> Iterator[str]:
        """The translation of each text, as written; all after the last one if they are kept.

        Args:
            n_texts: None: unknown, as of standard input.
        """
        if self._keep is not None and n_texts is not None and n_texts > self._at_once:
            self._kept = self._stack.enter_context(self._keep(self._at_once))
        n_kept = 0 if self._kept is None else self._kept.n_kept
        if self._kept is not None and n_kept:
            say(
                tr(
                    "going on after {:,} of {:,} translations, kept in {}",
                    n_kept,
                    n_texts,
                    self._kept.path,
                )
            )
            for _, faults in self._kept.texts():
                self._count(faults)
        advance = self._progress(n_texts, n_kept)
        rest = islice(texts, n_kept, None)
        while batch := list(islice(rest, self._at_once)):
            found = self._checked(batch)
            if self._kept is None:
                yield from map(write, found)
            else:
                self._kept.add([(write(one), one.faults) for one in found])
            advance(len(batch))
        if self._kept is not None:
            yield from (output for output, _ in self._kept.texts())

    def showing(self, align: "Align") -> "Align":
        """The same alignment, which tells how many texts have got their marks."""

        def shown(text: str, translation: str) -> Sequence[int] | None:
            self._n_placed += 1
            self._say_placed(tr("marks in {:,}", self._n_placed))
            return align(text, translation)

        return shown

    def _progress(self, n_texts: int | None, n_kept: int) -> Callable[[int], None]:
        """Show a bar with the time left; the function that moves it on."""
        if not self._has_bar:
            return lambda n: None
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        known = (
            BarColumn(bar_width=15),
            TextColumn(tr("{task.completed:,.0f} of {task.total:,.0f} translated, time left")),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
        )
        unknown = (TextColumn(tr("{task.completed:,.0f} translated {task.description}")),)
        bar = Progress(
            *(unknown if n_texts is None else known),
            console=Console(stderr=True),
            auto_refresh=False,  # a thread would keep the search from forking
            speed_estimate_period=600,
            redirect_stdout=False,
            transient=True,
        )
        self._stack.enter_context(bar)
        task = bar.add_task("", total=n_texts, completed=n_kept)
        bar.refresh()
        self._say_placed = lambda text: bar.update(task, description=text, refresh=True)
        return lambda n: bar.update(task, advance=n, refresh=True)

    def _checked(self, texts: list[str]) -> list["Translation"]:
        translations = self._translate(texts)
        self._n_read += len(texts)
        for translation in translations:
            self._count(translation.faults)
            if translation.faults and self._n_flagged <= SHOWN_FAULTS:
                say(f"{', '.join(translation.faults)}: {translation.source[:60]}")
            if notes := translation.input.notes:
                self._n_strange += 1
                if self._n_strange <= SHOWN_FAULTS:
                    say(tr("strange text: {}: {}", "; ".join(notes), translation.source[:60]))
        return translations

    def _count(self, faults: Sequence[str]) -> None:
        self._n_texts += 1
        self._n_flagged += bool(faults)
        self._faults.update(faults)

    def _tell_of_faults(self) -> None:
        """The sums, if more were found than were named."""
        if self._n_strange > SHOWN_FAULTS:
            say(tr("{} of {} texts are strange to this model", self._n_strange, self._n_read))
        if self._n_flagged > SHOWN_FAULTS:
            counts = ", ".join(f"{fault} {n}" for fault, n in self._faults.most_common())
            say(tr("{} of {} translations have faults: {}", self._n_flagged, self._n_texts, counts))


def best(translation: "Translation") -> str:
    return translation.text


def as_json(translation: "Translation") -> str:
    return json.dumps(translation.to_json(), ensure_ascii=False)


def alternatives(translation: "Translation") -> str:
    """A line for each, the best first: rank, score, text."""
    found = [(one.score, one.text) for one in translation.alternatives]
    lines = found or [(translation.score, translation.text)]
    return "\n".join(f"{rank}\t{score:.3f}\t{text}" for rank, (score, text) in enumerate(lines, 1))
