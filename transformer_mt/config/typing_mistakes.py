"""Slips of the hand in a YAML file, and the edits that mend them.

Comes in: the text. Goes out: full-width and invisible characters, tabs, missing spaces, quotes that
are not closed and wrong indentation, each with its place and what to type instead. A valid file may
hold such characters in its texts, so that this one is consulted where a file does not do.
"""

import re
import unicodedata
from typing import NamedTuple

from transformer_mt.messages.catalogue import tr

# Typed in place of YAML's marks. One for each: places in a folded text are places in the text.
FOLDED = str.maketrans(
    "：，、［【］】｛｝＃－＝“”„「」『』＂‘’＇\u3000\xa0\u2002\u2003\u2009\u202f\u200b\u2060\ufeff",
    ':,,[[]]{}#-=""""""""\'\'\'         ',
)
_TYPE = {
    ":": tr("type ':' and a space"),
    ",": tr("type ',' and a space, or put the whole text into quotes"),
    "\t": tr("type spaces"),
    " ": tr("type a space"),
    "-": tr("type '-' and a space"),
}
_INVISIBLE = "\u200b\u2060\ufeff"
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_KEY_LINE = re.compile(r"[\"']?[A-Za-z_][\w.-]*[\"']? *:(?=\s|$|[^\s/\\:])")
_EQUALS = re.compile(r"([A-Za-z_][\w.-]*) *(=)(?= *[^\s=])")
_SCALAR = re.compile(r"[-+]?[0-9._]+(?:[eE][-+]?[0-9]+)?|true|false|null")
_TABS, _SPACES = re.compile(r"(?m)^ *\t"), re.compile(r"(?m)^ +[^\s#]")
_LONGEST_TEXT, _LONGEST_LINE, _MOST_MISTAKES = 1 << 17, 2000, 100
Edit = tuple[int, int, str]  # characters from, to; what stands there instead


class Mistake(NamedTuple):
    """Characters `start` to `end` of a text, what is wrong there, and edits that mend it."""

    start: int
    end: int
    message: str
    edits: tuple[Edit, ...] = ()  # none: only the writer knows
    certain: bool = False  # whatever else the file says; else: if the file does not do


def find_mistakes(text: str) -> list[Mistake]:
    """The slips of a text, in order; none of a text that is longer than people write."""
    if len(text) > _LONGEST_TEXT:
        return []
    scanner = _Scanner(text)
    start = 0
    for line in text.split("\n"):
        if len(line) <= _LONGEST_LINE and len(scanner.mistakes) < _MOST_MISTAKES:
            scanner.scan_line(start, start + len(line.removesuffix("\r")))
        start += len(line) + 1
    return sorted(scanner.mistakes)


def mended(text: str, mistakes: list[Mistake]) -> str:
    """The text after the edits of all mistakes."""
    for start, end, new in sorted((e for m in mistakes for e in m.edits), reverse=True):
        text = text[:start] + new + text[end:]
    return text


def is_guess(text: str) -> bool:
    """Whether nobody can tell the columns of a text: it is indented by tabs and by spaces."""
    return bool(_TABS.search(text) and _SPACES.search(text))


def character_name(char: str) -> str:
    """A character by itself, if it can be seen, by its number and by its name in Unicode."""
    if char == "\t":
        return tr("a tab (U+0009)")
    names = f"U+{ord(char):04X}, {unicodedata.name(char, tr('a control character'))}"
    return names if char.isspace() or not char.isprintable() else f"{char} ({names})"


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text, self.folded = text, text.translate(FOLDED)
        self.mistakes: list[Mistake] = []
        self._flow: list[str] = []  # brackets that are open
        self._levels: list[int] = []  # columns of the block sections that are open
        self._opened = False  # the line before ends in a key without a value
        self._tabs = False  # lines above are indented by tabs
        self._literal: int | None = None  # column of the key of a block text, `key: |`
        self._above = ""  # the key of the line before
        self._unclosed: dict[str, int] = {}  # ends of the lines in which a quote does not close
        self._step = min((len(m[1]) for m in re.finditer(r"(?m)^( +)\S", text)), default=2)

    def scan_line(self, start: int, end: int) -> None:
        """Note the mistakes of the line from `start` to `end`."""
        pos = start
        while pos < end and self.folded[pos] in " \t":
            pos += 1
        leading = self.text[start:pos]
        if pos == end or self.folded[pos] == "#":
            if "\t" in leading:
                self._character(start + leading.index("\t"), pos, edits=((start, pos, ""),))
            return
        if self._literal is not None:
            if len(leading) > self._literal:
                return
            self._literal = None
        if leading.strip(" "):
            at = start + len(leading) - len(leading.lstrip(" "))
            new = re.sub(f"[{_INVISIBLE}]", "", leading.replace("\u3000", "  ")).translate(FOLDED)
            if "\t" in leading:
                new, self._tabs = " " * self._column_of_tabs(leading), True
            column = len(new)
            self._character(at, pos, edits=((start, pos, new),))
        else:
            new, column = leading, len(leading)
        if column == 0 and _KEY_LINE.match(self.folded, pos, end):
            self._flow.clear()  # the bracket above has not been closed
        if self._flow:
            self._content(pos, end, key=self._flow[-1] == "{")
        else:
            self._block_line(start, pos, end, column, told=new != leading)

    def _column_of_tabs(self, leading: str) -> int:
        """Where a line that is indented by tabs belongs, if each stands for a level."""
        depth = leading.count("\t") + leading.count(" ") // self._step
        if depth < len(self._levels):
            return self._levels[depth]
        return (self._levels or [0])[-1] + self._step * self._opened

    def _block_line(self, start: int, pos: int, end: int, column: int, *, told: bool) -> None:
        """A line outside of brackets: its indentation, dashes, then key and value."""
        key_line = _KEY_LINE.match(self.folded, pos, end)
        dash = self.folded.startswith(("- ", "-\t"), pos) or self.folded[pos:end] == "-"
        # A key may begin here; in other places a line without a colon goes on with a text.
        is_due = not self._opened and column <= (self._levels or [column])[-1]
        if key_line or dash:
            self._check_column(start, pos, column, told=told)
        elif is_due and _KEY.fullmatch(word := self.text[pos:end].rstrip()):
            self._check_column(start, pos, column, told=told)
            at, message = pos + len(word), tr("no ':' after {}: type '{}:' and a value", word, word)
            self._add(pos, at, message, (at, at, ":"))
            self._above, self._opened = word, True
            return
        after_dash = dash
        while dash:
            if self.text[pos] != "-":
                self._character(pos, pos + 1)
            content = self.folded[pos + 1 : end].lstrip(" ")
            column, pos = column + end - len(content) - pos, end - len(content)
            dash = self.folded.startswith("- ", pos)
            if _KEY_LINE.match(self.folded, pos, end):
                self._levels.append(column)
        self._above = self.text[pos:end].split(":")[0].split("：")[0]
        colons = self._content(pos, end, key=True, after_dash=after_dash)
        self._opened = colons == end or pos == end
        if re.search(r": [|>][-+0-9]*(?: +#.*)?$", self.folded[pos:end]):
            self._literal = column

    def _check_column(self, start: int, pos: int, column: int, *, told: bool) -> None:
        """Keys of one section, and items of one list, begin in the same column.

        `told`: there is a mistake with this indentation already.
        """
        if not self._levels or (column > self._levels[-1] and self._opened):
            return self._levels.append(column)
        nearest = column
        if column > self._levels[-1]:
            nearest = self._levels[-1]
            message = tr(
                "indented by {} spaces, but {}, above, by {} and with a value: "
                "keys of one section begin in the same column",
                column,
                self._above,
                nearest,
            )
        elif column not in self._levels:
            nearest = min(self._levels, key=lambda level: (abs(level - column), -level))
            known = tr(" or ").join(map(str, sorted({*self._levels})))
            message = tr("indented by {} spaces; the sections above begin at {}", column, known)
        edit = (start, pos, " " * nearest)
        if told:
            self.mistakes[-1] = self.mistakes[-1]._replace(edits=(edit,))
        elif nearest != column and not self._tabs:  # else the columns above are guesses
            self._add(pos, pos + 1, message, edit)
        while self._levels[-1] > nearest:
            self._levels.pop()

    def _content(self, pos: int, end: int, *, key: bool, after_dash: bool = False) -> int | None:
        """Brackets, quotes and plain texts; `end`, if the line ends in a key without a value."""
        behind_key: int | None = None
        while pos < end:
            char = self.folded[pos]
            if char in " \t":
                if self.text[pos] != " ":
                    self._character(pos, pos + 1)
                pos += 1
                continue
            if char == "#" and self.folded[pos - 1] in " \t":
                if self.text[pos] != "#":
                    self._character(pos, pos + 1)
                return end if behind_key is not None else None
            behind_key = None
            if char in "!&":  # a tag or an anchor, before its text
                while pos < end and self.folded[pos] not in " \t":
                    pos += 1
            elif char in "[{" or (char in ",]}" and self._flow):
                key = self._bracket(pos, end)
                pos, after_dash = pos + 1, False
            elif char in "\"'" and (close := self._quoted(pos, end)) is not None:
                pos = close
            elif char == ":" and self._is_spaced(pos, end):
                pos, key, behind_key = pos + 1, False, pos
            else:
                was, (pos, key) = pos, self._plain(pos, end, key=key, after_dash=after_dash)
                if self.folded[pos - 1] == ":" and pos - 1 > was and not key:
                    behind_key = pos
        return end if behind_key is not None else None

    def _bracket(self, pos: int, end: int) -> bool:
        """A bracket, or a comma inside of brackets; does a key follow?"""
        char = self.folded[pos]
        if self.text[pos] != char:
            new = f"{char} " if char == "," and self.folded[pos + 1 : pos + 2] != " " else char
            self._character(pos, pos + 1, edits=((pos, pos + 1, new),), certain=char == ",")
        if char in "[{":
            self._flow.append(char)
        elif char in "]}":
            self._flow.pop()
        return bool(self._flow) and self._flow[-1] == "{" and char in "{,"

    def _is_spaced(self, pos: int, end: int) -> bool:
        return pos + 1 >= end or self.folded[pos + 1] in (" \t,[]{}" if self._flow else " \t")

    def _quoted(self, pos: int, end: int) -> int | None:
        """The position behind a quoted text that begins at `pos`; None: it is a plain text."""
        opening, quote = self.text[pos], self.folded[pos]
        if opening == quote:
            pattern = r"'(?:[^']|'')*'" if quote == "'" else r'"(?:[^"\\]|\\.)*"'
            if closed := re.compile(pattern).match(self.text, pos, end):
                if not self._ends_text(closed.end(), end):
                    how = "''" if quote == "'" else '\\"'
                    message = tr(
                        "text after the closing {}: a {} inside is written {}", quote, quote, how
                    )
                    self._add(closed.end() - 1, closed.end(), message)
                    return end
                return closed.end()
        stop = -1
        if self._unclosed.get(quote) != end:  # the next quote of any form that may end a text
            found = (at for at in range(pos + 1, end) if self.folded[at] == quote)
            stop = next((at for at in found if self._ends_text(at + 1, end)), -1)
        if odd := [at for at in (pos, stop) if stop >= 0 and self.text[at] != quote]:
            content = self.text[pos + 1 : stop]
            new = quote if opening == quote else "'" if "'" not in content else '"'
            edits = ((pos, pos + 1, new), (stop, stop + 1, new))
            named = tr(" and ").join(dict.fromkeys(character_name(self.text[at]) for at in odd))
            message = tr("{}: type {} on both sides", named, new)
            self._add(odd[0], odd[0] + 1, message, *edits, certain=bool(self._flow))
            return stop + 1
        self._unclosed[quote] = end
        if opening != quote:
            return None
        stop = pos + 1
        while stop < end and not (self._flow and self.folded[stop] in ",]}"):
            if self.folded[stop] == "#" and self.folded[stop - 1] == " ":
                break
            stop += 1
        stop = pos + len(self.text[pos:stop].rstrip())
        message = tr("{} is not closed in this line: type {} after the text", quote, quote)
        self._add(pos, pos + 1, message, (stop, stop, quote))
        return stop

    def _ends_text(self, pos: int, end: int) -> bool:
        """Whether a text that ends at `pos` is followed by a mark that may follow one."""
        rest = self.folded[pos:end].lstrip(" \t")
        return not rest or rest[0] in ",]}:" or (rest[0] == "#" and self.folded[pos] in " \t")

    def _plain(self, pos: int, end: int, *, key: bool, after_dash: bool) -> tuple[int, bool]:
        """The end of a text without quotes, and whether a key may still follow."""
        start = pos
        while pos < end:
            char = self.folded[pos]
            if char == "#" and self.folded[pos - 1] in " \t":
                break
            if char == "\t" or (self._flow and char in ",[]{}"):
                break
            if char == ":" and (behind := self._colon(start, pos, end, key, after_dash)):
                return behind, False
            pos += 1
        word = self.text[start:pos].rstrip()
        stop = start + len(word)
        if key and not after_dash and (found := _EQUALS.match(self.folded, start, stop)):
            at, after = found.span(2)
            edit = (found.end(1), after, ":" if self.folded[after] == " " else ": ")
            self._add(at, after, tr("{} after a key: type ':' and a space", self.text[at]), edit)
        elif word.endswith((",", "，")) and not key and not self._flow:
            message = tr("a comma after a value: leave it out")
            self._add(stop - 1, stop, message, (stop - 1, stop, ""))
        plain = unicodedata.normalize("NFKC", word)
        if plain != word and _SCALAR.fullmatch(plain):
            self._add(
                start, stop, tr("full-width characters: type {}", plain), (start, stop, plain)
            )
        return pos, key

    def _colon(self, start: int, pos: int, end: int, key: bool, after_dash: bool) -> int | None:
        """The position behind a colon that ends a key; None: it belongs to a text."""
        char, spaced = self.text[pos], self._is_spaced(pos, end)
        word = self.text[start:pos].rstrip()
        in_value = not key and not self._flow and self.folded[pos - 1] != " "
        if not key or not _KEY.fullmatch(word):
            if in_value and spaced and char == ":":
                self._second_colon(start, pos, end)
                return end
            return pos + 1 if spaced and char == ":" else None
        if char != ":":
            new = ":" if spaced else ": "
            self._character(pos, pos + 1, edits=((pos, pos + 1, new),))
        elif not spaced:
            if after_dash or self.folded[pos + 1] in "/\\:":
                return None
            message = tr("no space after ':': type ': '")
            self._add(pos, pos + 1, message, (pos + 1, pos + 1, " "))
        return pos + 1

    def _second_colon(self, start: int, pos: int, end: int) -> None:
        """`key: value: value`, where the value must stand in quotes."""
        value = re.split(r"\s#", self.text[start:end])[0].rstrip()
        quote, stop = "'" if "'" not in value else '"', start + len(value)
        message = tr(
            "a second ': ' in one line: begin a new line, or put the text into quotes, {}{}{}{}",
            quote,
            value[:60],
            "…" if len(value) > 60 else "",
            quote,
        )
        self._add(pos, pos + 1, message, (start, start, quote), (stop, stop, quote))

    def _character(
        self, start: int, end: int, *, edits: tuple[Edit, ...] = (), certain: bool = False
    ) -> None:
        """A character that stands for another one."""
        found = self.text[start]
        meant = found.translate(FOLDED)
        remedy = tr("remove it") if found in _INVISIBLE else _TYPE.get(meant, tr("type {}", meant))
        message = f"{character_name(found)}: {remedy}"
        new = "" if found in _INVISIBLE else " " * self._step if meant == "\t" else meant
        self._add(start, end, message, *(edits or ((start, end, new),)), certain=certain)

    def _add(self, start: int, end: int, words: str, *edits: Edit, certain: bool = False) -> None:
        self.mistakes.append(Mistake(start, end, words, edits, certain))
