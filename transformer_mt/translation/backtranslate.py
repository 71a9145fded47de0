"""Text of one language → a synthetic parallel corpus, by a model.

`PREFIX.<src>` and `PREFIX.<tgt>` have, line by line, the text and its translation, each under the
code of its language. Which of the two the next experiment reads as its source makes the difference
between back-translation and distillation. Work that was killed goes on.
"""

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from transformer_mt.config.data import Languages
from transformer_mt.corpus.readers.pairs import split_lines
from transformer_mt.errors import DataError
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.output import remove_other_prints, write_json, writing
from transformer_mt.system.processes.parallel import run_shards
from transformer_mt.system.state import Damaged, fingerprint, read_json, sha256
from transformer_mt.system.terminal import Say
from transformer_mt.translation.direction import direction_of_file
from transformer_mt.translation.translator import Translator

CHUNK_LINES = 1000  # lines translated at a time, and lost when the process is killed
_TELL_EVERY_S = 10.0


@dataclass(frozen=True)
class SyntheticCorpus:
    """The report of a synthetic corpus: its counts, and the fingerprint of its inputs."""

    prefix: str
    languages: str  # from the text to its translation, e.g. en-zh
    pairs: int
    empty: int  # lines without text, or whose translation is empty, left out
    cut: int  # lines whose translation reached the length limit, left out
    made_from: str  # fingerprint of model, text and settings

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def source_line(self, tag: str | None) -> str:
        """The line of `data.train` that names this corpus in the next configuration."""
        path = Path(self.prefix).absolute()  # wherever data.root is
        return f"- {{path: {path}, tag: {tag}}}" if tag else f"- {{path: {path}}}"


def translate_corpus(
    model_dir: Path,
    mono_path: Path,
    prefix: Path,
    *,
    others: Sequence[Path] = (),
    to: str | None = None,
    beam: int | None = 1,
    say: Say,
) -> SyntheticCorpus:
    """Translate every line of a file and write the two sides of a corpus.

    Greedy search is the default: it is several times faster, and a back-translation only has to be
    good enough to learn from.

    Args:
        others: models that vote with the first one.
        to: as for `Translator.translate`; a model of both directions needs it.
        beam: None: the model's own.
    Raises:
        DataError: the text cannot be read or nothing of it can be translated, or the files exist
            and were not written here.
        TmtError: the model needs `to`, or does not write it.
    """
    translator = Translator.load(model_dir, *others)
    direction = direction_of_file(mono_path, translator.cfg.languages, to)
    made_from = inputs_print([model_dir, *others], mono_path, direction, beam)
    sides = _sides(prefix, direction, mono_path)
    report_path = prefix.with_name(f"{prefix.name}.json")
    shards_dir = prefix.with_name(f"{prefix.name}.shards") / made_from
    done = _finished(report_path, direction, sides, shards_dir)
    if done is not None and done.made_from == made_from:
        say(tr("{}: up to date", prefix))
        return done

    progress = _Progress(mono_path, sum(1 for _ in split_lines(mono_path)), say)

    def translate(lines: list[str], path: Path) -> None:
        progress.n_translated += len(lines)
        found = translator.translate(lines, to=direction.tgt, beam=beam)
        rows = [(line, t.text, t.complete) for line, t in zip(lines, found, strict=True)]
        path.write_text(json.dumps(rows), encoding="utf-8")

    text = split_lines(mono_path)
    chunks = iter(lambda: list(islice(text, CHUNK_LINES)), [])
    jobs = ((shards_dir / f"{i:08d}.json", lines) for i, lines in enumerate(chunks))
    paths = []
    for path in run_shards(jobs, translate, workers=1):
        paths.append(path)
        progress.tell(len(paths) * CHUNK_LINES)
    corpus = SyntheticCorpus(str(prefix), direction.pair, *_join(paths, *sides), made_from)
    write_json(report_path, corpus.to_json())
    remove_other_prints(shards_dir.parent, [])
    with suppress(OSError):  # it holds something of the user's
        shards_dir.parent.rmdir()
    return corpus


class _Progress:
    """Lines that are done and minutes that are left, told now and then."""

    def __init__(self, path: Path, n_lines: int, say: Say) -> None:
        self.n_translated = 0  # by this process, which may go on after an earlier one
        self._path, self._n_lines, self._say = path, n_lines, say
        self._began = self._told = time.monotonic()

    def tell(self, n_done: int) -> None:
        now = time.monotonic()
        if now - self._told < _TELL_EVERY_S or n_done >= self._n_lines:
            return
        self._told = now
        rate = max(1, self.n_translated) / (now - self._began)
        left = (self._n_lines - n_done) / rate / 60
        self._say(
            tr(
                "{}: {:,} of {:,} lines, {:,.0f} a second, {:.1f} minutes left",
                self._path,
                n_done,
                self._n_lines,
                rate,
                left,
            )
        )


def inputs_print(
    models: Sequence[Path], mono_path: Path, direction: Languages, beam: int | None
) -> str:
    """The fingerprint of all that a synthetic corpus depends on."""
    # The metadata of a model holds the digests of all its files.
    digests = [sha256(path / "metadata.json") for path in models]
    return fingerprint(*digests, sha256(mono_path), direction.pair, beam)


def _sides(prefix: Path, direction: Languages, mono_path: Path) -> list[Path]:
    """The files of text and translation; raises `DataError` where none can be written."""
    if not prefix.name:
        raise DataError(tr("{}: is a folder; name a prefix in it: {}", prefix, prefix / "text"))
    sides = [prefix.with_name(f"{prefix.name}.{code}") for code in (direction.src, direction.tgt)]
    if mono_path.resolve() in [side.resolve() for side in sides]:
        raise DataError(tr("{}: would be written over itself; name another prefix", mono_path))
    return sides


def _finished(
    report_path: Path, direction: Languages, sides: list[Path], shards: Path
) -> SyntheticCorpus | None:
    """The report of an earlier call, if its files are there."""
    existing = [path for path in sides if path.exists()]
    with suppress(Damaged, TypeError):  # a file that is damaged, or not a report
        report = SyntheticCorpus(**(read_json(report_path) or {}))
        if report.languages not in (direction.pair, direction.reversed().pair):
            raise DataError(
                tr("{}: tells of text in {}; name another prefix", report_path, report.languages)
            )
        return report if len(existing) == 2 else None
    if shards.exists():
        existing = []  # the process was killed at the very end
    if foreign := [*([report_path] if report_path.exists() else []), *existing]:
        raise DataError(
            tr("{}: exists and was not written by tmt; name another prefix", foreign[0])
        )
    return None


def _join(shards: list[Path], src_path: Path, tgt_path: Path) -> tuple[int, int, int]:
    """Write the pairs of all shards; the numbers of pairs, and of lines left out, empty and cut."""
    pairs = empty = cut = 0
    with (
        writing(src_path) as src_temporary,
        writing(tgt_path) as tgt_temporary,
        src_temporary.open("w", encoding="utf-8", newline="\n") as src_file,
        tgt_temporary.open("w", encoding="utf-8", newline="\n") as tgt_file,
    ):
        for shard in shards:
            for text, translation, complete in json.loads(shard.read_text(encoding="utf-8")):
                if not (text.strip() and translation):
                    empty += 1
                elif not complete:
                    cut += 1
                else:
                    pairs += 1
                    src_file.write(f"{text}\n")
                    tgt_file.write(f"{translation}\n")
        if not pairs:
            message = tr(
                "nothing to learn from: of {} lines {} are empty and {} reached the length limit",
                empty + cut,
                empty,
                cut,
            )
            raise DataError(message)
    return pairs, empty, cut
