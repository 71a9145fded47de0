"""What `zipfile` raises for an archive that is damaged, or that it cannot unpack."""

import lzma
import zipfile
import zlib

# RuntimeError: a password, or a kind of compression that it has not.
ZIP_DAMAGE = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError, RuntimeError,
)  # fmt: skip
