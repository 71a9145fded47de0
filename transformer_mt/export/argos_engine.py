"""Argos Translate: what it makes of exported packages."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from transformer_mt.export.formats import require
from transformer_mt.text.languages import canonical_code
from transformer_mt.translation.direction import direction_of
from transformer_mt.translation.translator import Translator


class ArgosModel:
    """Argos Translate with the packages, each text as one sentence; see `ExportedModel`."""

    def __init__(self, translator: Translator, folder: Path) -> None:
        self._package = require("argostranslate.package", "Argos Translate", "argos")
        self._translate = require("argostranslate.translate", "Argos Translate", "argos")
        self._translator, self._folder = translator, folder

    def translate(self, texts: Sequence[str]) -> list[str]:
        with self._installed() as translation_to:
            return [translation_to[self._to(text)].translate(text) for text in texts]

    def log_probs(self, srcs: Sequence[str], tgts: Sequence[str]) -> list[float]:
        tokenizer, found = self._translator.tgt_tokenizer, []
        with self._installed() as translation_to:
            for src, tgt in zip(srcs, tgts, strict=True):
                translation = translation_to[self._to(src)]
                translation.translate("")  # loads the model
                pieces = tokenizer.pieces(tokenizer.encode([tgt])[0])
                read = translation.pkg.tokenizer.encode(src)
                (scored,) = translation.translator.score_batch([read], [pieces])
                found.append(sum(scored.log_probs))
        return found

    def _to(self, text: str) -> str:
        return direction_of(text, self._translator.cfg.languages, None).tgt

    @contextmanager
    def _installed(self) -> Iterator[dict[str, Any]]:
        """Target language → translation of Argos; the packages are installed meanwhile."""
        settings, found = self._package.settings, {}
        with TemporaryDirectory() as folder, patch.multiple(
            settings, package_data_dir=Path(folder), device="cpu", beam_size=1,
            compute_type="default",  # that of the package
        ):  # fmt: skip
            for path in self._folder.glob("*.argosmodel"):
                self._package.install_from_path(path)
            for package in self._package.get_installed_packages([Path(folder)]):
                translation = self._translate.PackageTranslation(None, None, package)
                translation.sentencizer = _OneSentence()
                found[canonical_code(package.to_code)] = translation
            yield found


class _OneSentence:
    """In place of the splitter that Argos fetches from the network."""

    def split_sentences(self, text: str) -> list[str]:
        return [text]
