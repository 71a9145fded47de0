"""JSON Lines: one field is translated, every other byte stays, and mistakes name their line."""

import json
import random

import pytest

from transformer_mt.errors import DataError
from transformer_mt.translation.documents.jsonl import read_json_lines


def upper(text: str, field: str = "text") -> str:
    document = read_json_lines(text, field)
    return document.rebuild([segment.upper() for segment in document.segments])


@pytest.mark.parametrize(
    ("text", "translated", "why"),
    [
        ('{"text": "a"}', '{"text": "A"}', "the field"),
        (
            '{ "b":1.0,"text" :"a" }\r\n',
            '{ "b":1.0,"text" :"A" }\r\n',
            "spaces, numbers, line ends",
        ),
        ('{"a": {"text": "b"}, "text": "c"}', '{"a": {"text": "b"}, "text": "C"}', "not deeper"),
        ('{"a": "\\"text\\": \\"b\\"", "text": "c"}', None, "nor in another text"),
        ('{"text": " a\\n\\n\\tb "}', '{"text": " A\\n\\n\\tB "}', "lines within the text"),
        ('{"text": "a\\\\nb"}', '{"text": "A\\\\NB"}', "a backslash before an n"),
        ('{"text": "\\u00e9\\u4f60"}', '{"text": "É你"}', "escaped characters"),
        ('{"text": "1"}\n\n{"text": ""}', None, "nothing to translate; empty lines"),
        ('{"te\\u0078t": "a"}', '{"te\\u0078t": "A"}', "an escaped key"),
        ('{"text": "a", "text": "b"}', '{"text": "a", "text": "B"}', "the last of two"),
        ('{"text": "a \\ud800"}', '{"text": "A \\ud800"}', "half a character, escaped"),
    ],
)
def test_what_is_translated(text: str, translated: str | None, why: str) -> None:
    document = read_json_lines(text, "text")
    assert document.rebuild(document.segments) == text
    expected = text.replace('"c"', '"C"') if translated is None else translated
    assert upper(text) == expected, why


def test_another_field() -> None:
    assert upper('{"text": "a", "body": "b"}', "body") == '{"text": "a", "body": "B"}'


@pytest.mark.parametrize("seed", range(30))
def test_all_but_the_field_is_the_same_for_json(seed: int) -> None:
    generator = random.Random(seed)
    text = "".join(generator.choices('ab "\\\n\té你😀{}[],:/', k=20))
    content = {"x": [text, {"text": text}], text: 1.5e-7, "text": text, "z": None}
    line = json.dumps(content, ensure_ascii=seed % 2 == 0, indent=None if seed % 3 else 0)
    line = line.replace("\n", " ")
    found = json.loads(upper(line))
    assert found == {**content, "text": text.upper()} | ({text: 1.5e-7} if text != "text" else {})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "a"', "line 2: not JSON: Expecting ',' delimiter at character 13"),
        ("a", "line 2: not JSON: Expecting value at character 1"),
        ('["text"]', "line 2: no JSON object but a list"),
        ('{"id": 1, "body": "b"}', "line 2: no text in the field 'text'; fields with text: body;"),
        ('{"text": 1}', "line 2: no text in the field 'text'; fields with text: none;"),
        ("[" * 100_000, "line 2: not JSON: "),
        (f'{{"text": {"9" * 5000}}}', "line 2: "),
    ],
)
def test_mistakes_name_their_line(line: str, message: str) -> None:
    with pytest.raises(DataError) as error:
        read_json_lines(f'{{"text": "a"}}\n{line}\n', "text")
    assert str(error.value).startswith(message)
