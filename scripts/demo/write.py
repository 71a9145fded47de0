"""Write the bundled Chinese–English corpus anew, as its grammar has it.

    python scripts/demo/write.py

Writes `transformer_mt/corpus/readers/demo.tsv.bz2`: lines of `train`, `dev` or `test` with a
Chinese and an English sentence, then lines of `contrast` with a source, its reference and the
reference with one wrong pronoun. Trained models and their test scores belong to these pairs in
this order: a change to the grammar makes another corpus.
"""

import bz2

from parts import draw_sentences

from transformer_mt.corpus.readers.demo import DEMO_PATH


def content() -> bytes:
    """The file, not compressed."""
    drawn = draw_sentences()
    rows = [
        (part, sentence.zh, sentence.en)
        for part in ("train", "dev", "test")
        for sentence in drawn[part]
    ] + [
        ("contrast", sentence.zh, sentence.en, rival)
        for sentence in drawn["contrast"]
        for rival in sentence.rivals
    ]
    return "".join("\t".join(row) + "\n" for row in rows).encode()


if __name__ == "__main__":
    DEMO_PATH.write_bytes(bz2.compress(content()))
