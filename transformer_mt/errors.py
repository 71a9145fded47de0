"""Errors that a user can cause and mend.

Each message says where, what was found, what is allowed and what to do. The command line prints the
message alone and exits with status 2; every other exception is a bug and keeps its traceback.
"""


class TmtError(Exception):
    """Something outside the program is wrong: input, configuration, files, the machine."""


class ConfigError(TmtError):
    """The configuration cannot be used; the message lists every problem, one per line."""


class DataError(TmtError):
    """A corpus is missing, unreadable, misaligned or empty."""


class TokenizerError(TmtError):
    """A tokenizer cannot be trained or loaded."""


class ModelDirError(TmtError):
    """A model directory is missing, incomplete or altered."""


class CheckpointError(TmtError):
    """A checkpoint cannot be read, or does not fit the configuration."""


class TrainingError(TmtError):
    """Training cannot go on."""


class LostProcess(TrainingError):
    """Another process of a training is gone: not the cause, which that process has told."""
