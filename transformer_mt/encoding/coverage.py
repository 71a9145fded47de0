"""A tokenizer and text → how well sub-words, and the words of the training text, cover dev."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from transformer_mt.corpus.readers.lines import split_lines
from transformer_mt.corpus.report.profile import VocabularyReport, word_counts
from transformer_mt.encoding.tokenizer import Tokenizer
from transformer_mt.text.languages import is_unspaced


@dataclass(frozen=True)
class CoverageTask:
    """The arguments of `vocabulary_report`, with the text in files."""

    tokenizer: Path  # of one side, as the next two
    train: Path
    dev: Path
    step: int  # lines of train from one that is read to the next
    code: str  # of the language


def coverage_of_files(task: CoverageTask) -> VocabularyReport:
    """`vocabulary_report` as a function for another process, whose memory goes with it."""
    train = list(islice(split_lines(task.train), 0, None, task.step))
    dev = list(split_lines(task.dev))
    return vocabulary_report(Tokenizer.load(task.tokenizer), train, dev, task.code)


def vocabulary_report(
    tokenizer: Tokenizer, train_texts: Sequence[str], dev_texts: Sequence[str], code: str
) -> VocabularyReport:
    """Measure a tokenizer on dev, and how much of dev the training text, or a sample, has shown."""
    unspaced = is_unspaced(code)
    dev, train = (word_counts(texts, unspaced) for texts in (dev_texts, train_texts))
    n_units = sum(dev.values())
    tokens = list(chain.from_iterable(tokenizer.encode(dev_texts)))
    n_characters = sum(map(len, dev_texts))
    known = [unit for unit in dev if unit in train]
    return VocabularyReport(
        vocab_size=tokenizer.vocab_size,
        unknown_rate=tokenizer.unknown_rate(tokens),
        byte_rate=tokenizer.byte_rate(tokens),
        tokens_per_word=None if unspaced else len(tokens) / max(1, n_units),
        tokens_per_character=len(tokens) / max(1, n_characters),
        type_coverage=len(known) / max(1, len(dev)),
        token_coverage=sum(dev[unit] for unit in known) / max(1, n_units),
    )
