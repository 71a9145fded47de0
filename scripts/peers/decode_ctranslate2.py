"""CTranslate2 with the weights of a tmt model. See `decoding.py`.

python decode_ctranslate2.py TASK.json
"""

import ctranslate2
from decoding import read_task, report


def main() -> None:
    task = read_task()
    translator = ctranslate2.Translator(
        task["ctranslate2"],
        compute_type=task["compute_type"],
        inter_threads=task["workers"],
        intra_threads=task["threads"] // task["workers"],
    )

    size = task["batch"]
    if task["workers"] > 1:
        task["batch"] = len(task["pieces"])  # they take their batches from one call

    def translate(batch: list[list[str]]) -> int:
        found = translator.translate_batch(
            batch,
            beam_size=task["beam"],
            min_decoding_length=task["length"],
            max_decoding_length=task["length"],
            max_batch_size=size,
        )
        return sum(len(result.hypotheses[0]) for result in found)

    report(task, task["pieces"], translate)


if __name__ == "__main__":
    main()
