"""Errors that a user can cause and mend.

Each message says where, what was found, what is allowed and what to do. The command line prints the
message alone and exits with status 2, and does the same for errors of the system (`OUTSIDE`). Every
other exception is a bug and keeps its traceback.
"""

import errno
import os

STOPPED = 130  # exit status of a command that was stopped, as shells have it for Ctrl-C


class TmtError(Exception):
    """Something outside the program is wrong: input, configuration, files, the machine."""


class ConfigError(TmtError):
    """The configuration cannot be used; the message lists every problem, one per line."""


class DataError(TmtError):
    """A corpus is missing, unreadable, misaligned or empty."""


class TokenizerError(TmtError):
    """A tokenizer cannot be trained or loaded.

    Args:
        possible: the nearest vocabulary size that the text can give, where the size is wrong.
    """

    def __init__(self, message: str, possible: int | None = None) -> None:
        super().__init__(message)
        self.possible = possible


class ModelDirError(TmtError):
    """A model directory is missing, incomplete or altered."""


class CheckpointError(TmtError):
    """A checkpoint cannot be read, or does not fit the configuration."""


class TrainingError(TmtError):
    """Training cannot go on."""


class TrainingStopped(TrainingError):
    """A signal has ended a training early; all is saved, and training again goes on from there."""


class LostProcess(TrainingError):
    """Another process of a training is gone; that process reports the cause."""


# Errors with a cause outside the program.
OUTSIDE = (TmtError, OSError, MemoryError, RecursionError, UnicodeError)


def describe(error: BaseException) -> str:
    """One of `OUTSIDE` as a message for people."""
    from transformer_mt.messages.catalogue import tr  # which needs modules: see `__init__.py`

    match error:
        case TmtError():
            return str(error)
        case OSError():
            names = [
                name if isinstance(name, int) else os.fsdecode(name)
                for name in (error.filename, error.filename2)
                if name is not None
            ]
            where = "".join(f"{name}: " for name in names)
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            remedy = tr("; make room, and run the same command again") if full else ""
            return f"{where}{error.strerror or str(error) or type(error).__name__}{remedy}"
        case MemoryError():
            return tr("not enough memory{}", f": {error}" if str(error) else "")
        case RecursionError():
            return tr("the input is nested too deeply")
        case UnicodeEncodeError():
            found = error.object[error.start]
            if "\ud800" <= found <= "\udfff":
                return tr("{!r} is not UTF-8", error.object[:80])
            return tr(
                "the encoding {} has no character U+{:04X}; set "
                "PYTHONIOENCODING=utf-8, or write to a file",
                error.encoding,
                ord(found),
            )
        case _:
            return str(error) or type(error).__name__
