"""Own files → an experiment: languages told from the text, settings by its size and the minutes.

Comes in: two text files, or one table. Goes out: the YAML of an experiment with a reason beside
each setting. Nothing is trained or written.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from transformer_mt.config.data import Languages, Source
from transformer_mt.config.experiment import Config
from transformer_mt.config.recipes import Advice, apply_advice, starting_point
from transformer_mt.config.yaml_text import flow_yaml
from transformer_mt.corpus.readers.lines import split_lines
from transformer_mt.corpus.readers.pairs import read_pairs
from transformer_mt.corpus.readers.spreadsheets import layout_of, read_columns
from transformer_mt.corpus.readers.tables import language_of
from transformer_mt.errors import ConfigError, DataError
from transformer_mt.system.device import choose_device
from transformer_mt.text.identify import identify
from transformer_mt.text.languages import is_unspaced, language_name

_LOOKED_AT = 500  # lines of each side, for its language
_MEASURED = 3  # updates
_LENGTH = 20  # tokens of a sentence, in the updates that are measured
_Samples = tuple[list[str], list[str]]


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
    pairs: int
    tgt_tokens: int  # estimated
    characters: tuple[int, int]  # different ones on each side
    note: str


def read_own_text(paths: Sequence[Path]) -> OwnText:
    """Find languages and size of two text files or of one table.

    Raises:
        DataError: missing, unreadable or misaligned files, or a language that nothing tells.
    """
    if len(paths) == 1:
        layout = layout_of(paths[0], None)
        rows = list(islice(read_columns(paths[0], layout), _LOOKED_AT))
        samples = [src for src, _ in rows], [tgt for _, tgt in rows]
        told: Sequence[str | None] = layout.codes or (None, None)
        source: str | dict[str, Any] = str(paths[0])
        note = f"{paths[0]}: {layout.describe()}"
    elif len(paths) == 2:
        first, second = (list(islice(split_lines(path), _LOOKED_AT)) for path in paths)
        samples = first, second
        told = [language_of(path.suffix.removeprefix(".")) for path in paths]
        source = {"files": list(map(str, paths))}
        note = " and ".join(map(str, paths))
    else:
        raise ConfigError("give a configuration, two text files, or one table (CSV, TSV, XLSX)")
    codes = _languages(paths, samples, told)
    languages = Languages(src=codes[0], tgt=codes[1])
    pairs, tokens, characters = _count(source, languages)
    name = paths[0].name.partition(".")[0] or "my"
    names = " → ".join(map(language_name, codes))
    note = f"{note}: {names}, {pairs:,} pairs"
    return OwnText(name, source, languages, pairs, tokens, characters, note)


def _languages(
    paths: Sequence[Path], samples: _Samples, told: Sequence[str | None]
) -> tuple[str, str]:
    """The code of each side: the one that its name tells, unless the text tells another.

    Raises:
        DataError: a side whose language is not told, or both of the same.
    """
    found = [identify(texts) for texts in samples]
    if None not in told and tuple(found) == (told[1], told[0]):
        shown = "; ".join(texts[0][:40] for texts in samples if texts)
        raise DataError(
            f"{' and '.join(map(str, paths))}: the sides look swapped: what is called {told[0]} is "
            f"{language_name(str(found[0]))}, and what is called {told[1]} is "
            f"{language_name(str(found[1]))} ({shown}); change their names"
        )
    codes = [named or seen for named, seen in zip(told, found, strict=True)]
    if None in codes or codes[0] == codes[1]:
        raise DataError(
            f"{' and '.join(map(str, paths))}: the languages are not clear (found "
            f"{' and '.join(str(code or 'nothing') for code in codes)}); name them: files such as "
            "my.zh and my.en, or a table whose first row is Chinese, English"
        )
    return str(codes[0]), str(codes[1])


def _count(source: str | dict[str, Any], languages: Languages) -> tuple[int, int, tuple[int, int]]:
    """Pairs, a guess at their target tokens, and the different characters of each side."""
    pairs = tokens = 0
    characters: tuple[set[str], set[str]] = set(), set()
    per_character = 0.7 if is_unspaced(languages.tgt) else 0.25
    spec = Source.model_validate(source)
    for pair in read_pairs(spec, languages, root=Path(), role="train"):
        pairs += 1
        tokens += 1 + round(len(pair[1]) * per_character)
        for seen, text in zip(characters, pair, strict=True):
            seen.update(text)
    return pairs, tokens, (len(characters[0]), len(characters[1]))


def starting_config(
    own: OwnText, *, device: str, minutes: float | None, processes: int
) -> tuple[Config, list[Advice]]:
    """The settings to start with, and the reason of each; with minutes, some updates are timed."""
    advise = partial(
        starting_point,
        own.pairs,
        own.tgt_tokens,
        characters=own.characters,
        languages=own.languages,
        device=device,
        minutes=minutes,
    )
    advice = advise()
    cfg = apply_advice(_bare_config(own), advice)
    if minutes is not None:
        updates = round(60 * minutes * processes / seconds_per_update(cfg))
        advice = advise(updates=max(1, updates))
        cfg = apply_advice(_bare_config(own), advice)
    return cfg, advice


def _bare_config(own: OwnText) -> Config:
    return Config.model_validate(
        {
            "name": own.name,
            "languages": own.languages,
            "data": {"root": ".", "train": [own.source]},
        }
    )


def seconds_per_update(cfg: Config) -> float:
    """Time of an update in this process: the fastest of some, of a model with random weights."""
    import torch

    from transformer_mt.encoding.tokenizer import PAD_ID
    from transformer_mt.model.transformer import Transformer, resolve_tying
    from transformer_mt.training.batches import Batch
    from transformer_mt.training.micro_batch import Learner

    sizes = cfg.tokenizer.vocab_sizes
    model_cfg = resolve_tying(cfg.model, joint=cfg.tokenizer.joint)
    learner = Learner(Transformer(model_cfg, *sizes, pad_id=PAD_ID), cfg.train)
    rows = max(1, cfg.train.tokens_per_update // _LENGTH)
    src = torch.randint(4, min(sizes), (rows, _LENGTH), device=learner.device)
    times = []
    for _ in range(_MEASURED):
        started = time.perf_counter()
        learner.add_gradients(Batch(src, src, src))
        learner.optimizer.step(1e-9, rows * _LENGTH)
        times.append(time.perf_counter() - started)
    return min(times)


def make_start(own: OwnText, *, minutes: float | None, processes: int) -> str:
    """The YAML of an experiment to start with, with a reason behind each setting."""
    device = "cpu" if choose_device().type == "cpu" else "cuda"
    _, advice = starting_config(own, device=device, minutes=minutes, processes=processes)
    return "\n".join(_lines(own, advice)) + "\n"


def _lines(own: OwnText, advice: list[Advice]) -> Iterator[str]:
    yield f"# {own.note}."
    yield "# Settings to start from: the score on dev decides. Every key: tmt config base."
    yield f"name: {flow_yaml(own.name)}"
    yield f"languages: {{src: {own.languages.src}, tgt: {own.languages.tgt}}}"
    yield "data:"
    yield "  root: .                     # paths are relative to the folder that tmt is started in"
    yield f"  train: [{flow_yaml(own.source)}]  # dev and test are held out of it"
    section = ""
    for key, value, why in advice:
        name, _, rest = key.partition(".")
        if name != section:
            yield f"{name}:"
            section = name
        yield f"  {f'{rest}: {flow_yaml(value)}':<28}# {why.partition(': ')[0]}"
