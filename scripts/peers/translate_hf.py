"""Hugging Face's beam search on ids: what it finds, with scores.

    python translate_hf.py TASK.json

A task: marian (directory), sentences (source ids without EOS), beam, max_length, n_best. Prints per
sentence a list of [ids without BOS and EOS, score], best first, as one JSON array.
"""

import json

import torch
from decoding import read_task
from torch.nn.utils.rnn import pad_sequence
from transformers import MarianMTModel

PAD_ID, EOS_ID = 0, 3
BATCH = 50


def main() -> None:
    task = read_task()
    model = MarianMTModel.from_pretrained(task["marian"], dtype=torch.float32).eval()
    n_best, found = task["n_best"], []
    for start in range(0, len(task["sentences"]), BATCH):
        rows = [torch.tensor([*src, EOS_ID]) for src in task["sentences"][start : start + BATCH]]
        src = pad_sequence(rows, batch_first=True, padding_value=PAD_ID)
        with torch.inference_mode():
            output = model.generate(
                src,
                attention_mask=src != PAD_ID,
                num_beams=task["beam"],
                num_return_sequences=n_best,
                max_new_tokens=task["max_length"],
                length_penalty=1.0,
                early_stopping=True,
                do_sample=False,
                bad_words_ids=[[PAD_ID]],
                output_scores=True,
                return_dict_in_generate=True,
            )
        hypotheses = [
            [id_ for id_ in ids if id_ not in (PAD_ID, EOS_ID)]
            for ids in output.sequences[:, 1:].tolist()
        ]
        scored = list(zip(hypotheses, output.sequences_scores.tolist(), strict=True))
        found += [scored[i : i + n_best] for i in range(0, len(scored), n_best)]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
