"""`tmt translate`: texts, files and documents in, translations out, in order and with nothing lost.

Translations go to standard output or a file, everything else to standard error.
"""

import sys
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

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
from transformer_mt.cli.translation_job import (
    TEXTS_AT_ONCE,
    TranslationJob,
    alternatives,
    as_json,
    best,
)
from transformer_mt.errors import DataError, TmtError
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.terminal import show_document

if TYPE_CHECKING:
    from transformer_mt.search.options import Penalty
    from transformer_mt.search.sampling import SamplingOptions
    from transformer_mt.translation.documents.forms import Form, PackageForm
    from transformer_mt.translation.documents.marks import Align
    from transformer_mt.translation.lexical_constraints import LexicalConstraints
    from transformer_mt.translation.partial_output import PartialOutput
    from transformer_mt.translation.translator import Translator

MOST_BYTES = 256 << 20  # of a document, which is held in memory as a whole

# The options, in the groups of `--help`.
_option: Any = typer.Option
_search: Any = partial(typer.Option, rich_help_panel="How to search")
_choice: Any = partial(typer.Option, rich_help_panel="Instead of the best")
_words: Any = partial(typer.Option, rich_help_panel="Words")
_INPUT = (
    "a file, one text per line; .md, .html, .docx, .pptx, .odt, .odp, .srt, .vtt and "
    ".jsonl keep their structure"
)
_MODELS = "model or run directory, or hf:OWNER/NAME; several vote; default: the newest finished run"
_FORMAT = "text, markdown, html, srt, vtt, jsonl, docx, pptx, odt or odp; default: by file name"
_FORCE = "replace the input by its translation, or begin a stopped translation anew"
_ENGINE = "native; ctranslate2, with an export of it; auto: the latter where it finds the same"
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
    no_repeat_ngram: Annotated[int, _search(min=0, help="no n tokens in a row twice")] = 0,
    repetition_penalty: Annotated[float, _search(min=1, help="on tokens written before")] = 1.0,
    n_best: Annotated[int, _choice(min=1, help="alternatives per text, a line for each")] = 1,
    diverse: Annotated[bool, _choice("--diverse", help="alternatives begin differently")] = False,
    sample: Annotated[bool, _choice("--sample", help="draw tokens at random")] = False,
    temperature: Annotated[float, _choice(min=0.01, help="of --sample")] = 1.0,
    top_k: Annotated[int, _choice(min=0, help="of --sample")] = 0,
    top_p: Annotated[float, _choice(min=0.001, max=1, help="of --sample")] = 1.0,
    seed: Annotated[int, _choice(help="of --sample")] = 1,
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
        max_length=max_length, no_repeat_ngram=no_repeat_ngram,
        repetition_penalty=repetition_penalty, n_best=n_best, diverse=diverse, mbr=mbr,
    )  # fmt: skip
    drawing = SamplingOptions(temperature, top_k, top_p, seed) if sample else None
    name = _form(form, input_path, text, "--json" if json else "--n-best" if n_best > 1 else "")
    files = _Files(input_path, output_path, name, field)
    words = (prefix, ban, glossary)
    call = _Call(text, files, models, search, drawing, words, json, force, precision)
    call.run(engine, is_form_given=form is not None)


@dataclass(frozen=True)
class _Call:
    """What a command line asks for, apart from the engine."""

    texts: list[str] | None
    files: "_Files"
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
        is_typed = not self.texts and not input_path and sys.stdin.isatty()
        options = [*self._kept_options(), type(translator.engine).__name__]
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

    def _kept_options(self) -> list[Any]:
        """All that the translations of a stopped call depend on, besides input and model."""
        from transformer_mt.system.state import sha256

        prefix, banned, glossary = self.words
        return [
            self.search, self.files.form, self.files.field, self.json, prefix, banned,
            self.drawing and astuple(self.drawing), glossary and sha256(glossary), self.precision,
        ]  # fmt: skip


def _penalty(name: str | None, engine: str) -> "Penalty | None":
    from transformer_mt.search.options import Penalty

    if engine == "ctranslate2" and name is None:
        say(tr("CTranslate2 divides scores by length^α: --penalty average"))
        return "average"
    kinds: tuple[Penalty, ...] = get_args(Penalty)
    return None if name is None else one_of("--penalty", name, kinds)


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


@dataclass(frozen=True)
class _Files:
    """Where the text comes from, and where its translation goes."""

    input_path: Path | None
    output_path: Path | None
    form: "Form | PackageForm"
    field: str  # with jsonl

    def check(self, force: bool) -> None:
        """Raises: TmtError: files that cannot be read or written, before the work is done."""
        from transformer_mt.corpus.readers.lines import missing
        from transformer_mt.system.output import check_file_target
        from transformer_mt.translation.documents.forms import PACKAGE_FORMS, refuse_binary

        if self.output_path is not None:
            check_file_target(self.output_path)
        if self.form in PACKAGE_FORMS and not (self.input_path and self.output_path):
            raise TmtError(
                tr(
                    "a {} is not text to type or to print: give its files, -i IN.{} -o OUT.{}",
                    self.form,
                    self.form,
                    self.form,
                )
            )
        if self.input_path is None:
            return
        if not self.input_path.exists():
            raise DataError(missing(self.input_path))
        if self.form not in PACKAGE_FORMS and self.input_path.is_file():
            refuse_binary(self.input_path)
        with suppress(OSError):  # the output is not there
            same = self.output_path is not None and self.input_path.samefile(self.output_path)
            if same and self.input_path.is_file() and not force:
                raise TmtError(
                    tr(
                        "{}: is the input itself, and its text would be lost; name "
                        "another output, or add --force to replace it",
                        self.output_path,
                    )
                )

    def can_keep(self) -> bool:
        """Whether a stopped translation can go on: the input can be read again."""
        if self.input_path is None or self.output_path is None or not self.input_path.is_file():
            return False
        return self.output_path.is_file() or not self.output_path.exists()

    def keep(
        self, models: Sequence[Path], options: Any, fresh: bool, at_once: int
    ) -> "PartialOutput":
        """Args: options: all else that the translations are made from."""
        from transformer_mt import __version__
        from transformer_mt.system.state import fingerprint, sha256
        from transformer_mt.translation.partial_output import PartialOutput

        assert self.input_path is not None and self.output_path is not None
        made_from = {
            "input": sha256(self.input_path),
            "model": fingerprint([sha256(path / "metadata.json") for path in models]),
            "options": fingerprint(__version__, [*options, at_once]),
        }
        return PartialOutput(self.output_path, made_from, at_once=at_once, fresh=fresh)

    def n_lines(self) -> int | None:
        """None: not known before they are read."""
        from transformer_mt.corpus.readers.lines import split_lines

        if self.input_path is None or not self.input_path.is_file():
            return None
        return sum(1 for _ in split_lines(self.input_path))

    def write_document(self, job: TranslationJob, align: "Align") -> None:
        """Translate a file, or standard input, as a whole."""
        from transformer_mt.system.output import writing
        from transformer_mt.translation.documents.forms import PACKAGE_FORMS
        from transformer_mt.translation.documents.translate import (
            translate_document,
            translate_package,
        )

        def translated(texts: list[str]) -> list[str]:
            return list(job.outputs(texts, len(texts), best))

        where = self.input_path or tr("standard input")
        content = self._content()
        try:
            if self.form in PACKAGE_FORMS:
                result = translate_package(content, self.form, translated, align=align)
            else:
                form, text = cast("Form", self.form), content.decode()
                result = translate_document(
                    text, form, translated, field=self.field, align=align
                ).encode()
        except DataError as error:
            raise DataError(f"{where}: {error}") from error
        except UnicodeDecodeError as error:
            raise TmtError(tr("{}: not UTF-8 text (byte {})", where, error.start + 1)) from error
        if self.output_path is None:
            show_document(result.decode())
        else:
            with writing(self.output_path) as temporary:
                temporary.write_bytes(result)

    def _content(self) -> bytes:
        """The whole input, line ends as they are."""
        from transformer_mt.corpus.readers.lines import open_bytes

        path = self.input_path
        with nullcontext(sys.stdin.buffer) if path is None else open_bytes(path) as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            where = path or tr("standard input")
            raise TmtError(tr("{}: more than {} MiB; divide the document", where, MOST_BYTES >> 20))
        return content
