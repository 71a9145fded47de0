"""Whether an exported model translates as the one it was made from."""

from collections.abc import Sequence

from transformer_mt.search.engine import SearchEngine
from transformer_mt.translation.translator import Translator

ENOUGH = 0.99  # of the translations, in the precision of the model


def count_equal(translator: Translator, engine: SearchEngine, texts: Sequence[str]) -> int:
    """Translate with both, greedily: no length rule and no pruning can hide a wrong weight."""
    engines = translator, translator.with_engine(engine)
    mine, theirs = (t.translate(texts, to=None, beam=1) for t in engines)
    return sum(one.text == two.text for one, two in zip(mine, theirs, strict=True))
