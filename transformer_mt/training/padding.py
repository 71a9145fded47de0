"""Sentence pairs of an encoded corpus as padded token ids on a device.

Comes in: rows of a corpus. Goes out: `Batch`es. This file knows no plan and no model.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from transformer_mt.encoding.encoded_corpus import EncodedCorpus, EncodedSide, Indices
from transformer_mt.encoding.tokenizer import BOS_ID, PAD_ID

GPU_MULTIPLE = 4  # of padded lengths on a GPU: operations are recorded for each shape


@dataclass(frozen=True)
class Batch:
    """Padded token ids of some sentences; PAD_ID to the right."""

    src: Tensor  # (B, S) int64, each row ends with EOS
    tgt_in: Tensor  # (B, T) int64, each row starts with BOS
    tgt_out: Tensor  # (B, T) int64, each row ends with EOS
    # (n,) int64, flat positions in `tgt_out` that are not padding. None on a GPU, where operations
    # are recorded for each shape and must not depend on the content.
    real: Tensor | None = None

    @property
    def tensors(self) -> list[Tensor]:
        return [ids for ids in vars(self).values() if ids is not None]

    def map(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        return Batch(*map(change, self.tensors))

    def to(self, device: torch.device) -> "Batch":
        return self.map(partial(Tensor.to, device=device, non_blocking=True))


def collate(corpus: EncodedCorpus, rows: Indices, *, multiple: int = 1) -> Batch:
    """Pad some rows of a corpus into a batch, without a Python object per row.

    Args:
        multiple: padded lengths are multiples of it. Above 1, for a GPU: fewer shapes, and no
            `Batch.real`.
    """
    src, tgt_out = (_pad(side, rows, multiple) for side in (corpus.src, corpus.tgt))
    tgt_in = np.roll(tgt_out, 1, axis=1)
    tgt_in[:, 0] = BOS_ID
    # EOS is the last real token of `tgt_out`; one step later it must not be read as input.
    lengths = corpus.tgt.lengths_of(rows)
    tgt_in[np.arange(tgt_in.shape[1]) >= lengths[:, None]] = PAD_ID
    real = [np.flatnonzero(tgt_out != PAD_ID)] if multiple == 1 else []
    return Batch(*map(torch.from_numpy, (src, tgt_in, tgt_out, *real)))


def collated(
    corpus: EncodedCorpus, parts: Iterable[Indices], device: torch.device, thread: Executor | None
) -> Iterator[Batch]:
    """Micro-batches on a device, one after the other.

    Args:
        thread: begins to pad all of them at once, and so works while a GPU does; None: each is
            padded when it is asked for.
    """
    on_gpu = device.type == "cuda"

    def work(rows: Indices) -> Batch:
        batch = collate(corpus, rows, multiple=GPU_MULTIPLE if on_gpu else 1)
        return batch.map(Tensor.pin_memory) if on_gpu else batch  # for asynchronous copies

    batches = thread.map(work, parts) if thread else map(work, parts)
    return (batch.to(device) for batch in batches)


def _pad(side: EncodedSide, rows: Indices, multiple: int) -> Indices:
    """(B, longest) ids, PAD_ID to the right."""
    starts, lengths = side.offsets[rows][:, None], side.lengths_of(rows)[:, None]  # (B, 1)
    columns = np.arange(-(-lengths.max() // multiple) * multiple)
    real = columns < lengths  # (B, longest)
    padded = np.full(real.shape, PAD_ID, dtype=np.int64)
    padded[real] = side.ids[(starts + columns)[real]]
    return padded
