"""An identifier of the mtdata index → local files, fetched by us.

The Python that `$TMT_MTDATA_PYTHON` names, or else this one, runs `mtdata_program.py`, which asks
the index: the versions that mtdata needs do not fit beside ours. Entries that only mtdata's own
parsers can read are refused.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from transformer_mt.config.data import Languages, Source
from transformer_mt.corpus.readers.lines import expand, plain_name
from transformer_mt.corpus.readers.tables import language_of
from transformer_mt.corpus.sources.cache import Cache, default_cache
from transformer_mt.corpus.sources.local import Obtained, local, local_sides
from transformer_mt.errors import DataError
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.processes.child_python import child_environment

_PYTHON = "TMT_MTDATA_PYTHON"
_PROGRAM = Path(__file__).with_name("mtdata_program.py")
_ONE_SIDE = ("txt", "raw", "sgm")  # a file for each language
_BOTH_SIDES = ("tmx", "xml", "wmt21xml")  # one file that says which language is which


def obtain_mtdata(source: Source, languages: Languages, cache: Cache) -> Obtained:
    """The files of an entry, downloaded if they are not in the cache."""
    entry = _look_up(source, languages)
    codes = [language_of(code) or "" for code in entry["langs"]]
    if sorted(codes) != sorted((languages.src, languages.tgt)):
        found = "-".join(entry["langs"])
        raise DataError(
            tr("{}: is {}; languages are {} → {}", source, found, languages.src, languages.tgt)
        )
    form = _form(source, entry)
    downloads = [cache.content(url) for url in entry["urls"]]
    paths: list[Path] = []
    for download in downloads:
        if download.path.is_dir():
            paths += [_member(source, download.path, pattern) for pattern in entry["in_paths"]]
        else:
            paths.append(download.path)
    if form in _ONE_SIDE:
        here = local_sides(source, languages, dict(zip(codes, paths, strict=True)))
    elif form == "tsv":
        here = local(source, tsv=str(paths[0]), direction="-".join(codes))
    else:
        here = local(source, path=str(paths[0]))
    return Obtained(here, downloads)


def _look_up(source: Source, languages: Languages) -> dict[str, Any]:
    """The entry of the index: `langs`, `urls`, `in_paths`, `form` and `cols`."""
    # Not in the cache that a configuration may name: mtdata keeps its index there as a pickle,
    # which is a program.
    home = default_cache() / "mtdata"
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    program = _PROGRAM.read_text(encoding="utf-8")
    command = [_python(), "-c", program, str(source.mtdata), languages.src, languages.tgt]
    # In a new folder, since mtdata runs every mtdata*.py of the current one.
    with tempfile.TemporaryDirectory() as folder:
        asked = subprocess.run(
            command,
            cwd=folder,
            env=child_environment(MTDATA=str(home)),
            capture_output=True,
            text=True,
        )
    if asked.returncode != 0:
        reason = asked.stderr.strip().rpartition("\n")[2]
        raise DataError(tr("{}: mtdata cannot be asked: {}", source, reason))
    # Its last line: mtdata may have logged before.
    entry: dict[str, Any] = json.loads(asked.stdout.strip().rpartition("\n")[2])
    if "missing" in entry:
        text = tr(
            "needs mtdata 0.5 or newer ({}), in an environment of its own: python3 "
            "-m venv mtdata && mtdata/bin/pip install mtdata && export "
            "TMT_MTDATA_PYTHON=mtdata/bin/python",
            entry["missing"],
        )
        raise DataError(f"{source}: {text}")
    if "near" in entry:
        src, tgt = languages.src, languages.tgt
        text = tr(
            "mtdata knows no such entry; near ones for {} and {}: {} (all: mtdata "
            "list -l {}-{} -id)",
            src, tgt, ", ".join(entry["near"]) or tr("none"), src, tgt,
        )  # fmt: skip
        raise DataError(f"{source}: {text}")
    return entry


def _python() -> str:
    """An interpreter that may have mtdata."""
    name = os.environ.get(_PYTHON) or sys.executable
    found = shutil.which(expand(name))
    if found is None:
        raise DataError(
            tr(
                "{}={}: no such program; name the Python of an environment with "
                "mtdata, such as mtdata/bin/python",
                _PYTHON,
                name,
            )
        )
    return os.path.abspath(found)


def _form(source: Source, entry: dict[str, Any]) -> str:
    form = plain_name(entry["form"])
    n_files = len(entry["in_paths"]) or len(entry["urls"])
    plain = entry["cols"] in (None, [0, 1])
    if (
        (form in _ONE_SIDE and n_files == 2)
        or (form in _BOTH_SIDES and n_files == 1)
        or (form == "tsv" and n_files == 1 and plain)
    ):
        return form
    columns = "" if plain else tr(", columns {}", entry["cols"])
    raise DataError(
        tr(
            "{}: mtdata has a parser of its own for this entry ({}, {} file{}{}, {}); "
            "let it write text files: mtdata get -l {} -tr {} -o DIRECTORY",
            source,
            form,
            n_files,
            "s" * (n_files != 1),
            columns,
            entry["urls"][0],
            "-".join(entry["langs"]),
            source.mtdata,
        )
    )


def _member(source: Source, directory: Path, pattern: str) -> Path:
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    found = [path for path in files if fnmatch(path.relative_to(directory).as_posix(), pattern)]
    if len(found) != 1:
        raise DataError(
            tr(
                "{}: expected one file {!r} in {}, found {} of: {}",
                source,
                pattern,
                directory,
                len(found),
                ", ".join(path.relative_to(directory).as_posix() for path in files),
            )
        )
    return found[0]
