"""Want of memory: errors that mean it, and a micro-batch that did not fit, split in two."""

import numpy as np
import torch

from transformer_mt.encoding.encoded_corpus import EncodedCorpus, Indices
from transformer_mt.errors import TrainingError
from transformer_mt.messages.catalogue import tr


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation has failed, on a GPU or in the memory of the machine."""
    of_the_cpu = isinstance(error, RuntimeError) and "DefaultCPUAllocator: can't" in str(error)
    return of_the_cpu or isinstance(error, torch.OutOfMemoryError | MemoryError)


def halves(rows: Indices, corpus: EncodedCorpus) -> list[Indices]:
    """Split a micro-batch that did not fit into memory in two, in order.

    Raises:
        TrainingError: the micro-batch is a single sentence.
    """
    if len(rows) > 1:
        return np.array_split(rows, 2)
    sides = [int(side.lengths_of(rows)[0]) for side in (corpus.src, corpus.tgt)]
    text = tr(
        "pair {} of the encoded corpus does not fit into memory, even alone: {} source and {} "
        "target tokens. Set data.max_length below {}, make the model smaller, or end other "
        "programs that use memory", rows[0], *sides, max(sides),
    )  # fmt: skip
    raise TrainingError(text)
