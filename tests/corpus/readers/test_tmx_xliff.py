"""XML of any form: the text without its codes, the pairs of two languages, and no surprises."""

import random
import tracemalloc
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from reading import ZH_EN, turned
from reading import read as read_below
from reading import refusal as refusal_below

from transformer_mt.config.data import Languages
from transformer_mt.corpus.readers import lines, tmx_xliff
from transformer_mt.corpus.readers.tables import Pair
from transformer_mt.corpus.readers.tmx_xliff import read_markup


def read(path: Path, languages: Languages = ZH_EN) -> list[Pair]:
    return read_below(path.parent, languages, path=path.name)


def refusal(path: Path, languages: Languages = ZH_EN) -> str:
    return refusal_below(path.parent, languages, path=path.name)


def tmx(body: str, head: str = "<?xml version='1.0'?>") -> str:
    return f'{head}<tmx version="1.4"><header srclang="en"/><body>{body}</body></tmx>'


def tu(*sides: tuple[str, str], attribute: str = "xml:lang") -> str:
    inner = "".join(f'<tuv {attribute}="{code}"><seg>{seg}</seg></tuv>' for code, seg in sides)
    return f"<tu>{inner}</tu>\n"


def write(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


def test_tmx_gives_back_what_was_written(tmp_path: Path) -> None:
    choose = random.Random(1)
    characters = "好a1 \u2028\u0085\u3000\"'&<>]]😀é"

    def text() -> str:
        return "x" + "".join(choose.choices(characters, k=choose.randrange(40))) + "y"

    pairs = [(text(), text()) for _ in range(3000)]
    body = "".join(tu(("en-US", escape(en)), ("ZH-cn", escape(zh))) for zh, en in pairs)
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        head = f"<?xml version='1.0' encoding='{encoding.removesuffix('-sig')}'?>\r\n"
        path = write(tmp_path / "t.tmx", tmx(body, head), encoding)
        assert read(path) == pairs
    assert read(path, ZH_EN.reversed()) == turned(pairs)


@pytest.mark.parametrize(
    ("seg", "text"),
    [
        ("a<bpt i='1'>&lt;b></bpt>b<ept i='1'>&lt;/b></ept>c", "abc"),
        ("a<ph>{0}<sub>note</sub></ph>b<it pos='begin'>x</it>c<ut>y</ut>", "abc"),
        ("a<hi>b<hi>c</hi></hi>d", "abcd"),
        ("a<hi>b<ph>no</ph>c</hi>d", "abcd"),
        ("a<ph/>b", "ab"),
        ("a.<ph type='lb'/>b<ph type='bold'/>c", "a. bc"),
        ("<![CDATA[a<b>&amp;]]>c", "a<b>&amp;c"),
        ("\n   a\n   b\n  ", "a b"),
        ("&#x597D; &amp;amp;", "好 &amp;"),
        ("<!-- no -->a<?pi no?>b", "ab"),
        ("", ""),
    ],
)
def test_segments_without_their_codes(tmp_path: Path, seg: str, text: str) -> None:
    path = write(tmp_path / "t.tmx", tmx(tu(("en", seg), ("zh", "好"))))
    assert read(path) == [("好", text)]


def test_units_of_several_languages(tmp_path: Path) -> None:
    body = (
        tu(("en", "1"), ("de", "eins"), ("zh-TW", "壹"), ("cmn", "一"))
        + tu(("en-GB", "2"), ("zh", "二"), ("en-US", "two"), ("zh-Hans", "两"))
        + tu(("en", "only"))
        + tu(("zh", "三"), ("EN", "3"), attribute="lang")
        + "<tu><note>no</note><prop>no</prop><tuv xml:lang='zh'><prop>no</prop><seg>四</seg></tuv>"
        "<tuv xml:lang='en'><seg>4</seg></tuv></tu>"
    )
    path = write(tmp_path / "t.tmx", tmx(body))
    assert read(path) == [("一", "1"), ("二", "2"), ("三", "3"), ("四", "4")]
    assert read(path, Languages(src="de", tgt="zh-Hant")) == [("eins", "壹")]
    assert refusal(path, Languages(src="fr", tgt="en")) == (
        f"{path}: no text in both fr and en; languages found: de, en, zh, zh-Hant"
    )
    regions = write(tmp_path / "r.tmx", tmx(tu(("es-419", "uno"), ("zh-Hans-CN", "一"))))
    assert read(regions, Languages(src="es", tgt="zh")) == [("uno", "一")]
    nameless = write(tmp_path / "n.tmx", tmx("<tu><tuv><seg>a</seg></tuv></tu>"))
    assert refusal(nameless).endswith("; languages found: one without a name")
    assert refusal(write(tmp_path / "e.tmx", tmx(""))).endswith("; languages found: none")


XLIFF_1 = """<?xml version="1.0"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
 <file source-language="en-US" {target_language} datatype="plaintext" original="f"><body>
  <group><trans-unit id="1"><source>Hello <g id="1">big</g> <x id="2"/>world<bpt
   id="3">{{</bpt></source>
   <seg-source><mrk mtype="seg" mid="0">Hello</mrk></seg-source>
   <target xml:lang="zh-CN" state="final">你好，<mrk mtype="seg" mid="0">世界</mrk></target>
   <alt-trans><source>no</source><target>不</target></alt-trans></trans-unit></group>
  <trans-unit id="2"><source>Left</source></trans-unit>
  <trans-unit id="3"><source>Copied</source><target
   state="needs-translation">Copied</target></trans-unit>
  <bin-unit id="4"><bin-source/><source>no</source><target>不</target></bin-unit>
  <trans-unit id="5"><source>End</source><target/></trans-unit>
 </body></file></xliff>"""

XLIFF_2 = """<?xml version="1.0"?>
<x:xliff version="2.1" srcLang="en" trgLang="zh-Hans"
  xmlns:x="urn:oasis:names:tc:xliff:document:2.0" xmlns:m="urn:oasis:names:tc:xliff:matches:2.0">
 <x:file id="f"><x:unit id="1">
  <m:matches><m:match ref="#1"><x:source>no</x:source><x:target>不</x:target></m:match></m:matches>
  <x:segment><x:source>Hello <x:pc id="1">world</x:pc><x:ph id="2"/></x:source>
   <x:target>你好<x:pc id="1">世界</x:pc></x:target></x:segment>
  <x:ignorable><x:source> </x:source></x:ignorable>
  <x:segment><x:source>Left</x:source></x:segment>
  <x:segment state="initial"><x:source>Copied</x:source><x:target>Copied</x:target></x:segment>
  <x:segment state="translated"><x:source>End</x:source><x:target>完</x:target></x:segment>
 </x:unit></x:file></x:xliff>"""


def test_xliff(tmp_path: Path) -> None:
    one = [("Hello big world", "你好，世界"), ("Left", ""), ("Copied", ""), ("End", "")]
    two = [("Hello world", "你好世界"), ("Left", ""), ("Copied", ""), ("End", "完")]
    named = XLIFF_1.format(target_language='target-language="zh_CN"')
    for name, text, pairs in (
        ("named.xlf", named, one),
        ("by-target.xliff", XLIFF_1.format(target_language=""), one),
        ("t.xlf", XLIFF_2, two),
    ):
        path = write(tmp_path / name, text)
        assert read(path, ZH_EN.reversed()) == pairs, name
        assert read(path) == turned(pairs), name
        message = refusal(path, Languages(src="de", tgt="en"))
        assert "no text in both de and en; languages found: en" in message


def test_each_file_of_an_xliff_has_its_own_languages(tmp_path: Path) -> None:
    unit = "<body><trans-unit><source>{}</source><target{}>{}</target></trans-unit></body>"
    first = '<file source-language="en" target-language="zh">' + unit.format("One", "", "一")
    second = '<file source-language="en">' + unit.format("Two", ' xml:lang="de"', "Zwei")
    path = write(tmp_path / "t.xlf", f"<xliff>{first}</file>{second}</file></xliff>")
    assert read(path, ZH_EN) == [("一", "One")]
    assert read(path, Languages(src="en", tgt="de")) == [("Two", "Zwei")]


def wmt(*docs: str) -> str:
    return f"<?xml version='1.0'?><dataset id='wmt22'>{''.join(docs)}</dataset>"


def side(name: str, language: str, texts: dict[int, str], translator: str = "") -> str:
    segments = "".join(f"<seg id='{n}'>{text}</seg>\n" for n, text in texts.items())
    by = f" translator='{translator}'" if translator else ""
    return f"<{name} lang='{language}'{by}><p>{segments}</p></{name}>"


def test_wmt_xml(tmp_path: Path) -> None:
    src = side("src", "zh", {1: "一", 2: "二"})
    system = "<hyp system='x' lang='en'><p><seg id='1'>no</seg></p></hyp>"
    a, b = (side("ref", "en", {2: f"two {t}", 1: f"one &amp; {t}"}, t) for t in "AB")
    path = tmp_path / "t.xml"
    with_a = [("一", "one & A"), ("二", "two A")]
    for docs, pairs in (
        ([src + b + a + system], with_a),
        ([system + a + src + b], with_a),
        ([src + b], [("一", "one & B"), ("二", "two B")]),
        ([src + a, f"<collection>{side('src', 'zh', {1: '三'})}{side('ref', 'en', {1: '3'})}"
          "</collection>"], [*with_a, ("三", "3")]),
    ):  # fmt: skip
        write(path, wmt(*(f"<doc id='{n}'>{doc}</doc>" for n, doc in enumerate(docs))))
        assert read(path) == pairs
        assert read(path, ZH_EN.reversed()) == turned(pairs)


def test_test_suites_are_no_part_of_a_test_set(tmp_path: Path) -> None:
    path = tmp_path / "t.xml"
    docs = [side("src", "zh", {1: zh}) + side("ref", "en", {1: en}) for zh, en in ("一1", "二2")]
    write(path, wmt(f"<doc id='a'>{docs[0]}</doc><doc testsuite='t' id='b'>{docs[1]}</doc>"))
    assert read(path) == [("一", "1")]


def test_wmt_xml_mistakes(tmp_path: Path) -> None:
    src, ref = side("src", "zh", {1: "一", 2: "二"}), side("ref", "en", {1: "one"})
    path = tmp_path / "t.xml"
    for doc, message in (
        (src + ref, f"{path}: doc d: seg 2 is missing in the reference (zh → en)"),
        (side("src", "zh", {}) + ref, f"{path}: doc d: seg 1 is missing in the source (zh → en)"),
        (src, f"{path}: doc d: there is no reference; expected <ref lang=…> beside <src>"),
    ):
        write(path, wmt(f"<doc id='d'>{doc}</doc>"))
        assert refusal(path) == message


BOMB = "".join(
    f'<!ENTITY {name} "{f"&{inner};" * 10}">'
    for inner, name in zip("abcdefgh", "bcdefghi", strict=True)
)
OUTSIDE = '<!ENTITY x SYSTEM "file://{secret}">'


@pytest.mark.parametrize(
    ("doctype", "seg", "message"),
    [
        (f'<!DOCTYPE tmx [<!ENTITY a "aaaa">{BOMB}]>', "&i;", "line 1: declares the entity a, "
         "which is not expanded: write the text itself in its place"),
        (f"<!DOCTYPE tmx [\n{OUTSIDE}]>", "&x;", "line 2: declares the entity x, which"),
        (f"<!DOCTYPE tmx [{OUTSIDE.replace('x', '% x')}%x;]>", "", "declares the entity x, which"),
        ("", "&nbsp;", "line 1: not well-formed XML: undefined entity"),
    ],
)  # fmt: skip
def test_entities_are_not_expanded(tmp_path: Path, doctype: str, seg: str, message: str) -> None:
    secret = write(tmp_path / "secret.dtd", "<!ENTITY i 'secret'>")
    body = tu(("en", seg), ("zh", "好"))
    path = write(tmp_path / "t.tmx", tmx(body, doctype.replace("{secret}", str(secret))))
    assert message in refusal(path)


def test_the_doctype_of_tmx_is_not_fetched(tmp_path: Path) -> None:
    write(tmp_path / "tmx14.dtd", "<!ENTITY eacute 'fetched'>")
    doctype = f"<!DOCTYPE tmx SYSTEM '{tmp_path}/tmx14.dtd'>"
    path = write(tmp_path / "t.tmx", tmx(tu(("en", "caf&eacute; &odd;"), ("zh", "好")), doctype))
    assert read(path) == [("好", "café &odd;")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<tmx>\n<body>\n<tu>", "t.tmx: line 3: not well-formed XML: no element found"),
        ("<tmx>\n<seg>a & b</seg></tmx>", "t.tmx: line 2: not well-formed XML: not well-formed"),
        ("<tmx>\n\n<tu></tmx>", "t.tmx: line 3: not well-formed XML: mismatched tag"),
        ("", "t.tmx: line 1: not well-formed XML: no element found"),
        ("plain", "t.tmx: line 1: not well-formed XML: syntax error"),
        ("<html/>", "t.tmx: found <html>; expected <tmx>, <xliff> or <dataset> (of WMT)"),
        ("<?xml version='1.0' encoding='gb18030'?><tmx/>", "t.tmx: cannot be decoded: "
         "multi-byte encodings are not supported; convert it to UTF-8, also in its first line"),
        ("<?xml version='1.0' encoding='nope'?><tmx/>", "t.tmx: cannot be decoded: unknown enc"),
        ("<tmx>\x01</tmx>", "t.tmx: line 1: not well-formed XML: not well-formed (invalid token)"),
    ],
)  # fmt: skip
def test_xml_mistakes(tmp_path: Path, text: str, message: str) -> None:
    assert message in refusal(write(tmp_path / "t.tmx", text))


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (tmx(tu(("zh", "x" * 300_000))), "one unit of text is longer than 0 MiB: divide it"),
        (tmx(tu(("zh", "<b>x</b>" * 60_000))), "one unit of text is longer than 0 MiB"),
        (f"<tmx a='{'x' * 900_000}'/>", "one tag, comment or the like is longer than 0 MiB"),
        ("<!DOCTYPE tmx [<!ATTLIST a b CDATA 'x'>]><tmx/>", "declares the default of the attri"),
    ],
    ids=range(4),
)
def test_xml_that_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, document: str, message: str
) -> None:
    monkeypatch.setattr(tmx_xliff, "LONGEST", 1 << 18)
    path = write(tmp_path / "t.tmx", document)
    assert message in refusal(path)
    write(path, tmx(tu(("zh", "x" * 1000), ("en", "y")) * 600))
    assert len(read(path)) == 600, "many units are no long one"


def test_memory_does_not_grow_with_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "_BLOCK", 1 << 14)
    path = write(tmp_path / "t.tmx", tmx(tu(("en", "word " * 20), ("zh", "字" * 30)) * 10_000))
    tracemalloc.start()
    assert sum(1 for _ in read_markup(path, ZH_EN)) == 10_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20 < path.stat().st_size
