"""Words that a translation begins with, contains or lacks, as strings and as sequences of ids."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from transformer_mt.encoding.tokenizer import Tokenizer
from transformer_mt.errors import TmtError
from transformer_mt.messages.catalogue import tr
from transformer_mt.text.languages import is_unspaced
from transformer_mt.text.normalise import Normaliser
from transformer_mt.translation.glossary import Glossary

# A word may follow these without a space; one of them does not melt into a piece with it.
_BEFORE = ("。", "，", "(", "-", "/")


@dataclass(frozen=True)
class LexicalConstraints:
    prefix: str = ""  # the translation begins with it; of a long text, its first segment
    banned: Sequence[str] = ()  # words that do not occur
    glossary: Glossary | None = None  # source terms with their translations

    def required(self, text: str) -> list[str]:
        """Words that the translation of a source text contains."""
        return [] if self.glossary is None else self.glossary.required(text)


NO_CONSTRAINTS = LexicalConstraints()


class ConstraintEncoder:
    """Spells words of one language, in the forms of the training text, with one tokenizer."""

    def __init__(self, tokenizer: Tokenizer, language: str) -> None:
        self._tokenizer, self._normalise = tokenizer, Normaliser(language, None)
        self._spaced = not is_unspaced(language)

    def prefix(self, text: str) -> list[int]:
        """A text as translations begin with it."""
        return self._tokenizer.encode([self._normalise(text)])[0]

    def required(self, word: str) -> list[int]:
        """A word as it stands within a sentence; [] if it has no pieces."""
        word = self._normalise(word)
        spaced = self._tokenizer.encode([word])[0]
        return spaced if self._spaced else self._inner(word) or spaced

    def banned(self, words: Iterable[str]) -> list[list[int]]:
        """Usual spellings of words: after a space and without, capitalised; not all that exist."""
        spellings = []
        for word in map(self._normalise, words):
            for form in {word: None, word.lower(): None, word[:1].upper() + word[1:]: None}:
                spellings += [self._tokenizer.encode([form])[0], self._inner(form)]
        return [list(ids) for ids in dict.fromkeys(map(tuple, spellings)) if ids]

    def check_lengths(self, constraints: LexicalConstraints, limit: int) -> None:
        """Raises: TmtError: the prefix or a term has more tokens than translations can have."""
        terms = () if constraints.glossary is None else constraints.glossary.targets
        named = [
            (tr("prefix"), constraints.prefix),
            *((tr("glossary's term"), term) for term in terms),
        ]
        for name, text in named:
            n_tokens = len(self.required(text)) if 4 * len(text) >= limit else 0  # 4 bytes at most
            if n_tokens > limit:
                shown = text if len(text) <= 40 else text[:40] + "…"
                message = tr(
                    "the {} {!r} has {:,} tokens, and a sentence of this model at most {} "
                    "(data.max_length): shorten it",
                    name,
                    shown,
                    n_tokens,
                    limit,
                )
                raise TmtError(message)

    def _inner(self, word: str) -> list[int]:
        """Ids of a word with no space before it; [] if the tokenizer cannot spell that."""
        for before in _BEFORE:
            start, ids = self._tokenizer.encode([before, before + word])
            inner = ids[len(start) :]
            if ids[: len(start)] == start and self._tokenizer.decode([inner])[0] == word:
                return inner
        return []
