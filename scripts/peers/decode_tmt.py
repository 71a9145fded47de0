"""tmt's own engine, on ids. See `decoding.py`.

python decode_tmt.py TASK.json
"""

import os
from pathlib import Path

from transformer_mt.system.processes.environment import DEFAULTS

os.environ.update(DEFAULTS | dict(os.environ))  # as the command does, before torch is loaded

import torch
from decoding import read_task, report

from transformer_mt.model.int8 import use_int8
from transformer_mt.model_dir import load_model_dir
from transformer_mt.search.engine import Engine, Request
from transformer_mt.search.options import SearchOptions
from transformer_mt.system.device import keep_memory, search_precision


def main() -> None:
    task = read_task()
    torch.set_num_threads(task["threads"])
    keep_memory()
    loaded = load_model_dir(Path(task["tmt"]))
    cpu = torch.device("cpu")
    dtype, is_int8 = search_precision(task["precision"], cpu)
    if is_int8:
        use_int8(loaded.model)
    engine = Engine([loaded.model.to(cpu, dtype)], loaded.tokenizers[1].silent_ids)
    most = task["length"] - 1  # beside EOS: as many steps as the others make
    options = SearchOptions(beam=task["beam"], min_length=most, max_length=most)

    def translate(batch: list[list[int]]) -> int:
        found = engine.search([Request(src) for src in batch], options)
        return sum(len(best.ids) for best, *_ in found)

    report(task, task["sentences"], translate)


if __name__ == "__main__":
    main()
