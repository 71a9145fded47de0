"""Programs of others ask the server as they are, and get the right text."""

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from served import Server

from transformer_mt.translation.translator import Translator

TEXT = "猫看见狗。"


@pytest.fixture(scope="module")
def expected(toy_model: Path) -> str:
    translator = Translator.load(toy_model, precision="fp32")
    return translator.translate([TEXT], retry=True)[0].text


def test_libretranslatepy(server: Server, expected: str) -> None:
    package = pytest.importorskip("libretranslatepy", reason="needs the extra test-serve")
    client = package.LibreTranslateAPI(f"{server.url}/")
    assert client.translate(TEXT, "zh", "en") == expected
    assert client.languages() == [{"code": "zh-Hans", "name": "Chinese", "targets": ["en"]}]
    (found, *_) = client.detect("这是什么语言？")
    assert found["language"] == "zh-Hans" and 0 < found["confidence"] <= 100


def test_deepl(server: Server, expected: str) -> None:
    deepl = pytest.importorskip("deepl", reason="needs the extra test-serve")
    client = deepl.Translator("any", server_url=server.url, send_platform_info=False)
    one, two = client.translate_text([TEXT, TEXT], target_lang="EN-US")
    assert one.text == two.text == expected and one.detected_source_lang == "ZH"
    marked = client.translate_text(f"<p>{TEXT}</p>", target_lang="EN-US", tag_handling="html")
    assert marked.text == f"<p>{expected}</p>"
    before = client.get_usage().character.count
    placed = f'<x id="1"/>{TEXT}<v>猫 {{n}}</v>'
    options = {"tag_handling": "xml", "ignore_tags": ["v", "w"]}
    marked = client.translate_text(placed, target_lang="EN-US", **options)
    assert marked.text.count('<x id="1"/>') == marked.text.count("<v>猫 {n}</v>") == 1
    assert client.get_usage().character.count == before + len(placed)
    page = f'<p title="<v>">{TEXT}<V>猫</V></p>'
    options = {"tag_handling": "html", "ignore_tags": "v"}
    marked = client.translate_text(page, target_lang="EN-US", **options)
    assert marked.text == f'<p title="<v>">{expected}<V>猫</V></p>'
    assert [one.code for one in client.get_source_languages()] == ["ZH"]
    assert [one.code for one in client.get_target_languages()] == ["EN-US"]


def test_deepl_s_glossary_is_obeyed(server: Server, expected: str) -> None:
    deepl = pytest.importorskip("deepl", reason="needs the extra test-serve")
    client = deepl.Translator("any", server_url=server.url, send_platform_info=False)
    assert "zebra" not in expected
    made = client.create_glossary("animals", "ZH", "EN", {"狗": "zebra"})
    assert [one.glossary_id for one in client.list_glossaries()] == [made.glossary_id]
    assert client.get_glossary_entries(made) == {"狗": "zebra"} and made.entry_count == 1
    found = client.translate_text(TEXT, source_lang="ZH", target_lang="EN-US", glossary=made)
    assert "zebra" in found.text
    client.delete_glossary(made)
    assert client.list_glossaries() == []
    with pytest.raises(deepl.exceptions.GlossaryNotFoundException):
        client.get_glossary(made.glossary_id)
    with pytest.raises(deepl.exceptions.DeepLException, match="to become"):
        client.create_glossary_from_csv("animals", "ZH", "EN", "狗,dog\n狗,cat\n")


def test_openai(server: Server, expected: str) -> None:
    openai = pytest.importorskip("openai", reason="needs the extra test-serve")
    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="any")
    (model,) = [one.id for one in client.models.list()]
    messages: Any = [
        {"role": "system", "content": "You are a translator."},
        {"role": "user", "content": f"{TEXT}\n\n{TEXT}"},
    ]
    whole = client.chat.completions.create(model=model, messages=messages)
    assert whole.choices[0].message.content == f"{expected}\n\n{expected}"
    parts = client.chat.completions.create(model=model, messages=messages, stream=True)
    found = [(part.choices[0].delta.content or "") for part in parts]
    assert "".join(found) == whole.choices[0].message.content and len(found) > 3
    n_read, n_written = len(messages[1]["content"]), len(whole.choices[0].message.content)
    assert whole.usage.total_tokens == n_read + n_written, "characters"
    options = {"include_usage": True}
    *_, last = client.chat.completions.create(
        model=model, messages=messages, stream=True, stream_options=options
    )
    assert last.choices == [] and last.usage == whole.usage
    too_long: Any = [{"role": "user", "content": "猫" * 6000}]
    for stream in (False, True):
        with pytest.raises(openai.APIStatusError, match="at most"):
            client.chat.completions.create(model=model, messages=too_long, stream=stream)
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="other", messages=messages)


def test_curl(server: Server, expected: str, tmp_path: Path) -> None:
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("curl is not installed")

    def fetched(*arguments: str) -> str:
        command = [curl, "-s", "--fail", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    fields = ("-d", f"q={TEXT}", "-d", "source=auto", "-d", "target=en")
    assert expected in fetched(f"{server.url}/translate", *fields)
    (tmp_path / "talk.srt").write_text(f"1\n00:00:01,000 --> 00:00:02,000\n{TEXT}\n")
    file = ("-F", f"file=@{tmp_path}/talk.srt", "-F", "source=zh", "-F", "target=en")
    answer = fetched(f"{server.url}/translate_file", *file)
    address = answer.split('"')[3]
    assert fetched(address) == f"1\n00:00:01,000 --> 00:00:02,000\n{expected}\n"


def test_an_assistant(toy_model: Path) -> None:
    """The client of the official SDK, over standard input and output."""
    mcp = pytest.importorskip("mcp", reason="needs the extra serve")
    from mcp.client.stdio import stdio_client

    arguments = ["-m", "transformer_mt", "mcp", "-m", str(toy_model)]

    async def ask() -> None:
        parameters = mcp.StdioServerParameters(command=sys.executable, args=arguments)
        async with stdio_client(parameters) as (read, write), mcp.ClientSession(read, write) as s:
            await s.initialize()
            names = {tool.name for tool in (await s.list_tools()).tools}
            assert names == {"translate", "score", "explain"}
            found = await s.call_tool("translate", {"texts": [TEXT]})
            (one,) = found.structured_content["result"]
            assert one["translation"]
            pair = {"sources": [TEXT], "translations": [one["translation"]]}
            scored = await s.call_tool("score", pair)
            assert scored.structured_content["result"][0] < 0
            long = {"sources": ["猫" * 4500, TEXT], "translations": ["a", "a"]}
            too_long, other = (await s.call_tool("score", long)).structured_content["result"]
            assert too_long is None and other < 0, "JSON has no NaN"
            told = await s.call_tool("explain", {"text": TEXT})
            words = told.structured_content["words"]
            assert words and all(word["by_zeroing"] in TEXT for word in words)
            wrong = await s.call_tool("translate", {"texts": [TEXT], "to": "fr"})
            assert (
                wrong.is_error and "to: fr: this model translates zh → en" in wrong.content[0].text
            )

    asyncio.run(ask())
