"""`python -m transformer_mt` is `tmt`; so is this file, run as a program.

The current folder leaves the module search path before anything else is imported: a folder of
texts must not lend its Python files. Until then this file may import only modules that Python has
loaded for itself.
"""

import gc
import os
import sys


def main() -> None:
    gc.set_threshold(50_000, 20, 100)  # imports make no garbage; looking for it takes 0.1 s
    sys.path[:] = search_path(sys.path, os.environ.get("PYTHONPATH", ""))
    from transformer_mt.errors import TmtError

    try:
        from transformer_mt.system.processes.child_python import protect
    except TmtError as error:  # a system that tmt does not run on
        print(f"tmt: {error}", file=sys.stderr)
        sys.exit(2)

    protect(os.environ)
    from transformer_mt.messages.catalogue import translate_libraries

    translate_libraries()
    from transformer_mt.cli.main import main as run_command

    run_command()


def search_path(places: list[str], python_path: str) -> list[str]:
    """The module search path without the current folder, and with the folder of this package.

    Args:
        places: `sys.path` at the start of a program.
        python_path: $PYTHONPATH, whose absolute entries stay.
    """
    try:
        here = os.path.realpath(os.getcwd())
    except FileNotFoundError:  # a folder that has been removed
        here = ""
    places = list(places)
    if not sys.flags.safe_path and places and os.path.realpath(places[0]) == here:
        del places[0]  # `python -m` puts it there
    named = python_path.split(os.pathsep) if python_path else []
    kept = {os.path.abspath(place) for place in named if os.path.isabs(place)}
    for place in {os.path.abspath(place) for place in named if not os.path.isabs(place)} - kept:
        if place in places:
            places.remove(place)
    places = [place for place in places if os.path.isabs(place)]
    # Last, or a file beside the package could stand for a library; but before another copy of
    # the package, so that all processes run the same one.
    root = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    package = os.path.join("transformer_mt", "__init__.py")
    copies = [n for n, place in enumerate(places) if os.path.isfile(os.path.join(place, package))]
    first = copies[0] if copies else len(places)
    if not copies or os.path.realpath(places[first]) != root:
        places.insert(first, root)
    return places


if __name__ == "__main__":
    main()
