"""Where a text comes from, and where its translation goes: the files of `tmt translate`."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformer_mt.cli.translation_job import TranslationJob, best
from transformer_mt.errors import DataError, TmtError
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.terminal import show_document

if TYPE_CHECKING:
    from transformer_mt.config.data import Languages
    from transformer_mt.translation.documents.forms import Form, PackageForm
    from transformer_mt.translation.documents.marks import Align
    from transformer_mt.translation.partial_output import PartialOutput

MOST_BYTES = 256 << 20  # of a document, which is held in memory as a whole


@dataclass(frozen=True)
class TranslationFiles:
    """
    Attributes:
        input_path, output_path: None: standard input, standard output.
        field: with jsonl, the key of the text.
    """

    input_path: Path | None
    output_path: Path | None
    form: "Form | PackageForm"
    field: str

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
        from transformer_mt.system.output import descriptor_of

        if self.input_path is None or self.output_path is None or not self.input_path.is_file():
            return False
        if descriptor_of(self.output_path) is not None:
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
        from transformer_mt.translation.documents.translate import translate_content

        def translated(texts: list[str]) -> list[str]:
            return list(job.outputs(texts, len(texts), best))

        content = self._content  # an error of reading has the name already
        with self._named():
            result = translate_content(
                content, self.form, translated, field=self.field, align=align
            )
        if self.output_path is None:
            show_document(result.decode())
        else:
            with writing(self.output_path) as temporary:
                temporary.write_bytes(result)

    def target(self, languages: "Languages") -> str:
        """The language to translate a whole document into, as its text tells."""
        from transformer_mt.translation.direction import direction_of
        from transformer_mt.translation.documents.translate import texts_of

        content = self._content
        with self._named():
            texts = texts_of(content, self.form, field=self.field)
        return direction_of("\n".join(texts), languages, None).tgt

    @contextmanager
    def _named(self) -> Iterator[None]:
        """What is no document of its form has the name of the file in its message."""
        where = self.input_path or tr("standard input")
        try:
            yield
        except DataError as error:
            raise DataError(f"{where}: {error}") from error
        except UnicodeDecodeError as error:
            raise TmtError(tr("{}: not UTF-8 text (byte {})", where, error.start + 1)) from error

    @cached_property
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
