"""Aligned text in any common form → a stream of pairs, or an error: where, and what to do.

Comes in: a `Source` of the configuration. Goes out: (source, target) texts, one by one, unchanged
but for byte order mark and line ends. This file does not know which pairs are good: see `rules.py`.
"""

import difflib
import gzip
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO, Literal

from transformer_mt.config import Languages, Source
from transformer_mt.data.alignment import first_suspect, line_shapes
from transformer_mt.errors import ConfigError, DataError
from transformer_mt.languages import canonical_code

Pair = tuple[str, str]
Role = Literal["train", "dev", "test"]

_BOM = b"\xef\xbb\xbf"
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z]{2,4}){0,2}")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_HF_SPLITS: dict[Role, str] = {"train": "train", "dev": "validation", "test": "test"}


def read_pairs(source: Source, languages: Languages, *, root: Path, role: Role) -> Iterator[Pair]:
    """Stream the pairs of a source, in order.

    Args:
        source: where the text is.
        languages: which side, column or key is the source and which the target.
        root: the directory that relative paths start from.
        role: chooses the split of a Hugging Face dataset or of the bundled corpus.
    Raises:
        DataError: missing, unreadable, undecodable, misaligned or malformed text. Unequal line
            counts are known, and raised, at the end of the shorter file.
    """
    if source.demo:
        yield from _read_demo(languages, role)
    elif source.hf is not None:
        yield from _read_hf(source, languages, root=root, role=role)
    else:
        paths = source_files(source, languages, root)
        if source.tsv is not None:
            yield from _read_tsv(paths[0])
        elif source.jsonl is not None:
            yield from _read_jsonl(paths[0], languages)
        else:
            yield from _read_aligned(*paths)


def source_files(source: Source, languages: Languages, root: Path) -> list[Path]:
    """The local files that a source reads; none for the bundled corpus and for remote datasets.

    Raises:
        DataError: a file is missing; the message has one line for each, with near names.
    """
    if source.demo:
        return []
    if source.hf is not None:
        folder = root / source.hf
        return sorted(path for path in folder.rglob("*") if path.is_file())
    if source.prefix is not None:
        found = [_find_side(root, source.prefix, code) for code in (languages.src, languages.tgt)]
    else:
        names = source.files or [source.tsv or source.jsonl or ""]
        found = [_find_file(root, name) for name in names]
    problems = [answer for answer in found if isinstance(answer, str)]
    if problems:
        raise DataError("\n".join(problems))
    return [answer for answer in found if isinstance(answer, Path)]


def split_lines(path: Path) -> Iterator[str]:
    r"""Stream the lines of a UTF-8 file, gunzipped if it ends in `.gz`.

    Lines end at \n or \r\n only, so that U+2028, U+0085 and form feeds cannot shift the alignment.
    A byte order mark is dropped.

    Raises:
        DataError: the file cannot be read, or a byte is not UTF-8 (line, offset and what to do).
    """
    n_read = 0
    try:
        with _open_bytes(path) as stream:
            for line in split_stream(stream, path):
                n_read += 1
                yield line
    except FileNotFoundError as error:
        raise DataError(_missing(path)) from error
    except IsADirectoryError as error:
        raise DataError(f"{path}: is a directory; expected a text file") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(
            f"{path}: damaged or not gzip, after line {n_read}: {error}; get the file again, "
            "or rename it if it is not compressed"
        ) from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error


def split_stream(stream: Iterable[bytes], name: str | Path) -> Iterator[str]:
    """The lines of an open byte stream, called `name` in messages; see `split_lines`."""
    start, offset = b"", 0
    for number, raw in enumerate(stream, 1):
        if number == 1:
            start = raw[:4]
        try:
            text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            # utf-8-sig counts from behind the mark
            at = error.start + len(raw) - len(error.object)
            byte = f"line {number}: byte 0x{raw[at]:02x} at offset {offset + at}"
            hint = _encoding_hint(name, start)
            raise DataError(f"{name}: {byte} is not UTF-8; {hint}") from error
        offset += len(raw)
        yield text.removesuffix("\n").rstrip("\r")


def _open_bytes(path: Path) -> gzip.GzipFile | BinaryIO:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")


def _encoding_hint(name: str | Path, start: bytes) -> str:
    if start.startswith(b"\x1f\x8b"):
        return f"it is gzip: rename it to {Path(name).name}.gz"
    encoding = "UTF-16" if start.startswith((b"\xff\xfe", b"\xfe\xff")) else "ENCODING"
    known = "" if encoding == "UTF-16" else " (often GB18030 for Chinese, CP1252 for Western text)"
    return f"convert it: iconv -f {encoding} -t UTF-8 {Path(name).name} > NEW{known}"


def _find_file(root: Path, name: str) -> Path | str:
    path = root / Path(name).expanduser()
    return path if path.exists() else _missing(path, root)


def _find_side(root: Path, prefix: str, code: str) -> Path | str:
    """The one file PREFIX.<any spelling of code>[.gz], or why there is none."""
    stem = root / Path(prefix).expanduser()
    exact = stem.parent / f"{stem.name}.{code}"
    spellings: dict[str, Path] = {}
    for name in _names_in(stem.parent):
        spelling = name[len(stem.name) + 1 :].removesuffix(".gz")
        if name.startswith(stem.name + ".") and language_of(spelling) == code:
            # sorted names: the plain file comes before its .gz and wins
            spellings.setdefault(spelling, stem.parent / name)
    if code in spellings:
        return spellings[code]
    if len(spellings) == 1:
        return next(iter(spellings.values()))
    if spellings:
        names = " and ".join(path.name for path in spellings.values())
        return f"{stem}: {names} are both {code}; say which with files: [SOURCE, TARGET]"
    if stem.is_file():
        return (
            f"{stem}: is one file; a prefix stands for {exact.name} and its other side. If both "
            f"sides are in it, write {{tsv: {prefix}}} or {{jsonl: {prefix}}}"
        )
    spelt = f"{exact.name}, {exact.name}.gz and other spellings of {code}"
    return _missing(exact, root, found=f"{stem}: no {code} side: looked for {spelt}")


def _missing(path: Path, root: Path | None = None, found: str = "") -> str:
    message = found or f"{path}: no such file"
    if not path.parent.is_dir():
        start = f" (relative paths start from data.root, here {root})" if root else ""
        return f"{message}; the directory {path.parent} does not exist{start}"
    names = _names_in(path.parent)
    near = difflib.get_close_matches(path.name, names, n=4, cutoff=0.5) or names[:4]
    return f"{message}; near names in {path.parent}: {', '.join(near) or 'none, it is empty'}"


def _names_in(directory: Path) -> list[str]:
    try:
        return sorted(path.name for path in directory.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise DataError(f"{directory}: cannot be listed: {error.strerror}") from error


def _read_aligned(src_path: Path, tgt_path: Path) -> Iterator[Pair]:
    for src, tgt in zip_longest(split_lines(src_path), split_lines(tgt_path)):
        if src is None or tgt is None:
            raise DataError(_unequal(src_path, tgt_path))
        yield src, tgt


def _unequal(src_path: Path, tgt_path: Path) -> str:
    shapes = [line_shapes(split_lines(path)) for path in (src_path, tgt_path)]
    longer, shorter = sorted(shapes, key=len, reverse=True)
    suspect = first_suspect(longer, shorter)
    return (
        f"{src_path} has {len(shapes[0])} lines but {tgt_path} has {len(shapes[1])}: "
        "the files must be line-aligned" + (f"; first suspect line {suspect}" if suspect else "")
    )


def _records(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines of a file with one record per line; empty lines may only end it."""
    empty = 0
    for number, line in enumerate(split_lines(path), 1):
        if not line.strip(" "):
            empty = empty or number
        elif empty:
            raise DataError(f"{path}: line {empty}: empty; expected one pair per line")
        else:
            yield number, line


def _read_tsv(path: Path) -> Iterator[Pair]:
    for number, line in _records(path):
        columns = line.split("\t")
        if len(columns) != 2:
            hint = f"; keep two: cut -f1,2 {path.name} > NEW" if len(columns) > 2 else ""
            raise DataError(
                f"{path}: line {number}: expected source TAB target, found {len(columns)} "
                f"column{'s' * (len(columns) > 1)}: {_excerpt(line)}{hint}"
            )
        yield columns[0], columns[1]


def _read_jsonl(path: Path, languages: Languages) -> Iterator[Pair]:
    for number, line in _records(path):
        where = f"{path}: line {number}"
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(f"{where}: not JSON: {error.msg}: {_excerpt(line)}") from error
        if not isinstance(row, dict):
            raise DataError(f"{where}: expected one object per line, found {_excerpt(line)}")
        src, tgt = _pair_of_row(row, languages, where)
        # JSON can spell half a character, which no UTF-8 file can hold
        yield _LONE_SURROGATE.sub("\ufffd", src), _LONE_SURROGATE.sub("\ufffd", tgt)


def _pair_of_row(row: Mapping[str, Any], languages: Languages, where: str) -> Pair:
    """Accepts {"translation": {code: text}}, {code: text} and {"src": text, "tgt": text}."""
    nested = row.get("translation")
    texts = nested if isinstance(nested, dict) else row
    by_code: dict[str | None, Any] = {language_of(key): text for key, text in texts.items()}
    by_code.update(texts)  # a key that is spelt canonically wins
    if languages.src in by_code and languages.tgt in by_code:
        pair = by_code[languages.src], by_code[languages.tgt]
    elif "src" in texts and "tgt" in texts:
        pair = texts["src"], texts["tgt"]
    else:
        raise DataError(
            f"{where}: found the keys {', '.join(map(str, texts))}; expected "
            f'{{"translation": {{"{languages.src}": …, "{languages.tgt}": …}}}}, '
            "the two languages themselves, or src and tgt"
        )
    for text in pair:
        if not isinstance(text, str | None):
            raise DataError(f"{where}: expected text, found {_excerpt(repr(text))}")
    return pair[0] or "", pair[1] or ""


@lru_cache(maxsize=10_000)
def language_of(spelling: str) -> str | None:
    """The canonical code that a file ending, key or column name stands for, if any."""
    if not _LANGUAGE.fullmatch(spelling):
        return None
    try:
        return canonical_code(spelling)
    except ConfigError:
        return None


def _excerpt(text: str) -> str:
    return text if len(text) <= 60 else text[:60] + "…"


def _read_hf(source: Source, languages: Languages, *, root: Path, role: Role) -> Iterator[Pair]:
    import datasets

    assert source.hf is not None
    folder = root / source.hf
    if folder.is_file():
        raise DataError(
            f"{folder}: hf takes a dataset name or a folder; for a file use jsonl, tsv or files"
        )
    name = str(folder) if folder.is_dir() else source.hf
    split = source.split or _HF_SPLITS[role]
    try:
        rows = datasets.load_dataset(name, source.config, split=split)
    except Exception as error:  # its errors have no common class; the cause is told and kept
        cause = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        if not folder.exists():
            cause += f" (and there is no folder {folder})"
        own = _own_files(languages)
        raise DataError(f"{source}: cannot load the split {split!r}: {cause}\n{own}") from error
    for number, row in enumerate(rows, 1):
        yield _pair_of_row(row, languages, f"{source}: row {number}")


def _own_files(languages: Languages) -> str:
    """How to do without: what to configure instead."""
    return (
        "Files of your own work without network. These settings read my/text."
        f"{languages.src} and my/text.{languages.tgt} under data.root, and hold dev and test out "
        "of them:\n"
        "  --set 'data.train=[my/text]' --set 'data.dev=[]' --set 'data.test={}'\n"
        "Other names: --set 'data.train=[{files: [my/source.txt, my/target.txt]}]'"
    )


def _read_demo(languages: Languages, role: Role) -> Iterator[Pair]:
    from transformer_mt.data.demo import build_demo

    if {languages.src, languages.tgt} != {"zh", "en"}:
        raise DataError(
            f"demo: the bundled corpus is zh-en; languages are {languages.src} → {languages.tgt}: "
            "set languages: {src: zh, tgt: en} or {src: en, tgt: zh}, or give other data"
        )
    demo = build_demo()
    pairs = {"train": demo.train, "dev": demo.dev, "test": demo.test}[role]
    for zh, en in pairs:
        yield (zh, en) if languages.src == "zh" else (en, zh)
