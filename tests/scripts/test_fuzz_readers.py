"""Foreign files: whatever their bytes are, readers give a result or a message, in linear time."""

import random
from pathlib import Path
from typing import Any

import fuzz
import fuzz_time
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_mt.errors import TmtError

TARGETS = (
    "markdown", "html", "xml", "srt", "jsonl", "sgm", "tmx", "json", "tsv", "csv", "gz", "parquet",
    "arrow", "yaml", "glossary", "archive", "record", "model config.yaml",
    "model model.safetensors", "model tokenizer.model", "model metadata.json",
)  # fmt: skip


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    found: dict[str, Any] = fuzz.targets(tmp_path_factory.mktemp("fuzz"))
    assert set(found) == set(TARGETS)
    return found


@pytest.mark.parametrize("name", TARGETS)
def test_mutated_files(targets: dict[str, Any], name: str) -> None:
    choose, seeds = random.Random(name), targets[name].seeds
    assert seeds
    for data in (*seeds, *(fuzz.mutated(choose, seeds) for _ in range(150))):
        fuzz.allowed(targets[name], data)


def test_any_bytes(targets: dict[str, Any]) -> None:
    @settings(max_examples=100, deadline=None)
    @given(st.sampled_from(TARGETS), st.binary(max_size=200))
    def allowed(name: str, data: bytes) -> None:
        fuzz.allowed(targets[name], data)

    allowed()


FORMS = ("markdown", "html", "xml", "srt", "jsonl")
MARKUP = st.lists(st.sampled_from(fuzz_time.ATOMS), max_size=30).map("".join)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(("text", *FORMS)), MARKUP)
def test_documents_stay_as_they_are(form: Any, text: str) -> None:
    """What is translated as itself keeps every byte."""
    from transformer_mt.translation.documents.translate import translate_document

    try:
        assert translate_document(text, form, lambda segments: segments) == text
    except TmtError:
        assert form == "jsonl"


HOSTILE = [
    ("sgm", ("<seg id=1>", "<seg>", "</seg")),
    ("sgm", ("", "<doc ", "")),
    ("sgm", ("<seg ", "a", ">x</seg>")),
    ("sgm", ("", "<seg </seg\n", "")),
    ("sgm", ("<seg id=1>", "&amp;", "</seg>")),
    ("tmx", ("<tmx><a b='", "x", "")),
    ("glossary", ("", "a", "\tb")),
    ("tsv", ('"a', "\n", 'b"\tc')),
    ("tsv", ("", '"a""', "\tb")),
    ("csv", ('"a', "\n", 'b",c')),
    ("csv", ("", ",", "")),
    ("yaml", ("", "[", "")),
    ("yaml", ("a: &a [1]\nb: [", "*a, ", "]")),
    ("markdown", ("", "](", "")),
    ("markdown", ("", "`[", "")),
    ("html", ("", "<a '", "")),
    ("xml", ("a", "<b>", "")),
    ("xml", ("a<b>", "</c><d>", "")),
    ("xml", ("<!DOCTYPE d [", "<!-- '", "")),
    ("xml", ("<!DOCTYPE d ", "[<!", "")),
    ("xml", ("a", "&b;", "")),
    ("srt", ("0:0 --> 0:1\n", "<i>", "")),
]


@pytest.mark.parametrize(("name", "parts"), HOSTILE)
def test_time_is_linear(tmp_path: Path, name: str, parts: tuple[str, str, str]) -> None:
    """Eight times the text; quadratic growth would take 64 times as long."""
    use = fuzz_time.readers(tmp_path)[name]
    short, long = (fuzz_time.seconds(use, parts, size) for size in (8_000, 64_000))
    assert long < 30 * short + 0.1
