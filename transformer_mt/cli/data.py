"""The commands `tmt data …` and `tmt tokenizer …`: parse, load, call one function, print."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transformer_mt.cli.language import Group
from transformer_mt.cli.options import (
    AsJson,
    ConfigName,
    Device,
    ExecutorAddress,
    ModelPath,
    Offline,
    Overrides,
    Reverse,
    RunDir,
    find_model_path,
    input_lines,
    read_config,
    say,
    show,
    with_executor,
)
from transformer_mt.errors import DataError, TmtError
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.terminal import show_folded

if TYPE_CHECKING:
    from transformer_mt.config.experiment import Config
    from transformer_mt.pipeline.prepare import Prepared

_argument: Any = typer.Argument
_option: Any = typer.Option
Explain = Annotated[bool, _option(help="for each rule the pairs on both sides of its threshold")]
MonoPath = Annotated[Path, _option("--mono", help="text of one language, line by line")]
PrefixPath = Annotated[Path, _option("-o", "--out", help="writes PREFIX.zh, PREFIX.en …")]
Beam = Annotated[int, _option(min=1, help="1 is greedy search")]
To = Annotated[str | None, _option(help="language to translate into; for two-way models")]
_SOURCE = "text line by line, or a table or TMX with both sides"
_TARGET = "the same lines in the other language"
_LANGUAGE = "source language; default: told from names and text"
_TEST = "a test set (prefix or file) that must not be in it; repeatable"

data_app = typer.Typer(
    help="Look at and clean corpora; write the bundled one.", cls=Group, no_args_is_help=True
)
tokenizer_app = typer.Typer(help="SentencePiece, on its own.", cls=Group, no_args_is_help=True)


@data_app.command("check")
def data_check(
    src_path: Annotated[Path, _argument(metavar="SOURCE", help=_SOURCE)],
    tgt_path: Annotated[Path | None, _argument(metavar="TARGET", help=_TARGET)] = None,
    src: Annotated[str | None, _option(help=_LANGUAGE)] = None,
    tgt: Annotated[str | None, _option(help="target language; likewise")] = None,
    test: Annotated[list[str] | None, _option(help=_TEST)] = None,
    page: Annotated[Path | None, _option(help="write the report as one HTML page")] = None,
    explain: Explain = False,
    as_json: AsJson = False,
) -> None:
    """Report the effect of cleaning on text, and its problems; exit 1 if there are any."""
    from transformer_mt.config.data import Source
    from transformer_mt.corpus.check import check_source, source_of_files, tell_languages
    from transformer_mt.corpus.report.page import write_page
    from transformer_mt.system.output import check_file_target
    from transformer_mt.text.languages import language_name

    if page is not None:
        check_file_target(page)
    paths = [path for path in (src_path, tgt_path) if path is not None]
    languages = tell_languages(paths, src, tgt)
    if src is None or tgt is None:
        say(tr("languages: {} → {}", language_name(languages.src), language_name(languages.tgt)))
    tests = [Source(path=path) for path in test or ()]
    report = check_source(source_of_files(paths), languages, tests=tests, say=say)
    if page is not None:
        write_page(report, page)
    lines = report.explain() if explain else report.summary()
    if as_json:
        show(report.to_json())
    else:
        show_folded("\n".join(lines))
    if report.problems:
        raise typer.Exit(1)


@data_app.command("find")
def data_find(
    src: Annotated[str, _argument(help="language, by code or name")],
    tgt: Annotated[str, _argument(help="the other language")],
    as_json: AsJson = False,
) -> None:
    """List the public corpora in two languages, by the names that data.train and data.test take."""
    from transformer_mt.config.data import Languages
    from transformer_mt.corpus.sources.find import find_corpora
    from transformer_mt.rendering.cells import align_columns
    from transformer_mt.text.languages import canonical_code

    languages = Languages(src=canonical_code(src), tgt=canonical_code(tgt))
    say(tr("asking OPUS …"))
    found = find_corpora(languages)
    if as_json:
        show(json.dumps(list(map(vars, found)), indent=1))
        return
    rows = []
    for corpus in found:
        pairs = "" if corpus.pairs is None else tr("{:,} pairs", corpus.pairs)
        size = "" if corpus.size is None else f"{corpus.size / 1e6:,.1f} MB"
        rows.append((corpus.name, pairs, size, tr("test set") if corpus.role == "test" else ""))
    if rows:
        show(align_columns(rows, numbers=(1, 2)))
    say(
        tr(
            "{} found; sizes of the downloads; licences: https://opus.nlpl.eu; tmt "
            "data download CONFIG fetches those that a configuration names",
            len(found),
        )
    )


@data_app.command("download")
def data_download(
    config: ConfigName, overrides: Overrides = None, reverse: Reverse = False
) -> None:
    """Download every named source of a configuration that is not in the cache yet."""
    from transformer_mt.corpus.sources.obtain import obtain_datasets, obtain_sources

    cfg = read_config(config, overrides, reverse=reverse)
    local = obtain_sources(cfg, say)
    obtain_datasets(local)
    for source in local.train:
        for found in source.downloads:
            show(f"{source.name}\t{found.size}\t{found.sha256}\t{found.url}")


@data_app.command("clean")
def data_clean(
    config: ConfigName,
    out_dir: Annotated[Path, _argument(help="where the clean text and the reports go")],
    overrides: Overrides = None,
    reverse: Reverse = False,
    offline: Offline = False,
    explain: Explain = False,
) -> None:
    """Run the cleaning of a configuration alone."""
    from transformer_mt.corpus.sources.obtain import obtain_sources
    from transformer_mt.pipeline.prepare import clean_stage, fingerprints, read_report

    cfg = read_config(config, overrides, reverse=reverse, offline=offline)
    out_dir = out_dir.absolute()
    work_dir = out_dir.with_name(f"{out_dir.name}.work")
    local = obtain_sources(cfg, say)
    clean_stage(local, fingerprints(local), out_dir, work_dir, say)
    report = read_report(out_dir)
    show_folded("\n".join(report.explain() if explain else report.summary()))
    say(tr("page: {}", out_dir / "report.html"))
    say(tr("{} keeps the scores; delete it when the thresholds are settled", work_dir))


@data_app.command("prepare")
def data_prepare(
    config: ConfigName,
    overrides: Overrides = None,
    reverse: Reverse = False,
    run_dir: RunDir = None,
    offline: Offline = False,
    executor: ExecutorAddress = None,
) -> None:
    """Do the stages of `train` before training: download, clean, tokenizer, encode."""
    overrides = with_executor(overrides, executor)
    _prepare(read_config(config, overrides, reverse=reverse, offline=offline), run_dir)


@data_app.command("sample")
def data_sample(
    config: ConfigName,
    overrides: Overrides = None,
    reverse: Reverse = False,
    run_dir: RunDir = None,
    epoch: Annotated[int, _option(min=0, help="counted from 0")] = 0,
    examples: Annotated[int, _option("-n", min=0, help="pairs to show")] = 10,
    as_json: AsJson = False,
) -> None:
    """Show the content of an epoch of training: the share of each source, and some pairs."""
    from transformer_mt.encoding.mixing import describe_epoch, sample_epoch

    cfg = read_config(config, overrides, reverse=reverse)
    prepared = _prepare(cfg, run_dir)
    shares = describe_epoch(cfg, prepared.train, epoch)
    pairs = sample_epoch(cfg, prepared.train, prepared.tokenizers, epoch, examples)
    if as_json:
        content = {"sources": list(map(vars, shares)), "examples": list(map(vars, pairs))}
        show(json.dumps(content, ensure_ascii=False, indent=1))
        return
    for share in shares:
        show(
            tr(
                "{:>10,} of {:>10,} pairs, {:>12,} target tokens, weight {:g}: {}",
                share.rows_in_epoch,
                share.rows,
                share.tokens_in_epoch,
                share.weight,
                share.source,
            )
        )
    for pair in pairs:
        show(f"{pair.source}\n  {pair.tags}{pair.src}\n  {pair.tgt}")


@data_app.command("backtranslate")
def data_backtranslate(
    mono: MonoPath,
    prefix: PrefixPath,
    model: ModelPath = None,
    to: To = None,
    beam: Beam = 1,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Translate target-language text back into the source language: a corpus with a tag."""
    _translate_corpus(mono, prefix, model, to, beam, "bt", as_json)


@data_app.command("distill")
def data_distill(
    mono: MonoPath,
    prefix: PrefixPath,
    model: ModelPath = None,
    to: To = None,
    beam: Beam = 4,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Translate source-language text, for a smaller or faster model to learn from."""
    _translate_corpus(mono, prefix, model, to, beam, None, as_json)


def _prepare(cfg: "Config", run_dir: Path | None) -> "Prepared":
    """The prepared corpus of a run; missing stages are carried out."""
    from transformer_mt.corpus.sources.obtain import obtain_sources
    from transformer_mt.pipeline.prepare import fingerprints, is_prepared, prepare
    from transformer_mt.pipeline.run_dir import Run

    run = Run(run_dir or Path("runs", cfg.name))
    run.claim()
    local = obtain_sources(cfg, say)
    prints = fingerprints(local)
    if not is_prepared(run, prints):
        run.refuse_while_held()
        if run.checkpoints_dir.is_dir():  # torch is loaded
            from transformer_mt.pipeline.train import refuse_for_a_training

            refuse_for_a_training(cfg, run, prints)
    return prepare(local, prints, run, say)


def _translate_corpus(
    mono: Path, prefix: Path, model: Path | None, to: str | None, beam: int, tag: str | None,
    as_json: bool,
) -> None:  # fmt: skip
    from transformer_mt.translation.backtranslate import translate_corpus

    corpus = translate_corpus(find_model_path(model), mono, prefix, to=to, beam=beam, say=say)
    if as_json:
        show(json.dumps(corpus.to_json(), indent=1))
        return
    say(tr("{:,} pairs; left out: {:,} empty, {:,} cut", corpus.pairs, corpus.empty, corpus.cut))
    say(tr("under data.train of the next configuration:"))
    show(corpus.source_line(tag))


@data_app.command("demo")
def data_demo(
    out_dir: Annotated[Path, _argument(help="where train, dev, test and contrast go")],
) -> None:
    """Write the bundled Chinese-English corpus."""
    from transformer_mt.corpus.readers.demo import write_demo

    for path in write_demo(out_dir):
        show(str(path))


@tokenizer_app.command("train")
def tokenizer_train(
    input_path: Annotated[Path, _argument(help="text, one sentence per line")],
    out_path: Annotated[Path, _argument(help="the .model file to write")],
    lang: Annotated[list[str], _option(help="language of the text; repeat for a joint one")],
    vocab_size: Annotated[int, _option(min=16, max=1_000_000, help="pieces")] = 8000,
    model_type: Annotated[str, _option("--type", help="bpe or unigram")] = "bpe",
    seed: Annotated[int, _option(help="of the lines that are drawn")] = 1,
) -> None:
    """Train a SentencePiece model."""
    from transformer_mt.config.model import TokenizerConfig
    from transformer_mt.corpus.readers.pairs import split_lines
    from transformer_mt.encoding.tokenizer import train_tokenizer
    from transformer_mt.system.output import check_file_target
    from transformer_mt.text.languages import canonical_code

    if model_type not in ("bpe", "unigram"):
        raise TmtError(tr("--type {}: use bpe or unigram", model_type))
    cfg = TokenizerConfig.model_validate({"type": model_type, "vocab_size": vocab_size})
    check_file_target(out_path)
    codes = [canonical_code(code) for code in lang]
    tokenizer = train_tokenizer(split_lines(input_path), out_path, cfg, codes, seed=seed)
    say(tr("{}: {} pieces", out_path, tokenizer.vocab_size))


@tokenizer_app.command("encode")
def tokenizer_encode(
    model_path: Annotated[Path, _argument(help="a .model file")],
    text: Annotated[list[str] | None, _argument(help="default: standard input")] = None,
    ids: Annotated[bool, _option(help="numbers instead of pieces")] = False,
) -> None:
    """Print the pieces of each line, separated by spaces."""
    from transformer_mt.encoding.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(model_path)
    for line in input_lines(text, None):
        row = tokenizer.encode([line])[0]
        show(" ".join(map(str, row if ids else tokenizer.pieces(row))))


@tokenizer_app.command("decode")
def tokenizer_decode(
    model_path: Annotated[Path, _argument(help="a .model file")],
    text: Annotated[list[str] | None, _argument(help="lines of ids")] = None,
) -> None:
    """Print the text of each line of ids."""
    from transformer_mt.encoding.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(model_path)
    for line in input_lines(text, None):
        try:
            row = [int(number) for number in line.split()]
        except ValueError as error:
            raise DataError(
                tr("{!r}: expected ids, whole numbers with spaces", line[:40])
            ) from error
        if any(not 0 <= number < tokenizer.vocab_size for number in row):
            raise DataError(tr("{!r}: ids run from 0 to {}", line[:40], tokenizer.vocab_size - 1))
        show(tokenizer.decode([row])[0])
