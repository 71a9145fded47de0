"""Translations of a long input, kept beside the output while they are made.

`OUT.partial` holds a line that says what the translations are made from, then one line for each. A
command that was stopped reads it and goes on; other input, models or options are refused. This file
does not know how a text is translated.
"""

import fcntl
import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, NoReturn

from transformer_mt.errors import TmtError
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.output import explained

# What the file says that translations are made from, as people read it.
_ORIGINS = {"input": tr("input"), "model": tr("model"), "options": tr("options")}
_MARK = b'{"tmt_partial"'  # what the file of a translation begins with


# A translation as it is written, perhaps on several lines; and its faults.
KeptText = tuple[str, Sequence[str]]


class PartialOutput:
    """The open file, locked for as long as the process lives."""

    def __init__(
        self, output: Path, made_from: Mapping[str, str], *, at_once: int, fresh: bool = False
    ) -> None:
        """Open the file beside an output, or make it.

        Args:
            made_from: fingerprints, by the name of the thing: input, model, options.
            at_once: texts that are translated together; what is kept is a multiple of it, so that
                a stop does not change which texts those are.
            fresh: forget what is kept if it was made from something else.
        Raises:
            TmtError: the file is not tmt's, is in use, cannot be written, or was made from
                something else.
        """
        target = Path(os.path.realpath(output))
        self.path = target.with_name(f"{target.name}.partial")
        self._output, self._made_from = output, dict(made_from)
        with explained(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = _open_locked(self.path)
            try:
                self.n_kept = self._read(at_once, fresh)
            except BaseException:
                self._file.close()
                raise

    def __enter__(self) -> "PartialOutput":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Remove the file if all went well, or if nothing is kept."""
        if kind is None or not self.n_kept:
            self.path.unlink(missing_ok=True)
        with suppress(OSError):  # a full disk, which has been told
            self._file.close()

    def add(self, texts: Sequence[KeptText]) -> None:
        """Keep the next translations."""
        lines = "".join(f"{json.dumps(text)}\n" for text in texts)
        with explained(self.path):
            self._file.seek(0, os.SEEK_END)
            self._file.write(lines.encode())
            self._file.flush()
        self.n_kept += len(texts)

    def texts(self) -> Iterator[KeptText]:
        """All that is kept, in order."""
        self._file.seek(0)
        self._file.readline()
        for line in self._file:
            output, faults = json.loads(line)
            yield output, faults

    def _read(self, at_once: int, fresh: bool) -> int:
        """Check the file, and cut off what was not written whole; the number of kept texts."""
        header = self._file.readline()
        if header and not header.startswith(_MARK):
            text = tr(
                "{}: exists and was not written by tmt; rename it, or name another output than {}",
                self.path,
                self._output,
            )
            raise TmtError(text)
        if not header.endswith(b"\n"):
            return self._begin()
        end = position = self._file.tell()
        n_kept = 0
        for number, line in enumerate(self._file, start=1):
            if not _is_whole(line):
                break
            position += len(line)
            if number % at_once == 0:
                n_kept, end = number, position
        others = self._others(header)
        if others and n_kept and not fresh:
            self._refuse(others, n_kept)
        if others or not n_kept:
            return self._begin()
        self._file.truncate(end)
        return n_kept

    def _begin(self) -> int:
        header = json.dumps({"tmt_partial": 1, "made_from": self._made_from})
        self._file.seek(0)
        self._file.truncate()
        self._file.write(f"{header}\n".encode())
        self._file.flush()
        return 0

    def _others(self, header: bytes) -> list[str]:
        """What the kept translations were made from that is another than now."""
        made_from: Any = None
        with suppress(ValueError, KeyError):
            made_from = json.loads(header)["made_from"]
        if not isinstance(made_from, dict):  # somebody else has written it
            made_from = {}
        return [
            _ORIGINS.get(name, name)
            for name, print_ in self._made_from.items()
            if made_from.get(name) != print_
        ]

    def _refuse(self, others: Sequence[str], n_kept: int) -> NoReturn:
        text = tr(
            "{}: keeps {:,} translations of a command that was stopped, with another {}; "
            "give that command again to go on with them, or add --force to begin anew",
            self.path,
            n_kept,
            tr(" and another ").join(others),
        )
        raise TmtError(text)


def _open_locked(path: Path) -> BinaryIO:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    file = os.fdopen(os.open(path, flags, 0o666), "r+b")
    try:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise TmtError(tr("{}: is not a regular file; rename it, or name another output", path))
        with suppress(OSError):  # a file system without locks
            try:
                fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                text = tr(
                    "{}: another tmt is writing it; wait for its end, or name another output", path
                )
                raise TmtError(text) from error
    except BaseException:
        file.close()
        raise
    return file


def _is_whole(line: bytes) -> bool:
    """Whether a line holds a kept text; not one that a kill has cut off."""
    if not line.endswith(b"\n"):
        return False
    try:
        value = json.loads(line)
    except ValueError:
        return False
    return (
        isinstance(value, list)
        and list(map(type, value)) == [str, list]
        and all(isinstance(fault, str) for fault in value[1])
    )
