"""Word, PowerPoint, OpenDocument: well-formed, every mark once, other bytes as they are.

Documents are generated as XML; those that python-docx writes are read by it again.
"""

import random
import re
import time
import tracemalloc
import zipfile
from collections import Counter
from io import BytesIO
from itertools import accumulate

import docx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree
from test_marks import TRANSLATORS, bare, word_by_word

from transformer_mt.errors import DataError
from transformer_mt.translation.documents.forms import PackageForm
from transformer_mt.translation.documents.office import read_office_xml
from transformer_mt.translation.documents.office_names import (
    OPEN_DOCUMENT,
    SLIDES,
    WORD,
    Vocabulary,
)
from transformer_mt.translation.documents.package import read_package
from transformer_mt.translation.documents.translate import translate_package

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
A = "http://schemas.openxmlformats.org/drawingml/2006/main"
TEXT = "urn:oasis:names:tc:opendocument:xmlns:text:1.0"
ROOTS = {
    "word": (WORD, f"<?xml version='1.0'?>\n<w:d xmlns:w='{W}' xmlns:a=\"{A}\">", "</w:d>"),
    "slides": (SLIDES, f'<p:sld xmlns:p="p" xmlns:a="{A}">', "</p:sld >"),
    "odf": (OPEN_DOCUMENT, f'<o xmlns:text="{TEXT}" xmlns:draw="d">', "</o><!-- a -->\n"),
}
WORDS = ["one", "two", "three.", "don't", "字", "多，", "(a)", "— x", "&amp;", "a &lt;b", " e"]
OUTSIDE = ["", "\n  ", "<x y='>'/>", "<!-- <w:p>a</w:p> -->", "<z>one</z >", "<![CDATA[two]]>"]


def run(properties: str, content: str) -> str:
    return f'<w:r w:rsidR="1">{properties and f"<w:rPr>{properties}</w:rPr>"}{content}</w:r>'


PROPERTIES = ["", "", "", "<w:b/>", "<w:i/>", '<w:lang w:val="zh-CN"/>']


def word_run(text: str, properties: str = "") -> str:
    return run(properties, f'<w:t xml:space="preserve">{text}</w:t>')


def slide_run(text: str, properties: str = "") -> str:
    bold = '<a:rPr b="1"/>' if properties else ""
    return f"<a:r>{bold}<a:t>{text}</a:t></a:r>"


def span(text: str, properties: str = "") -> str:
    return f"<text:span a='T{len(properties)}'>{text}</text:span>" if properties else text


CHARACTERS = {"word": word_run, "slides": slide_run, "odf": span}
FIELD = (
    run("", '<w:fldChar w:fldCharType="begin"/>')
    + run("", '<w:instrText xml:space="preserve"> %s </w:instrText>')
    + run("", '<w:fldChar w:fldCharType="separate"/>')
    + "%s"
    + run("", '<w:fldChar w:fldCharType="end"/>')
)
MARKS = {
    "word": [
        '<w:hyperlink r="1">{}</w:hyperlink>',
        '<w:bookmarkStart w:id="1" w:name="n"/>{}<w:bookmarkEnd w:id="1"/>',
        '<w:bookmarkEnd w:id="2"/>{}<w:bookmarkStart w:id="2"/>',
        '<w:commentRangeStart w:id="3"/><w:ins w:id="4">{}<w:commentRangeEnd w:id="3"/></w:ins>',
        "<w:sdt><w:sdtPr><w:id/></w:sdtPr><w:sdtContent>{}</w:sdtContent></w:sdt>",
        run("<w:b/>", '<w:footnoteReference w:id="2"/>') + "{}",
        run("", "<w:drawing><d>7</d></w:drawing>") + "{}",
        "{}" + run("", "<w:br/>"),
        "<w:proofErr/>{}" + run("<w:i/>", "<w:tab/><w:lastRenderedPageBreak/>"),
        "{}<w:del><w:r><w:delText>gone</w:delText></w:r></w:del>",
        "<m:oMath xmlns:m='m'><m:r><m:t>x</m:t></m:r></m:oMath>{}",
        FIELD % ("HYPERLINK u", "{}"),
        "{}" + FIELD % ("REF a", "<w:r><w:t>7</w:t></w:r>"),
        run("", '<w:fldChar w:fldCharType="end"/>') + "{}",
    ],
    "slides": ["{}<a:br/>", "{}<a:fld type='n'><a:t>7</a:t></a:fld>", "{}"],
    "odf": [
        "<text:a href='u'>{}</text:a>", "{}<text:line-break/>", "<text:s text:c='2'/>{}",
        "<text:span style='b'>{}</text:span>", "<text:bookmark-start text:name='a'/>{}",
        "{}<draw:frame>7</draw:frame>", "{}<text:note><text:note-body/></text:note>",
    ],
}  # fmt: skip
ENDS = {
    "word": ('<w:p w:rsidR="2"><w:pPr><w:jc/></w:pPr>', "</w:p>"),
    "slides": ("<a:p><a:pPr/>", '<a:endParaRPr lang="en"/></a:p>'),
    "odf": ('<text:p style="a">', "</text:p >"),
}


def paragraphs(form: str) -> st.SearchStrategy[str]:
    words = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)
    texts = st.builds(CHARACTERS[form], words, st.sampled_from(PROPERTIES))
    marks = st.sampled_from(MARKS[form])
    some = st.recursive(
        texts,
        lambda inner: st.builds(
            lambda mark, parts: mark.replace("{}", "".join(parts)),
            marks,
            st.lists(inner, min_size=0, max_size=3),
        ),
        max_leaves=8,
    )
    return st.lists(some, min_size=0, max_size=4).map("".join)


STRUCTURE = re.compile(r"<(?!/?(?:w:r|w:rPr|w:t|w:b|w:i|w:lang|a:r|a:rPr|a:t|text:s)\b)[^>]*>")
GONE = re.compile("<w:(?:proofErr|lastRenderedPageBreak)/>")


def text_of(xml: str) -> str:
    """The text of paragraphs, without that of fields, notes and pictures."""
    names = etree.XPath(
        "//w:p//w:t/text()[not(ancestor::w:drawing)] | //a:p/a:r/a:t/text() | //text:p//text()",
        namespaces={"w": W, "a": A, "text": TEXT},
    )
    return "".join(names(etree.fromstring(xml.encode())))


def lowest_field_depth(xml: str) -> int:
    kinds = re.findall('fldCharType="(begin|end)"', xml)
    return min(accumulate(((kind == "begin") - (kind == "end") for kind in kinds), initial=0))


@pytest.mark.parametrize("form", ROOTS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_paragraph_stays_well_formed(form: str, data: st.DataObject) -> None:
    vocabulary, start, end = ROOTS[form]
    contents = data.draw(st.lists(paragraphs(form), min_size=1, max_size=3))
    gaps = [data.draw(st.sampled_from(OUTSIDE)) for _ in contents]
    before, after = ENDS[form]
    page = (
        start
        + "".join(
            f"{gap}{before}{content}{after}" for gap, content in zip(gaps, contents, strict=True)
        )
        + end
    )
    block = read_office_xml(page.encode(), vocabulary)
    sources = [segment.text for segment in block.segments]
    assert block.write(iter(sources), None) == page
    name = data.draw(st.sampled_from(list(TRANSLATORS)))
    translations = [TRANSLATORS[name](source) for source in sources]

    def align(text: str, translation: str) -> list[int]:
        positions = st.integers(-1, len(text) - 1)
        return data.draw(st.lists(positions, min_size=len(translation), max_size=len(translation)))

    for alignment in (None, align):
        written = block.write(iter(translations), alignment)
        etree.fromstring(written.encode())
        structures = [Counter(STRUCTURE.findall(GONE.sub("", xml))) for xml in (page, written)]
        assert structures[0] == structures[1]
        paragraph = re.compile(f"{re.escape(before)}.*?{re.escape(after)}", re.DOTALL)
        assert paragraph.split(page) == paragraph.split(written)
        assert lowest_field_depth(written) == lowest_field_depth(page)
        assert written.find('bookmarkStart w:id="1"') <= written.find('bookmarkEnd w:id="1"')
        if not re.search("fld|frame", page) and sources:
            assert Counter(bare(text_of(written))) >= Counter(bare("".join(translations)))


def one(xml: str, form: str = "word") -> str:
    _, start, end = ROOTS[form]
    before, after = ENDS[form]
    return f"{start}{before}{xml}{after}{end}"


T = word_run
BOX = "<w:pict><w:txbxContent><w:p>{}</w:p></w:txbxContent></w:pict>"


@pytest.mark.parametrize(
    ("xml", "segments", "why"),
    [
        (T("Hel") + T("lo w", '<w:lang w:val="x"/>') + T("x"), "Hello wx", "runs of one look"),
        (T("One ") + T("two", "<w:b/>") + T(" three"), "One two three", "formats do not divide"),
        (T("One") + run("", "<w:br/>") + T("two"), "One|two", "line breaks do"),
        (T("One\ttwo"), "One|two", "and tabs"),
        (run("", "<w:t>a</w:t><w:noBreakHyphen/><w:t>b</w:t>"), "a\u2011b", "hyphens"),
        ("<w:del><w:r><w:delText>a</w:delText></w:r></w:del>" + T("b"), "b", "deleted text"),
        (FIELD % ("PAGE", T("7")) + T(" of the"), "7 of the", "fields are read"),
        (FIELD.replace('"end"', '"x"') % ("TOC", T("One")), "One", "fields that end elsewhere"),
        (T("a ") + run("", BOX.format(T("in"))) + T("b"), "a b|in", "text boxes come after it"),
        (T("12") + run("", "<w:tab/>"), "", "nothing to translate"),
        (T("see https://a.b/c_d now"), "see https://a.b/c_d now", "addresses"),
    ],
)  # fmt: skip
def test_what_of_word_is_translated(xml: str, segments: str, why: str) -> None:
    page = one(xml)
    block = read_office_xml(page.encode(), WORD)
    assert "|".join(segment.text for segment in block.segments) == segments, why
    assert block.write((segment.text for segment in block.segments), None) == page


@pytest.mark.parametrize(
    ("xml", "translation", "written", "why"),
    [
        (T("a ") + T("b", "<w:b/>"), "b a", T("b", "<w:b/>") + T(" a"), "marks move with words"),
        (T("a b", "<w:b/>"), "c", T("c", "<w:b/>"), "formatting of all is no mark"),
        (run("", "<w:footnoteRef/>") + T(" a"), "b", run("", "<w:footnoteRef/>") + T(" ") + T("b"),
         "the space after the number of a note"),
        (T("a"), "b < c & \x01d", T("b &lt; c &amp; d"), "characters that XML has not"),
        (f"<w:hyperlink>{T('a')}</w:hyperlink>" + T(" b"), "b a",
         T("b ") + f"<w:hyperlink>{T('a')}</w:hyperlink>", "links"),
        (FIELD % ("HYPERLINK u", T("a")) + T(" b"), "b a",
         T("b ") + FIELD % ("HYPERLINK u", T("a")), "links that are fields"),
    ],
)  # fmt: skip
def test_where_translations_go_in_word(xml: str, translation: str, written: str, why: str) -> None:
    block = read_office_xml(one(xml).encode(), WORD)
    assert block.write(iter([translation]), word_by_word) == one(written), why


def test_text_boxes_are_translated_in_their_place() -> None:
    block = read_office_xml(one(T("One ") + run("", BOX.format(T("in"))) + T("two")).encode(), WORD)
    written = block.write(iter(["ONE TWO", "IN"]), word_by_word)
    assert written == one(T("ONE ") + run("", BOX.format(T("IN"))) + T("TWO"))


def shout(texts: list[str]) -> list[str]:
    return [f"{text.upper()}!" for text in texts]


def in_order(text: str, translation: str) -> list[int]:
    return [min(i, len(text) - 1) for i in range(len(translation))]


def word_file() -> bytes:
    """With headings, formatting, a list, a table, a header, a footer, two sections."""
    document = docx.Document()
    document.core_properties.title = "Title"
    document.add_heading("A heading", 1)
    paragraph = document.add_paragraph("One ")
    paragraph.add_run("two").bold = True
    paragraph.add_run(" three.")
    document.add_paragraph("an item", style="List Bullet")
    table = document.add_table(2, 2)
    table.cell(0, 0).text, table.cell(1, 1).text = "first cell", "42"
    document.sections[0].header.paragraphs[0].text = "In the header"
    document.sections[0].footer.paragraphs[0].text = "In the footer"
    document.add_page_break()
    stream = BytesIO()
    document.save(stream)
    return stream.getvalue()


def test_a_file_of_word_as_another_program_reads_it() -> None:
    content = word_file()
    package = read_package(content, "docx")
    texts = "A heading|One two three.|an item|first cell|In the header|In the footer"
    assert set(package.segments) == set(texts.split("|"))
    translated = translate_package(content, "docx", shout, align=in_order)
    document = docx.Document(BytesIO(translated))
    shown = [p.text for p in document.paragraphs if p.text.strip()]
    assert shown == ["A HEADING!", "ONE TWO THREE.!", "AN ITEM!"]
    assert [p.style.name for p in document.paragraphs][:3] == ["Heading 1", "Normal", "List Bullet"]
    runs = document.paragraphs[1].runs
    assert [(r.text, r.bold) for r in runs] == [("ONE ", None), ("TWO", True), (" THREE.!", None)]
    assert document.tables[0].cell(0, 0).text == "FIRST CELL!"
    assert document.sections[0].header.paragraphs[0].text == "IN THE HEADER!"
    assert document.core_properties.title == "Title"


def test_other_files_of_the_archive_stay_byte_for_byte() -> None:
    content = word_file()
    archives = [zipfile.ZipFile(BytesIO(content))]
    archives.append(zipfile.ZipFile(BytesIO(read_package(content, "docx").rebuild(["x"] * 6))))
    infos = [[(i.filename, i.compress_type, i.date_time) for i in a.infolist()] for a in archives]
    assert infos[0] == infos[1]
    changed = {n for n in archives[0].namelist() if archives[0].read(n) != archives[1].read(n)}
    assert changed == {"word/document.xml", "word/header1.xml", "word/footer1.xml"}
    unchanged = read_package(content, "docx")
    same = zipfile.ZipFile(BytesIO(unchanged.rebuild(unchanged.segments)))
    assert all(archives[0].read(name) == same.read(name) for name in same.namelist())


def archive(**files: str) -> bytes:
    stream = BytesIO()
    with zipfile.ZipFile(stream, "w") as found:
        for name, content in files.items():
            found.writestr(name, content)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "form", "message"),
    [
        (b"text", "docx", "not read as .docx, a ZIP archive: File is not a zip file; open it in"),
        (word_file()[:-30], "docx", "not read as .docx"),
        (word_file(), "odt", "has no text of a .odt in it"),
        (word_file(), "odp", "has no text of a .odp in it"),
        (archive(**{"content.xml": "<a>"}), "odt", "content.xml: is no well-formed XML: "),
        (archive(**{"content.xml": "<a>"})[::-1], "odt", "not read as .odt"),
        (archive(**{"content.xml": "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>"}), "odt",
         "content.xml: has a document type"),
    ],
)  # fmt: skip
def test_files_that_are_not_what_their_name_says(
    content: bytes, form: PackageForm, message: str
) -> None:
    with pytest.raises(DataError) as error:
        read_package(content, form)
    assert message in str(error.value)


@pytest.mark.parametrize(("form", "vocabulary"), [("slides", SLIDES), ("odf", OPEN_DOCUMENT)])
def test_slides_and_open_documents(form: str, vocabulary: Vocabulary) -> None:
    bold = CHARACTERS[form]("b", "<w:b/>")
    page = one(CHARACTERS[form]("a ", "") + bold, form)
    block = read_office_xml(page.encode(), vocabulary)
    assert [segment.text for segment in block.segments] == ["a b"]
    written = block.write(iter(["B a"]), word_by_word)
    assert written == one(CHARACTERS[form]("B", "<w:b/>") + CHARACTERS[form](" a", ""), form)


def test_an_open_presentation_has_slides_and_notes() -> None:
    """As LibreOffice Impress writes them, in one file."""

    def box(text: str) -> str:
        return f"<draw:frame><draw:text-box>{text}</draw:text-box></draw:frame>"

    def page(first: str, last: str) -> str:
        slide = box(
            f"<text:p>{first}</text:p><text:p><text:page-number>1</text:page-number></text:p>"
        )
        notes = f"<presentation:notes>{box(f'<text:p>{last}</text:p>')}</presentation:notes>"
        return one_page.format(slide + notes)

    names = f'xmlns:text="{TEXT}" xmlns:draw="d" xmlns:presentation="p"'
    one_page = f"<o {names}><draw:page>{{}}</draw:page></o>"
    talk = archive(**{"content.xml": page("one two", "three"), "Pictures/1.png": "\0"})
    translated = translate_package(talk, "odp", lambda texts: [text.upper() for text in texts])
    expected = {"content.xml": page("ONE TWO", "THREE"), "Pictures/1.png": "\0"}
    with zipfile.ZipFile(BytesIO(translated)) as found:
        assert {name: found.read(name).decode() for name in found.namelist()} == expected


HOSTILE = [
    T("a "), T("a", "<w:b/>") + T("b"), FIELD % ("REF", T("a")), FIELD % ("HYPERLINK", T("a")),
    run("", '<w:fldChar w:fldCharType="begin"/>') + T("a"),
    run("", '<w:fldChar w:fldCharType="end"/>') + T("a"), '<w:bookmarkStart w:id="1"/>' + T("a"),
    '<w:bookmarkEnd w:id="1"/>' + T("a"), run("", "<w:t>a</w:t><w:tab/>"), "<w:ins/>",
    "<w:ins>" + T("a ") + "</w:ins>", run("", BOX.format(T("a"))),
]  # fmt: skip


@pytest.mark.parametrize("unit", HOSTILE, ids=range(len(HOSTILE)))
def test_time_is_linear(unit: str) -> None:
    """Quadratic time takes tens of seconds for each."""
    page = one(unit * 4000)
    before = time.process_time()
    block = read_office_xml(page.encode(), WORD)
    etree.fromstring(block.write((f"{s.text} x" for s in block.segments), None).encode())
    assert time.process_time() - before < 5


def test_elements_within_elements() -> None:
    deep = archive(**{"content.xml": "<a>" * 100_000 + "</a>" * 100_000})
    with pytest.raises(RecursionError):  # the command and the server have words for it
        read_package(deep, "odt")


@pytest.mark.parametrize(
    "compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
)
def test_damaged_archives_are_told(compression: int) -> None:
    """Whatever byte is another one."""
    stream = BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as found:
        found.writestr("[Content_Types].xml", "<Types/>" * 20)
        found.writestr("word/document.xml", one(T("a") * 20))
    draw, whole, n_told = random.Random(1), stream.getvalue(), 0
    for _ in range(1500):
        damaged = bytearray(whole)
        for _ in range(draw.randint(1, 4)):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        try:
            read_package(bytes(damaged), "docx")
        except DataError:
            n_told += 1
    assert n_told > 300


def test_a_picture_is_never_whole_in_memory() -> None:
    """A megabyte of zeros, compressed, is a gigabyte."""
    stream, n_bytes = BytesIO(), 32 << 20
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as found:
        found.writestr("word/document.xml", one(T("a")))
        found.writestr("word/media/a.bin", bytes(n_bytes))
    tracemalloc.start()
    try:
        translated = translate_package(stream.getvalue(), "docx", shout)
        assert tracemalloc.get_traced_memory()[1] < n_bytes // 4
    finally:
        tracemalloc.stop()
    with zipfile.ZipFile(BytesIO(translated)) as written:
        assert written.read("word/media/a.bin") == bytes(n_bytes)


def test_a_small_file_of_many_elements() -> None:
    content = archive(**{"word/document.xml": "<a>" + "<b/>" * 1_000_001 + "</a>"})
    with pytest.raises(DataError, match="more than 1,000,000 XML tags; divide the document"):
        read_package(content, "docx")


@pytest.mark.parametrize(("count", "n"), [("3", 3), ("x", 1), ("-2", 1), ("9" * 5000, 1)])
def test_spaces_that_are_counted(count: str, n: int) -> None:
    page = one(f'a<text:s text:c="{count}"/>b', "odf")
    (segment,) = read_office_xml(page.encode(), OPEN_DOCUMENT).segments
    assert segment.text == "a b"
    written = read_office_xml(page.encode(), OPEN_DOCUMENT).write(iter(["c d"]), None)
    assert "c d" in written.replace('<text:s text:c="2"/>', "")
    assert ('<text:s text:c="2"/>' in written) is (n == 3), "with the space before it"


def test_indents_and_columns_of_open_documents_stay() -> None:
    indent, gap = '<text:s text:c="4"/>', '<text:s text:c="8"/>'
    page = one(f"{indent}a<text:tab/>1{gap}2", "odf")
    written = read_office_xml(page.encode(), OPEN_DOCUMENT).write(iter(["b"]), None)
    assert written == one(f"{indent}b<text:tab/>1 {gap.replace('8', '7')}2", "odf")
    page = one(f'<text:span text:style-name="T3">{indent}a</text:span>', "odf")
    written = read_office_xml(page.encode(), OPEN_DOCUMENT).write(iter(["b"]), None)
    assert indent in written and "> <" not in written
    page = one("a\u00a0b", "odf")
    assert read_office_xml(page.encode(), OPEN_DOCUMENT).segments[0].text == "a\u00a0b"
