"""The page in headless Chromium, before a server whose answers follow from simple rules."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium import AXE, headless_chromium
from parsed_page import HOSTILE as HOSTILE_TEXTS
from stub_server import FOLDERS, HOSTILE, MOST, StubServer, stub_server

from transformer_mt.serve.worker import _words_of

TEXT = "the animal crossed the street slowly"
TURNED = "slowly street the crossed animal the"


browser = pytest.fixture(scope="module")(headless_chromium)


@pytest.fixture
def server() -> Iterator[StubServer]:
    with stub_server() as server:
        yield server


@pytest.fixture
def opened(browser: Any, server: StubServer) -> Iterator[Callable[..., Any]]:
    """Opens the page in a window of its own; whatever goes wrong on it fails."""
    wrong: list[str] = []
    contexts = []

    def told(message: Any) -> None:
        is_refusal = re.search(r"status of [45]\d\d|DISCONNECTED", message.text)
        if message.type in ("error", "warning") and not is_refusal:
            wrong.append(message.text)

    def open_page(link: str = "", width: int = 1280, **options: Any) -> Any:
        size = {"width": width, "height": 900}
        contexts.append(browser.new_context(viewport=size, **options))
        page = contexts[-1].new_page()
        page.set_default_timeout(8000)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", told)
        page.on("dialog", lambda dialog: wrong.append(dialog.message))
        page.on(
            "request",
            lambda r: r.url.startswith((server.address, "data:")) or wrong.append(r.url),
        )
        page.goto(server.address + link)
        page.wait_for_selector("#source option:nth-child(2)", state="attached")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []


def expect(locator: Any) -> Any:
    return pytest.importorskip("playwright.sync_api").expect(locator)


def translated(page: Any, text: str = TEXT) -> Any:
    """The page with the translation of a text."""
    page.fill("#input", text)
    expect(page.locator("#translation")).to_have_text(" ".join(reversed(text.split())))
    return page


def test_typing_shows_only_the_last_answer(opened: Callable[..., Any], server: StubServer) -> None:
    page = opened()
    page.evaluate(
        """() => { globalThis.seen = [];
        new MutationObserver(() => seen.push($("translation").innerText))
            .observe($("translation"), { childList: true, subtree: true }); }"""
    )
    page.fill("#input", "slow one")
    page.wait_for_timeout(450)  # it is asked, and not answered
    page.type("#input", " and two", delay=20)
    expect(page.locator("#translation")).to_have_text("two and one slow")
    page.wait_for_timeout(900)
    assert set(page.evaluate("seen")) == {"two and one slow"}
    assert server.texts() == ["slow one", "slow one and two"], "one question, after the typing"
    said = """() => { translate(); $("theme").click();
        return [$("translation").ariaBusy, $("status").textContent]; }"""
    assert page.evaluate(said) == ["true", "translating …"], "the old one is no answer to this"


def test_words_say_how_sure_the_model_was(opened: Callable[..., Any]) -> None:
    page = translated(opened())
    levels = page.eval_on_selector_all(
        "#translation .word", "words => words.map((word) => word.className)"
    )
    assert levels == [f"word level{i % 4}" for i in range(6)]
    assert "83 of 100" in page.inner_text("#quality") and "not wrong" in page.inner_text("#legend")
    page.focus("#translation .word >> nth=0")
    page.keyboard.press("ArrowRight")
    word = page.locator("#translation .word:focus")
    expect(word).to_have_attribute("aria-label", "street, 62 %")
    assert '"62 %"' in word.evaluate("word => getComputedStyle(word, '::after').content")
    page.click("#others .choice >> nth=0")
    expect(page.locator("#translation")).to_have_text(TURNED.upper())
    expect(page.locator("#others .choice")).to_have_text([TURNED, " ".join(sorted(TEXT.split()))])


def test_a_source_word_of_several_pieces_decides_as_one(opened: Callable[..., Any]) -> None:
    page = translated(opened(), "the well-known animal")
    page.click("#translation .word >> nth=0")
    expect(page.locator("#why .bar >> nth=4")).to_have_attribute(
        "aria-label", "animal, value zeroing 100 %"
    )


@pytest.mark.parametrize("unspaced", [True, False])
def test_words_of_the_page_are_those_of_the_server(
    opened: Callable[..., Any], unspaced: bool
) -> None:
    pieces = ["▁", "<0xE4>", "<0xBD>", "<0xA0>", "好", "▁", "▁a", "b", "<0xE4>", "▁"]
    found = opened().evaluate(
        "([p, unspaced]) => wordPlaces(p, (i) => p[i].startsWith('<0x'), unspaced)",
        [pieces, unspaced],
    )
    wanted = [[0, 1, 2, 3], [4], [5, 6], [7], [8], [9]]
    assert found == _words_of(pieces, unspaced)
    assert found == (wanted if unspaced else [[0, 1, 2, 3, 4], [5], [6, 7, 8], [9]])


def test_a_word_can_be_looked_into(opened: Callable[..., Any], server: StubServer) -> None:
    page = translated(opened())
    assert not any(path == "/api/explain" for path, _ in server.asked), "asked when wanted only"
    page.focus("#translation .word >> nth=0")
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    expect(page.locator("#why .bar >> nth=0")).to_have_attribute(
        "aria-label", "the, value zeroing 100 %"
    )
    expect(page.locator("#translation .word:focus")).to_have_text("the")
    assert page.locator("#heads button").count() == 2 * 3
    assert page.locator("#map tbody tr").count() == 7
    page.focus("#kinds button:has-text('decoder')")
    page.keyboard.press("Enter")
    expect(page.locator("#kinds button:focus")).to_have_attribute("aria-pressed", "true")
    assert page.locator("#map tbody td.hidden").count() == 7 * 6 / 2, "what comes after is unseen"


def test_history_and_glossary_survive_and_stay_here(
    opened: Callable[..., Any], server: StubServer
) -> None:
    page = opened()
    page.click("summary:has-text('Glossary')")
    page.click("#addTerm")
    page.keyboard.type("street")
    page.keyboard.press("Tab")
    page.keyboard.type("road")
    page.fill("#input", TEXT)
    expect(page.locator("#translation")).to_have_text(TURNED.replace("street", "road"))
    expect(page.locator("#past li")).to_have_count(1)
    page.type("#input", " away")
    expect(page.locator("#past li")).to_contain_text(["away"])  # in place of what it goes on from
    page.fill("#input", "")
    page.fill("#input", "another")
    expect(page.locator("#past li")).to_have_count(2)
    page.reload()
    page.wait_for_selector("#past li", state="attached")
    assert page.locator(".term input").evaluate_all("all => all.map((one) => one.value)") == [
        "street",
        "road",
    ]
    page.click("summary:has-text('History')")
    page.click("#past button >> nth=1")
    expect(page.locator("#translation")).to_contain_text("road")
    assert server.asked[-1][1]["glossary"] == [["street", "road"]]
    assert all(set(fields) <= {"text", "source", "target", "alternatives", "glossary"}
               for _, fields in server.asked)  # fmt: skip
    page.click("#forget")
    expect(page.locator("#past li")).to_have_count(0)
    page.evaluate("() => { translate(); return done.then(remember); }")
    assert page.evaluate("localStorage.getItem('tmt.history')") == "[]"


def test_only_a_text_that_is_typed_on_takes_the_place_of_its_beginning(
    opened: Callable[..., Any],
) -> None:
    page = opened()
    texts = """async (act) => { await act(); translate(); await done; remember();
        return stored("history").map(({ text }) => text); }"""
    become = """(text, inputType) => { $("input").value = text;
        $("input").dispatchEvent(new InputEvent("input", { inputType })); }"""
    page.evaluate(f"Object.assign(globalThis, {{ become: {become}, texts: {texts} }}); 0")
    kept = {"translation": "", "source": "en", "target": "de"}
    page.evaluate("(kept) => store('history', kept)", [kept | {"text": t} for t in ("a", "a b")])
    reopened = "texts(() => openText({ text: 'a b', source: 'en', target: 'de' }))"
    assert page.evaluate(reopened) == ["a b", "a"]
    assert page.evaluate("texts(() => become('a b c', 'insertText'))") == ["a b c", "a"]
    pasted = page.evaluate("texts(() => become('a b c d', 'insertFromPaste'))")
    assert pasted == ["a b c d", "a b c", "a"]


def test_the_history_is_bounded(opened: Callable[..., Any]) -> None:
    page = opened()
    page.evaluate(
        """(n) => { for (let i = 0; i < n; i++) {
            answer = { text: `${i} text`, source: "en", target: "de", choices: ["x"] };
            remember();
        } }""",
        60,
    )
    kept = json.loads(page.evaluate("localStorage.getItem('tmt.history')"))
    assert [one["text"] for one in kept] == [f"{i} text" for i in range(59, 9, -1)]


def test_a_link_restores_the_text(opened: Callable[..., Any], server: StubServer) -> None:
    page = opened(permissions=["clipboard-read", "clipboard-write"])
    text = "50% & more + # ü 你好\nnext"
    page.select_option("#source", "en")
    page.select_option("#target", "de")
    page.fill("#input", text)
    page.click("#share")
    link = page.evaluate("navigator.clipboard.readText()")
    assert link.startswith(server.address + "#") and page.url == link
    other = opened(link.removeprefix(server.address))
    expect(other.locator("#input")).to_have_value(text)
    expect(other.locator("#target")).to_have_value("de")
    expect(other.locator("#translation")).to_contain_text("next")
    other.type("#input", "!")
    assert "#" not in other.url, "the address says nothing else than the page"


def test_languages_swap_and_are_detected(opened: Callable[..., Any]) -> None:
    page = opened()
    page.select_option("#target", "zh")
    translated(page)
    expect(page.locator("#source option:checked")).to_have_text("English · auto")
    page.evaluate("() => { answer.source = 'de'; return swap(); }")  # to which none leads back
    expect(page.locator("#input")).to_have_value(TEXT)
    page.evaluate("answer.source = 'en'")
    page.click("#swap")
    expect(page.locator("#source")).to_have_value("zh")
    expect(page.locator("#target")).to_have_value("en")
    expect(page.locator("#input")).to_have_value(TURNED)
    expect(page.locator("#translation")).to_have_text(TEXT)
    page.select_option("#source", "en")
    page.select_option("#target", "de")
    expect(page.locator("#swap")).to_be_disabled()  # no model does that


def test_what_is_typed_while_a_swap_waits_stays(opened: Callable[..., Any]) -> None:
    page = opened()
    page.select_option("#target", "zh")
    translated(page)
    page.fill("#input", "slow one")
    page.click("#swap")
    page.wait_for_timeout(450)  # the translation to be swapped is not there yet
    page.type("#input", " and two", delay=20)
    expect(page.locator("#translation")).to_have_text("two and one slow")
    page.wait_for_timeout(900)
    expect(page.locator("#input")).to_have_value("slow one and two")
    expect(page.locator("#target")).to_have_value("zh")


@pytest.mark.parametrize(("text", "said"), [("busy now", "busy"), ("loading now", "being loaded")])
def test_what_passes_is_said_and_asked_again(
    opened: Callable[..., Any], server: StubServer, text: str, said: str
) -> None:
    page = opened()
    page.fill("#input", text)
    expect(page.locator("#problem")).to_contain_text(said)
    expect(page.locator("#translation")).to_contain_text("now")
    expect(page.locator("#problem")).to_be_hidden()
    assert server.texts() == [text, text]


def test_what_stays_is_said_and_not_asked_again(
    opened: Callable[..., Any], server: StubServer
) -> None:
    page = opened()
    page.fill("#input", "refuse this")
    expect(page.locator("#problem")).to_contain_text(f"no model does that {HOSTILE}")
    page.fill("#input", "x" * (MOST + 1))
    expect(page.locator("#problem")).to_contain_text(f"At most {MOST}")
    page.wait_for_timeout(600)
    assert server.texts() == ["refuse this"]
    page.context.set_offline(True)
    page.fill("#input", "a b")
    expect(page.locator("#problem")).to_contain_text("cannot be reached")
    page.context.set_offline(False)
    expect(page.locator("#translation")).to_have_text("b a")
    page.route("**/gone", lambda route: route.abort("internetdisconnected"))
    said = """new Promise((tell) =>
        askPatiently("gone", new FormData(), (problem) => tell(problem.text), undefined, 1))"""
    assert page.evaluate(said) == "The server cannot be reached."
    page.route("**/api/languages", lambda route: route.fulfill(status=500, json={"error": "bug"}))
    page.reload()
    expect(page.locator("#problem")).to_have_text("The server failed (bug).")
    expect(page.locator("#status")).to_have_text("")


def test_a_key_is_asked_for(opened: Callable[..., Any], server: StubServer) -> None:
    server.key = "secret"
    page = opened()
    page.fill("#input", TEXT)
    expect(page.locator("#problem")).to_contain_text("enter it above")
    page.fill("#key", "other")
    expect(page.locator("#problem")).to_contain_text("no such key")
    page.fill("#key", "secret")
    expect(page.locator("#translation")).to_have_text(TURNED)
    assert page.evaluate("JSON.stringify(localStorage)").count("secret") == 0


def test_files_are_chosen_and_dropped(
    opened: Callable[..., Any], server: StubServer, tmp_path: Path
) -> None:
    page = opened()
    path = tmp_path / f"{HOSTILE} 你好.txt"
    path.write_text("hello", encoding="utf-8")
    page.set_input_files("#file", path)
    link = page.locator("#files a")
    expect(link).to_contain_text(f"{HOSTILE} 你好.en.txt")
    with page.expect_download() as download:
        link.click()
    assert Path(download.value.path()).read_bytes() == b"translated"
    page.evaluate(
        """() => { const dataTransfer = new DataTransfer();
        dataTransfer.items.add(new File(["x"], "dropped.md"));
        document.body.dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true })); }"""
    )
    expect(page.locator("#files a")).to_have_count(2)
    assert all(b'name="target"\r\n\r\nen' in fields["body"] for _, fields in server.asked)


def test_who_stands_on_a_link_stays_there(opened: Callable[..., Any], tmp_path: Path) -> None:
    """While another file is translated; and what becomes of each is told."""
    page = opened()
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("hello", encoding="utf-8")
    page.set_input_files("#file", tmp_path / "a.txt")
    expect(page.locator("#files a")).to_have_count(1)
    page.focus("#files a")
    page.set_input_files("#file", tmp_path / "b.txt")
    expect(page.locator("#files a")).to_have_count(2)
    assert page.evaluate("document.activeElement.download") == "a.en.txt"
    assert page.locator("#files [role=status]").count() == 2


def test_two_tabs_have_one_glossary(opened: Callable[..., Any], server: StubServer) -> None:
    page = opened()
    other = page.context.new_page()
    other.goto(page.url)
    for tab, term in ((page, "cat"), (other, "dog")):
        tab.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        tab.click("#addTerm")
        tab.locator("#terms .term:last-child input").first.fill(term)
        tab.locator("#input").focus()  # here each tab believes that it is in front
        wanted = ["cat"] if term == "cat" else ["cat", "dog"]
        for one in (page, other):
            one.wait_for_function("n => terms.length === n", arg=len(wanted))
    assert page.evaluate("stored('glossary').map(([term]) => term)") == ["cat", "dog"]
    page.evaluate("terms.push(['US', 'USA'], ['us', 'uns'], [' Cat', 'Katze']); 0")
    translated(page)
    (sent,) = (fields["glossary"] for path, fields in server.asked if path == "/api/translate")
    assert sent == [[" Cat", "Katze"], ["dog", ""], ["US", "USA"], ["us", "uns"]]


def test_texts_become_no_markup(opened: Callable[..., Any]) -> None:
    page = opened()
    shape = "() => [...document.querySelectorAll('img, svg, iframe, script, [onerror]')].length"
    before = page.evaluate(shape)
    for text in (HOSTILE, *HOSTILE_TEXTS):
        page.fill("#input", f"{text} loop")
        expect(page.locator("#translation")).to_contain_text("loop")
        page.evaluate("lookAt(0); remember()")
        expect(page.locator("#picture")).to_be_visible()
    page.evaluate(
        "terms.push(['<img src=x onerror=alert(1)>', '\"><svg onload=alert(1)>']); showTerms()"
    )
    page.goto(page.url.partition("#")[0] + "#source=<img src=x>&text=" + HOSTILE)
    expect(page.locator("#input")).to_have_value(HOSTILE)
    expect(page.locator("#notes")).to_contain_text(HOSTILE)
    assert page.evaluate(shape) == before


def test_the_browser_may_keep_nonsense(opened: Callable[..., Any]) -> None:
    page = opened()
    for kept in ("{", "null", "7", '[null, 1, {"text": 2}, ["a"]]', '{"source": 1}'):
        for name in ("history", "glossary", "interface"):
            page.evaluate(
                "([name, kept]) => localStorage.setItem(`tmt.${name}`, kept)", [name, kept]
            )
        page.reload()
        translated(page)


def test_lines_are_not_explained_as_one_sentence(
    opened: Callable[..., Any], server: StubServer
) -> None:
    """Each is translated by itself: attention from one to the other is nowhere in the model."""
    page = translated(opened(), "one line")
    page.evaluate("lookAt(0)")
    expect(page.locator("#picture")).to_be_visible()
    translated(page, "one line\nand another")
    expect(page.locator("#inside")).to_be_hidden()
    asked = [fields["text"] for path, fields in server.asked if path == "/api/explain"]
    assert asked == ["one line"]
    translated(page, "one line\n")
    expect(page.locator("#inside")).to_be_visible()


def test_letters_of_an_input_method_stay_out_of_the_history(opened: Callable[..., Any]) -> None:
    """Who types Chinese spells it first, and may look for the right word for long."""
    page = opened()
    page.focus("#input")
    keyboard = page.context.new_cdp_session(page)
    spelled = {"text": "ni hao", "selectionStart": 6, "selectionEnd": 6}
    keyboard.send("Input.imeSetComposition", spelled)
    expect(page.locator("#translation")).to_have_text("hao ni")
    page.wait_for_timeout(1200)
    assert page.locator("#past li").count() == 0
    keyboard.send("Input.insertText", {"text": "你好"})
    expect(page.locator("#past li")).to_have_count(1)
    expect(page.locator("#past li")).to_contain_text("你好")
    spelled = {"text": "가", "selectionStart": 1, "selectionEnd": 1}
    keyboard.send("Input.imeSetComposition", spelled)
    expect(page.locator("#translation")).to_have_text("你好가")
    page.evaluate("remember()")
    assert page.locator("#past li").count() == 1
    page.evaluate("$('input').blur(); remember = () => 0")  # at once, with no other question
    assert "你好가" in page.evaluate("stored('history')[0].text")


def test_it_is_dark_when_the_system_is_until_its_reader_chooses(opened: Callable[..., Any]) -> None:
    page = opened(color_scheme="light")
    html = page.locator("html")
    page.click("#language")
    page.emulate_media(color_scheme="dark")
    page.reload()
    expect(html).to_have_attribute("data-theme", "dark")
    expect(html).to_have_attribute("lang", "zh-Hans")
    page.click("#theme")
    page.reload()
    expect(html).to_have_attribute("data-theme", "light")
    expect(html).to_have_attribute("lang", "zh-Hans")


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_fits_and_nobody_is_shut_out(opened: Callable[..., Any], width: int, theme: str) -> None:
    page = translated(opened(width=width, color_scheme=theme, bypass_csp=True))
    page.evaluate("addTerm(); remember(); lookAt(1)")
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    expect(page.locator("#picture")).to_be_visible()
    assert page.get_attribute("html", "data-theme") == theme
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if not AXE.is_file():
        pytest.skip("axe-core is not installed")
    page.add_script_tag(content=AXE.read_text(encoding="utf-8"))
    found = page.evaluate("async () => (await axe.run()).violations")
    serious = [one for one in found if one["impact"] in ("serious", "critical")]
    assert [(one["id"], one["nodes"][0]["html"]) for one in serious] == []


def test_it_speaks_chinese_and_remembers(opened: Callable[..., Any]) -> None:
    page = opened(locale="zh-CN")
    assert "术语表" in page.inner_text("main")
    page.click("#language")
    assert "Glossary" in page.inner_text("main")
    page.reload()
    expect(page.locator("html")).to_have_attribute("lang", "en")
    assert all(all(pair) and len(pair) == 2 for pair in page.evaluate("Object.values(WORDS)"))


def test_control_and_enter_copies(opened: Callable[..., Any]) -> None:
    page = opened(permissions=["clipboard-read", "clipboard-write"])
    page.fill("#input", TEXT)
    page.keyboard.press("Control+Enter")  # at once: the copy waits for the translation
    expect(page.locator("#status")).to_have_text("copied")
    assert page.evaluate("navigator.clipboard.readText()") == TURNED


def test_it_is_there_at_once(opened: Callable[..., Any]) -> None:
    page = opened()
    painted = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
    page.wait_for_function(painted)
    assert page.evaluate(painted) < 1000


def test_the_page_is_small_and_has_no_inline_code() -> None:
    index = (FOLDERS[0] / "index.html").read_text(encoding="utf-8")
    assert not re.search(
        r"\sstyle=|\son\w+=|<style|<script(?![^>]*\ssrc=)|https?://(?!www\.w3)", index
    )
    files = [path for path in FOLDERS[0].iterdir() if path.is_file()]
    lines = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    dashboard = sum(n for name, n in lines.items() if name.startswith("dashboard"))
    assert dashboard <= 350 and sum(lines.values()) - dashboard <= 680
    for path in (*files, *FOLDERS[1].iterdir()):
        assert "innerHTML" not in path.read_text(encoding="utf-8")
