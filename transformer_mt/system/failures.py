"""Why a system call has failed, in the user's language."""

import errno
import os

from transformer_mt.messages.catalogue import tr

_REASONS = {
    errno.EACCES: tr("Permission denied"),
    errno.EIO: tr("Input/output error"),
    errno.EISDIR: tr("Is a directory"),
    errno.ELOOP: tr("Too many levels of symbolic links"),
    errno.EMFILE: tr("Too many open files"),
    errno.ENAMETOOLONG: tr("File name too long"),
    errno.ENOENT: tr("No such file or directory"),
    errno.ENOTDIR: tr("Not a directory"),
    errno.EPERM: tr("Operation not permitted"),
    errno.EROFS: tr("Read-only file system"),
}


def reason_of(number: int | None) -> str:
    """For a number of `errno`, what `os.strerror` says."""
    return _REASONS.get(number or 0) or os.strerror(number or 0)
