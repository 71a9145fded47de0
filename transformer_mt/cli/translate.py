"""`tmt translate`: texts, files and documents in, translations out, in order and with nothing lost.

Translations go to standard output or a file, everything else to standard error.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from transformer_mt.cli.options import (
    Device,
    ErrorsOnly,
    Into,
    find_model_path,
    input_lines,
    one_of,
    say,
    write_lines,
)
from transformer_mt.errors import DataError, TmtError
from transformer_mt.system.terminal import show_document

if TYPE_CHECKING:
    from transformer_mt.search.options import Penalty
    from transformer_mt.translation.documents.marks import Align
    from transformer_mt.translation.documents.translate import Form
    from transformer_mt.translation.result import Translation
    from transformer_mt.translation.translator import Translator

MOST_BYTES = 256 << 20  # of a document, which is held in memory as a whole
SHOWN_FAULTS = 5  # flagged translations that are named; the others are counted
LINES_AT_ONCE = 1000

# The options, in the groups of `--help`.
_option: Any = typer.Option
_search: Any = partial(typer.Option, rich_help_panel="How to search")
_choice: Any = partial(typer.Option, rich_help_panel="Instead of the best")
_words: Any = partial(typer.Option, rich_help_panel="Words")
_INPUT = "a file, one text per line; .md, .html, .srt and .jsonl keep their structure"
_MODELS = "model or run directory; default: the newest finished run; several vote"
_FORMAT = "text, markdown, html, srt or jsonl; default: by file name"
_ENGINE = (
    "native; ctranslate2, with what tmt export wrote; auto: the latter where it finds the same"
)
_RETRY = "search again where a translation has faults, such as loops"


def translate(
    text: Annotated[list[str] | None, typer.Argument(help="texts to translate")] = None,
    input_path: Annotated[Path | None, _option("-i", "--input", help=_INPUT)] = None,
    output_path: Annotated[
        Path | None, _option("-o", "--output", help="default: standard output")
    ] = None,
    models: Annotated[list[Path] | None, _option("-m", "--model", help=_MODELS)] = None,
    to: Into = None,
    form: Annotated[str | None, _option("--format", help=_FORMAT)] = None,
    field: Annotated[str, _option(help="with jsonl: the key of the text")] = "text",
    as_json: Annotated[bool, _option("--json", help="one JSON object per text")] = False,
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
    n_best: Annotated[int, _choice(min=1, help="alternatives per text, with --json")] = 1,
    diverse: Annotated[bool, _choice("--diverse", help="alternatives begin differently")] = False,
    sample: Annotated[bool, _choice("--sample", help="draw tokens at random")] = False,
    temperature: Annotated[float, _choice(min=0.01, help="of --sample")] = 1.0,
    top_k: Annotated[int, _choice(min=0, help="of --sample")] = 0,
    top_p: Annotated[float, _choice(min=0.001, max=1, help="of --sample")] = 1.0,
    seed: Annotated[int, _choice(help="of --sample")] = 1,
    mbr: Annotated[int, _choice(min=0, help="draw so many, take the one most like the others")] = 0,
    prefix: Annotated[str, _words(help="how translations begin")] = "",
    ban: Annotated[list[str] | None, _words(help="a word not to use; repeatable")] = None,
    glossary: Annotated[Path | None, _words(help="a TSV of source and target terms to use")] = None,
    device: Device = "auto",
    quiet: ErrorsOnly = False,
) -> None:
    """Translate arguments, a file, or standard input, line by line and in order."""
    from transformer_mt.search.sampling import SamplingOptions
    from transformer_mt.translation.alignment import AttentionAligner
    from transformer_mt.translation.glossary import Glossary
    from transformer_mt.translation.lexical_constraints import LexicalConstraints

    terms = None if glossary is None else Glossary.read(glossary)
    request: dict[str, Any] = dict(
        to=to, constraints=LexicalConstraints(prefix, ban or (), terms), retry=retry,
        beam=beam, penalty=_penalty(penalty, engine), length_penalty=length_penalty,
        max_length_ratio=max_length_ratio, min_length=min_length, max_length=max_length,
        no_repeat_ngram=no_repeat_ngram, repetition_penalty=repetition_penalty, n_best=n_best,
        diverse=diverse, mbr=mbr,
        sampling=SamplingOptions(temperature, top_k, top_p, seed) if sample else None,
    )  # fmt: skip
    document_form = _form(form, input_path, text, as_json)
    lines = input_lines(text, input_path) if document_form == "text" else None
    translator = _load(models, engine)
    checked = CheckedTranslator(partial(translator.translate, **request))
    if lines is not None:
        interactive = not text and not input_path and sys.stdin.isatty()
        size = 1 if interactive else LINES_AT_ONCE
        batches = iter(lambda: list(islice(lines, size)), [])
        write_lines(checked.lines(batches, as_json), output_path)
    else:
        align = AttentionAligner(translator, to=to)
        _write_document(input_path, output_path, document_form, field, checked.texts, align)
    checked.tell_of_faults()


def _penalty(name: str | None, engine: str) -> "Penalty | None":
    from transformer_mt.search.options import Penalty

    if engine == "ctranslate2" and name is None:
        say("CTranslate2 divides scores by length^α: --penalty average")
        return "average"
    kinds: tuple[Penalty, ...] = get_args(Penalty)
    return None if name is None else one_of("--penalty", name, kinds)


def _load(models: Sequence[Path] | None, engine: str) -> "Translator":
    """One model, or several that vote, with the engine that was asked for."""
    from transformer_mt.export.ctranslate2_engine import exported_engine, faster_engine
    from transformer_mt.system.device import keep_memory
    from transformer_mt.translation.translator import Translator

    one_of("--engine", engine, ("auto", "native", "ctranslate2"))
    paths = [find_model_path(model) for model in models or (None,)]
    keep_memory()
    translator = Translator.load(*paths)
    if engine == "ctranslate2" and len(paths) > 1:
        raise TmtError("--engine ctranslate2 takes one model; several vote with native")
    if engine == "native" or len(paths) > 1:
        return translator
    load = exported_engine if engine == "ctranslate2" else faster_engine
    return translator.with_engine(load(translator, paths[0]))


class CheckedTranslator:
    """Translates, and tells of translations with faults."""

    def __init__(self, translate: "Callable[[list[str]], list[Translation]]") -> None:
        self._translate = translate
        self._n_texts = self._n_flagged = self._n_strange = 0
        self._faults: Counter[str] = Counter()

    def lines(self, batches: Iterator[list[str]], as_json: bool) -> Iterator[str]:
        """A line for each text."""
        for batch in batches:
            for found in self._checked(batch):
                yield json.dumps(found.to_json(), ensure_ascii=False) if as_json else found.text

    def texts(self, texts: list[str]) -> list[str]:
        return [found.text for found in self._checked(texts)]

    def _checked(self, texts: list[str]) -> list["Translation"]:
        translations = self._translate(texts)
        self._n_texts += len(translations)
        for translation in translations:
            if translation.faults:
                self._n_flagged += 1
                self._faults.update(translation.faults)
                if self._n_flagged <= SHOWN_FAULTS:
                    say(f"{', '.join(translation.faults)}: {translation.source[:60]}")
            if translation.input.notes:
                self._n_strange += 1
                if self._n_strange <= SHOWN_FAULTS:
                    say(f"strange text: {'; '.join(translation.input.notes)}: "
                        f"{translation.source[:60]}")  # fmt: skip
        return translations

    def tell_of_faults(self) -> None:
        """The sums, if more were found than were named."""
        if self._n_strange > SHOWN_FAULTS:
            say(f"{self._n_strange} of {self._n_texts} texts are strange to this model")
        if self._n_flagged > SHOWN_FAULTS:
            counts = ", ".join(f"{fault} {n}" for fault, n in self._faults.most_common())
            say(f"{self._n_flagged} of {self._n_texts} translations have faults: {counts}")


def _form(
    name: str | None, path: Path | None, texts: Sequence[str] | None, as_json: bool
) -> "Form":
    """The form of the input, by its option or by the name of the file."""
    from transformer_mt.translation.documents.translate import FORMS, Form, form_of

    form: Form = "text" if path is None else form_of(path)
    if name is not None:
        form = one_of("--format", name, FORMS)
    if form != "text" and texts:
        raise TmtError(f"--format {form} is for files and standard input")
    if form != "text" and as_json:
        raise TmtError(f"--json goes with lines of text, not with {form}")
    return form


def _write_document(
    input_path: Path | None,
    output_path: Path | None,
    form: "Form",
    field: str,
    translated: Callable[[list[str]], list[str]],
    align: "Align",
) -> None:
    """Translate a file, or standard input, as a whole."""
    from transformer_mt.system.output import write_text
    from transformer_mt.translation.documents.translate import translate_document

    text = _read_document(input_path)
    try:
        result = translate_document(text, form, translated, field=field, align=align)
    except DataError as error:
        raise DataError(f"{input_path or 'standard input'}: {error}") from error
    if output_path is None:
        show_document(result)
    else:
        write_text(output_path, result)


def _read_document(path: Path | None) -> str:
    """A whole file or standard input, line ends as they are."""
    where = "standard input" if path is None else str(path)
    try:
        with nullcontext(sys.stdin.buffer) if path is None else path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise TmtError(f"{where}: more than {MOST_BYTES >> 20} MiB; divide the document")
        return content.decode()
    except OSError as error:
        raise TmtError(f"{where}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TmtError(f"{where}: not UTF-8 text (byte {error.start + 1})") from error
