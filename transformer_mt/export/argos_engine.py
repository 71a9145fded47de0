"""Argos Translate: what it makes of exported packages."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from transformer_mt.export.formats import require
from transformer_mt.text.languages import canonical_code
from transformer_mt.translation.translator import Translator


class ArgosModel:
    """Argos Translate with the packages, each text as one sentence; see `ExportedModel`."""

    def __init__(self, translator: Translator, folder: Path) -> None:
        self._package = require("argostranslate.package", "Argos Translate", "argos")
        self._translate = require("argostranslate.translate", "Argos Translate", "argos")
        self._translator, self._folder = translator, folder

    def translate(self, texts: Sequence[str]) -> list[str]:
        with self._installed() as translation:
            return [translation.translate(text) for text in texts]

    def log_probs(self, srcs: Sequence[str], tgts: Sequence[str]) -> list[float]:
        tokenizer, found = self._translator.tgt_tokenizer, []
        with self._installed() as translation:
            translation.translate("")  # loads the model
            for src, tgt in zip(srcs, tgts, strict=True):
                pieces = tokenizer.pieces(tokenizer.encode([tgt])[0])
                read = translation.pkg.tokenizer.encode(src)
                (scored,) = translation.translator.score_batch([read], [pieces])
                found.append(sum(scored.log_probs))
        return found

    @contextmanager
    def _installed(self) -> Iterator[Any]:
        """Argos's translation into the target language; the packages are installed meanwhile."""
        settings, to = self._package.settings, self._translator.cfg.languages.tgt
        with TemporaryDirectory() as folder, patch.multiple(
            settings, package_data_dir=Path(folder), device="cpu", beam_size=1,
            compute_type="default",  # that of the package
        ):  # fmt: skip
            for path in self._folder.glob("*.argosmodel"):
                self._package.install_from_path(path)
            packages = self._package.get_installed_packages([Path(folder)])
            (package,) = [one for one in packages if canonical_code(one.to_code) == to]
            translation = self._translate.PackageTranslation(None, None, package)
            translation.sentencizer = _OneSentence()
            yield translation


class _OneSentence:
    """In place of the splitter that Argos fetches from the network."""

    def split_sentences(self, text: str) -> list[str]:
        return [text]
