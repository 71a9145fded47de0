"""XML → pairs: TMX, XLIFF 1.2 and 2, and the test sets of WMT.

Texts come without inline codes, in constant memory. No entity of a document is expanded and nothing
outside of it is read. A translation that is missing is an empty text, so that the rules of the
cleaning count the pair.
"""

import html
import re
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

from transformer_mt.config.data import Languages
from transformer_mt.corpus.readers.lines import LONGEST, blocks_of, open_bytes
from transformer_mt.corpus.readers.tables import Pair, excerpt, find_keys, language_of
from transformer_mt.errors import DataError
from transformer_mt.messages.catalogue import tr

# ("start", name, attributes), ("end", name, {}) or ("text", text, {})
Event = tuple[str, str, Mapping[str, str]]
Unit = dict[str, str]  # language → text

MEMORIES = (".tmx", ".xlf", ".xliff")  # endings of files that name the languages of their texts

# Elements of TMX and XLIFF with the formatting codes of another program.
_CODES = {"bpt", "ept", "ph", "it", "ut"}
_WITH_TEXT = {"seg", "source", "target"}
_UNITS = {"tu", "trans-unit", "segment", "doc"}  # each is in memory as a whole
_PER_ELEMENT = 64  # bytes counted for an element, beside its text and attributes
_UNTRANSLATED = {"new", "needs-translation", "initial"}
_NONE: dict[str, str] = {}
_N_LOOKED_AT = 500  # units that tell the languages
_ROOT = re.compile(rb"<([\w-]+:)?(tmx|xliff|dataset)[\s>]")


def read_markup(path: Path, languages: Languages) -> Iterator[Pair]:
    """The pairs of a TMX, XLIFF or WMT XML file; its languages may stand in any order.

    Units without a text in one of the two languages are passed over, but not all of them.
    """
    fits = False
    others: set[str] = set()
    for unit in _units(path):
        keys = find_keys(tuple(unit), languages.src, languages.tgt, False)
        if keys is None:
            others.update(unit)
        else:
            fits = True
            yield unit[keys[0]], unit[keys[1]]
    if not fits:
        found = ", ".join(sorted(name or tr("one without a name") for name in others)) or tr("none")
        raise DataError(
            tr(
                "{}: no text in both {} and {}; languages found: {}",
                path,
                languages.src,
                languages.tgt,
                excerpt(found, 500),
            )
        )


def languages_in(path: Path) -> list[str]:
    """Canonical codes of the languages of the first units, in their order: the source first."""
    named = chain.from_iterable(islice(_units(path), _N_LOOKED_AT))
    return [*dict.fromkeys(filter(None, map(language_of, named)))]


def looks_parallel(path: Path) -> bool:
    """Whether an XML file is of a form that `read_markup` reads, by its first element."""
    with open_bytes(path) as stream:
        return bool(_ROOT.search(stream.read(4096)))


def _units(path: Path) -> Iterator[Unit]:
    events = _events(path)
    first = next(events)
    if first[1] not in _FORMS:
        raise DataError(
            tr("{}: found <{}>; expected <tmx>, <xliff> or <dataset> (of WMT)", path, first[1])
        )
    return _FORMS[first[1]](chain([first], events), path)


def _tmx(events: Iterator[Event], _: Path) -> Iterator[Unit]:
    unit: Unit = {}
    language = ""
    for kind, name, attributes in events:
        if kind == "end" and name == "tu":
            yield unit
        elif kind != "start":
            continue
        elif name == "tu":
            unit = {}
        elif name == "tuv":
            spelling = attributes.get("xml:lang") or attributes.get("lang") or ""
            language = language_of(spelling) or spelling
        elif name == "seg":
            unit.setdefault(language, _text(events))  # the first of several in one language


def _xliff(events: Iterator[Event], _: Path) -> Iterator[Unit]:
    """A `trans-unit` of version 1, or a `segment` of version 2, is a unit."""
    whole = ["", ""]  # languages of all files of the package
    languages, texts = list(whole), ["", ""]
    state = ""
    for kind, name, attributes in events:
        if kind == "end" and name in ("trans-unit", "segment"):
            yield dict(zip(languages, texts, strict=True))
        elif kind != "start":
            continue
        elif name in ("xliff", "file"):
            src = attributes.get("srcLang") or attributes.get("source-language") or whole[0]
            tgt = attributes.get("trgLang") or attributes.get("target-language") or whole[1]
            languages = [src, tgt]
            whole = languages if name == "xliff" else whole
        elif name in ("trans-unit", "segment"):
            texts, state = ["", ""], attributes.get("state", "")
        elif name == "alt-trans":
            _text(events)  # proposals
        elif name == "source":
            texts[0] = _text(events)
        elif name == "target":
            text = _text(events)
            texts[1] = "" if attributes.get("state", state) in _UNTRANSLATED else text
            languages = [languages[0], languages[1] or attributes.get("xml:lang", "")]


def _wmt(events: Iterator[Event], path: Path) -> Iterator[Unit]:
    for kind, name, attributes in events:
        # Test suites are no part of the official test set; sacreBLEU leaves them out, too.
        if kind == "start" and name == "doc" and "testsuite" not in attributes:
            yield from _document(events, tr("{}: doc {}", path, attributes.get("id", "")))


def _document(events: Iterator[Event], where: str) -> Iterator[Unit]:
    """Of several references in a language the one by translator A is taken, or else the first."""
    src_language, src = "", Unit()
    refs: dict[str, Unit] = {}
    for kind, name, attributes in events:
        if kind == "end" and name == "doc":
            break
        if kind != "start" or name not in ("src", "ref"):
            continue
        language, texts = attributes.get("lang", ""), _segments(events, name)
        if name == "src":
            src_language, src = language, texts
        elif language not in refs or attributes.get("translator") == "A":
            refs[language] = texts
    if not refs:
        raise DataError(tr("{}: there is no reference; expected <ref lang=…> beside <src>", where))
    for language, ref in refs.items():
        for side, missing in (
            (tr("reference"), src.keys() - ref),
            (tr("source"), ref.keys() - src),
        ):
            if missing:
                found = tr("seg {} is missing in the {}", min(missing), side)
                raise DataError(f"{where}: {found} ({src_language} → {language})")
    for identity, text in src.items():
        yield {src_language: text} | {language: ref[identity] for language, ref in refs.items()}


_FORMS = {"tmx": _tmx, "xliff": _xliff, "dataset": _wmt}  # by the name of the root


def _segments(events: Iterator[Event], end: str) -> Unit:
    """Text by identity, up to the end of an element."""
    texts = Unit()
    for kind, name, attributes in events:
        if kind == "end" and name == end:
            break
        if kind == "start" and name == "seg":
            texts[attributes.get("id", str(len(texts) + 1))] = _text(events)
    return texts


def _text(events: Iterator[Event]) -> str:
    """The text up to the end of the element that has just started, without codes, on one line."""
    parts: list[str] = []
    depth, inside_code = 1, 0
    for kind, value, attributes in events:
        if kind == "text":
            if not inside_code:
                parts.append(value)
        elif kind == "start":
            kinds = {attributes.get(name) for name in ("ctype", "type", "subType")}
            if kinds & {"lb", "xlf:lb"} and not inside_code:
                parts.append("\n")  # a code that is a line break
            depth += 1
            if inside_code or value in _CODES:
                inside_code += 1
        else:
            depth -= 1
            if depth == 0:
                break
            if inside_code:
                inside_code -= 1
    return one_line("".join(parts))


def one_line(text: str) -> str:
    """The text with a space for each line end, and for the indentation around it."""
    return " ".join(filter(None, map(str.strip, text.split("\n")))) if "\n" in text else text


def _events(path: Path) -> Iterator[Event]:
    """Elements without namespaces, and the text in elements of `_WITH_TEXT`; the root is first."""
    reader = _Reader(path)
    with open_bytes(path) as stream:
        for block in chain(blocks_of(stream), [b""]):
            yield from reader.read(block)


class _Reader:
    """expat with limits on everything that can make a small document large in memory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found: list[Event] = []
        self._n_read = 0  # bytes
        self._held = 0  # bytes of the unit that is being read
        parser = self._parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.SkippedEntityHandler = self._skipped_entity
        parser.EntityDeclHandler = lambda name, *_: self._refuse(tr("entity {}", excerpt(name)))
        parser.AttlistDeclHandler = self._attribute

    def read(self, block: bytes) -> list[Event]:
        """The events that end in the next block; an empty block ends the document."""
        self._found = []
        try:
            self._parser.Parse(block, not block)
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code)
            raise DataError(
                tr("{}: line {}: not well-formed XML: {}", self._path, error.lineno, reason)
            ) from error
        except (ValueError, LookupError) as error:  # the declared encoding is unknown, or wrong
            raise DataError(
                tr(
                    "{}: cannot be decoded: {}; convert it to UTF-8, also in its first line",
                    self._path,
                    error,
                )
            ) from error
        self._n_read += len(block)
        if self._n_read - max(self._parser.CurrentByteIndex, 0) > LONGEST and block:
            raise self._error(
                tr("one tag, comment or the like is longer than {} MiB", LONGEST >> 20)
            )
        return self._found

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        name = name.rpartition(":")[2]
        if name in _WITH_TEXT:
            self._parser.CharacterDataHandler = self._text
        self._hold(_PER_ELEMENT + sum(map(len, attributes.values())))
        self._found.append(("start", name, attributes))

    def _end(self, name: str) -> None:
        name = name.rpartition(":")[2]
        if name in _WITH_TEXT:
            self._parser.CharacterDataHandler = None  # indentation, mostly
        elif name in _UNITS:
            self._held = 0
        self._found.append(("end", name, _NONE))

    def _text(self, text: str) -> None:
        self._hold(len(text))
        self._found.append(("text", text, _NONE))

    def _hold(self, size: int) -> None:
        self._held += size
        if self._held > LONGEST:
            raise self._error(
                tr("one unit of text is longer than {} MiB: divide it", LONGEST >> 20)
            )

    def _skipped_entity(self, name: str, is_parameter: bool) -> None:
        if not is_parameter:  # declared in a DTD outside of the document, such as é of HTML
            self._text(html.unescape(f"&{name};"))

    def _attribute(self, _: str, name: str, kind: str, default: str | None, __: int) -> None:
        if default is not None:
            self._refuse(tr("default of the attribute {}", excerpt(name)))

    def _refuse(self, declared: str) -> NoReturn:
        raise self._error(
            tr(
                "declares the {}, which is not expanded: write the text itself in its place",
                declared,
            )
        )

    def _error(self, problem: str) -> DataError:
        return DataError(tr("{}: line {}: {}", self._path, self._parser.CurrentLineNumber, problem))
