"""`tmt translate`: texts, files and documents in, translations out, in order and with nothing lost.

Translations go to standard output or a file, everything else to standard error.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from transformer_mt.cli.options import (
    Into,
    chunks,
    find_model_path,
    input_lines,
    say,
    write_lines,
)
from transformer_mt.errors import DataError, TmtError

if TYPE_CHECKING:
    from transformer_mt.translation.documents.marks import Align
    from transformer_mt.translation.documents.translate import Form
    from transformer_mt.translation.request import Translation
    from transformer_mt.translation.translator import Translator

MOST_BYTES = 256 << 20  # of a document, which is held in memory as a whole
SHOWN_FAULTS = 5  # flagged translations that are named; the others are counted
SEARCH, CHOICE, WORDS = "How to search", "Instead of the best", "Words"


def translate(
    text: Annotated[list[str] | None, typer.Argument(help="texts to translate")] = None,
    input_path: Annotated[
        Path | None, typer.Option("-i", "--input", help="a file, one text per line; .md, .html, "
                                  ".srt and .jsonl keep their structure")
    ] = None,
    output_path: Annotated[
        Path | None, typer.Option("-o", "--output", help="default: standard output")
    ] = None,
    models: Annotated[
        list[Path] | None,
        typer.Option(
            "-m", "--model",
            help="model or run directory; default: the newest finished run; several vote",
        ),
    ] = None,
    to: Into = None,
    form: Annotated[
        str | None,
        typer.Option("--format", help="text, markdown, html, srt or jsonl; default: by file name"),
    ] = None,
    field: Annotated[str, typer.Option(help="with jsonl: the key of the text")] = "text",
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object per text")] = False,
    engine: Annotated[
        str,
        typer.Option(help="native; ctranslate2, with what tmt export wrote; auto: the latter where "
                     "it finds the same"),
    ] = "auto",
    retry: Annotated[
        bool, typer.Option(help="search again where a translation has faults, such as loops")
    ] = True,
    beam: Annotated[
        int | None, typer.Option(min=1, help="1 is greedy search", rich_help_panel=SEARCH)
    ] = None,
    penalty: Annotated[
        str | None, typer.Option(help="gnmt or average", rich_help_panel=SEARCH)
    ] = None,
    length_penalty: Annotated[float | None, typer.Option(min=0, rich_help_panel=SEARCH)] = None,
    max_length_ratio: Annotated[
        float | None, typer.Option(help="tokens per source token", rich_help_panel=SEARCH)
    ] = None,
    min_length: Annotated[int, typer.Option(min=0, help="tokens", rich_help_panel=SEARCH)] = 0,
    max_length: Annotated[
        int | None, typer.Option(min=1, help="tokens", rich_help_panel=SEARCH)
    ] = None,
    no_repeat_ngram: Annotated[
        int, typer.Option(min=0, help="no n tokens in a row twice", rich_help_panel=SEARCH)
    ] = 0,
    repetition_penalty: Annotated[
        float, typer.Option(min=1, help="on tokens written before", rich_help_panel=SEARCH)
    ] = 1.0,
    n_best: Annotated[
        int, typer.Option(min=1, help="alternatives per text, with --json", rich_help_panel=CHOICE)
    ] = 1,
    diverse: Annotated[
        bool,
        typer.Option("--diverse", help="alternatives begin differently", rich_help_panel=CHOICE),
    ] = False,
    sample: Annotated[
        bool, typer.Option("--sample", help="draw tokens at random", rich_help_panel=CHOICE)
    ] = False,
    temperature: Annotated[
        float, typer.Option(min=0.01, help="of --sample", rich_help_panel=CHOICE)
    ] = 1.0,
    top_k: Annotated[int, typer.Option(min=0, help="of --sample", rich_help_panel=CHOICE)] = 0,
    top_p: Annotated[
        float, typer.Option(min=0.001, max=1, help="of --sample", rich_help_panel=CHOICE)
    ] = 1.0,
    seed: Annotated[int, typer.Option(help="of --sample", rich_help_panel=CHOICE)] = 1,
    mbr: Annotated[
        int, typer.Option(min=0, help="draw so many, take the one most like the others",
                          rich_help_panel=CHOICE)
    ] = 0,
    prefix: Annotated[
        str, typer.Option(help="how translations begin", rich_help_panel=WORDS)
    ] = "",
    ban: Annotated[
        list[str] | None, typer.Option(help="a word not to use; repeatable", rich_help_panel=WORDS)
    ] = None,
    glossary: Annotated[
        Path | None,
        typer.Option(help="a TSV of source and target terms to use", rich_help_panel=WORDS),
    ] = None,
) -> None:  # fmt: skip
    """Translate arguments, a file, or standard input, line by line and in order."""
    from transformer_mt.search.sampling import Sampling
    from transformer_mt.system.device import keep_memory
    from transformer_mt.translation.alignment import AttentionAligner
    from transformer_mt.translation.glossary import Glossary
    from transformer_mt.translation.request import Wishes
    from transformer_mt.translation.translator import Translator

    document_form = _form(form, input_path)
    if document_form != "text" and text:
        raise TmtError(f"--format {document_form} is for files and standard input")
    lines = input_lines(text, input_path) if document_form == "text" else iter([])
    wishes = Wishes(prefix, ban or (), None if glossary is None else Glossary.read(glossary))
    sampling = Sampling(temperature, top_k, top_p, seed) if sample else None
    if penalty not in (None, "gnmt", "average"):
        raise TmtError(f"--penalty {penalty}: expected gnmt or average")
    if engine == "ctranslate2" and penalty is None:
        penalty = "average"
        say("CTranslate2 divides scores by length^α: --penalty average")
    changes = {
        "beam": beam, "penalty": penalty, "length_penalty": length_penalty,
        "max_length_ratio": max_length_ratio, "min_length": min_length, "max_length": max_length,
        "no_repeat_ngram": no_repeat_ngram, "repetition_penalty": repetition_penalty,
        "n_best": n_best, "diverse": diverse, "sampling": sampling, "mbr": mbr,
    }  # fmt: skip
    paths = [find_model_path(model) for model in models or (None,)]
    keep_memory()
    translator = Translator.load(*paths)
    translator = _with_engine(translator, paths, engine)
    flagged = _Flagged()

    def found(texts: Sequence[str]) -> list["Translation"]:
        translations = translator.translate(texts, to=to, wishes=wishes, retry=retry, **changes)
        flagged.add(translations)
        return translations

    if document_form == "text":
        interactive = not text and not input_path and sys.stdin.isatty()
        batches = chunks(lines, 1 if interactive else 1000)
        write_lines((_line(t, as_json) for batch in batches for t in found(batch)), output_path)
    else:
        if as_json:
            raise TmtError(f"--json goes with lines of text, not with {document_form}")

        def texts_of(segments: list[str]) -> list[str]:
            return [translation.text for translation in found(segments)]

        align = AttentionAligner(translator, to=to)
        _write_document(input_path, output_path, document_form, field, texts_of, align)
    flagged.tell()


def _with_engine(translator: "Translator", paths: Sequence[Path], engine: str) -> "Translator":
    """The same texts and rules, searched by the engine that was asked for."""
    from transformer_mt.export.ctranslate2_engine import exported_engine, faster_engine
    from transformer_mt.translation.translator import Translator

    if engine not in ("auto", "native", "ctranslate2"):
        raise TmtError(f"--engine {engine}: expected auto, native or ctranslate2")
    if engine == "ctranslate2" and len(paths) > 1:
        raise TmtError("--engine ctranslate2 takes one model; several vote with native")
    if engine == "native" or len(paths) > 1:
        return translator
    load = exported_engine if engine == "ctranslate2" else faster_engine
    tokenizers = translator.src_tokenizer, translator.tgt_tokenizer
    searching = load(translator, paths[0])
    return Translator(translator.model, tokenizers, translator.cfg, engine=searching)


def _form(form: str | None, path: Path | None) -> "Form":
    """What was asked for, or what the name of the file says."""
    from transformer_mt.translation.documents.translate import Form, form_of

    if form is None:
        return "text" if path is None else form_of(path)
    forms: tuple[Form, ...] = get_args(Form)
    for known in forms:
        if form == known:
            return known
    raise TmtError(f"--format {form}: expected {', '.join(forms)}")


def _line(translation: "Translation", as_json: bool) -> str:
    if as_json:
        return json.dumps(translation.to_json(), ensure_ascii=False)
    return translation.text


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
        sys.stdout.buffer.write(result.encode())
    else:
        write_text(output_path, result)


def _read_document(path: Path | None) -> str:
    """A whole file or standard input, line ends as they are.

    Raises:
        TmtError: it cannot be read, is too large, or is not UTF-8.
    """
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


class _Flagged:
    """Counts translations with faults, and tells of them."""

    def __init__(self) -> None:
        self._n_texts = self._n_flagged = 0
        self._faults: Counter[str] = Counter()

    def add(self, translations: Sequence["Translation"]) -> None:
        self._n_texts += len(translations)
        for translation in translations:
            if translation.faults:
                self._n_flagged += 1
                self._faults.update(translation.faults)
                if self._n_flagged <= SHOWN_FAULTS:
                    say(f"{', '.join(translation.faults)}: {translation.source[:60]}")

    def tell(self) -> None:
        if self._n_flagged > SHOWN_FAULTS:
            counts = ", ".join(f"{fault} {n}" for fault, n in self._faults.most_common())
            say(f"{self._n_flagged} of {self._n_texts} translations have faults: {counts}")
