"""The command line: parse, load, call one function, print.

Results go to standard output, everything else to standard error. Heavy imports stand inside the
commands, so that `tmt --help` answers at once.
"""

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transformer_mt import __version__
from transformer_mt.config import load_config
from transformer_mt.errors import DataError, TmtError

if TYPE_CHECKING:
    from transformer_mt.inference.translator import Translator

app = typer.Typer(
    name="tmt",
    help="Train, use, score and explain translation models, from two text files on.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(
    help="Look at and clean corpora; write the bundled one.", no_args_is_help=True
)
tokenizer_app = typer.Typer(help="SentencePiece, on its own.", no_args_is_help=True)
app.add_typer(data_app, name="data")
app.add_typer(tokenizer_app, name="tokenizer")

ConfigPath = Annotated[Path, typer.Argument(metavar="CONFIG", help="a YAML file of configs/")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="A.B=C", help="change one setting; may be given repeatedly"),
]
ModelPath = Annotated[
    Path | None,
    typer.Option("-m", "--model", help="model or run directory; default: the newest finished run"),
]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON")]


def main() -> None:
    """Run a command; a mistake of the user becomes one message and exit status 2."""
    # Threads that spin while they wait take the cores from whoever has work to do. OpenMP reads
    # this when torch is loaded, so it must be set before.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    debug = "--debug" in sys.argv
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    try:
        app(arguments, standalone_mode=True)
    except TmtError as error:
        if debug:
            raise
        _say(f"tmt: {error}")
        sys.exit(2)
    except BrokenPipeError:  # the reader of our output has gone, e.g. `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="print the version")] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="show the traceback of an error; anywhere on the line")
    ] = False,
) -> None:
    if version:
        print(__version__)
        raise typer.Exit


@app.command()
def train(
    config: ConfigPath,
    overrides: Overrides = None,
    run_dir: Annotated[
        Path | None, typer.Option(help="where everything goes; default: runs/<name>")
    ] = None,
    fresh: Annotated[
        bool, typer.Option(help="forget checkpoints, metrics and model first")
    ] = False,
) -> None:
    """Do everything from raw text to a scored model that is not done yet; again: resume."""
    cfg = load_config(config, overrides or ())
    from transformer_mt.experiment import train_experiment
    from transformer_mt.run_dir import Run

    run = Run(run_dir or Path("runs") / cfg.name)
    result = train_experiment(cfg, run, fresh=fresh, say=_say)
    if result.metadata is None:
        _say(
            f"stopped after update {result.outcome.progress.update}, everything is saved; "
            "the same command goes on"
        )
        raise typer.Exit(128 + signal.SIGINT)
    trained = result.metadata["trained"]
    _say(
        f"[done] {trained['updates']} updates in {trained['minutes']:.1f} minutes "
        f"({trained['stopped_by']}); weights: {trained['weights']}"
    )
    for name, scores in result.metadata["scores"].items():
        for metric, score in scores.items():
            _say(f"  {name}: {metric} {score['score']:.2f}  {score['signature']}")
    _say(f"model: {run.model_dir}")
    _say(f"next:  tmt translate -m {run.directory} TEXT")


@app.command()
def plan(config: ConfigPath, overrides: Overrides = None, as_json: AsJson = False) -> None:
    """Show what `train` would do, without doing it: sizes, memory, time, all problems at once."""
    cfg = load_config(config, overrides or ())
    from transformer_mt.plan import make_plan

    found = make_plan(cfg)
    print(json.dumps(found.to_json(), indent=2) if as_json else found.render())


@app.command()
def translate(
    text: Annotated[list[str] | None, typer.Argument(help="texts to translate")] = None,
    input_path: Annotated[
        Path | None, typer.Option("-i", "--input", help="a file, one text per line")
    ] = None,
    output_path: Annotated[
        Path | None, typer.Option("-o", "--output", help="default: standard output")
    ] = None,
    model: ModelPath = None,
    beam: Annotated[int | None, typer.Option(min=1, help="1 is greedy search")] = None,
    length_penalty: Annotated[float | None, typer.Option(min=0)] = None,
    n_best: Annotated[int, typer.Option(min=1, help="with --json: alternatives per text")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object per line")] = False,
) -> None:
    """Translate arguments, a file, or standard input, line by line and in order."""
    lines = _input_lines(text, input_path)
    translator = _load_translator(model)
    chunks = _chunks(lines, 1 if not text and not input_path and sys.stdin.isatty() else 1000)

    def outputs() -> Iterator[str]:
        for chunk in chunks:
            for translation in translator.translate(
                chunk, beam=beam, length_penalty=length_penalty, n_best=n_best
            ):
                if not translation.complete:
                    _say(f"cut at the length limit: {translation.source[:60]}")
                if as_json:
                    yield json.dumps(translation.to_json(), ensure_ascii=False)
                else:
                    yield translation.text

    _write_lines(outputs(), output_path)


@app.command("eval")
def evaluate(
    model: ModelPath = None,
    src_path: Annotated[Path | None, typer.Option("--src", help="source texts")] = None,
    ref_path: Annotated[Path | None, typer.Option("--ref", help="their references")] = None,
    hyp_path: Annotated[
        Path | None, typer.Option("--hyp", help="score this file instead of translating")
    ] = None,
    bleu: Annotated[bool, typer.Option("--bleu")] = False,
    chrf: Annotated[bool, typer.Option("--chrf")] = False,
    ter: Annotated[bool, typer.Option("--ter")] = False,
    lang: Annotated[
        str | None, typer.Option(help="target language, with --hyp and without a model")
    ] = None,
    beam: Annotated[int | None, typer.Option(min=1)] = None,
    confidence: Annotated[
        bool, typer.Option(help="95 % interval from 1000 bootstrap samples")
    ] = False,
    min_bleu: Annotated[float | None, typer.Option(help="exit 1 if BLEU is lower")] = None,
    as_json: AsJson = False,
) -> None:
    """Score a model with sacreBLEU, by default on its run's own test sets, with BLEU and chrF."""
    from transformer_mt.inference.evaluation import evaluate_model, evaluate_translations
    from transformer_mt.inference.metrics import format_table

    chosen = [name for name, on in (("bleu", bleu), ("chrf", chrf), ("ter", ter)) if on]
    if min_bleu is not None and "bleu" not in chosen:
        chosen.insert(0, "bleu")
    metrics = tuple(chosen) or ("bleu", "chrf")
    n_samples = 1000 if confidence else 0
    if hyp_path is not None:
        if ref_path is None or lang is None:
            raise TmtError("--hyp needs --ref FILE and --lang CODE")
        results = evaluate_translations(hyp_path, ref_path, lang, metrics, n_samples)
    else:
        results = evaluate_model(
            _model_path(model), src_path, ref_path, metrics, beam=beam, confidence=n_samples
        )
    if as_json:
        print(json.dumps({n: {m: s.to_json() for m, s in r.items()} for n, r in results.items()}))
    else:
        print(format_table(results))
    low = [
        name for name, r in results.items() if min_bleu is not None and r["bleu"].score < min_bleu
    ]
    if low:
        _say(f"tmt: BLEU is below {min_bleu} on {', '.join(low)}")
        raise typer.Exit(1)


@app.command()
def score(
    src_path: Annotated[Path, typer.Option("--src", help="source texts, one per line")],
    tgt_path: Annotated[Path, typer.Option("--tgt", help="target texts, one per line")],
    model: ModelPath = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object per line")] = False,
) -> None:
    """Print the log-probability (nats) of each target given its source, and its tokens."""
    from transformer_mt.data.corpus import split_lines

    srcs, tgts = list(split_lines(src_path)), list(split_lines(tgt_path))
    if len(srcs) != len(tgts):
        raise DataError(f"{src_path} has {len(srcs)} lines but {tgt_path} has {len(tgts)}")
    for pair in _load_translator(model).score_pairs(srcs, tgts):
        if as_json:
            print(json.dumps({"log_prob": pair.log_prob, "n_tokens": pair.n_tokens}))
        else:
            print(f"{pair.log_prob:.4f}\t{pair.n_tokens}")


@app.command()
def average(
    run_dir: Annotated[Path, typer.Argument(help="a run directory")],
    out_dir: Annotated[Path, typer.Argument(help="the model directory to write")],
    last: Annotated[int, typer.Option(min=1, help="how many of the last checkpoints")] = 5,
) -> None:
    """Write a model directory whose weights are the mean of a run's last checkpoints."""
    from transformer_mt.experiment import average_run
    from transformer_mt.run_dir import Run

    updates = average_run(Run(run_dir), out_dir, last)
    _say(f"{out_dir}: mean of the checkpoints after updates {', '.join(map(str, updates))}")


@app.command()
def info(model: ModelPath = None, as_json: AsJson = False) -> None:
    """Say what a model directory is: languages, sizes, training, scores."""
    from transformer_mt.inference.evaluation import describe_model

    content = describe_model(_model_path(model))
    print(json.dumps(content, ensure_ascii=False, indent=2) if as_json else _render_tree(content))


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Say what this machine can do, and what is missing."""
    from transformer_mt.doctor import examine, render

    findings = examine()
    print(json.dumps([f.to_json() for f in findings], indent=2) if as_json else render(findings))


@app.command()
def explain(
    text: Annotated[str | None, typer.Argument(help="one sentence")] = None,
    target: Annotated[
        str | None, typer.Option(help="what the decoder reads; default: its own translation")
    ] = None,
    model: ModelPath = None,
    kind: Annotated[str, typer.Option(help="encoder, decoder or cross")] = "cross",
    layer: Annotated[str, typer.Option(help="a number from 1, or mean")] = "mean",
    head: Annotated[str, typer.Option(help="a number from 1, or mean")] = "mean",
    out_dir: Annotated[
        Path | None, typer.Option("-o", "--out", help="write the PNGs and the HTML page here")
    ] = None,
    numbers: Annotated[bool, typer.Option(help="print Q, K, scores, weights of one head")] = False,
    example: Annotated[
        str | None, typer.Option(help="two-words, thinking-machines or scaling")
    ] = None,
    contrast: Annotated[
        Path | None, typer.Option(help="a TSV of source, right, wrong: accuracy of the model")
    ] = None,
) -> None:
    """Show the attention of a translation: terminal, PNG, one HTML page; and worked examples."""
    from transformer_mt.inference import explain_command

    if example is not None:
        print(explain_command.example_text(example))
    elif contrast is not None:
        print(explain_command.contrast_text(_load_translator(model), contrast))
    elif text is None:
        raise TmtError("give a sentence, --example NAME or --contrast FILE")
    else:
        view = explain_command.View.parse(kind, layer, head)
        translator = _load_translator(model, precision="fp32")
        if numbers:
            print(explain_command.numbers_text(translator, text, target, view))
        else:
            print(explain_command.attention_text(translator, text, target, view, out_dir))
            if out_dir is not None:
                _say(f"pictures and page: {out_dir}")


@data_app.command("check")
def data_check(
    src_path: Annotated[Path, typer.Argument(metavar="SOURCE")],
    tgt_path: Annotated[Path, typer.Argument(metavar="TARGET")],
    src: Annotated[str, typer.Option(help="source language")],
    tgt: Annotated[str, typer.Option(help="target language")],
    as_json: AsJson = False,
) -> None:
    """Report alignment, encoding, length, repetition and language problems; exit 1 if any."""
    from transformer_mt.config import Languages
    from transformer_mt.data.check import check_files
    from transformer_mt.languages import canonical_code

    languages = Languages(src=canonical_code(src), tgt=canonical_code(tgt))
    report = check_files(src_path, tgt_path, languages)
    print(report.to_json() if as_json else "\n".join(report.summary()))
    if report.problems:
        raise typer.Exit(1)


@data_app.command("clean")
def data_clean(
    config: ConfigPath,
    out_dir: Annotated[Path, typer.Argument(help="where the clean text and the report go")],
    overrides: Overrides = None,
) -> None:
    """Run the cleaning of a configuration alone."""
    from transformer_mt.data.clean import prepare_corpus

    print("\n".join(prepare_corpus(load_config(config, overrides or ()), out_dir).summary()))


@data_app.command("demo")
def data_demo(
    out_dir: Annotated[Path, typer.Argument(help="where train, dev, test and contrast go")],
) -> None:
    """Write the bundled Chinese-English corpus."""
    from transformer_mt.data.demo import write_demo

    for path in write_demo(out_dir):
        print(path)


@tokenizer_app.command("train")
def tokenizer_train(
    input_path: Annotated[Path, typer.Argument(help="text, one sentence per line")],
    out_path: Annotated[Path, typer.Argument(help="the .model file to write")],
    lang: Annotated[list[str], typer.Option(help="language of the text; repeat for a joint one")],
    vocab_size: Annotated[int, typer.Option(min=16)] = 8000,
    model_type: Annotated[str, typer.Option("--type", help="bpe or unigram")] = "bpe",
    seed: int = 1,
) -> None:
    """Train a SentencePiece model."""
    from transformer_mt.config import TokenizerConfig
    from transformer_mt.data.corpus import split_lines
    from transformer_mt.data.tokenizer import train_tokenizer
    from transformer_mt.languages import canonical_code

    if model_type not in ("bpe", "unigram"):
        raise TmtError(f"--type {model_type}: use bpe or unigram")
    cfg = TokenizerConfig.model_validate({"type": model_type, "vocab_size": vocab_size})
    codes = [canonical_code(code) for code in lang]
    tokenizer = train_tokenizer(split_lines(input_path), out_path, cfg, codes, seed=seed)
    _say(f"{out_path}: {tokenizer.vocab_size} pieces")


@tokenizer_app.command("encode")
def tokenizer_encode(
    model_path: Annotated[Path, typer.Argument(help="a .model file")],
    text: Annotated[list[str] | None, typer.Argument(help="default: standard input")] = None,
    ids: Annotated[bool, typer.Option(help="numbers instead of pieces")] = False,
) -> None:
    """Print the pieces of each line, separated by spaces."""
    from transformer_mt.data.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(model_path)
    for line in _input_lines(text, None):
        row = tokenizer.encode([line])[0]
        print(*(row if ids else tokenizer.pieces(row)))


@tokenizer_app.command("decode")
def tokenizer_decode(
    model_path: Annotated[Path, typer.Argument(help="a .model file")],
    text: Annotated[list[str] | None, typer.Argument(help="lines of ids")] = None,
) -> None:
    """Print the text of each line of ids."""
    from transformer_mt.data.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(model_path)
    for line in _input_lines(text, None):
        try:
            row = [int(number) for number in line.split()]
        except ValueError as error:
            raise DataError(f"{line[:40]!r}: expected ids, whole numbers with spaces") from error
        if any(not 0 <= number < tokenizer.vocab_size for number in row):
            raise DataError(f"{line[:40]!r}: ids run from 0 to {tokenizer.vocab_size - 1}")
        print(tokenizer.decode([row])[0])


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def _model_path(model: Path | None) -> Path:
    from transformer_mt.run_dir import find_model

    return find_model(model)


def _load_translator(model: Path | None, *, precision: str = "auto") -> "Translator":
    from transformer_mt.inference.translator import Translator

    return Translator.load(_model_path(model), precision=precision)


def _input_lines(texts: list[str] | None, path: Path | None) -> Iterator[str]:
    """Arguments, or a file's lines, or those of standard input."""
    if texts and path:
        raise TmtError("give texts or --input FILE, not both")
    if texts:
        return (line for text in texts for line in text.split("\n"))
    from transformer_mt.data.corpus import split_lines, split_stream

    return split_lines(path) if path else split_stream(sys.stdin.buffer, "standard input")


def _chunks(lines: Iterator[str], size: int) -> Iterator[list[str]]:
    chunk: list[str] = []
    for line in lines:
        chunk.append(line)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _write_lines(lines: Iterator[str], path: Path | None) -> None:
    """Print lines as they come, or put all of them into a file at once, at the end."""
    if path is None:
        for line in lines:
            print(line, flush=True)
        return
    from transformer_mt.files import writing

    with writing(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)


def _render_tree(value: Any, indent: int = 0) -> str:
    """Nested plain values as indented `key: value` lines."""
    lines = []
    for key, item in value.items():
        if isinstance(item, dict):
            lines += [f"{'  ' * indent}{key}:", _render_tree(item, indent + 1)]
        else:
            lines.append(f"{'  ' * indent}{key}: {item}")
    return "\n".join(line for line in lines if line)
