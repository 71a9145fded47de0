"""tmt, a translation trainer: from two text files to a scored translator."""

__version__ = "0.1.0"
