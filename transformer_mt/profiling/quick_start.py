"""Own files → an experiment: languages told from the text, settings by its size and the minutes.

Comes in: two text files, or one with both sides. Goes out: the YAML of an experiment with a reason
beside each setting. Nothing is trained or written.
"""

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from transformer_mt.config.advice import Advice, apply_advice, kept_settings
from transformer_mt.config.data import Languages, Source
from transformer_mt.config.experiment import Config, changed_config, load_config
from transformer_mt.config.recipes import DECIDING, starting_point
from transformer_mt.config.yaml_text import flattened, flow_yaml, parse_setting
from transformer_mt.corpus.check import first_texts, tell_languages
from transformer_mt.corpus.diagnostics.whole_sides import carriage_returns
from transformer_mt.corpus.readers.pairs import read_pairs
from transformer_mt.corpus.readers.paths import is_memory, tells_languages
from transformer_mt.corpus.readers.spreadsheets import layout_of
from transformer_mt.errors import ConfigError, DataError
from transformer_mt.messages.catalogue import tr
from transformer_mt.profiling.timed_start import (
    kind_of_device,
    measure_budget,
    tokens_per_character,
)
from transformer_mt.rendering.progress import ShownStages
from transformer_mt.text.identify import identify
from transformer_mt.text.languages import is_unspaced, language_name
from transformer_mt.text.words import words
from transformer_mt.translation.direction import both_directions

_REMEDY = tr(
    "name them: files such as my.zh and my.en, or a table whose first row is Chinese, English"
)

_COUNTED = 20_000  # pairs whose words are counted
_OFTEN = 3  # times


class Counts(NamedTuple):
    """The size of a text."""

    pairs: int
    tgt_tokens: int  # estimated
    characters: tuple[int, int]  # different ones on each side
    words: tuple[int, int]  # of each side, in the first pairs, that occur three times or more


@dataclass(frozen=True)
class OwnText:
    """A user's text.

    Attributes:
        name: of the run.
        source: as it stands under `data.train`.
        note: what was taken for what, in one line.
    """

    name: str
    source: str | dict[str, Any]
    languages: Languages
    counts: Counts
    note: str

    def is_as_long_as(self, start: Path) -> bool:
        """Whether the settings of an earlier start were made for as many sentence pairs."""
        numbers = re.findall(r"\d[\d,]*", start.read_text(encoding="utf-8").partition("\n")[0])
        return not numbers or f"{self.counts.pairs:,}" in numbers


def read_own_text(paths: Sequence[Path]) -> OwnText:
    """Find languages and size of two text files, of one table or of one translation memory.

    Raises:
        DataError: missing, unreadable or misaligned files, or languages that nothing tells or that
            stand on the wrong sides.
    """
    whole = [path for path in paths if tells_languages(path)]
    if len(paths) > 1 and whole:
        raise ConfigError(tr("{}: holds both sides; give it alone", whole[0]))
    if len(paths) != 2 and not whole:
        raise ConfigError(
            tr(
                "give a configuration, two text files, or one with both sides: "
                "CSV, TSV, XLSX, TMX, XLIFF"
            )
        )
    languages = tell_languages(paths, remedy=_REMEDY)
    both = tr(" and ").join(map(str, paths))
    src, tgt = map(language_name, (languages.src, languages.tgt))
    samples = [] if is_memory(paths[0]) else first_texts(paths)
    if list(map(identify, samples)) == [languages.tgt, languages.src]:
        shown = "; ".join(texts[0][:40] for texts in samples)
        raise DataError(
            tr(
                "{}: the sides look swapped: what is called {} is {}, and what is "
                "called {} is {} ({}); change their names",
                both,
                languages.src,
                tgt,
                languages.tgt,
                src,
                shown,
            )
        )
    source: str | dict[str, Any] = {"files": list(map(str, paths))}
    if len(paths) == 1:
        source = {"path": both} if ":" in both else both
        both += "" if is_memory(paths[0]) else f": {layout_of(paths[0]).describe()}"
    counts = _count(source, languages)
    stem = paths[0].name.partition(".")[0]
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-._") or "my"
    if not counts.pairs:
        raise DataError(tr("{}: there is no text; the format is one sentence per line", both))
    note = tr("{}: {} → {}, sentence pairs: {:,}", both, src, tgt, counts.pairs)
    return OwnText(name, source, languages, counts, note)


def check_is_of(own: OwnText, start: Path) -> Config:
    """The settings of an earlier start. Raises: ConfigError: they are of another text."""
    kept, wanted = load_config(start), Source.model_validate(own.source)
    texts = [_absolute(source) for source in kept.data.train]
    if kept.languages != own.languages or _absolute(wanted) not in texts:
        raise ConfigError(
            tr(
                "{}: is of another text: {}; name another run directory: --run-dir DIR",
                start,
                ", ".join(map(str, kept.data.train)),
            )
        )
    return kept


def _absolute(source: Source) -> list[str]:
    """Its files, wherever they are named from."""
    return list(map(os.path.abspath, source.files or [source.path or ""]))


def _count(source: str | dict[str, Any], languages: Languages) -> Counts:
    n_pairs = tgt_tokens = 0
    n_returns = [0, 0]
    characters: tuple[set[str], set[str]] = set(), set()
    counts: tuple[Counter[str], Counter[str]] = Counter(), Counter()
    codes = languages.src, languages.tgt
    per_character = tokens_per_character(languages.tgt)
    spec = Source.model_validate(source)
    for pair in read_pairs(spec, languages, root=Path(), role="train"):
        n_pairs += 1
        tgt_tokens += 1 + round(len(pair[1]) * per_character)
        for side, text in enumerate(pair):
            n_returns[side] += text.count("\r") - text.count("\r\n")
            characters[side].update(text)
            if n_pairs <= _COUNTED and not is_unspaced(codes[side]):
                counts[side].update(words(text, codes[side]))
    if spec.files and (problems := carriage_returns(n_returns, n_pairs)):
        raise DataError("\n".join(problems))
    src, tgt = (sum(n >= _OFTEN for n in side.values()) for side in counts)
    return Counts(n_pairs, tgt_tokens, (len(characters[0]), len(characters[1])), (src, tgt))


def make_start(
    own: OwnText, *, minutes: float | None, processes: int, overrides: Iterable[str] = ()
) -> str:
    """The YAML of an experiment to start with, with a reason behind each setting.

    Args:
        minutes: of training, for which some updates are timed; None: it ends by their number.
        overrides: as `--set` has them; what is chosen suits them.
    """
    advise = partial(
        starting_point,
        characters=own.counts.characters,
        words=own.counts.words,
        device=kind_of_device(),
    )
    size = own.counts.pairs, own.counts.tgt_tokens
    cfg = _as_asked(own, advise(*size, languages=own.languages), overrides)
    kept = kept_settings(cfg, overrides)
    kept.pop("train.max_minutes", None)  # the time may change later, and the settings stay
    size = size[0], size[1] * len(both_directions(cfg.languages))  # the text stays the same
    advise = partial(advise, *size, languages=cfg.languages, kept=kept)
    if minutes is None:
        return "\n".join(_lines(own, advise())) + "\n"
    cfg = apply_advice(cfg, advise(), on_defaults=False)
    with ShownStages() as stages:
        budget = measure_budget(cfg, minutes, processes, *size, stages, kept)
    return "\n".join(_lines(own, advise(budget=budget))) + "\n"


def _as_asked(own: OwnText, advice: Iterable[Advice], overrides: Iterable[str]) -> Config:
    """The settings of the user, with advice for others that contradicts none of them."""
    data = {"root": ".", "train": [own.source]}
    tree: dict[str, Any] = {"name": own.name, "languages": own.languages.model_dump(), "data": data}
    for a in advice:
        if a.key not in ("tokenizer.vocab_size", "model.architecture"):
            section, name = a.key.split(".")
            tree.setdefault(section, {})[name] = a.value
    return changed_config(tree, own.name, overrides)


def follows(cfg: Config, overrides: Iterable[str]) -> bool:
    """Whether it has the user's settings on which others depend that were chosen for it."""
    named = dict(flattened(dict(map(parse_setting, overrides))))
    return all(attrgetter(key)(cfg) == named[key] for key in DECIDING if key in named)


def _lines(own: OwnText, advice: list[Advice]) -> Iterator[str]:
    yield tr("# {}.", own.note)
    yield tr("# Settings to start from: the score on dev decides. Every key: tmt config base.")
    yield f"name: {flow_yaml(own.name)}"
    yield f"languages: {{src: {own.languages.src}, tgt: {own.languages.tgt}}}"
    yield "data:"
    folder = tr("paths are relative to the folder that tmt is started in")
    yield f"  root: .                     # {folder}"
    yield f"  train: {flow_yaml([own.source])}  # " + tr("dev and test are held out of it")
    section = ""
    for key, value, why in advice:
        name, _, rest = key.partition(".")
        if name != section:
            yield f"{name}:"
            section = name
        yield f"  {f'{rest}: {flow_yaml(value)}':<31} # {re.split(': |：', why)[0]}"
