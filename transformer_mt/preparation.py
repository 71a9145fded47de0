"""From raw text to an encoded corpus, stage by stage.

Comes in: a configuration and a run directory. Goes out: tokenizers and encoded corpora. Each stage
writes one directory and knows the fingerprint of what it was made from, so that the same command
again does only what is missing: changing the learning rate redoes no tokenizer, changing the corpus
redoes everything after it. This file knows nothing of models.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from transformer_mt import __version__
from transformer_mt.config import Config
from transformer_mt.data.clean import prepare_corpus, read_clean
from transformer_mt.data.corpus import source_files
from transformer_mt.data.dataset import EncodedCorpus, encode_corpus, open_corpus
from transformer_mt.data.tokenizer import Tokenizer, train_tokenizer
from transformer_mt.files import fingerprint, sha256, write_json, writing
from transformer_mt.model_dir import load_tokenizers, tokenizer_paths
from transformer_mt.run_dir import Run

Say = Callable[[str], None]


@dataclass(frozen=True)
class Prepared:
    """The corpus, ready for training, and the fingerprint of all that it was made from."""

    tokenizers: tuple[Tokenizer, Tokenizer]
    train: EncodedCorpus
    dev: EncodedCorpus
    fingerprint: str


def prepare(cfg: Config, run: Run, say: Say) -> Prepared:
    """Clean text, tokenizers, encoded corpus."""
    data_print, tokenizer_print, encoded_print = fingerprints(cfg)
    _stage(run.clean_dir, data_print, say, "data", lambda out: _clean(cfg, out, say))
    _stage(
        run.tokenizer_dir,
        tokenizer_print,
        say,
        "tokenizer",
        lambda out: _train_tokenizers(cfg, run, out, say),
    )
    tokenizers = load_tokenizers(run.tokenizer_dir, joint=cfg.tokenizer.joint)
    _stage(
        run.encoded_dir,
        encoded_print,
        say,
        "encode",
        lambda out: _encode(cfg, run, tokenizers, out, say),
    )
    return Prepared(
        tokenizers,
        open_corpus(run.encoded_dir / "train"),
        open_corpus(run.encoded_dir / "dev"),
        encoded_print,
    )


def fingerprints(cfg: Config) -> tuple[str, str, str]:
    """Of the clean corpus, the tokenizers and the encoded corpus: all that each is made from."""
    root = Path(cfg.data.root)
    sources = [*cfg.data.train, *cfg.data.dev, *cfg.data.test.values()]
    files = [path for source in sources for path in source_files(source, cfg.languages, root)]
    settings = cfg.data.model_dump(exclude={"root", "max_length"})  # names remote datasets, too
    digests = [sha256(path) for path in files]
    data = fingerprint(__version__, cfg.languages.model_dump(), cfg.seed, settings, digests)
    tokenizer = fingerprint(data, cfg.tokenizer.model_dump())
    return data, tokenizer, fingerprint(tokenizer, cfg.data.max_length)


def _stage(
    directory: Path, made_from: str, say: Say, name: str, make: Callable[[Path], None]
) -> None:
    """Make `directory` unless it was made from the same inputs before."""
    marker = directory / "stage.json"
    if marker.is_file() and json.loads(marker.read_text())["made_from"] == made_from:
        say(f"[{name}] up to date: {directory}")
        return
    say(f"[{name}] making {directory}")
    with writing(directory) as temporary:
        make(temporary)
        write_json(temporary / "stage.json", {"made_from": made_from})


def _clean(cfg: Config, out_dir: Path, say: Say) -> None:
    for line in prepare_corpus(cfg, out_dir).summary():
        say(f"  {line}")


def _train_tokenizers(cfg: Config, run: Run, out_dir: Path, say: Say) -> None:
    out_dir.mkdir(parents=True)
    paths = tokenizer_paths(out_dir, joint=cfg.tokenizer.joint)
    codes = [cfg.languages.src, cfg.languages.tgt]
    texts = read_clean(run.clean_dir, "train")
    dev = read_clean(run.clean_dir, "dev")
    if cfg.tokenizer.joint:
        both = [*texts[0], *texts[1]]
        jobs = [(0, both, [*dev[0], *dev[1]], codes)]
    else:
        jobs = [(side, texts[side], dev[side], [codes[side]]) for side in (0, 1)]
    for side, train_texts, dev_texts, languages in jobs:
        tokenizer = train_tokenizer(
            train_texts, paths[side], cfg.tokenizer, languages, side=side, seed=cfg.seed
        )
        say(
            f"  {' + '.join(languages)}: {tokenizer.vocab_size} pieces; on dev "
            f"{100 * tokenizer.unknown_rate(dev_texts):.3f} % unknown, "
            f"{100 * tokenizer.byte_rate(dev_texts):.3f} % bytes"
        )


def _encode(
    cfg: Config, run: Run, tokenizers: tuple[Tokenizer, Tokenizer], out_dir: Path, say: Say
) -> None:
    for part, max_length in (("train", cfg.data.max_length), ("dev", None)):
        pairs = zip(*read_clean(run.clean_dir, part), strict=True)
        report = encode_corpus(pairs, tokenizers, out_dir / part, max_length=max_length)
        too_long = f", {report.too_long} pairs too long" if report.too_long else ""
        say(
            f"  {part}: {report.kept} pairs{too_long}; {report.src_tokens} source and "
            f"{report.tgt_tokens} target tokens"
        )
