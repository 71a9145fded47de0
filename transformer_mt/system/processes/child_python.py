"""Commands and environments of other Pythons, which the current folder lends no code.

Without these, a Python that is started with `-m` or `-c`, as `multiprocessing` does, imports from
the current folder first.
"""

import os
import signal
import sys
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path

TMT = Path(__file__).parents[2] / "__main__.py"
_NAMES = ("PYTHONSAFEPATH", "PYTHONPATH")


def python_command(program: Path, *arguments: str) -> list[str]:
    """Run a file with this Python; neither its folder nor the current one lends modules."""
    return [sys.executable, "-P", str(program.absolute()), *arguments]


def child_environment(**more: str) -> dict[str, str]:
    """The variables of this process, safe for every Python that is started with them."""
    environment = dict(os.environ)
    protect(environment)
    return environment | more


def protect(environment: MutableMapping[str, str]) -> None:
    """Take the current folder from the search path of every Python that gets these variables."""
    environment["PYTHONSAFEPATH"] = "1"
    places = environment.pop("PYTHONPATH", "").split(os.pathsep)
    # An empty entry, as `:$PYTHONPATH` leaves it, means the current folder as well.
    if absolute := [place for place in places if os.path.isabs(place)]:
        environment["PYTHONPATH"] = os.pathsep.join(absolute)


@contextmanager
def protected_children(**more: str) -> Iterator[None]:
    """While it lasts, libraries that start Pythons of their own start them safely.

    Nor do these hear Ctrl-C, of which each would print a traceback: the process that started them
    ends them. It hears it itself when the context ends.

    Args:
        more: variables for them.
    """
    before = {name: os.environ.get(name) for name in (*_NAMES, *more)}
    protect(os.environ)
    os.environ.update(more)
    heard = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        signal.pthread_sigmask(signal.SIG_SETMASK, heard)
