"""Sources of pairs → clean train, dev and test files, and a report of all that was left out.

Comes in: a `Config`. Goes out: a directory with `PART.src`, `PART.tgt` for each part and
`report.json`, written as a whole or not at all. This file does not know tokens: the limit on their
number is applied when the corpus is encoded.
"""

import hashlib
import json
import os
import re
import shutil
import unicodedata
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from transformer_mt.config import Config, Languages, Source
from transformer_mt.data.corpus import (
    Pair,
    Role,
    line_shapes,
    misfit,
    read_pairs,
    source_files,
    split_lines,
)
from transformer_mt.errors import DataError
from transformer_mt.languages import is_chinese

MAX_CHARACTERS = 2000  # on either side
MIN_IDENTICAL = 40  # characters; shorter identical sides are names and commands, and good pairs
MIN_WORDLESS = 20  # characters of a side whose partner has no letter and no digit
# Of characters to those expected from the corpus' median ratio, either way; both sides count as 10
# characters longer, since acronyms and idioms vary much more than sentences. The good pairs of
# Tatoeba, Multi30k and two software manuals reach 3.2.
MAX_RATIO, RATIO_SMOOTHING = 6.0, 10
MIN_TO_HOLD_OUT = 100  # pairs

_N_SAMPLES, _SAMPLE_CHARACTERS = 10, 200  # per rule
_BLOCK = 100  # lines looked at together when searching for shifted lines
# A block is suspicious when one line apart it fits with this share of the misfit. Measured: shifted
# text 0.2-0.5, aligned text above 1.3; text sorted by length 0.8-1 shifted and above 0.98 aligned.
_SHIFTED = 0.8

_PAIR_RULES = ("empty", "too_long", "no_words", "identical")
_CORPUS_RULES = ("duplicate", "overlap", "length_ratio")
_HELD_OUT = {"dev": "dev", "test": "test.held_out"}
_FATES = ("train", *_CORPUS_RULES, *_HELD_OUT.values())
_TRAIN = 0
_CANDIDATES = "candidates"  # temporary files
_OVERLAP_STAYS = (
    "train: {:,} pairs share a side with dev or test and stay (data.remove_overlap is false): "
    "scores will look better than they are"
)

# Invisible characters that carry no text: controls, soft hyphen, zero-width space, directional
# marks, byte order marks, halves of surrogate pairs. The zero-width joiners (U+200C, U+200D) stay:
# they are spelling in Persian, in Indic scripts and in emoji.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u061c\u180e\u200b\u200e\u200f"
    "\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
_LETTER, _WORD = re.compile(r"[^\W\d_]"), re.compile(r"[^\W_]")
_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")


@dataclass(frozen=True)
class Sample:
    """One dropped pair and where it came from (source and line)."""

    where: str
    src: str
    tgt: str


@dataclass(frozen=True)
class PartReport:
    """Counts of one part; `read` = `kept` + everything dropped (+ held out, for train)."""

    read: int
    kept: int
    dropped: dict[str, int] = field(default_factory=dict)  # by rule
    samples: dict[str, list[Sample]] = field(default_factory=dict)  # by rule, the first few


@dataclass(frozen=True)
class CorpusReport:
    """What happened to a corpus, by part: `train`, `dev`, `test.NAME`."""

    parts: dict[str, PartReport]
    held_out: dict[str, int] = field(default_factory=dict)  # pairs taken from train, by role
    problems: list[str] = field(default_factory=list)  # to be looked at by a person
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "CorpusReport":
        tree = json.loads(text)
        for part in tree["parts"].values():
            for rule, samples in part["samples"].items():
                part["samples"][rule] = [Sample(**sample) for sample in samples]
        tree["parts"] = {name: PartReport(**part) for name, part in tree["parts"].items()}
        return cls(**tree)

    def summary(self) -> list[str]:
        """Aligned lines for people: parts, rules with one sample each, notes, problems."""
        lines = []
        for name, part in self.parts.items():
            lines.append(f"{name:<16} {part.read:>10,} read {part.kept:>10,} kept")
            for rule, count in part.dropped.items():
                sample = part.samples[rule][0]
                example = f"{sample.where}  {sample.src[:40]} | {sample.tgt[:60]}"
                lines.append(f"  {rule:<14} {count:>10,} dropped, e.g. {example}")
        if self.held_out:
            parts = ", ".join(f"{count:,} for {role}" for role, count in self.held_out.items())
            lines.append(f"held out of train: {parts}")
        lines += [f"note: {note}" for note in self.notes]
        lines += [f"problem: {problem}" for problem in self.problems]
        return lines


def normalise(text: str) -> str:
    """One line of visible text: NFC, no invisible characters, single spaces, none at the ends.

    Full-width punctuation and letters stay as they are.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFC", _INVISIBLE.sub("", text))
    elif not text.isprintable():
        text = _INVISIBLE.sub("", text)
    # split() knows every white space and line end of Unicode: U+3000, U+2028, U+0085, tabs …
    return " ".join(text.split())


class _KeyCharacters(dict[int, int | None]):
    """A table for str.translate that deletes punctuation, white space and control characters."""

    def __missing__(self, code: int) -> int | None:
        kept = unicodedata.category(chr(code))[0] not in "PZC"
        self[code] = code if kept else None
        return self[code]


_KEY_CHARACTERS = _KeyCharacters()


def comparison_key(text: str) -> str:
    """Equal for texts that differ only in case, width, punctuation and spaces."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return folded.translate(_KEY_CHARACTERS) or text


def reason_to_drop(src: str, tgt: str) -> str | None:
    """The first rule that a normalised training pair breaks on its own, or None."""
    if not src or not tgt:
        return "empty"
    if max(len(src), len(tgt)) > MAX_CHARACTERS:
        return "too_long"
    one_has_words = bool(_WORD.search(src)) != bool(_WORD.search(tgt))
    if one_has_words and max(len(src), len(tgt)) > MIN_WORDLESS:
        return "no_words"
    if src == tgt and len(src) > MIN_IDENTICAL and _LETTER.search(src):
        return "identical"
    return None


def prepare_corpus(cfg: Config, out_dir: Path) -> CorpusReport:
    """Read all sources, clean, hold out what is not given, and write `out_dir`.

    Dev is normalised, test only split into lines; neither ever loses a pair. Without dev, or
    without test, about 1 % of train is held out for it: a function of text and seed alone.

    Raises:
        DataError: see `read_pairs`; or no pair is left for a part; or `out_dir` cannot be written.
    """
    with _written_at_once(out_dir) as work_dir:
        root = Path(cfg.data.root).expanduser()
        evaluation = _read_evaluation_parts(cfg, root)
        train, problems = _Candidates(cfg.seed), []
        with _writing(work_dir, _CANDIDATES) as write:
            for source in cfg.data.train:
                problems += train.read(source, cfg.languages, root, write)
        shared = train.share_a_side_with([pair for pairs in evaluation.values() for pair in pairs])
        fate = train.judge(
            duplicates=cfg.data.remove_duplicates,
            overlap=shared if cfg.data.remove_overlap else None,
        )
        missing = [role for role in _HELD_OUT if not getattr(cfg.data, role)]
        held_out = _hold_out(train, fate, missing)
        _deal(train, fate, work_dir)
        for part, pairs in evaluation.items():
            with _writing(work_dir, part) as write:
                for pair in pairs:
                    write(pair)
        notes = _notes_on_evaluation(evaluation)
        if shared.any() and not cfg.data.remove_overlap:
            notes.append(_OVERLAP_STAYS.format(shared.sum()))
        report = CorpusReport(_part_reports(train, fate, evaluation), held_out, problems, notes)
        (work_dir / "report.json").write_text(report.to_json(), encoding="utf-8")
    return report


def read_clean(out_dir: Path, part: str) -> tuple[list[str], list[str]]:
    """Sources and targets of a part: `train`, `dev` or `test.NAME`.

    Raises:
        DataError: there is no such part, or its files do not belong together.
    """
    src, tgt = (list(split_lines(out_dir / f"{part}.{side}")) for side in ("src", "tgt"))
    if len(src) != len(tgt):
        raise DataError(
            f"{out_dir}: {part}.src has {len(src)} lines but {part}.tgt has {len(tgt)}: "
            "delete the directory, so that it is made again"
        )
    return src, tgt


def test_names(out_dir: Path) -> list[str]:
    """Names of the test sets in a prepared corpus, sorted."""
    return sorted(path.name[len("test.") : -len(".src")] for path in out_dir.glob("test.*.src"))


def check_files(src_path: Path, tgt_path: Path, languages: Languages) -> CorpusReport:
    """Report on two line-aligned files as training data, without writing anything.

    Returns:
        One part, `pairs`; what a person should look at under `problems`; lengths under `notes`.
    Raises:
        DataError: a file is missing. Text that cannot be read to its end is a problem reported.
    """
    source = Source(files=[str(src_path), str(tgt_path)])
    source_files(source, languages, Path())  # files that do not exist are no finding but an error
    candidates = _Candidates(seed=0)
    try:
        problems = candidates.read(source, languages, Path(), write=None)
    except DataError as error:
        problems = str(error).split("\n")
    fate = candidates.judge(duplicates=True, overlap=None)
    again = map(_normalised, read_pairs(source, languages, root=Path(), role="train"))
    for _ in candidates.settle(fate, (pair for pair in again if not reason_to_drop(*pair))):
        pass
    parts = {"pairs": candidates.report(kept=int(np.sum(fate == _TRAIN)))}
    return CorpusReport(parts, problems=problems, notes=candidates.length_notes(languages))


def _normalised(pair: Pair) -> Pair:
    return normalise(pair[0]), normalise(pair[1])


def _one_line(text: str) -> str:
    """A test sentence as it is, except that it cannot hold a line end of its own."""
    return text.replace("\r\n", " ").replace("\n", " ").rstrip("\r")


class _Candidates:
    """Training pairs that passed the pair rules: numbers in memory, no text."""

    def __init__(self, seed: int) -> None:
        self.n_read = 0
        self.dropped: dict[str, int] = {}
        self.samples: dict[str, list[Sample]] = {}
        self.names: list[str] = []  # of the sources
        self.origins = array("Q"), array("Q")  # index into names, line
        self.pair_hashes, self.src_keys, self.tgt_keys = array("Q"), array("Q"), array("Q")
        self.src_lengths, self.tgt_lengths = array("H"), array("H")  # characters
        # Seeded, so that the order of the hashes is a random order of the pairs as well.
        self.hash = partial(_hash, salt=(seed % 2**64).to_bytes(8, "little"))

    def read(
        self,
        source: Source,
        languages: Languages,
        root: Path,
        write: Callable[[Pair], None] | None,
    ) -> list[str]:
        """Add a source, passing on what survives the pair rules; returns its problems."""
        self.names.append(str(source))
        watch = _Watch(str(source), languages)
        for line, raw in enumerate(read_pairs(source, languages, root=root, role="train"), 1):
            self.n_read += 1
            watch.see(raw)
            src, tgt = pair = _normalised(raw)
            reason = reason_to_drop(src, tgt)
            if reason:
                self._drop(reason, f"{source}:{line}", pair)
                continue
            self.origins[0].append(len(self.names) - 1)
            self.origins[1].append(line)
            self.pair_hashes.append(self.hash(f"{src}\n{tgt}"))
            self.src_keys.append(self.hash(comparison_key(src)))
            self.tgt_keys.append(self.hash(comparison_key(tgt)))
            self.src_lengths.append(len(src))
            self.tgt_lengths.append(len(tgt))
            if write:
                write(pair)
        return watch.problems()

    def share_a_side_with(self, pairs: list[Pair]) -> np.ndarray:
        """(n,) whether the source or the target is also one of these pairs'."""
        src_keys = np.array([self.hash(comparison_key(src)) for src, _ in pairs], dtype=np.uint64)
        tgt_keys = np.array([self.hash(comparison_key(tgt)) for _, tgt in pairs], dtype=np.uint64)
        return np.isin(self.src_keys, src_keys) | np.isin(self.tgt_keys, tgt_keys)

    def judge(self, *, duplicates: bool, overlap: np.ndarray | None) -> np.ndarray:
        """(n,) index into `_FATES` by the rules that need to know the whole corpus, in order."""
        fate = np.full(len(self.pair_hashes), _TRAIN)
        if duplicates:
            repeated = np.ones(len(fate), dtype=bool)
            repeated[np.unique(self.pair_hashes, return_index=True)[1]] = False
            fate[repeated] = _FATES.index("duplicate")
        if overlap is not None:
            fate[overlap & (fate == _TRAIN)] = _FATES.index("overlap")
        src, tgt = np.asarray(self.src_lengths), np.asarray(self.tgt_lengths)
        kept = fate == _TRAIN
        usual = np.median(tgt[kept] / src[kept]) if kept.any() else 1.0
        ratio = np.log((tgt / usual + RATIO_SMOOTHING) / (src + RATIO_SMOOTHING))
        odd = np.abs(ratio) > np.log(MAX_RATIO)
        fate[odd & kept] = _FATES.index("length_ratio")
        return fate

    def settle(self, fate: np.ndarray, pairs: Iterable[Pair]) -> Iterator[tuple[str, Pair]]:
        """Name the fate of each pair, counting and sampling those that are dropped."""
        for index, (code, pair) in enumerate(zip(fate.tolist(), pairs, strict=False)):
            name = _FATES[code]
            if name in _CORPUS_RULES:
                source, line = (origin[index] for origin in self.origins)
                self._drop(name, f"{self.names[source]}:{line}", pair)
            yield name, pair

    def _drop(self, rule: str, where: str, pair: Pair) -> None:
        self.dropped[rule] = self.dropped.get(rule, 0) + 1
        if self.dropped[rule] <= _N_SAMPLES:
            src, tgt = (text[:_SAMPLE_CHARACTERS] for text in pair)
            self.samples.setdefault(rule, []).append(Sample(where, src, tgt))

    def report(self, kept: int) -> PartReport:
        rules = [rule for rule in (*_PAIR_RULES, *_CORPUS_RULES) if rule in self.dropped]
        dropped = {rule: self.dropped[rule] for rule in rules}
        return PartReport(self.n_read, kept, dropped, {rule: self.samples[rule] for rule in rules})

    def length_notes(self, languages: Languages) -> list[str]:
        notes = []
        sides = ((languages.src, self.src_lengths), (languages.tgt, self.tgt_lengths))
        for code, lengths in sides:
            if lengths:
                median, high = np.percentile(lengths, [50, 99])
                notes.append(
                    f"{code}: {np.mean(lengths):.1f} characters per line on average, "
                    f"median {median:.0f}, 99 % up to {high:.0f}, longest {max(lengths)}"
                )
        return notes


def _hash(text: str, *, salt: bytes) -> int:
    digest = hashlib.blake2b(text.encode(), digest_size=8, salt=salt).digest()
    return int.from_bytes(digest, "little")


class _Watch:
    """Looks at a source as a whole, block by block: are its sides swapped, its lines shifted?"""

    def __init__(self, name: str, languages: Languages) -> None:
        self.name, self.languages = name, languages
        self.block: list[Pair] = []
        self.n_blocks = 0
        self.shifted: list[int] = []  # first lines of blocks
        self.n_letters, self.n_han = [0, 0], [0, 0]  # by side

    def see(self, pair: Pair) -> None:
        self.block.append(pair)
        if len(self.block) == _BLOCK:
            self._look()

    def _look(self) -> None:
        sides = [[pair[side] for pair in self.block] for side in (0, 1)]
        if len(self.block) == _BLOCK:
            src, tgt = map(line_shapes, sides)
            as_it_is = misfit(src[1:], tgt[1:])[-1]
            if min(misfit(src[1:], tgt)[-1], misfit(src, tgt[1:])[-1]) < _SHIFTED * as_it_is:
                self.shifted.append(self.n_blocks * _BLOCK + 1)
        for side, texts in enumerate(sides):
            sample = " ".join(texts[:10])
            self.n_letters[side] += len(_LETTER.findall(sample))
            self.n_han[side] += len(_HAN.findall(sample))
        self.n_blocks += 1
        self.block.clear()

    def problems(self) -> list[str]:
        self._look()
        found = []
        if self.shifted:
            first, n = self.shifted[0], len(self.shifted)
            more = f" (and {n - 1} more blocks of {_BLOCK} lines)" if n > 1 else ""
            found.append(
                f"{self.name}: lines {first}-{first + _BLOCK - 1}{more} fit better one line apart: "
                f"look for a line that is missing or too much on one side, near line {first}"
            )
        codes = self.languages.src, self.languages.tgt
        shares = [han / max(1, n) for han, n in zip(self.n_han, self.n_letters, strict=True)]
        for side in (0, 1):
            chinese, other = is_chinese(codes[side]), codes[1 - side]
            if chinese and shares[side] < 0.2 and self.n_letters[side]:
                percent = f"{shares[side]:.0%} of the letters on the {codes[side]} side are Chinese"
                swapped = shares[1 - side] > 0.3 and not is_chinese(other) and other != "ja"
                hint = f", {shares[1 - side]:.0%} on the {other} side: they look swapped"
                found.append(f"{self.name}: only {percent}{hint if swapped else ''}")
        return found


def _read_evaluation_parts(cfg: Config, root: Path) -> dict[str, list[Pair]]:
    """The dev and test pairs that the configuration names, by part."""

    def read(source: Source, role: Role) -> Iterator[Pair]:
        return read_pairs(source, cfg.languages, root=root, role=role)

    parts = {}
    if cfg.data.dev:
        parts["dev"] = [
            _normalised(pair) for source in cfg.data.dev for pair in read(source, "dev")
        ]
    for name, source in cfg.data.test.items():
        parts[f"test.{name}"] = [(_one_line(a), _one_line(b)) for a, b in read(source, "test")]
    for part, pairs in parts.items():
        if not any(src.strip() and tgt.strip() for src, tgt in pairs):
            raise DataError(
                f"data.{part}: no pair with text on both sides ({len(pairs)} read); give another "
                "source, or leave the key out and a share of train is held out"
            )
    return parts


def _hold_out(train: _Candidates, fate: np.ndarray, roles: list[str]) -> dict[str, int]:
    """Move pairs to the missing parts, and drop what shares a side with them; changes `fate`.

    Pairs that cost train least go first: those whose two sides occur once cost nothing else.
    """
    if not roles:
        return {}
    usable = np.flatnonzero(fate == _TRAIN)
    give = f"give more data, or {' and '.join(f'data.{role}' for role in roles)}"
    if len(usable) < MIN_TO_HOLD_OUT:
        raise DataError(
            f"train: {len(usable)} usable pairs; to hold out {' and '.join(roles)} there must be "
            f"{MIN_TO_HOLD_OUT}: {give}"
        )
    src_keys, tgt_keys = np.asarray(train.src_keys), np.asarray(train.tgt_keys)
    size = min(max(len(usable) // 100, 50), 1000, len(usable) // 10 // len(roles))
    chosen = _cheapest(src_keys[usable], tgt_keys[usable], size * len(roles))
    if len(chosen) < len(roles):
        raise DataError(
            "train: sources and targets repeat so often that nothing can be held out without "
            f"losing more than a tenth of the rest: {give}"
        )
    held = usable[chosen]
    shared = np.isin(src_keys, src_keys[held]) | np.isin(tgt_keys, tgt_keys[held])
    fate[shared & (fate == _TRAIN)] = _FATES.index("overlap")
    shares = np.array_split(held, len(roles))
    for role, indices in zip(roles, shares, strict=True):
        fate[indices] = _FATES.index(_HELD_OUT[role])
    return {role: len(indices) for role, indices in zip(roles, shares, strict=True)}


def _cheapest(src_keys: np.ndarray, tgt_keys: np.ndarray, size: int) -> list[int]:
    """Up to `size` pairs without a side in common, for which at most a tenth of the others goes."""
    cost = _occurrences(src_keys) + _occurrences(tgt_keys) - 2  # others sharing a side, at most
    budget = len(cost) // 10
    chosen: list[int] = []
    taken_src, taken_tgt = set(), set()
    for index in np.lexsort((src_keys, cost)).tolist():
        if len(chosen) == size or cost[index] > budget:
            break
        if src_keys[index] not in taken_src and tgt_keys[index] not in taken_tgt:
            taken_src.add(src_keys[index])
            taken_tgt.add(tgt_keys[index])
            chosen.append(index)
            budget -= cost[index]
    return chosen


def _occurrences(keys: np.ndarray) -> np.ndarray:
    _, position, count = np.unique(keys, return_inverse=True, return_counts=True)
    return count[position]


def _deal(train: _Candidates, fate: np.ndarray, work_dir: Path) -> None:
    """Write the candidates to the parts that `fate` says, and remove the file of candidates."""
    parts = {_FATES[code] for code in np.unique(fate).tolist()} - {*_CORPUS_RULES} | {"train"}
    paths = [work_dir / f"{_CANDIDATES}.{side}" for side in ("src", "tgt")]
    with ExitStack() as stack:
        write = {part: stack.enter_context(_writing(work_dir, part)) for part in parts}
        pairs = zip(*map(split_lines, paths), strict=True)
        for name, pair in train.settle(fate, pairs):
            if name in write:
                write[name](pair)
    for path in paths:
        path.unlink()
    if not np.any(fate == _TRAIN):
        found = ", ".join(f"{rule} {count}" for rule, count in train.dropped.items()) or "nothing"
        raise DataError(f"train: no pair is left of {train.n_read} read; dropped: {found}")


def _part_reports(
    train: _Candidates, fate: np.ndarray, evaluation: dict[str, list[Pair]]
) -> dict[str, PartReport]:
    sizes = {part: len(pairs) for part, pairs in evaluation.items()}
    for part in _HELD_OUT.values():
        if part not in sizes and (size := int(np.sum(fate == _FATES.index(part)))):
            sizes[part] = size
    parts = {"train": train.report(kept=int(np.sum(fate == _TRAIN)))}
    return parts | {part: PartReport(sizes[part], sizes[part]) for part in sorted(sizes)}


def _notes_on_evaluation(evaluation: dict[str, list[Pair]]) -> list[str]:
    """What a reader of scores should know about dev and test, which are never shortened."""
    notes = []
    for part, pairs in evaluation.items():
        n_empty = sum(not (src.strip() and tgt.strip()) for src, tgt in pairs)
        if n_empty:
            notes.append(f"{part}: {n_empty} of {len(pairs)} pairs have an empty side and stay")
    in_test = [pair for part, pairs in evaluation.items() if part != "dev" for pair in pairs]
    test_sides = [{comparison_key(pair[side]) for pair in in_test} for side in (0, 1)]
    n_shared = sum(
        any(comparison_key(text) in keys for text, keys in zip(pair, test_sides, strict=True))
        for pair in evaluation.get("dev", [])
    )
    if n_shared:
        notes.append(f"dev: {n_shared} pairs share a side with test and stay")
    return notes


@contextmanager
def _writing(work_dir: Path, part: str) -> Iterator[Callable[[Pair], None]]:
    with (
        open(work_dir / f"{part}.src", "w", encoding="utf-8", newline="\n") as src_file,
        open(work_dir / f"{part}.tgt", "w", encoding="utf-8", newline="\n") as tgt_file,
    ):

        def write(pair: Pair) -> None:
            src_file.write(pair[0] + "\n")
            tgt_file.write(pair[1] + "\n")

        yield write


@contextmanager
def _written_at_once(out_dir: Path) -> Iterator[Path]:
    """A directory to write into, which becomes `out_dir` at the end, or vanishes on any error."""
    place = out_dir.absolute()  # "." has no name to derive others from
    work_dir, old_dir = (place.with_name(place.name + end) for end in (".tmp", ".old.tmp"))
    ours = (out_dir / "report.json").exists() or not out_dir.exists()
    if not ours and not (out_dir.is_dir() and not any(out_dir.iterdir())):
        raise DataError(
            f"{out_dir}: exists and was not written by tmt; name a directory that is new or empty"
        )
    try:
        for leftover in (work_dir, old_dir):
            shutil.rmtree(leftover, ignore_errors=True)
        work_dir.mkdir(parents=True)
        yield work_dir
        if out_dir.exists():
            os.replace(place, old_dir)
        os.replace(work_dir, place)
        shutil.rmtree(old_dir, ignore_errors=True)
    except OSError as error:
        raise DataError(f"{out_dir}: cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(work_dir, ignore_errors=True)
