"""The machine under tmt: files, locks, the terminal. It knows nothing of translation."""

import sys

from transformer_mt.errors import TmtError
from transformer_mt.messages.catalogue import tr

if sys.platform == "win32":
    text = tr(
        "Windows has no fork and no locks as tmt needs them: install WSL, the Linux within "
        "Windows (in PowerShell: wsl --install), and run tmt there"
    )
    raise TmtError(text)
