"""From raw text to an encoded corpus, stage by stage.

Each stage writes one directory and knows the fingerprint of what it was made from, so that the same
command again does only what is missing: changing the learning rate redoes no tokenizer, changing
the corpus redoes everything after it.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from transformer_mt import __version__
from transformer_mt.config.experiment import Config
from transformer_mt.corpus.clean import prepare_corpus
from transformer_mt.corpus.readers.lines import expand
from transformer_mt.corpus.report.page import write_page
from transformer_mt.corpus.report.report import CorpusReport
from transformer_mt.corpus.sources.obtain import LocalData
from transformer_mt.encoding.coverage import CoverageTask, coverage_of_files
from transformer_mt.encoding.encoded_corpus import EncodedCorpus, encode_corpus, open_corpus
from transformer_mt.encoding.tags import tag_pieces, tagging
from transformer_mt.encoding.tokenizer import Tokenizer, TokenizerTask, train_on_files
from transformer_mt.errors import TokenizerError
from transformer_mt.messages.catalogue import tr
from transformer_mt.model_dir import load_tokenizers, tokenizer_paths
from transformer_mt.pipeline.run_dir import Run
from transformer_mt.system.locks import locked
from transformer_mt.system.output import refuse_foreign, remove, write_text, writing_folder
from transformer_mt.system.processes.executors import count_workers
from transformer_mt.system.processes.parallel import run_apart
from transformer_mt.system.staging import remove_all_left_over
from transformer_mt.system.state import (
    Damaged,
    damages,
    fingerprint,
    read_manifest,
    sha256,
    write_manifest,
)
from transformer_mt.system.terminal import Always, Say

Args = TypeVar("Args")
Result = TypeVar("Result")
Tokenizers = tuple[Tokenizer, Tokenizer]  # of the source and the target
_MUCH_TEXT = 20_000_000  # bytes; learning a vocabulary of more takes a gigabyte
_N_LINES_COVERED = 200_000  # of train, spread over it: which words dev has in common with it
_MARKER = "stage.json"  # in the directory of a finished stage: what it was made from


@dataclass(frozen=True)
class Prepared:
    """The corpus, ready for training, and the fingerprint of all that it was made from."""

    tokenizers: Tokenizers
    train: EncodedCorpus
    dev: EncodedCorpus
    fingerprint: str


@dataclass(frozen=True)
class Fingerprints:
    clean: str
    tokenizer: str
    encoded: str


def prepare(
    local: LocalData, prints: Fingerprints, run: Run, say: Say, *, check: bool = True
) -> Prepared:
    """Clean text, tokenizers, encoded corpus; `check` compares finished ones with their digests."""
    cfg = local.cfg
    with _alone(run.clean_dir.parent, say):
        if clean_stage(local, prints, run.clean_dir, run.work_dir, say, check=check):
            for line in read_report(run.clean_dir).summary():
                say((Always if line.startswith(tr("problem")) else str)(f"  {line}"))
        learn = partial(_make_tokenizers, cfg, run, say)
        if not _stage(run.tokenizer_dir, prints.tokenizer, say, "tokenizer", learn, check=check):
            _renew_report(cfg, run)
        tokenizers = load_tokenizers(run.tokenizer_dir, joint=cfg.tokenizer.joint)
        encode = partial(_encode, cfg, run, tokenizers, prints.encoded, say)
        _stage(run.encoded_dir, prints.encoded, say, "encode", encode, check=check)
    return Prepared(
        tokenizers,
        open_corpus(run.encoded_dir / "train"),
        open_corpus(run.encoded_dir / "dev"),
        prints.encoded,
    )


def clean_stage(
    local: LocalData,
    prints: Fingerprints,
    out_dir: Path,
    work_dir: Path,
    say: Say,
    *,
    check: bool = True,
) -> bool:
    """Fill `out_dir` with the clean corpus and its reports, unless it is there; whether it was not.

    A second process that wants the same waits for the first, and takes what that one made.
    `work_dir` keeps scores between calls, so that a changed threshold scores nothing anew.
    """
    refuse_foreign(out_dir, _MARKER)
    make = partial(prepare_corpus, local, work_dir=work_dir, say=say)
    with _alone(work_dir, say):
        return _stage(out_dir, prints.clean, say, "data", make, check=check)


@contextmanager
def _alone(directory: Path, say: Say) -> Iterator[None]:
    """Wait until no other process works in `directory`, and remove what killed ones left there."""
    busy = tr("[data] another process is at work in {}; waiting for it", directory)
    with locked(directory.with_name(f".{directory.name}.lock"), lambda: say(busy)):
        remove_all_left_over(directory)
        yield


def read_report(clean_dir: Path) -> CorpusReport:
    """The report of the cleaning that filled `clean_dir`."""
    return CorpusReport.from_json((clean_dir / "report.json").read_text(encoding="utf-8"))


def fingerprints(local: LocalData) -> Fingerprints:
    """Digests of all that each stage is made from; all local sources are read."""
    cfg = local.cfg
    digests = [digest for source in local.sources for _, digest in source.digests]
    # How many processes work where, and how the pairs are used later, changes no clean text.
    elsewhere = {"root", "max_length", "workers", "cache", "offline"}
    settings = cfg.data.model_dump(exclude=elsewhere)
    for source in settings["train"]:
        source.pop("weight", None)
        source.pop("tag", None)
    tags = [source.tag for source in cfg.data.train]
    clean = fingerprint(__version__, cfg.languages.model_dump(), cfg.seed, settings, digests)
    learned = cfg.tokenizer.model_dump(exclude={"sampling", "path"})
    given = [sha256(path) for path in _given_tokenizers(cfg)]
    tokenizer = fingerprint(clean, learned, tags, *given)
    return Fingerprints(clean, tokenizer, fingerprint(tokenizer, cfg.data.max_length))


def is_prepared(run: Run, prints: Fingerprints) -> bool:
    """Has `prepare` made the encoded corpus of this experiment already?"""
    try:
        manifest = read_manifest(run.encoded_dir, _MARKER)
    except Damaged:
        return False
    return manifest is not None and manifest.get("made_from") == prints.encoded


def _stage(
    directory: Path,
    made_from: str,
    say: Say,
    name: str,
    make: Callable[[Path], object],
    *,
    check: bool,
) -> bool:
    """Make `directory`, unless it is there, intact and from these inputs; whether it was not."""
    try:
        manifest = read_manifest(directory, _MARKER) or {}
        problems = damages(directory, manifest, digests=check)
    except Damaged as error:
        manifest, problems = {}, [str(error)]
    if manifest.get("made_from") == made_from and not problems:
        say(tr("[{}] up to date: {}", name, directory))
        return False
    for problem in problems:
        say(Always(f"[{name}] {problem}"))
    say(tr("[{}] making {}", name, directory))
    with writing_folder(directory, _MARKER, ours=True) as temporary:
        make(temporary)
        write_manifest(temporary, _MARKER, {"made_from": made_from})
    return True


def _given_tokenizers(cfg: Config) -> list[Path]:
    """The files of `tokenizer.path`, if it is set.

    Raises:
        TokenizerError: one of them is missing, or is not what the configuration says.
    """
    if cfg.tokenizer.path is None:
        return []
    directory = expand(cfg.data.root) / expand(cfg.tokenizer.path)
    paths = tokenizer_paths(directory, joint=cfg.tokenizer.joint)
    tokenizers = load_tokenizers(directory, joint=cfg.tokenizer.joint)
    for path, tokenizer, size in zip(paths, tokenizers, cfg.tokenizer.vocab_sizes, strict=True):
        if tokenizer.vocab_size != size:
            raise TokenizerError(
                tr(
                    "{}: has {} pieces, but tokenizer.vocab_size is {}",
                    path,
                    tokenizer.vocab_size,
                    size,
                )
            )
        if cfg.tokenizer.sampling and tokenizer.kind != cfg.tokenizer.type:
            raise TokenizerError(
                tr("{}: is {}, but tokenizer.type, by which sub-words are drawn, is {}; correct "
                   "it, or set tokenizer.sampling to 0", path, tokenizer.kind, cfg.tokenizer.type)
            )  # fmt: skip
    if missing := sorted({*tag_pieces(cfg)} - tokenizers[0].tags.keys()):
        raise TokenizerError(
            tr(
                "{}: lacks {}, which this experiment marks sources with",
                paths[0],
                ", ".join(missing),
            )
        )
    return list(dict.fromkeys(paths))


def _make_tokenizers(cfg: Config, run: Run, say: Say, out_dir: Path) -> None:
    given, joint = _given_tokenizers(cfg), cfg.tokenizer.joint
    for path in given:
        shutil.copyfile(path, out_dir / path.name)
    if not given:
        _train_tokenizers(cfg, run, out_dir)
    report = _report_vocabularies(cfg, run, tokenizer_paths(out_dir, joint=joint))
    for name, code in zip(("src", "tgt"), (cfg.languages.src, cfg.languages.tgt), strict=True):
        found = report.vocabulary[name]
        say(
            tr(
                "  {}: {} pieces; on dev {:.3f} % unknown, {:.3f} % bytes",
                code,
                found.vocab_size,
                100 * found.unknown_rate,
                100 * found.byte_rate,
            )
        )
    say(tr("  report: {}", run.report_path))


def _train_tokenizers(cfg: Config, run: Run, out_dir: Path) -> None:
    paths = tokenizer_paths(out_dir, joint=cfg.tokenizer.joint)
    codes = [cfg.languages.src, cfg.languages.tgt]
    texts = [run.clean_dir / f"train.{side}" for side in ("src", "tgt")]
    tags = tag_pieces(cfg)
    if cfg.tokenizer.joint:
        jobs = [(0, texts, codes, tags)]
    else:
        jobs = [(i, [texts[i]], [codes[i]], [] if i else tags) for i in (0, 1)]
    tasks = [
        TokenizerTask(
            [path.absolute() for path in files], paths[side].absolute(), cfg.tokenizer, languages,
            cfg.seed, side, own_tags,
        )
        for side, files, languages, own_tags in jobs
    ]  # fmt: skip
    _of_each(train_on_files, tasks, cfg, run)


def _of_each(
    function: Callable[[Args], Result], tasks: Sequence[Args], cfg: Config, run: Run
) -> list[Result]:
    """The function's values; of much text, which takes much memory, in processes of their own."""
    texts = [run.clean_dir / f"train.{side}" for side in ("src", "tgt")]
    if sum(path.stat().st_size for path in texts) > _MUCH_TEXT:
        return run_apart(function, tasks, workers=count_workers(cfg.data.workers))
    return list(map(function, tasks))


def _of_now(report: CorpusReport, cfg: Config) -> CorpusReport:
    """With the weights and tags of today, which change no clean text."""
    sources = [
        replace(source, weight=own.weight or 1.0, tag=own.tag)
        for source, own in zip(report.sources, cfg.data.train, strict=True)
    ]
    return replace(report, sources=sources)


def _renew_report(cfg: Config, run: Run) -> None:
    """Let the page about the corpus say what the configuration says now."""
    path = run.report_path.with_suffix(".json")
    if not path.is_file():
        return
    try:
        report = CorpusReport.from_json(path.read_text(encoding="utf-8"))
        now = _of_now(report, cfg)
    except ValueError:  # damaged, or of an earlier tmt
        _report_vocabularies(
            cfg, run, tokenizer_paths(run.tokenizer_dir, joint=cfg.tokenizer.joint)
        )
        return
    if now != report:
        write_text(path, now.to_json())
        write_page(now, run.report_path, name=cfg.name)


def _report_vocabularies(cfg: Config, run: Run, paths: tuple[Path, Path]) -> CorpusReport:
    """Write the report of the corpus again, now with how the vocabularies cover it."""
    report = _of_now(read_report(run.clean_dir), cfg)
    step = max(1, report.parts["train"].kept // _N_LINES_COVERED)
    clean_dir = run.clean_dir.absolute()
    names, codes = ("src", "tgt"), (cfg.languages.src, cfg.languages.tgt)
    tasks = [
        CoverageTask(
            path.absolute(), clean_dir / f"train.{name}", clean_dir / f"dev.{name}", step, code
        )
        for path, name, code in zip(paths, names, codes, strict=True)
    ]
    found = _of_each(coverage_of_files, tasks, cfg, run)
    report = replace(report, vocabulary=dict(zip(names, found, strict=True)))
    write_text(run.report_path.with_suffix(".json"), report.to_json())
    write_page(report, run.report_path, name=cfg.name)
    return report


def _encode(
    cfg: Config, run: Run, tokenizers: Tokenizers, made_from: str, say: Say, out_dir: Path
) -> None:
    # Shards outlive a process that is killed, and are good for this corpus and tokenizer only.
    remove(run.encoded_dir / "epochs")  # drawn from what is replaced
    shards_dir = run.work_dir / "encode" / made_from
    for part, max_length in (("train", cfg.data.max_length), ("dev", None)):
        files = (run.clean_dir / f"{part}.src", run.clean_dir / f"{part}.tgt")
        report = encode_corpus(
            files,
            tokenizers,
            out_dir / part,
            max_length=max_length,
            tagging=tagging(cfg, tokenizers[0]),
            sources_path=run.clean_dir / "train.sources.npy" if part == "train" else None,
            workers=count_workers(cfg.data.workers),
            shards_dir=shards_dir / part,
        )
        too_long = tr(", {} pairs too long", report.too_long) if report.too_long else ""
        say(
            tr(
                "  {}: {} pairs{}; {} source and {} target tokens",
                part,
                report.kept,
                too_long,
                report.src_tokens,
                report.tgt_tokens,
            )
        )
    remove(shards_dir.parent)
