"""Plants known faults into parallel text: every kind on lines of its own.

Comes in: good pairs, and a seed. Goes out: the pairs with faults, and which line has which. This
file does not know what becomes of them.
"""

import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path

from transformer_mt.corpus.cleaning.rules import comparison_key
from transformer_mt.corpus.readers.pairs import Pair
from transformer_mt.text.languages import is_chinese

SHARES = {
    "shifted": 0.01, "shifted, short": 0.003, "shifted, alike": 0.0, "swapped": 0.01,
    "foreign": 0.02, "duplicate": 0.03, "leaked": 0.01, "mismatched": 0.02,
    "line separator": 0.01, "traditional": 0.02,
}  # fmt: skip
# Lines of a shifted block. Some of its targets are nearly the same as the right ones: "alike".
RUNS = {"shifted": (20, 200), "shifted, short": (5, 9)}
ALIKE = 0.8  # share of the characters of two targets that match

# Sentences of another language than both: every subject with every verb and every end.
_GERMAN = (
    ("Der alte Mann", "Meine Schwester", "Das kleine Kind", "Unser Nachbar", "Die Lehrerin",
     "Ein junger Arzt", "Der Hund des Bäckers", "Niemand aus dem Dorf", "Die ganze Familie"),
    ("hat gestern", "wird morgen", "möchte heute Abend", "soll nächste Woche", "kann leider nicht",
     "darf im Sommer"),
    ("mit dem Zug nach Hamburg fahren", "ein dickes Buch über Vögel lesen", "die Küche aufräumen",
     "einen Kuchen für den Geburtstag backen", "im Garten unter dem Apfelbaum schlafen",
     "den Schlüssel zur Wohnung suchen", "vor dem Rathaus auf uns warten", "das Fenster schließen",
     "über die Brücke zum Bahnhof gehen", "ein Lied aus der Kindheit singen"),
)  # fmt: skip
_FRENCH = (
    ("Le vieil homme", "Ma sœur", "Le petit enfant", "Notre voisin", "La maîtresse",
     "Un jeune médecin", "Le chien du boulanger", "Personne au village", "Toute la famille"),
    ("a voulu hier", "va demain", "aimerait ce soir", "doit la semaine prochaine",
     "ne peut malheureusement pas", "pourra cet été"),
    ("prendre le train pour Lyon", "lire un gros livre sur les oiseaux", "ranger la cuisine",
     "faire un gâteau pour l'anniversaire", "dormir sous le pommier du jardin",
     "chercher la clé de l'appartement", "nous attendre devant la mairie", "fermer la fenêtre",
     "traverser le pont jusqu'à la gare", "chanter une chanson de son enfance"),
)  # fmt: skip


@dataclass
class Planted:
    """A corpus with faults, and what they are."""

    pairs: list[Pair]  # as they are written
    clean: list[Pair]  # as they were
    test: list[Pair]
    faults: dict[int, str] = field(default_factory=dict)  # line, from 0 → fault
    moot: set[int] = field(default_factory=set)  # in a shifted block, yet as good as it was


def plant(
    pairs: list[Pair], test: list[Pair], codes: Pair, seed: int, foreign: Sequence[str] = ()
) -> Planted:
    """Put every kind of fault on lines of their own.

    Args:
        test: what leaks; if there is none, it is made from lines of `pairs`.
        foreign: sentences of another language; default: a few hundred made-up ones.
    """
    rng = random.Random(seed)
    planted = Planted(list(pairs), pairs, test)
    for fault, lengths in RUNS.items():
        _shift_blocks(planted, fault, lengths, rng)
    free = [n for n in range(len(pairs)) if n not in planted.faults and n not in planted.moot]
    rng.shuffle(free)

    def change(fault: str, new: Callable[[int], Pair]) -> None:
        for line in [free.pop() for _ in range(int(SHARES[fault] * len(pairs)))]:
            changed = new(line)
            if changed != pairs[line]:
                planted.pairs[line], planted.faults[line] = changed, fault

    foreign = foreign or _foreign_sentences(codes)
    change("swapped", lambda line: (pairs[line][1], pairs[line][0]))
    change("foreign", lambda line: _one_side(pairs[line], rng.choice(foreign), rng))
    if not test:
        planted.test = [pairs[line] for line in free[: int(SHARES["leaked"] * len(pairs))]]
    change("leaked", lambda line: _altered(rng.choice(planted.test), rng))
    change("mismatched", lambda line: (pairs[line][0], pairs[rng.choice(free)][1]))
    change("line separator", lambda line: (_with_separator(pairs[line][0]), pairs[line][1]))
    if convert := to_traditional(codes):
        change("traditional", lambda line: (convert(pairs[line][0]), convert(pairs[line][1])))
    unchanged = sorted(free[: -int(SHARES["duplicate"] * len(pairs))])  # the last ones are taken
    change("duplicate", lambda line: _repeated_later(line, unchanged, pairs, rng))
    return planted


def _shift_blocks(
    planted: Planted, fault: str, lengths: tuple[int, int], rng: random.Random
) -> None:
    """Blocks whose targets are moved by a line; the one that falls out comes in at the other end.

    A line whose new target says the same counts neither as good nor as bad.
    """
    pairs, faults = planted.clean, planted.faults
    wanted = SHARES[fault] * len(pairs)
    n_done = 0
    while n_done < wanted:
        start = rng.randrange(len(pairs) - lengths[1])
        length, step = rng.randint(*lengths), rng.choice((-1, 1))
        if any(n in faults or n in planted.moot for n in range(start - 9, start + length + 9)):
            continue
        n_done += length
        for offset in range(length):
            line, other = start + offset, start + (offset + step) % length
            planted.pairs[line] = pairs[line][0], pairs[other][1]
            keys = comparison_key(pairs[line][1]), comparison_key(pairs[other][1])
            if keys[0] == keys[1] or comparison_key(pairs[line][0]) == comparison_key(
                pairs[other][0]
            ):
                planted.moot.add(line)
            elif SequenceMatcher(None, *keys, autojunk=False).ratio() >= ALIKE:
                faults[line] = "shifted, alike"
            else:
                faults[line] = fault


def _foreign_sentences(codes: Pair) -> list[str]:
    parts = _FRENCH if "de" in codes else _GERMAN
    return [f"{who} {verb} {end}." for who in parts[0] for verb in parts[1] for end in parts[2]]


def _one_side(pair: Pair, text: str, rng: random.Random) -> Pair:
    return (pair[0], text) if rng.random() < 0.5 else (text, pair[1])


def _repeated_later(line: int, lines: list[int], pairs: list[Pair], rng: random.Random) -> Pair:
    """A line of the corpus that stays as it is, for another one; half of the time altered.

    Of two that are the same, the first is kept; so the line repeats one before it.
    """
    earlier = [other for other in lines[:: max(1, len(lines) // 997)] if other < line] or [line]
    pair = pairs[rng.choice(earlier)]
    return pair if rng.random() < 0.5 else _altered(pair, rng)


def _altered(pair: Pair, rng: random.Random) -> Pair:
    """The same pair in other case, width or punctuation; sometimes as it is."""
    ways: Sequence[Callable[[str], str]] = (
        str.upper,
        lambda text: text.rstrip(".。!！?？") + " !",
        lambda text: text.translate({code: code + 0xFEE0 for code in range(0x30, 0x7B)}),
        str,
    )
    way = rng.choice(ways)
    return way(pair[0]), way(pair[1])


def _with_separator(text: str) -> str:
    middle = len(text) // 2
    space = text.find(" ", middle)
    if space < 0:  # Chinese has few
        return f"{text[:middle]}\u2028{text[middle:]}" if middle else text
    return f"{text[:space]}\u2028{text[space + 1 :]}"


def to_traditional(codes: Pair) -> Callable[[str], str] | None:
    """What converts Chinese to traditional characters, if a side is Chinese and opencc is there."""
    if not any(map(is_chinese, codes)):
        return None
    try:
        import opencc
    except ImportError:
        print("opencc is not installed: no traditional characters are planted", file=sys.stderr)
        return None
    convert: Callable[[str], str] = opencc.OpenCC("s2t").convert
    return convert


def write(planted: Planted, directory: Path, codes: Pair) -> None:
    """The corpus with a byte order mark and CRLF, and the test set as plain text."""
    for side, code in enumerate(codes):
        text = "".join(pair[side] + "\r\n" for pair in planted.pairs)
        (directory / f"train.{code}").write_bytes(text.encode("utf-8-sig"))
        text = "".join(pair[side] + "\n" for pair in planted.test)
        (directory / f"test.{code}").write_bytes(text.encode())
