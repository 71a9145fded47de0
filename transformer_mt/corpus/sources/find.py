"""Two languages → the public corpora and test sets in them, by the names that `data` takes."""

from dataclasses import dataclass

from transformer_mt.config.data import Languages
from transformer_mt.corpus.sources.opus import list_corpora
from transformer_mt.corpus.sources.sacrebleu_sets import list_test_sets


@dataclass(frozen=True)
class PublicCorpus:
    """Attributes:
    name: as `data.train` or `data.test` take it.
    role: train or test.
    pairs, size: sentences, and bytes to download; None: not known before it is fetched.
    """

    name: str
    role: str
    pairs: int | None
    size: int | None


def find_corpora(languages: Languages) -> list[PublicCorpus]:
    """The corpora of OPUS, the largest first, and the test sets of sacreBLEU.

    Raises:
        DataError: OPUS cannot be asked.
    """
    return [
        *(
            PublicCorpus(f"opus:{corpus.name}", "train", corpus.pairs, corpus.size)
            for corpus in list_corpora(languages)
        ),
        *(
            PublicCorpus(f"sacrebleu:{name}", "test", None, None)
            for name in list_test_sets(languages)
        ),
    ]
