"""What a tutorial writes: `nn.Transformer`, batches of so many sentences in random order, Adam.

    python naive_driver.py TASK.json

Runs in tmt's own environment; see `tools.py` for the task. Shapes are (length, batch), the layout
that the module takes by default.
"""

import json
import math
import sys
from pathlib import Path
from typing import Any

import torch
from sentencepiece import SentencePieceProcessor
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader
from update_log import UpdateLog, count_real

PAD, BOS, EOS = 0, 2, 3
LONGEST = 512


class Translator(nn.Module):
    def __init__(self, size: dict[str, Any], vocab_size: int) -> None:
        super().__init__()
        d_model = size["d_model"]
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.dropout = nn.Dropout(size["dropout"])
        self.transformer = nn.Transformer(
            d_model, size["heads"], size["layers"], size["layers"], size["ffn"], size["dropout"]
        )
        self.output = nn.Linear(d_model, vocab_size)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
        self.output.weight = self.embedding.weight
        angles = torch.arange(LONGEST)[:, None] * torch.exp(
            torch.arange(0, d_model, 2) * (-math.log(10_000) / d_model)
        )
        positions = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        self.register_buffer("positions", positions[:, None])  # (LONGEST, 1, D)

    def embed(self, ids: Tensor) -> Tensor:
        scaled = self.embedding(ids) * math.sqrt(self.embedding.embedding_dim)
        return self.dropout(scaled + self.positions[: len(ids)])

    def forward(self, src: Tensor, tgt_in: Tensor) -> Tensor:
        future = torch.ones(len(tgt_in), len(tgt_in), dtype=torch.bool).triu(1)
        hidden = self.transformer(
            self.embed(src),
            self.embed(tgt_in),
            tgt_mask=future,
            src_key_padding_mask=(src == PAD).T,
            tgt_key_padding_mask=(tgt_in == PAD).T,
            memory_key_padding_mask=(src == PAD).T,
        )
        return self.output(hidden)  # (T, B, V)


def read_side(path: str, pieces: SentencePieceProcessor, *, bos: bool) -> list[Tensor]:
    lines = Path(path).read_text(encoding="utf-8").rstrip("\n").split("\n")
    return [torch.tensor(ids) for ids in pieces.encode(lines, add_bos=bos, add_eos=True)]


def pad(pairs: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    src, tgt = zip(*pairs, strict=True)
    return pad_sequence(src, padding_value=PAD), pad_sequence(tgt, padding_value=PAD)


def main() -> None:
    task = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    torch.manual_seed(1)
    pieces = SentencePieceProcessor(model_file=task["tokenizer"])
    sides = read_side(task["src"], pieces, bos=False), read_side(task["tgt"], pieces, bos=True)
    pairs = [
        (src, tgt)
        for src, tgt in zip(*sides, strict=True)
        if max(len(src), len(tgt)) <= task["max_length"]
    ]
    model = Translator(task["model"], pieces.get_piece_size()).train()
    loss_of = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9)
    log = UpdateLog(task["log"])
    while True:
        for src, tgt in DataLoader(pairs, task["sentences"], shuffle=True, collate_fn=pad):
            with torch.autocast("cpu", torch.bfloat16, enabled=task["precision"] == "bf16"):
                logits = model(src, tgt[:-1])
                loss = loss_of(logits.flatten(0, 1), tgt[1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            log.count(count_real(src, PAD), count_real(tgt[1:], PAD))
            log.end_update()


if __name__ == "__main__":
    main()
