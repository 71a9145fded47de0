"""A model directory whose files can be exchanged, for fuzz.py.

Comes in: a folder. Goes out: for each file of a tiny model directory its bytes, and a function that
loads the directory with other bytes in the place of that file, its digests set right again: as
someone who wants to do harm would leave it.
"""

from collections.abc import Callable
from pathlib import Path

SENTENCES = [
    f"the {who} {does} the {what}"
    for who in ("cat", "dog", "bird")
    for does in ("sees", "finds", "likes")
    for what in ("house", "tree", "boat", "street")
]


def model_files(folder: Path) -> dict[str, tuple[bytes, Callable[[bytes], object]]]:
    """By the name of the file: what is in it, and a loading with something else in it."""
    from transformer_mt.config.experiment import build_config
    from transformer_mt.config.model import TokenizerConfig
    from transformer_mt.encoding.tokenizer import train_tokenizer
    from transformer_mt.model_dir import (
        build_model,
        load_model_dir,
        load_tokenizers,
        save_model_dir,
        tokenizer_paths,
        weights_of,
    )
    from transformer_mt.system.state import content_of, read_manifest, write_manifest

    tree = {
        "name": "tiny",
        "languages": {"src": "de", "tgt": "en"},
        "data": {"train": [{"demo": True}]},
        "tokenizer": {"vocab_size": 300, "joint": True},
        "model": {"d_model": 8, "heads": 2, "ffn": 8, "encoder_layers": 1, "decoder_layers": 1},
    }
    cfg = build_config(tree, "tiny")
    tokenizer_path, _ = tokenizer_paths(folder, joint=True)
    train_tokenizer(SENTENCES, tokenizer_path, TokenizerConfig(vocab_size=300), ["en"], seed=1)
    directory = folder / "model"
    model = build_model(cfg, load_tokenizers(folder, joint=True))
    save_model_dir(directory, cfg, weights_of(model), folder, {"scores": {}})
    metadata = content_of(read_manifest(directory, "metadata.json") or {})
    whole = {path.name: path.read_bytes() for path in directory.iterdir()}

    def loading(name: str) -> Callable[[bytes], object]:
        def load(data: bytes) -> object:
            (directory / name).write_bytes(data)
            try:
                if name != "metadata.json":
                    write_manifest(directory, "metadata.json", metadata)
                return load_model_dir(directory)
            finally:
                (directory / name).write_bytes(whole[name])

        return load

    return {name: (content, loading(name)) for name, content in whole.items()}
