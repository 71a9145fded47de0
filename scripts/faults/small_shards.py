"""`tmt` with shards of some dozens of pairs, so that a toy corpus is prepared by several processes.

Its workers are given their parts and need no such change: they load `transformer_mt` as it is.
"""

from transformer_mt.cli.main import main
from transformer_mt.corpus.cleaning import score as scoring
from transformer_mt.encoding import encoded_corpus as dataset

if __name__ == "__main__":
    dataset.SHARD = 40
    scoring.SHARD_PAIRS = 40
    main()
