"""Whether an exported model translates as the one it was made from.

Comes in: a translator, an engine with the exported weights, texts. Goes out: how often they agree.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from transformer_mt.search.engine import SearchEngine
from transformer_mt.translation.translator import Translator

ENOUGH = 0.99  # of the translations, in the precision of the model


@dataclass(frozen=True)
class Agreement:
    n_texts: int
    n_equal: int

    @property
    def share(self) -> float:
        return self.n_equal / self.n_texts


def compare_engines(
    translator: Translator, engine: SearchEngine, texts: Sequence[str]
) -> Agreement:
    """Translate with both, greedily: no length rule and no pruning can hide a wrong weight."""
    engines = translator, translator.with_engine(engine)
    mine, theirs = (t.translate(texts, to=None, beam=1) for t in engines)
    equal = sum(one.text == two.text for one, two in zip(mine, theirs, strict=True))
    return Agreement(len(texts), equal)
