"""Whether other engines find what tmt finds, with the same weights and the same length rule.

    python scripts/peers/check_engines.py -m MODEL --src FILE [--venvs FOLDER] [--beam 5]

MODEL is a trained model directory. CTranslate2 takes any; with --venvs also Hugging Face's
`generate`, which needs the paper's post-norm (an environment of train_speed.py). Scores are mean
log-probabilities. Compared are the best hypothesis, token by token, its score, and the whole n-best
list. Exit status 1: fewer than 99 % of the lists agree.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tools import HERE, environment, python_of

MAX_LENGTH = 100  # tokens
ENOUGH = 0.99
Found = list[list[tuple[list[int], float]]]  # per sentence: (ids, score), best first


def ours(translator: Any, sentences: list[list[int]], beam: int) -> Found:
    from transformer_mt.search.engine import Request
    from transformer_mt.search.options import SearchOptions

    options = SearchOptions(
        beam=beam, n_best=beam, penalty="average", length_penalty=1.0, max_length_ratio=100.0,
        max_length=MAX_LENGTH - 1,
    )  # fmt: skip
    found = translator.engine.search([Request(src) for src in sentences], options)
    return [[(h.ids, h.score) for h in hypotheses] for hypotheses in found]


def ctranslate2s(translator: Any, sentences: list[list[int]], beam: int, work_dir: Path) -> Found:
    from ctranslate2 import Translator

    from transformer_mt.export.ctranslate2 import write
    from transformer_mt.export.proof import ExportTask

    src, tgt = translator.src_tokenizer, translator.tgt_tokenizer
    directory = work_dir / "ctranslate2"
    directory.mkdir()
    write(ExportTask(translator, "float32", []), directory)
    engine = Translator(str(directory), compute_type="float32")
    found = engine.translate_batch(
        [src.pieces(ids) for ids in sentences],
        beam_size=beam,
        num_hypotheses=beam,
        length_penalty=1.0,
        min_decoding_length=0,  # an empty translation may be among the hypotheses, as it is here
        max_decoding_length=MAX_LENGTH,
        return_scores=True,
        max_batch_size=64,
    )
    ids_of = {piece: id_ for id_, piece in enumerate(tgt.pieces(range(tgt.vocab_size)))}
    return [
        [
            ([ids_of[piece] for piece in pieces], score)
            for pieces, score in zip(result.hypotheses, result.scores, strict=True)
        ]
        for result in found
    ]


def hugging_faces(
    translator: Any, sentences: list[list[int]], beam: int, work_dir: Path, venvs_dir: Path
) -> Found:
    from transformer_mt.export.marian import refusals, write
    from transformer_mt.export.proof import ExportTask

    directory, export = work_dir / "marian", ExportTask(translator, "float32", [])
    if reasons := refusals(export):
        sys.exit("; ".join(reasons))
    directory.mkdir()
    write(export, directory)
    task = {"marian": str(directory), "sentences": sentences, "beam": beam, "n_best": beam,
            "max_length": MAX_LENGTH}  # fmt: skip
    task_path = work_dir / "task.json"
    task_path.write_text(json.dumps(task), "utf-8")
    command = [
        str(python_of(venvs_dir / "huggingface")), str(HERE / "translate_hf.py"), str(task_path)
    ]  # fmt: skip
    done = subprocess.run(command, stdout=subprocess.PIPE, env=environment(), check=True)
    return json.loads(done.stdout.splitlines()[-1])


def compare(name: str, mine: Found, theirs: Found) -> float:
    """Print how far two engines agree; the share of equal n-best lists."""
    pairs = list(zip(mine, theirs, strict=True))
    same = [list(a[0][0]) == list(b[0][0]) for a, b in pairs]
    lists = sum([list(h) for h, _ in a] == [list(h) for h, _ in b] for a, b in pairs)
    apart = [abs(a[0][1] - b[0][1]) for (a, b), is_same in zip(pairs, same, strict=True) if is_same]
    better = sum(
        a[0][1] > b[0][1] for (a, b), is_same in zip(pairs, same, strict=True) if not is_same
    )
    print(
        f"{name}: {sum(same)} of {len(same)} best hypotheses equal, of the others "
        f"{better} score higher with tmt; scores of equal ones differ by at most {max(apart):.1e}; "
        f"{lists} whole lists equal"
    )
    return lists / len(pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-m", "--model", type=Path, required=True)
    parser.add_argument("--src", type=Path, required=True)
    parser.add_argument("--venvs", type=Path)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--sentences", type=int, default=1000)
    arguments = parser.parse_args()
    from transformer_mt.corpus.readers.lines import split_lines
    from transformer_mt.pipeline.run_dir import find_model
    from transformer_mt.translation.translator import Translator

    translator = Translator.load(find_model(arguments.model), precision="fp32")
    lines = [line for line in split_lines(arguments.src) if line.strip()][: arguments.sentences]
    sentences = [ids for ids in translator.src_tokenizer.encode(lines) if ids]
    mine = ours(translator, sentences, arguments.beam)
    shares = []
    with tempfile.TemporaryDirectory() as directory:
        others = {
            "CTranslate2": ctranslate2s(translator, sentences, arguments.beam, Path(directory))
        }
        if arguments.venvs:
            others["Hugging Face"] = hugging_faces(
                translator, sentences, arguments.beam, Path(directory), arguments.venvs
            )
        shares = [compare(name, mine, theirs) for name, theirs in others.items()]
    sys.exit(min(shares) < ENOUGH)


if __name__ == "__main__":
    main()
