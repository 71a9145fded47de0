"""A tokenizer and text → how well sub-words, and the words of the training text, cover dev."""

from collections.abc import Sequence

from transformer_mt.corpus.report.profile import VocabularyReport, word_counts
from transformer_mt.encoding.tokenizer import Tokenizer
from transformer_mt.text.languages import is_unspaced


def vocabulary_report(
    tokenizer: Tokenizer, train_texts: Sequence[str], dev_texts: Sequence[str], code: str
) -> VocabularyReport:
    """Measure a tokenizer on dev, and how much of dev the training text, or a sample, has shown."""
    unspaced = is_unspaced(code)
    dev, train = (word_counts(texts, unspaced) for texts in (dev_texts, train_texts))
    n_units = sum(dev.values())
    n_tokens = sum(map(len, tokenizer.encode(dev_texts)))
    n_characters = sum(map(len, dev_texts))
    known = [unit for unit in dev if unit in train]
    return VocabularyReport(
        vocab_size=tokenizer.vocab_size,
        unknown_rate=tokenizer.unknown_rate(dev_texts),
        byte_rate=tokenizer.byte_rate(dev_texts),
        tokens_per_word=None if unspaced else n_tokens / max(1, n_units),
        tokens_per_character=n_tokens / max(1, n_characters),
        type_coverage=len(known) / max(1, len(dev)),
        token_coverage=sum(dev[unit] for unit in known) / max(1, n_units),
    )
