"""What a user says about words, as sequences of ids: a beginning, banned and required words.

Comes in: strings in the target language. Goes out: ids. This file knows one tokenizer, no model and
no search.
"""

from collections.abc import Iterable

from transformer_mt.encoding.tokenizer import Tokenizer
from transformer_mt.errors import TmtError
from transformer_mt.text.languages import is_unspaced

# What a word may follow without a space; one of them does not melt into a piece with it.
_BEFORE = ("。", "，", "(", "-", "/")


class Wording:
    """Spells words of one language with the pieces of one tokenizer."""

    def __init__(self, tokenizer: Tokenizer, language: str) -> None:
        self._tokenizer = tokenizer
        self._spaced = not is_unspaced(language)

    def beginning(self, text: str) -> list[int]:
        """A text as translations begin with it."""
        return self._tokenizer.encode([text])[0]

    def required(self, word: str) -> list[int]:
        """A word as it stands within a sentence; [] if it has no pieces."""
        spaced = self._tokenizer.encode([word])[0]
        return spaced if self._spaced else self._inner(word) or spaced

    def insist_on_length(self, name: str, texts: Iterable[str], limit: int) -> None:
        """
        Args:
            name: of such a text, in messages.
            limit: tokens of the longest translations that the model has learned from.
        Raises:
            TmtError: one of the texts has more.
        """
        for text in texts:
            n_tokens = len(self.required(text)) if 4 * len(text) >= limit else 0  # 4 bytes at most
            if n_tokens > limit:
                shown = text if len(text) <= 40 else text[:40] + "…"
                raise TmtError(
                    f"the {name} {shown!r} has {n_tokens:,} tokens, and a sentence of this model "
                    f"at most {limit} (data.max_length): shorten it"
                )

    def banned(self, words: Iterable[str]) -> list[list[int]]:
        """The usual spellings of words: with a space before them and without, and capitalised.

        A model can still put a word together from smaller pieces; that is for the reader of the
        translation to see.
        """
        spellings = []
        for word in words:
            for form in {word: None, word.lower(): None, word[:1].upper() + word[1:]: None}:
                spellings += [self._tokenizer.encode([form])[0], self._inner(form)]
        return [list(ids) for ids in dict.fromkeys(map(tuple, spellings)) if ids]

    def _inner(self, word: str) -> list[int]:
        """Ids of a word with no space before it; [] if the tokenizer cannot spell that."""
        for before in _BEFORE:
            start, ids = self._tokenizer.encode([before, before + word])
            inner = ids[len(start) :]
            if ids[: len(start)] == start and self._tokenizer.decode([inner])[0] == word:
                return inner
        return []
