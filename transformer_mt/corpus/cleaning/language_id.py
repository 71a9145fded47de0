"""Text → the probability that it is in another language than it should be, by py3langid.

Comes in: one normalised text at a time. Goes out: a probability. This file does not know pairs.
"""

from transformer_mt.errors import ConfigError

_MOST_CHARACTERS = 5000  # looked at; the library normalises marks in quadratic time
MIN_LETTERS = 20  # a word or two of names tells nothing

# Languages that pollute corpora. Among all languages of the model, names and technical terms would
# pull short English towards languages that no corpus holds.
_CANDIDATES = (
    "ar cs da de el en es fa fi fr he hi hu id it ja ko nl no pl pt ro ru sv th tr uk vi zh".split()
)


class ForeignLanguage:
    """text → probability, 0 to 1, that it is in another language than the one given.

    Raises:
        ConfigError: py3langid is not installed, or does not know the language.
    """

    def __init__(self, language: str) -> None:
        try:
            from py3langid.langid import MODEL_FILE, LanguageIdentifier
        except ImportError as error:
            raise ConfigError(
                "data.clean.language needs the package py3langid, which is not installed; "
                "run pip install 'transformer-mt[langid]', or set it to false"
            ) from error
        self._language = language
        self._label = language.partition("-")[0]  # zh-Hant is zh
        self._identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
        if self._label not in self._identifier.labels:
            raise ConfigError(
                f"data.clean.language: py3langid does not know the language {language}; "
                "set it to false"
            )
        self._identifier.set_languages({*_CANDIDATES, self._label})

    def __reduce__(self) -> tuple[type["ForeignLanguage"], tuple[str]]:
        return ForeignLanguage, (self._language,)

    def __call__(self, text: str) -> float:
        probabilities = dict(self._identifier.rank(text[:_MOST_CHARACTERS]))
        return 1.0 - probabilities[self._label]
