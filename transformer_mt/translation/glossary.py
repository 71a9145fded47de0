"""Terms and their translations, which a translation must contain letter by letter.

Nothing is inflected: a target term is required as it is written in the file.
"""

import csv
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from transformer_mt.corpus.readers.lines import open_bytes, split_lines
from transformer_mt.corpus.readers.tables import language_of
from transformer_mt.errors import DataError
from transformer_mt.messages.catalogue import tr
from transformer_mt.text.languages import code_of_name
from transformer_mt.text.normalise import compose, plain_characters
from transformer_mt.text.scripts import HAN
from transformer_mt.translation.documents.spans import protected_spans

# What belongs to a word that spaces divide; not Thai to Burmese, Khmer, kana and Han.
_IN_SPACED_WORD = re.compile(f"[^\\W\u0e00-\u109f\u1780-\u17ff\u3041-\u30ff\u31f0-\u31ff{HAN}]")


# What a first line of a CSV names its columns, beside codes and names of languages.
_SOURCES = frozenset("source src term source_term 原文 源语言 术语".split())
_TARGETS = frozenset("target tgt translation target_term 译文 目标语言 翻译".split())
_MOST_PROBLEMS = 100  # that are told one by one
_LONGEST_TERM = 1000  # characters


class Term(NamedTuple):
    source: str
    target: str | None  # None: as it stands in the text
    line: int  # of the file, from 1

    @property
    def exact(self) -> bool:
        """Whether case matters: US is not us, and iOS not IOS."""
        return any(map(str.isupper, self.source[1:])) or self.source.isupper()


class Glossary:
    """Terms, found in texts: longest first, from left to right, never overlapping."""

    def __init__(
        self,
        terms: Iterable[Term],
        *,
        name: str = "glossary",
        others: Iterable[Term] = (),
        languages: Sequence[str] = (),
    ) -> None:
        """
        Args:
            others: terms that count where `terms` has none in their spelling.
            languages: of source and target terms, if they are known.
        Raises:
            DataError: a term has two targets, or is too long; begins with `name`.
        """
        self.languages = tuple(languages)
        self.targets: dict[str, None] = {}  # what terms are to become, each once
        # Folded characters → the terms that they are, by the exact term; "": in any case.
        self._terms: dict[str, dict[str, Term]] = {}
        problems = [problem for term in terms if (problem := self._add(term))]
        if problems:
            raise DataError(_all_of(problems, name))
        for term in others:
            self._add(term)  # where there is one it stays
        lengths: dict[str, set[int]] = {}  # of the terms that begin with a character
        for folded in self._terms:
            lengths.setdefault(folded[0], set()).add(len(folded))
        self._lengths = {first: sorted(found, reverse=True) for first, found in lengths.items()}

    @classmethod
    def read(cls, path: Path) -> "Glossary":
        """Read source term and target term of each line; without the latter, a term stays as it is.

        They are apart by a tab; in a file that ends with `.csv`, by commas or semicolons, with
        quotes, and perhaps a first line that says which column is which. Empty lines and lines that
        start with `#` are left out; `DataError` tells of all bad lines.
        """
        is_csv = path.suffix.lower() == ".csv"
        mark = tr("a comma (quotes around a term that has one)") if is_csv else tr("tab")
        terms, problems = [], []
        names: list[str] = []  # of the columns
        for number, cells in _read_csv(path) if is_csv else _read_tsv(path):
            columns = [" ".join(cell.split()) for cell in cells]
            if is_csv and number == 1 and (found := _column_names(columns)):
                names = found
                continue
            if names and (names[0] in _TARGETS or names[1] in _SOURCES):
                columns[:2] = columns[1::-1]
            if not columns[0]:
                problems.append(tr("line {}: the source term is empty; delete the line", number))
            elif problem := _too_long(columns, number):
                problems.append(problem)
            elif len(columns) > 2 and any(columns[2:]):
                n = len(columns)
                problem = tr(
                    "line {}: {} columns; give source term, {}, target term", number, n, mark
                )
                problems.append(problem)
            else:
                terms.append(Term(columns[0], "".join(columns[1:2]) or None, number))
        if problems:
            raise DataError(_all_of(problems, str(path)))
        return cls(terms, name=str(path), languages=names)

    def respelled(self, spell: Callable[[str], str]) -> "Glossary":
        """With every source term in another spelling as well, such as Simplified Chinese."""
        others = (term._replace(source=spell(term.source)) for term in self.terms)
        return Glossary(self.terms, others=[term for term in others if term.source])

    def for_direction(self, src: str, tgt: str) -> "Glossary":
        """With the terms of the other language as sources, if the file says so."""
        if self.languages != (tgt, src):
            return self
        turned = (Term(t.target, t.source, t.line) for t in self.terms if t.target)
        kept = [term for term in self.terms if not term.target]
        return Glossary([], others=[*turned, *kept])

    @property
    def terms(self) -> list[Term]:
        """Each once."""
        return [term for forms in self._terms.values() for term in forms.values()]

    def _add(self, term: Term) -> str | None:
        """Enter a term; what is wrong with it, if anything is."""
        if problem := _too_long([term.source], term.line):
            return problem
        source = plain_characters(compose(term.source))  # texts come composed
        forms = self._terms.setdefault(_folded(source), {})
        known = forms.setdefault(source if term.exact else "", term)
        self.targets |= {term.target: None} if term.target else {}
        if known.target == term.target:
            return None
        was, now = (repr(target or tr("as it stands")) for target in (known.target, term.target))
        return tr(
            "line {}: {!r} is to become {}, but {} in line {}; delete one of them",
            term.line,
            term.source,
            now,
            was,
            known.line,
        )

    def required(self, text: str) -> list[str]:
        """What a translation must contain: each string once, in order of appearance.

        Terms within addresses and placeholders do not count.
        """
        found = {term.target or text[start:end]: None for start, end, term in self._find(text)}
        return list(found)

    def _find(self, text: str) -> Iterator[tuple[int, int, Term]]:
        """(start, end, term) of each term of a text."""
        protected = iter([*protected_spans(text), (len(text), len(text))])
        kept_start, kept_end = next(protected)
        plain = plain_characters(text)
        folded = _folded(plain)
        start = 0
        while start < len(text):
            if start >= kept_end and kept_end < len(text):
                kept_start, kept_end = next(protected)
            elif kept_start <= start < kept_end:
                start = kept_end
            elif (match := self._longest(plain, folded, start, kept_start)) is not None:
                yield (start, *match)
                start = match[0]
            else:
                start += 1

    def _longest(self, text: str, folded: str, start: int, stop: int) -> tuple[int, Term] | None:
        """End of the longest term that begins at `start` and ends by `stop`, and the term."""
        if start and _same_word(text[start - 1], text[start]):
            return None
        for end in (start + length for length in self._lengths.get(folded[start], ())):
            forms = self._terms.get(folded[start:end], {}) if end <= stop else {}
            term = forms.get(text[start:end]) or forms.get("")
            if term and not (end < len(text) and _same_word(text[end - 1], text[end])):
                return end, term
        return None


def _read_tsv(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Line numbers and columns."""
    _refuse_workbook(path)
    lines = [
        (number, line)
        for number, line in enumerate(split_lines(path), start=1)
        if line.strip() and not line.startswith("#")
    ]
    for comma in ",;":
        if lines and all(comma in line and "\t" not in line for _, line in lines):
            text = tr(
                "{}: no line has a tab, but all have {!r}; a file with commas is read as CSV "
                "if its name ends with .csv; a term that stays as it is may end with a tab",
                path,
                comma,
            )
            raise DataError(text)
    return ((number, line.split("\t")) for number, line in lines)


def _read_csv(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Numbers of rows' last lines, and columns."""
    _refuse_workbook(path)
    lines = list(split_lines(path))
    counts = {mark: sum(mark in line for line in lines) for mark in ",;\t"}
    delimiter = max(counts, key=lambda mark: counts[mark])
    ended = (f"{line}\n" for line in lines)
    rows = csv.reader(ended, delimiter=delimiter, strict=True, skipinitialspace=True)
    try:
        for row in rows:
            if "".join(row).strip() and not row[0].startswith("#"):
                yield rows.line_num, row
    except csv.Error as error:
        text = tr(
            "{}: line {}: not CSV: {}; save it as CSV again, or give a TSV",
            path,
            rows.line_num,
            error,
        )
        raise DataError(text) from error


def _column_names(row: list[str]) -> list[str]:
    """Of a row that names columns; English,英语 is a term, since both name one language."""
    names = [name for cell in row if cell and (name := _column_of(cell))]
    n_named = sum(map(bool, row))
    return names if 1 < len({*names}) == n_named else []


def _column_of(cell: str) -> str | None:
    """The language that a cell names, or the word for a side."""
    name = cell.strip().lower()
    code = language_of(name) if len(name) in (2, 5) else None
    return name if name in _SOURCES | _TARGETS else code or code_of_name(name)


def _refuse_workbook(path: Path) -> None:
    if not path.is_file():  # a pipe is read once
        return
    with open_bytes(path) as stream:
        if stream.read(4) in (b"PK\x03\x04", b"\xd0\xcf\x11\xe0"):
            raise DataError(tr("{}: is a spreadsheet; save it as CSV (UTF-8)", path))


def _all_of(problems: list[str], name: str) -> str:
    """One line each, of a file in which hardly anything is right the first ones."""
    more = len(problems) - _MOST_PROBLEMS
    rest = [tr("{}: {:,} more lines that make no sense", name, more)] if more > 0 else []
    return "\n".join([*(f"{name}: {problem}" for problem in problems[:_MOST_PROBLEMS]), *rest])


def _too_long(terms: Iterable[str], line: int) -> str | None:
    if max(map(len, terms)) <= _LONGEST_TERM:
        return None
    return tr(
        "line {}: a term of more than {} characters; is the file a glossary?", line, _LONGEST_TERM
    )


def occurs(word: str, text: str) -> bool:
    """Whether a word stands in a text, in any case: art in Art!, but not in party."""
    word, text = (_folded(plain_characters(some.strip())) for some in (word, text))
    text = f" {text} "
    ends = (place.span() for place in re.finditer(re.escape(word), text) if word)
    return any(
        not _same_word(text[start - 1], text[start]) and not _same_word(text[end - 1], text[end])
        for start, end in ends
    )


def _same_word(left: str, right: str) -> bool:
    """Whether no word can end between two characters."""
    if unicodedata.category(right)[0] == "M":  # a vowel sign, an accent
        return True
    return bool(_IN_SPACED_WORD.match(left) and _IN_SPACED_WORD.match(right))


def _folded(text: str) -> str:
    """As many characters, in lower case, white space as spaces."""
    lower = (" " if character.isspace() else character.lower() for character in text)
    return "".join(new if len(new) == 1 else old for old, new in zip(text, lower, strict=True))
