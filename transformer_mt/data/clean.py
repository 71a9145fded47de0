"""Sources of pairs → clean train, dev and test files, and a report of all that was left out.

Comes in: a `Config`. Goes out: a directory with `PART.src`, `PART.tgt` for each part and
`report.json`, written as a whole or not at all. This file does not know tokens: the limit on their
number is applied when the corpus is encoded.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from transformer_mt.config import Config, Source
from transformer_mt.data.candidates import CORPUS_RULES, FATES, HELD_OUT, TRAIN, Candidates
from transformer_mt.data.check import SourceWatch
from transformer_mt.data.corpus import Pair, Role, read_pairs, split_lines
from transformer_mt.data.holdout import hold_out
from transformer_mt.data.report import CorpusReport, PartReport
from transformer_mt.data.rules import comparison_key, normalise_pair
from transformer_mt.errors import DataError

_CANDIDATES = "candidates"  # temporary files
_OVERLAP_STAYS = (
    "train: {:,} pairs share a side with dev or test and stay (data.remove_overlap is false): "
    "scores will look better than they are"
)


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
        train, problems = _read_candidates(cfg, root, work_dir)
        shared = train.share_a_side_with([pair for pairs in evaluation.values() for pair in pairs])
        fate = train.judge(
            duplicates=cfg.data.remove_duplicates,
            overlap=shared if cfg.data.remove_overlap else None,
        )
        missing = [role for role in HELD_OUT if not getattr(cfg.data, role)]
        held_out = hold_out(train, fate, missing)
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


def _one_line(text: str) -> str:
    """A test sentence as it is, except that it cannot hold a line end of its own."""
    return text.replace("\r\n", " ").replace("\n", " ").rstrip("\r")


def _read_candidates(cfg: Config, root: Path, work_dir: Path) -> tuple[Candidates, list[str]]:
    """The training pairs that are good on their own, also in a file; and problems of sources."""
    candidates = Candidates(cfg.seed)
    problems: list[str] = []
    with _writing(work_dir, _CANDIDATES) as write:
        for source in cfg.data.train:
            watch = SourceWatch(str(source), cfg.languages)
            pairs = read_pairs(source, cfg.languages, root=root, role="train")
            candidates.read(str(source), watch.observe(pairs), write)
            problems += watch.problems()
    return candidates, problems


def _read_evaluation_parts(cfg: Config, root: Path) -> dict[str, list[Pair]]:
    """The dev and test pairs that the configuration names, by part."""

    def read(source: Source, role: Role) -> Iterator[Pair]:
        return read_pairs(source, cfg.languages, root=root, role=role)

    parts = {}
    if cfg.data.dev:
        parts["dev"] = [
            normalise_pair(pair) for source in cfg.data.dev for pair in read(source, "dev")
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


def _deal(train: Candidates, fate: np.ndarray, work_dir: Path) -> None:
    """Write the candidates to the parts that `fate` says, and remove the file of candidates."""
    parts = {FATES[code] for code in np.unique(fate).tolist()} - {*CORPUS_RULES} | {"train"}
    paths = [work_dir / f"{_CANDIDATES}.{side}" for side in ("src", "tgt")]
    with ExitStack() as stack:
        write = {part: stack.enter_context(_writing(work_dir, part)) for part in parts}
        pairs = zip(*map(split_lines, paths), strict=True)
        for name, pair in train.settle(fate, pairs):
            if name in write:
                write[name](pair)
    for path in paths:
        path.unlink()
    if not np.any(fate == TRAIN):
        found = ", ".join(f"{rule} {count}" for rule, count in train.dropped.items()) or "nothing"
        raise DataError(f"train: no pair is left of {train.n_read} read; dropped: {found}")


def _part_reports(
    train: Candidates, fate: np.ndarray, evaluation: dict[str, list[Pair]]
) -> dict[str, PartReport]:
    sizes = {part: len(pairs) for part, pairs in evaluation.items()}
    for part in HELD_OUT.values():
        if part not in sizes and (size := int(np.sum(fate == FATES.index(part)))):
            sizes[part] = size
    parts = {"train": train.report(kept=int(np.sum(fate == TRAIN)))}
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
