"""`tmt translate`: texts, files and documents in, translations out, in order and with nothing lost.

Translations go to standard output or a file, everything else to standard error.
"""

import sys
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from transformer_mt.cli.options import (
    Device,
    ErrorsOnly,
    Into,
    SearchPrecision,
    find_model_path,
    input_lines,
    one_of,
    say,
    write_lines,
)
from transformer_mt.cli.translation_files import TranslationFiles
from transformer_mt.cli.translation_job import (
    TEXTS_AT_ONCE,
    TranslationJob,
    alternatives,
    as_json,
    best,
)
from transformer_mt.errors import TmtError
from transformer_mt.messages.catalogue import tr

if TYPE_CHECKING:
    from transformer_mt.search.options import Penalty
    from transformer_mt.search.sampling import SamplingOptions
    from transformer_mt.translation.documents.forms import Form, PackageForm
    from transformer_mt.translation.lexical_constraints import LexicalConstraints
    from transformer_mt.translation.translator import Translator

# The options, in the groups of `--help`.
_option: Any = typer.Option
_search: Any = partial(typer.Option, rich_help_panel="How to search")
_choice: Any = partial(typer.Option, rich_help_panel="Instead of the best")
_words: Any = partial(typer.Option, rich_help_panel="Words")
_INPUT = (
    "a file, one text per line; .md, .html, .xml, .docx, .pptx, .odt, .odp, .srt, .vtt and "
    ".jsonl keep their structure"
)
_MODELS = "model or run directory, or hf:OWNER/NAME; several vote; default: the newest finished run"
_FORMAT = (
    "text, markdown, html, xml, srt, vtt, jsonl, docx, pptx, odt or odp; default: by file name"
)
_FORCE = "replace the input by its translation, or begin a stopped translation anew"
_ENGINE = "native; ctranslate2, with an export of it; auto: the latter where it finds the same"
_DRAW = "of --sample and --mbr"
_DRAWING = "--temperature, --top-k, --top-p, --seed"
_CHANNEL = "weight of the source's words, given a translation of the beam; 0: none"
_RETRY = "search again where a translation has faults, such as loops"


def translate(
    text: Annotated[list[str] | None, typer.Argument(help="texts to translate")] = None,
    input_path: Annotated[Path | None, _option("-i", "--input", help=_INPUT)] = None,
    output_path: Annotated[
        Path | None, _option("-o", "--output", help="default: standard output")
    ] = None,
    force: Annotated[bool, _option("--force", help=_FORCE)] = False,
    models: Annotated[list[Path] | None, _option("-m", "--model", help=_MODELS)] = None,
    to: Into = None,
    form: Annotated[str | None, _option("--format", help=_FORMAT)] = None,
    field: Annotated[str, _option(help="with jsonl: the key of the text")] = "text",
    json: Annotated[bool, _option("--json", help="one JSON object per text")] = False,
    engine: Annotated[str, _option(help=_ENGINE)] = "auto",
    retry: Annotated[bool, _option(help=_RETRY)] = True,
    beam: Annotated[int | None, _search(min=1, help="1 is greedy search")] = None,
    penalty: Annotated[str | None, _search(help="gnmt or average")] = None,
    length_penalty: Annotated[float | None, _search(min=0, help="0: none")] = None,
    max_length_ratio: Annotated[float | None, _search(help="tokens per source token")] = None,
    min_length: Annotated[int, _search(min=0, help="tokens")] = 0,
    max_length: Annotated[int | None, _search(min=1, help="tokens")] = None,
    channel: Annotated[float | None, _search(min=0, max=100, help=_CHANNEL)] = None,
    no_repeat_ngram: Annotated[int, _search(min=0, help="no n tokens in a row twice")] = 0,
    repetition_penalty: Annotated[float, _search(min=1, help="on tokens written before")] = 1.0,
    n_best: Annotated[int, _choice(min=1, help="alternatives per text, a line for each")] = 1,
    diverse: Annotated[bool, _choice("--diverse", help="alternatives begin differently")] = False,
    sample: Annotated[bool, _choice("--sample", help="draw tokens at random")] = False,
    temperature: Annotated[float, _choice(min=0.01, help=_DRAW)] = 1.0,
    top_k: Annotated[int, _choice(min=0, help=_DRAW)] = 0,
    top_p: Annotated[float, _choice(min=0.001, max=1, help=_DRAW)] = 1.0,
    seed: Annotated[int, _choice(help=_DRAW)] = 1,
    mbr: Annotated[int, _choice(min=0, help="draw so many, take the one most like the others")] = 0,
    prefix: Annotated[str, _words(help="how translations begin")] = "",
    ban: Annotated[list[str] | None, _words(help="a word not to use; repeatable")] = None,
    glossary: Annotated[Path | None, _words(help="a TSV or CSV of source and target terms")] = None,
    device: Device = "auto",
    precision: SearchPrecision = "auto",
    quiet: ErrorsOnly = False,
) -> None:
    """Translate arguments, a file, or standard input, line by line and in order."""
    from transformer_mt.search.sampling import SamplingOptions

    search: dict[str, Any] = dict(
        to=to, retry=retry, beam=beam, penalty=_penalty(penalty, engine),
        length_penalty=length_penalty, max_length_ratio=max_length_ratio, min_length=min_length,
        max_length=max_length, channel=channel, no_repeat_ngram=no_repeat_ngram,
        repetition_penalty=repetition_penalty, n_best=n_best, diverse=diverse, mbr=mbr,
    )  # fmt: skip
    drawing: SamplingOptions | None = SamplingOptions(temperature, top_k, top_p, seed)
    if not (sample or mbr):
        if drawing != SamplingOptions():
            raise TmtError(tr("{} go with --sample or --mbr", _DRAWING))
        drawing = None
    name = _form(form, input_path, text, "--json" if json else "--n-best" if n_best > 1 else "")
    files = TranslationFiles(input_path, output_path, name, field)
    words = (prefix, ban, glossary)
    call = _Call(text, files, models, search, drawing, words, json, force, precision)
    call.run(engine, is_form_given=form is not None)


@dataclass(frozen=True)
class _Call:
    """What a command line asks for, apart from the engine."""

    texts: list[str] | None
    files: TranslationFiles
    models: list[Path] | None
    search: dict[str, Any]
    drawing: "SamplingOptions | None"
    words: tuple[str, list[str] | None, Path | None]  # prefix, banned ones, glossary
    json: bool
    force: bool
    precision: str

    def run(self, engine: str, *, is_form_given: bool) -> None:
        from transformer_mt.translation.documents.forms import is_known, unknown_form

        files, input_path = self.files, self.files.input_path
        files.check(self.force)
        constraints = self._constraints()
        lines = input_lines(self.texts, input_path) if files.form == "text" else None
        n_lines = files.n_lines() if lines is not None else None
        paths = [find_model_path(model) for model in self.models or (None,)]
        translator = _load(paths, engine, self.precision)
        languages = (translator.cfg.languages.src, translator.cfg.languages.tgt)
        if input_path is not None and not is_form_given and not is_known(input_path, languages):
            say(unknown_form(input_path))
        is_document = files.form not in ("text", "jsonl")
        if is_document and translator.cfg.languages.bidirectional and not self.search["to"]:
            self.search["to"] = files.target(translator.cfg.languages)
        is_typed = not self.texts and not input_path and sys.stdin.isatty()
        options = [*self._kept_options(constraints), type(translator.engine).__name__]
        found = partial(
            translator.translate, constraints=constraints, sampling=self.drawing, **self.search
        )
        with TranslationJob(
            found,
            at_once=1 if is_typed else TEXTS_AT_ONCE,
            keep=partial(files.keep, paths, options, self.force) if files.can_keep() else None,
            bar=not self.texts and (files.output_path is not None or not sys.stdout.isatty()),
        ) as job:
            if lines is None:
                from transformer_mt.translation.alignment import AttentionAligner

                aligner = AttentionAligner(translator, to=self.search["to"])
                files.write_document(job, job.showing(aligner))
            else:
                text_of = alternatives if self.search["n_best"] > 1 else best
                write = as_json if self.json else text_of
                write_lines(job.outputs(lines, n_lines, write), files.output_path)

    def _constraints(self) -> "LexicalConstraints":
        from transformer_mt.translation.glossary import Glossary
        from transformer_mt.translation.lexical_constraints import LexicalConstraints

        prefix, banned, glossary = self.words
        terms = None if glossary is None else Glossary.read(glossary)
        return LexicalConstraints(prefix, banned or (), terms)

    def _kept_options(self, constraints: "LexicalConstraints") -> list[Any]:
        """All that the translations of a stopped call depend on, besides input and model."""
        prefix, banned, _ = self.words
        terms = constraints.glossary and constraints.glossary.terms
        return [
            self.search, self.files.form, self.files.field, self.json, prefix, banned,
            self.drawing and astuple(self.drawing), terms, self.precision,
        ]  # fmt: skip


def _penalty(name: str | None, engine: str) -> "Penalty | None":
    from transformer_mt.search.options import Penalty

    if engine == "ctranslate2" and name is None:
        say(tr("CTranslate2 divides scores by length^α: --penalty average"))
        return "average"
    kinds: tuple[Penalty, ...] = get_args(Penalty)
    kind = None if name is None else one_of("--penalty", name, kinds)
    if engine == "ctranslate2" and kind == "gnmt":
        why = tr("it divides scores by length^α: give --penalty average")
        raise TmtError(f"--engine ctranslate2: {why}")
    return kind


def _load(paths: Sequence[Path], engine: str, precision: str) -> "Translator":
    """One model, or several that vote, with the engine that was asked for."""
    from transformer_mt.export.ctranslate2_engine import exported_engine, faster_engine
    from transformer_mt.system.device import keep_memory
    from transformer_mt.translation.translator import Translator

    one_of("--engine", engine, ("auto", "native", "ctranslate2"))
    keep_memory()
    translator = Translator.load(*paths, precision=precision)
    if engine == "ctranslate2" and (len(paths) > 1 or precision != "auto"):
        raise TmtError(tr("--engine ctranslate2: one model, no --precision; native takes both"))
    if engine == "native" or len(paths) > 1 or precision != "auto":
        return translator
    load = exported_engine if engine == "ctranslate2" else faster_engine
    return translator.with_engine(load(translator, paths[0]))


def _form(
    name: str | None, path: Path | None, texts: Sequence[str] | None, for_lines: str
) -> "Form | PackageForm":
    """The form of the input, by its option or by the name of the file.

    Args:
        for_lines: an option that only lines of text can have.
    """
    from transformer_mt.translation.documents.forms import FORMS, PACKAGE_FORMS, form_of

    form: Form | PackageForm = "text" if path is None else form_of(path)
    if name is not None:
        form = one_of("--format", name, (*FORMS, *PACKAGE_FORMS))
    if form != "text" and texts:
        raise TmtError(tr("--format {} is for files and standard input", form))
    if form != "text" and for_lines:
        raise TmtError(tr("{} goes with lines of text, not with {}", for_lines, form))
    return form
