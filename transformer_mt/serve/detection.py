"""Languages as clients name them, and the language of a text."""

from collections.abc import Sequence

from transformer_mt.errors import ConfigError
from transformer_mt.serve.limits import Refused
from transformer_mt.text.languages import canonical_code, is_chinese

_LONGEST_LANGUAGE = 100  # characters: Unicode's normal forms of long texts can take minutes


def detect(texts: Sequence[str], codes: Sequence[str] = ()) -> tuple[str | None, float]:
    """The language of texts, and how sure that is, in percent; 0 with None.

    Args:
        codes: the likeliest of these, however few letters there are; none: any language.
    """
    from transformer_mt.text.identify import identified, likeliest

    code, probability = likeliest(texts, codes) if codes else identified(texts)
    return code, round(100 * probability, 1)


def code_of(language: str) -> str:
    try:
        return canonical_code(language[:_LONGEST_LANGUAGE])
    except ConfigError as error:
        raise Refused(400, str(error)) from error


def near(code: str | None, codes: Sequence[str]) -> str | None:
    """The language of a model for a code: itself, or Chinese in its other script."""
    if code in codes or code is None or not is_chinese(code):
        return code if code in codes else None
    return next(filter(is_chinese, codes), None)
