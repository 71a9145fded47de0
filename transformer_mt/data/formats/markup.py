"""XML → pairs: TMX, XLIFF 1.2 and 2, and the test sets of WMT.

Comes in: a file. Goes out: (source, target) texts without inline codes, one by one, in constant
memory. No entity of a document is expanded and nothing outside of it is read. This file does not
know where files lie.

A translation that is missing is an empty text, so that the rules of the cleaning count the pair.
"""

import html
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from xml.parsers import expat

from transformer_mt.config_data import Languages
from transformer_mt.data.formats.streams import blocks_of, open_bytes
from transformer_mt.data.formats.tables import Pair, find_keys, language_of
from transformer_mt.errors import DataError

# ("start", name, attributes), ("end", name, {}) or ("text", text, {})
Event = tuple[str, str, Mapping[str, str]]
Unit = dict[str, str]  # language → text

# Elements whose content is formatting of another program, in TMX and in XLIFF.
_CODES = {"bpt", "ept", "ph", "it", "ut"}
_WITH_TEXT = {"seg", "source", "target"}
_UNTRANSLATED = {"new", "needs-translation", "initial"}
_NONE: dict[str, str] = {}
_ROOT = re.compile(rb"<([\w-]+:)?(tmx|xliff|dataset)[\s>]")


def read_markup(path: Path, languages: Languages) -> Iterator[Pair]:
    """The pairs of a TMX, XLIFF or WMT XML file; its languages may stand in any order.

    Units without a text in one of the two languages are passed over.

    Raises:
        DataError: it is not well-formed, is of none of these forms, declares entities, or has no
            unit in both languages.
    """
    events = _events(path)
    root = next(events)
    events = chain([root], events)
    if root[1] == "tmx":
        units = _tmx(events)
    elif root[1] == "xliff":
        units = _xliff(events)
    elif root[1] == "dataset":
        units = _wmt(events, path)
    else:
        raise DataError(f"{path}: found <{root[1]}>; expected <tmx>, <xliff> or <dataset> (of WMT)")
    fits = False
    others: set[str] = set()
    for unit in units:
        keys = find_keys(tuple(unit), languages.src, languages.tgt, False)
        if keys is None:
            others.update(unit)
        else:
            fits = True
            yield unit[keys[0]], unit[keys[1]]
    if not fits:
        found = ", ".join(sorted(name or "one without a name" for name in others)) or "none"
        raise DataError(
            f"{path}: no text in both {languages.src} and {languages.tgt}; languages found: {found}"
        )


def looks_parallel(path: Path) -> bool:
    """Whether an XML file is of a form that `read_markup` reads, by its first element."""
    with open_bytes(path) as stream:
        return bool(_ROOT.search(stream.read(4096)))


def _tmx(events: Iterator[Event]) -> Iterator[Unit]:
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
            text = _text(events)
            unit.setdefault(language, text)  # the first of several in one language


def _xliff(events: Iterator[Event]) -> Iterator[Unit]:
    """A `trans-unit` of version 1, or a `segment` of version 2, is a unit."""
    languages = ["", ""]
    texts = ["", ""]
    state = ""
    for kind, name, attributes in events:
        if kind == "end" and name in ("trans-unit", "segment"):
            yield dict(zip(languages, texts, strict=True))
        elif kind != "start":
            continue
        elif name in ("xliff", "file"):
            for side, keys in enumerate((("srcLang", "source-language"),
                                         ("trgLang", "target-language"))):  # fmt: skip
                own = (attributes[key] for key in keys if key in attributes)
                languages[side] = next(own, languages[side])
        elif name in ("trans-unit", "segment"):
            texts, state = ["", ""], attributes.get("state", "")
        elif name == "alt-trans":
            _text(events)  # proposals
        elif name == "source":
            texts[0] = _text(events)
        elif name == "target":
            text = _text(events)
            texts[1] = "" if attributes.get("state", state) in _UNTRANSLATED else text
            languages[1] = languages[1] or attributes.get("xml:lang", "")


def _wmt(events: Iterator[Event], path: Path) -> Iterator[Unit]:
    for kind, name, attributes in events:
        if kind == "start" and name == "doc":
            yield from _document(events, f"{path}: doc {attributes.get('id', '')}")


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
        raise DataError(f"{where}: there is no reference; expected <ref lang=…> beside <src>")
    for language, ref in refs.items():
        for side, missing in (("reference", src.keys() - ref), ("source", ref.keys() - src)):
            if missing:
                found = f"seg {min(missing)} is missing in the {side}"
                raise DataError(f"{where}: {found} ({src_language} → {language})")
    for identity, text in src.items():
        yield {src_language: text} | {language: ref[identity] for language, ref in refs.items()}


def _segments(events: Iterator[Event], end: str) -> Unit:
    """Text by identity, up to the end of an element."""
    texts: dict[str, str] = {}
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
    for kind, value, _ in events:
        if kind == "text":
            if not inside_code:
                parts.append(value)
        elif kind == "start":
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
    """The elements of an XML document, without namespaces, and the text of those that hold it.

    The root element comes first.
    """
    found: list[Event] = []
    parser = expat.ParserCreate()
    parser.buffer_text = True

    def start(name: str, attributes: dict[str, str]) -> None:
        name = name.rpartition(":")[2] if ":" in name else name
        if name in _WITH_TEXT:
            parser.CharacterDataHandler = text
        found.append(("start", name, attributes))

    def end(name: str) -> None:
        name = name.rpartition(":")[2] if ":" in name else name
        if name in _WITH_TEXT:
            parser.CharacterDataHandler = None  # indentation, mostly
        found.append(("end", name, _NONE))

    def text(text: str) -> None:
        found.append(("text", text, _NONE))

    def skipped_entity(name: str, is_parameter: bool) -> None:
        if not is_parameter:  # declared outside of the document, as those of HTML are
            text(html.unescape(f"&{name};"))

    def refuse_entity(name: str, *_: object) -> None:
        raise DataError(
            f"{path}: line {parser.CurrentLineNumber}: declares the entity {name}, and entities "
            "are not expanded: write the text itself in its place"
        )

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.SkippedEntityHandler = skipped_entity
    parser.EntityDeclHandler = refuse_entity
    with open_bytes(path) as stream:
        for block in chain(blocks_of(stream), [b""]):
            _parse(parser, block, path)
            yield from found
            found.clear()


def _parse(parser: expat.XMLParserType, block: bytes, path: Path) -> None:
    try:
        parser.Parse(block, not block)
    except expat.ExpatError as error:
        raise DataError(
            f"{path}: line {error.lineno}: not well-formed XML: {expat.ErrorString(error.code)}"
        ) from error
    except (ValueError, LookupError) as error:  # of the encoding that the document declares
        raise DataError(
            f"{path}: cannot be decoded: {error}; convert it to UTF-8, also in its first line"
        ) from error
