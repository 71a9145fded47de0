"""The page in headless Chromium, opened from the disk without a network: `make test-exports`."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium import AXE, headless_chromium
from hostile_texts import hostile_texts
from parsed_page import HOSTILE

from transformer_mt.export import html
from transformer_mt.export.proof import ExportTask
from transformer_mt.translation.translator import Translator

DEMO = Path(__file__).parents[2] / "docs/demo/translator.html"
N_HOSTILE = int(os.environ.get("TMT_HOSTILE_TEXTS", "100"))  # of 1,000 none fails


browser = pytest.fixture(scope="module")(headless_chromium)


@pytest.fixture
def opened(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens a file in a window without a network; whatever goes wrong on the page fails."""
    wrong: list[str] = []
    contexts = []

    def open_page(
        path: Path, width: int = 1280, *, script: str = "",
        wait_for: str = "#inside:not([hidden])", **options: Any,
    ) -> Any:  # fmt: skip
        size = {"width": width, "height": 900}
        contexts.append(browser.new_context(viewport=size, offline=True, **options))
        page = contexts[-1].new_page()
        page.add_init_script(script)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda message: wrong.append(message.text))
        page.on("dialog", lambda dialog: wrong.append(dialog.message))
        page.on("request", lambda r: r.url.startswith("file:") or wrong.append(r.url))
        page.goto(path.as_uri())
        page.wait_for_selector(wait_for)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []


@pytest.fixture(scope="module")
def toy(translator_of: Callable[[str], Translator], tmp_path_factory: Any) -> tuple[Any, Path]:
    translator, folder = translator_of("pre-norm"), tmp_path_factory.mktemp("page")
    html.write(ExportTask(translator, "float32", ["一只狗在草地上。"]), folder)
    return translator, folder / html.FILE


def test_the_demo_translates_at_once(opened: Callable[..., Any]) -> None:
    page = opened(DEMO)
    started = page.evaluate("performance.now()")
    assert "The animal didn't cross the street because it was too tired." in " ".join(
        page.inner_text("#translation").split()
    )
    took = page.evaluate(
        "() => { const t = performance.now(); translate(); return performance.now() - t; }"
    )
    assert started < 15_000 and took < 5000, "docs/export.md has the times of a quiet machine"


def test_it_opens_on_the_head_in_which_the_pronoun_finds_its_noun(
    opened: Callable[..., Any],
) -> None:
    asks, finds = opened(DEMO).evaluate(
        "() => { const { rows, columns, of } = attentionOf(parts[0], chosen.kind, chosen.layer);"
        " const shares = [...of[chosen.row].shares[chosen.head]];"
        " return [rows[chosen.row], columns[shares.indexOf(Math.max(...shares))]]; }"
    )
    assert asks == "它" and finds in "动物"


def test_each_source_word_has_a_bar(opened: Callable[..., Any]) -> None:
    page = opened(DEMO)
    assert page.evaluate("parts[0].srcWords.length") > 10
    assert {*"动物它"} <= {*page.inner_text("#why")}


def test_words_can_be_asked_and_forced(opened: Callable[..., Any]) -> None:
    page = opened(DEMO)
    page.click("#translation button:has-text('it')")
    said = page.inner_text("#why")
    assert "它" in said and "%" in said
    page.click("#why button:nth-of-type(2)")
    words = page.inner_text("#translation").split()
    assert words[:7] == "The animal didn't cross the street because".split() and words[7] != "it"


def test_every_head_can_be_gone_through_by_keyboard(opened: Callable[..., Any]) -> None:
    page = opened(DEMO)
    for kind in ("encoder", "decoder", "cross"):
        page.evaluate(f"chosen.kind = '{kind}'; chosen.layer = 0; show()")
        assert page.locator("#heads button").count() == 16
        sums = page.evaluate(
            "() => attentionOf(parts[0], chosen.kind, 3)"
            ".of.map((row) => row.shares[2].reduce((a, b) => a + b))"
        )
        assert all(total == pytest.approx(1, abs=1e-4) for total in sums)
    page.focus("#heads button:nth-child(6)")
    page.keyboard.press("Enter")
    assert page.get_attribute("#heads button:nth-child(6)", "aria-pressed") == "true"
    for rows in (1, 2, 3, 4, 5):
        page.click("#stepper button:first-of-type")
        assert page.locator("#numbers tbody tr").count() == min(rows, 4)


@pytest.mark.parametrize("width", [1280, 390])
def test_it_fits_and_speaks_chinese(opened: Callable[..., Any], width: int) -> None:
    page = opened(DEMO, width, locale="zh-CN", color_scheme="dark")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.get_attribute("html", "data-theme") == "dark"
    assert "是什么决定了这个词" in page.inner_text("main")
    assert "掩码" in page.inner_text("#numbers") and "mask" not in page.inner_text("#numbers")
    page.click("#language")
    page.reload()
    page.wait_for_selector("h2:has-text('What decided this word')")
    for text in page.evaluate("Object.values(WORDS).flatMap(([, chinese]) => chinese)"):
        assert text


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("delete window.DecompressionStream", "old"),
        ("DecompressionStream = class { readable = new ReadableStream();"
         " writable = new WritableStream(); }", "loading"),
    ],
)  # fmt: skip
def test_why_nothing_is_translated_is_said_in_the_chosen_language(
    opened: Callable[..., Any], script: str, said: str
) -> None:
    page = opened(DEMO, script=script, wait_for="#status:not(:empty)", locale="en-GB")
    for language in (0, 1, 0):
        assert page.inner_text("#status") == page.evaluate(f"WORDS.{said}[{language}]")
        page.click("#theme")
        page.click("#language")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_serious_fault_for_those_who_cannot_see_it(
    opened: Callable[..., Any], theme: str
) -> None:
    if not AXE.is_file():
        pytest.skip("axe-core is not installed")
    page = opened(DEMO, bypass_csp=True, color_scheme=theme)
    page.add_script_tag(content=AXE.read_text(encoding="utf-8"))
    found = page.evaluate("async () => (await axe.run()).violations")
    serious = [one for one in found if one["impact"] in ("serious", "critical")]
    assert [(one["id"], one["nodes"][0]["html"]) for one in serious] == []


def test_hostile_texts_run_nothing_and_become_the_same(
    opened: Callable[..., Any], toy: tuple[Any, Path]
) -> None:
    translator, path = toy
    page = opened(path)
    page.select_option("#beam", "1")
    page.evaluate("$('inside').style.display = 'none'")  # computed, but not laid out
    texts = [
        *HOSTILE,
        *(
            one.text[: 500 if i % 100 == 0 else 30]
            for i, one in enumerate(hostile_texts(N_HOSTILE, 11))
        ),
    ]
    typed = """async (text) => {
        $("input").value = text;
        translate();
        const n = translator.segments(text).length;
        while (parts.length < n) await new Promise(requestAnimationFrame);
        return parts.map((part) => [part.best.complete, part.best.ids]);
    }"""
    n_compared = 0
    for text in texts:
        found = page.evaluate(typed, text)
        normal = page.evaluate("document.getElementById('input').value")  # what a field keeps
        (own,) = translator.translate([normal], beam=1)
        if own.pieces == 1 and own.complete and len(found) == 1 and found[0][0]:
            assert translator.tgt_tokenizer.decode([found[0][1]])[0].strip() == own.text.strip()
            n_compared += 1
    assert n_compared > N_HOSTILE / 10
