"""A path of the configuration (file, directory, pattern or prefix) → the files it stands for."""

import glob
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from transformer_mt.config.data import Languages
from transformer_mt.corpus.readers.lines import (
    expand,
    missing,
    names_in,
    plain_name,
    refuse_streams,
)
from transformer_mt.corpus.readers.spreadsheets import TABLES, is_parallel
from transformer_mt.corpus.readers.tables import language_of
from transformer_mt.corpus.readers.tmx_xliff import MEMORIES, looks_parallel
from transformer_mt.errors import DataError
from transformer_mt.messages.catalogue import tr

Part = tuple[Path, ...]  # both sides in one file, or the source side and the target side

_BILINGUAL = (
    *TABLES, *MEMORIES, ".jsonl", ".xml", ".parquet", ".arrow", ".feather",
)  # fmt: skip
_SGM_SIDE = re.compile(r"(?P<stem>.+)-(src|ref)\.(?P<language>[^.]+)(?P<ending>\.sgm)")


def format_of(path: Path) -> str:
    """The ending that tells the format of a file, whether compressed or not."""
    return Path(plain_name(path.name)).suffix.lower()


def is_memory(path: Path) -> bool:
    """Whether a file is a translation memory, in which each text has the name of its language."""
    return format_of(path) in MEMORIES


def tells_languages(path: Path) -> bool:
    """Whether a file holds both sides, and tells their languages by their names or its text."""
    return is_memory(path) or format_of(path) in TABLES


@contextmanager
def looking_at(path: Path) -> Iterator[None]:
    """Turn errors of the file system into messages: name too long, directory not readable."""
    try:
        yield
    except OSError as error:
        name = str(error.filename or path)[:200]
        raise DataError(tr("{}: cannot be read: {}", name, error.strerror)) from error


def find_file(name: str, root: Path) -> Path:
    """One file by its name."""
    path = root / expand(name)
    with looking_at(path):
        if not path.exists():
            raise DataError(missing(path, root))
        refuse_streams(path)
    return path


def find_parts(name: str, languages: Languages, root: Path) -> list[Part]:
    """All text that a path stands for, sorted by name.

    A prefix with two sides wins over a directory of the same name. Of a directory, and of the files
    that fit a pattern, all files in a known form are taken, and no others.
    """
    path = root / expand(name)
    with looking_at(path):
        if path.exists():
            refuse_streams(path)
        parts = _find_parts(name, path, languages, root)
        for file in (file for part in parts for file in part):
            refuse_streams(file)
    return parts


def _find_parts(name: str, path: Path, languages: Languages, root: Path) -> list[Part]:
    neighbours = [path.parent / neighbour for neighbour in names_in(path.parent)]
    sides = _sides(_by_stem(neighbours).get((path.parent, path.name), []), path, languages)
    is_folder = path.is_dir() and (name.endswith("/") or not Path(name).name)  # also `.`
    if len(sides) == 2 and not is_folder:
        return [tuple(sides.values())]
    if path.is_file():
        if format_of(path) not in _BILINGUAL:
            if hint := _one_side(name, path, languages, neighbours):
                raise DataError(hint)
            raise DataError(
                tr(
                    "{}: is one file, of no form that is known by its ending ({}); a "
                    "prefix stands for {}.{} and its other side. If both sides are in "
                    "it, write {{tsv: {}}} or {{jsonl: {}}}",
                    path,
                    ", ".join(_BILINGUAL),
                    path.name,
                    languages.src,
                    name,
                    name,
                )
            )
        return [(path,)]
    if path.is_dir():
        return _parts_among(_files_below(path), languages, path)
    if any(mark in name for mark in "*?["):
        matches = glob.glob(str(expand(name)), root_dir=root, recursive=True)
        files = _files_below(*sorted(root / match for match in matches))
        return _parts_among(files, languages, path)
    if hint := _one_side(name, path, languages, neighbours):
        raise DataError(hint)
    problems = []
    for code in (languages.src, languages.tgt):
        if code not in sides:
            exact = path.parent / _usual_name(path.name, code, sides, languages)
            spelt = tr("{}, {}.gz and other spellings of {}", exact.name, exact.name, code)
            found = tr("{}: no {} side: looked for {}", path, code, spelt)
            problems.append(missing(exact, root, found=found))
    raise DataError("\n".join(problems))


def _one_side(name: str, path: Path, languages: Languages, neighbours: list[Path]) -> str | None:
    """The message where the name of one of two files is given; None: it is no such name."""
    stem, spelling = _side(path.name)
    if not stem or language_of(spelling) not in (languages.src, languages.tgt):
        return None
    sides = _sides(_by_stem(neighbours).get((path.parent, stem), []), path, languages)
    files = [
        sides[code].name if code in sides else _usual_name(stem, code, sides, languages)
        for code in (languages.src, languages.tgt)
    ]
    prefix, *names = (Path(name).parent / file for file in (stem, *files))
    return tr(
        "{}: names one side of a source; write {}, which stands for {} and {}, or "
        "{{files: [{}, {}]}}",
        path,
        prefix,
        names[0],
        names[1],
        names[0],
        names[1],
    )


def _usual_name(stem: str, code: str, sides: dict[str, Path], languages: Languages) -> str:
    """What a missing side is called, by the stem of both and the side that is there, if one is."""
    if not stem.endswith(".sgm"):
        return f"{stem}.{code}"
    other = next((file.name for file in sides.values()), "")
    kind = "ref" if "-src." in other or (not other and code == languages.tgt) else "src"
    return f"{stem.removesuffix('.sgm')}-{kind}.{code}.sgm"


def _is_text(file: Path, form: str, languages: Languages) -> bool:
    """Whether a file of a folder is a source; XML, CSV and workbooks may be anything."""
    if form == ".xml":
        return looks_parallel(file)
    return form not in TABLES or form == ".tsv" or is_parallel(file, languages)


def _files_below(*paths: Path) -> set[Path]:
    """The files among them, and all files in and below the folders that are not hidden, each folder
    once: by its own name rather than by that of a link."""
    found, seen = {path for path in paths if path.is_file()}, set[str]()
    tops = [path for path in paths if path.is_dir()]
    for top in tops:  # which grow by those behind links
        for folder, below, names in os.walk(top, onerror=_refuse):
            real = os.path.realpath(folder)
            below[:] = [] if real in seen else sorted(name for name in below if name[0] != ".")
            if real not in seen:
                found |= {Path(folder, name) for name in names if name[0] != "."}
                tops += [Path(folder, name) for name in below if Path(folder, name).is_symlink()]
            seen.add(real)
    return {file for file in found if file.is_file()}


def _refuse(error: OSError) -> NoReturn:
    raise error


def _parts_among(files: set[Path], languages: Languages, path: Path) -> list[Part]:
    parts: list[Part] = []
    others = []
    for file in sorted(files):
        form = format_of(file)
        if form in _BILINGUAL and _is_text(file, form, languages):
            parts.append((file,))
        else:
            others.append(file)
    for (parent, stem), group in _by_stem(others).items():
        sides = _sides(group, parent / stem, languages)
        if len(sides) == 2:
            parts.append(tuple(sides.values()))
    if not parts:
        names = sorted(
            str(file.relative_to(path) if path in file.parents else file) for file in files
        )
        more = tr(" and {} more", len(names) - 8) if len(names) > 8 else ""
        src, tgt = languages.src, languages.tgt
        raise DataError(
            tr(
                "{}: no text in {} and {} there; found {}{}; expected pairs such as "
                "NAME.{} and NAME.{}, or NAME-src.{}.sgm and NAME-ref.{}.sgm, or files "
                "that end in {}",
                path,
                src,
                tgt,
                ", ".join(names[:8]) or tr("no files"),
                more,
                src,
                tgt,
                src,
                tgt,
                ", ".join(_BILINGUAL),
            )
        )
    return sorted(parts, key=min)


def _by_stem(files: Iterable[Path]) -> dict[tuple[Path, str], list[Path]]:
    """Files whose names differ in the language alone, by directory and common stem."""
    groups: dict[tuple[Path, str], list[Path]] = {}
    for file in files:
        groups.setdefault((file.parent, _side(file.name)[0]), []).append(file)
    return groups


def _side(name: str) -> tuple[str, str]:
    """The common stem of the names of both sides, and the language of this one."""
    plain = plain_name(name)
    sgm = _SGM_SIDE.fullmatch(plain)
    if sgm:
        return sgm["stem"] + sgm["ending"], sgm["language"]
    stem, _, spelling = plain.rpartition(".")
    return stem, spelling


def _sides(files: list[Path], stem: Path, languages: Languages) -> dict[str, Path]:
    """Of files with one stem the file in each language, the source side first."""
    spellings: dict[str, dict[str, Path]] = {languages.src: {}, languages.tgt: {}}
    for file in sorted(files):
        spelling = _side(file.name)[1]
        # Sorted names: the plain file comes before its .gz and wins.
        spellings.get(language_of(spelling) or "", {}).setdefault(spelling, file)
    sides = {}
    for code, found in spellings.items():
        if len(found) > 1 and code not in found and all(spellings.values()):
            names = tr(" and ").join(path.name for path in found.values())
            raise DataError(
                tr("{}: {} are both {}; say which with files: [SOURCE, TARGET]", stem, names, code)
            )
        if found:
            sides[code] = found.get(code) or next(iter(found.values()))
    return sides
