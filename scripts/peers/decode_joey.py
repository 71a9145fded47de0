"""JoeyNMT's search, with random weights: the forced length makes its speed the same.

python decode_joey.py TASK.json

See `decoding.py`.
"""

import random
from types import SimpleNamespace
from typing import Any

import torch
from decoding import read_task, report
from joey_driver import SPECIAL, model_settings
from joeynmt.model import build_model
from joeynmt.search import search
from joeynmt.vocabulary import Vocabulary

PAD_ID, EOS_ID = 1, 3


def model_of(task: dict[str, Any]) -> Any:
    size = task["model"]
    words = [f"w{i}" for i in range(size["vocab_size"] - 4)]
    symbols = SimpleNamespace(**SPECIAL, sep_token=None, sep_id=None, lang_tags=[])
    vocabulary = Vocabulary(words, symbols)
    cfg = model_settings({**size, "dropout": 0.0})
    return build_model(cfg, src_vocab=vocabulary, trg_vocab=vocabulary).eval()


def main() -> None:
    task = read_task()
    torch.set_num_threads(task["threads"])
    random.seed(1)
    torch.manual_seed(1)
    model = model_of(task)

    def translate(batch: list[list[int]]) -> int:
        rows = [torch.tensor([max(4, id_) for id_ in src] + [EOS_ID]) for src in batch]
        src = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD_ID)
        inputs = SimpleNamespace(
            src=src,
            src_mask=(src != PAD_ID).unsqueeze(1),
            src_length=torch.tensor([len(row) for row in rows]),
            has_trg=False,
            trg_prompt_mask=None,
        )
        found, _, _ = search(
            model,
            inputs,
            max_output_length=task["length"],
            beam_size=task["beam"],
            beam_alpha=1.0,
            min_output_length=task["length"] + 1,
        )
        return int(found.shape[0] * found.shape[1])

    report(task, task["sentences"], translate)


if __name__ == "__main__":
    main()
