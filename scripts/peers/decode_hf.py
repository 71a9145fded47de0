"""Hugging Face's `generate` with the weights of a tmt model. See `decoding.py`.

python decode_hf.py TASK.json
"""

import torch
from decoding import read_task, report
from torch.nn.utils.rnn import pad_sequence
from transformers import MarianMTModel

PAD_ID, EOS_ID = 0, 3


def main() -> None:
    task = read_task()
    torch.set_num_threads(task["threads"])
    dtype = torch.bfloat16 if task["precision"] == "bf16" else torch.float32
    model = MarianMTModel.from_pretrained(task["marian"], dtype=dtype).eval()

    def translate(batch: list[list[int]]) -> int:
        rows = [torch.tensor([*src, EOS_ID]) for src in batch]
        src = pad_sequence(rows, batch_first=True, padding_value=PAD_ID)
        with torch.inference_mode():
            found = model.generate(
                src,
                attention_mask=src != PAD_ID,
                num_beams=task["beam"],
                min_new_tokens=task["length"],
                max_new_tokens=task["length"],
                do_sample=False,
            )
        return found[:, 1:].numel()

    report(task, task["sentences"], translate)


if __name__ == "__main__":
    main()
