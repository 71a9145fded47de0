"""A path of the configuration → the local files that it stands for, or similar names.

Comes in: a file, a directory, a pattern, or a prefix. Goes out: parts, each of which is one file
with both sides or two files with one side each. This file does not open any text.
"""

import glob
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from transformer_mt.config.data import Languages
from transformer_mt.corpus.readers.lines import (
    expand,
    missing,
    names_in,
    plain_name,
    refuse_streams,
)
from transformer_mt.corpus.readers.tables import language_of
from transformer_mt.corpus.readers.tmx_xliff import looks_parallel
from transformer_mt.errors import DataError

Part = tuple[Path, ...]  # both sides in one file, or the source side and the target side

BILINGUAL = (
    ".tsv", ".jsonl", ".tmx", ".xlf", ".xliff", ".xml", ".parquet", ".arrow", ".feather",
)  # fmt: skip
_SGM_SIDE = re.compile(r"(?P<stem>.+)-(src|ref)\.(?P<language>[^.]+)(?P<ending>\.sgm)")


def format_of(path: Path) -> str:
    """The ending that tells the format of a file, whether compressed or not."""
    return Path(plain_name(path.name)).suffix.lower()


def find_file(name: str, root: Path) -> Path:
    """One file by its name.

    Raises:
        DataError: there is none; the message has near names.
    """
    path = root / expand(name)
    with _looking_at(path):
        if not path.exists():
            raise DataError(missing(path, root))
        refuse_streams(path)
    return path


def find_parts(name: str, languages: Languages, root: Path) -> list[Part]:
    """All text that a path stands for, sorted by name.

    A prefix with two sides wins over a directory of the same name. Of a directory, and of the files
    that fit a pattern, all files in a known form are taken, and no others.

    Raises:
        DataError: no file, or none in both languages; or several files fit one side. One line for
            each missing side.
    """
    path = root / expand(name)
    with _looking_at(path):
        if path.exists():
            refuse_streams(path)
        parts = _find_parts(name, path, languages, root)
        for file in (file for part in parts for file in part):
            refuse_streams(file)
    return parts


def _find_parts(name: str, path: Path, languages: Languages, root: Path) -> list[Part]:
    sides = [_find_side(path, code, root) for code in (languages.src, languages.tgt)]
    found = [side for side in sides if isinstance(side, Path)]
    if len(found) == 2 and not (name.endswith("/") and path.is_dir()):
        return [tuple(found)]
    if path.is_file():
        if format_of(path) not in BILINGUAL:
            raise DataError(_no_form(path, name, languages))
        return [(path,)]
    if path.is_dir():
        return _parts_among(_files_below(path), languages, path)
    if any(mark in name for mark in "*?["):
        matches = [Path(match) for match in glob.glob(_pattern(name, root), recursive=True)]
        files = {file for match in matches for file in _files_below(match)}
        return _parts_among(files, languages, path)
    raise DataError("\n".join(side for side in sides if isinstance(side, str)))


@contextmanager
def _looking_at(path: Path) -> Iterator[None]:
    """Turn errors of the file system into messages: name too long, directory not readable."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{str(path)[:200]}: cannot be read: {error.strerror}") from error


def _pattern(name: str, root: Path) -> str:
    path = expand(name)
    return str(path) if path.is_absolute() else str(Path(glob.escape(str(root))) / path)


def _files_below(path: Path) -> set[Path]:
    """The file itself, or all files of a directory that are not hidden."""
    if path.is_file():
        return {path}
    files = (file for file in path.rglob("*") if file.is_file())
    return {
        file
        for file in files
        if not any(part.startswith(".") for part in file.relative_to(path).parts)
    }


def _parts_among(files: set[Path], languages: Languages, path: Path) -> list[Part]:
    parts: list[Part] = []
    sides: dict[tuple[Path, str], list[Path]] = {}
    for file in sorted(files):
        form = format_of(file)
        if form in BILINGUAL and (form != ".xml" or looks_parallel(file)):
            parts.append((file,))
        else:
            sides.setdefault((file.parent, _side(file.name)[0]), []).append(file)
    for (parent, stem), group in sides.items():
        found = [_choose(group, parent / stem, code) for code in (languages.src, languages.tgt)]
        if all(found):
            parts.append(tuple(side for side in found if isinstance(side, Path)))
            problems = [side for side in found if isinstance(side, str)]
            if problems:
                raise DataError("\n".join(problems))
    if not parts:
        names = [str(file.relative_to(path) if path in file.parents else file) for file in files]
        raise DataError(_nothing_usable(path, sorted(names), languages))
    return sorted(parts, key=min)


def _find_side(prefix: Path, code: str, root: Path) -> Path | str:
    """The one file PREFIX.<any spelling of code>, or why there is none."""
    names = (name for name in names_in(prefix.parent) if _side(name)[0] == prefix.name)
    found = _choose([prefix.parent / name for name in names], prefix, code)
    if found is not None:
        return found
    exact = prefix.parent / f"{prefix.name}.{code}"
    spelt = f"{exact.name}, {exact.name}.gz and other spellings of {code}"
    return missing(exact, root, found=f"{prefix}: no {code} side: looked for {spelt}")


def _side(name: str) -> tuple[str, str]:
    """The common stem of the names of both sides, and the language of this one."""
    plain = plain_name(name)
    sgm = _SGM_SIDE.fullmatch(plain)
    if sgm:
        return sgm["stem"] + sgm["ending"], sgm["language"]
    stem, _, spelling = plain.rpartition(".")
    return stem, spelling


def _choose(paths: Iterable[Path], prefix: Path, code: str) -> Path | str | None:
    """The one side in a language; None if there is none, or a text if there are several."""
    spellings: dict[str, Path] = {}
    for path in sorted(paths):
        spelling = _side(path.name)[1]
        if language_of(spelling) == code:
            # sorted names: the plain file comes before its .gz and wins
            spellings.setdefault(spelling, path)
    if code in spellings:
        return spellings[code]
    if len(spellings) > 1:
        names = " and ".join(path.name for path in spellings.values())
        return f"{prefix}: {names} are both {code}; say which with files: [SOURCE, TARGET]"
    return next(iter(spellings.values()), None)


def _no_form(path: Path, name: str, languages: Languages) -> str:
    return (
        f"{path}: is one file, of no form that is known by its ending ({', '.join(BILINGUAL)}); a "
        f"prefix stands for {path.name}.{languages.src} and its other side. If both sides are in "
        f"it, write {{tsv: {name}}} or {{jsonl: {name}}}"
    )


def _nothing_usable(path: Path, names: list[str], languages: Languages) -> str:
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    src, tgt = languages.src, languages.tgt
    return (
        f"{path}: no text in {src} and {tgt} there; found {shown or 'no files'}; expected pairs "
        f"such as NAME.{src} and NAME.{tgt}, or NAME-src.{src}.sgm and NAME-ref.{tgt}.sgm, or "
        f"files that end in {', '.join(BILINGUAL)}"
    )
