"""Terms: what is read, what is found in a text, and what a translation must then contain."""

import random
import re
import time
import unicodedata
from pathlib import Path

import pytest

from transformer_mt.errors import DataError
from transformer_mt.text.normalise import Normaliser
from transformer_mt.translation.glossary import Glossary, Term, occurs


def glossary(tmp_path: Path, *lines: str) -> Glossary:
    path = tmp_path / "terms.tsv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return Glossary.read(path)


def test_terms_in_the_other_script_are_found_too(tmp_path: Path) -> None:
    simplified = Normaliser("zh", "simplified")
    terms = glossary(tmp_path, "軟體\tsoftware", "软体\tmollusc", "電腦\tcomputer", "网\tnet")
    found = terms.respelled(simplified)
    assert found.required("软体、电脑、網") == ["mollusc", "computer"], (
        "what is written counts first"
    )
    assert found.required("軟體、電腦、网") == ["software", "computer", "net"]
    assert terms.required("电脑") == []


EN_ZH = (
    "# term\ttranslation",
    "node\t节点",
    "node pool\t节点池",
    "US\t美国",
    "us\t我们",
    "iPhone",
    "Kubernetes\t",
    "C++\tC++ 语言",
    "machine learning\t机器学习",
    "",
    "cat\t猫",
)


@pytest.mark.parametrize(
    ("text", "expected", "why"),
    [
        ("A node fails.", ["节点"], "a word"),
        ("Nodes fail.", [], "only whole words"),
        ("The node pool and a node", ["节点池", "节点"], "longest first, in order of appearance"),
        ("a node, a Node and a NODE", ["节点"], "in any case, and once"),
        ("The US wants us.", ["美国", "我们"], "all capitals are a term of their own"),
        ("Us or US?", ["我们", "美国"], "case decides"),
        ("My iPhone and my iphone", ["iPhone"], "an inner capital counts"),
        ("kubernetes runs", ["kubernetes"], "without a target, as it stands in the text"),
        ("I like C++.", ["C++ 语言"], "a term may end in punctuation"),
        ("C++ and cat-like category", ["C++ 语言", "猫"], "a hyphen is a border"),
        ("machine\tlearning, machine\u3000learning", ["机器学习"], "any white space"),
        ("concat cat2 cat_x", [], "digits and underscores belong to words"),
        ("See https://example.org/node/cat and {node}.", [], "not within what must stay"),
        ("node@example.org and node", ["节点"], "but after it"),
        ("", [], "nothing"),
    ],
)
def test_terms_in_text_with_spaces(
    tmp_path: Path, text: str, expected: list[str], why: str
) -> None:
    assert glossary(tmp_path, *EN_ZH).required(text) == expected, why


@pytest.mark.parametrize(
    ("text", "expected", "why"),
    [
        ("这个节点池很大，节点节点", ["node pool", "node"], "anywhere, longest first, once"),
        ("容器节点", ["container", "node"], "neighbours"),
        ("在Python里写容器", ["Python", "container"], "Latin words border on Chinese characters"),
        ("Pythonic 容器", ["container"], "but not on letters"),
    ],
)
def test_terms_in_chinese(tmp_path: Path, text: str, expected: list[str], why: str) -> None:
    terms = glossary(tmp_path, "节点\tnode", "节点池\tnode pool", "容器\tcontainer", "Python")
    assert terms.required(text) == expected, why


def test_a_match_ends_where_a_word_ends(tmp_path: Path) -> None:
    terms = glossary(tmp_path, "new york\tA", "new york times square\tB", "square\tC")
    assert terms.required("New York Times Squares") == ["A"], "the longer one does not fit"
    assert terms.required("New York Times Square") == ["B"]
    assert glossary(tmp_path, "cafe\tX").required("cafe\u0301") == [], "é is one character"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a\tb", "\tb"], "line 2: the source term is empty; delete the line"),
        (["a\tb\tc"], "line 1: 3 columns; give source term, tab, target term"),
        (
            ["# x", "Node\t节点", "node\t结点"],
            "line 3: 'node' is to become '结点', but '节点' in line 2; delete one of them",
        ),
        (["US\t美国", "US"], "line 2: 'US' is to become 'as it stands', but '美国' in line 1"),
    ],
)
def test_mistakes_are_named_with_their_line(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(DataError) as error:
        glossary(tmp_path, *lines)
    assert str(error.value).startswith(f"{tmp_path}/terms.tsv: {message}")


def test_the_same_line_twice_is_no_contradiction(tmp_path: Path) -> None:
    terms = glossary(tmp_path, "node\t节点", "Node\t节点", "US\t美国", "us\t我们")
    assert terms.required("node us US") == ["节点", "我们", "美国"]


def test_files_of_windows(tmp_path: Path) -> None:
    path = tmp_path / "terms.tsv"
    with pytest.raises(DataError, match=r"terms\.tsv"):
        Glossary.read(path)
    path.write_bytes("\ufeffnode\t节点\r\ncat\r\n".encode())
    assert Glossary.read(path).required("A cat, a node") == ["cat", "节点"]


@pytest.mark.parametrize("seed", range(15))
def test_a_regular_expression_finds_the_same(tmp_path: Path, seed: int) -> None:
    """One alternation, longest term first: the plain way, quadratic in the number of terms."""
    rng = random.Random(seed)

    def words(n: int) -> str:
        return " ".join("".join(rng.choices("ab", k=rng.randint(1, 3))) for _ in range(n))

    terms = sorted({words(rng.randint(1, 3)) for _ in range(20)}, key=len, reverse=True)
    plain = re.compile(rf"\b(?:{'|'.join(map(re.escape, terms))})\b")
    text = words(60)
    expected = dict.fromkeys(f"<{match[0]}>" for match in plain.finditer(text))
    found = glossary(tmp_path, *(f"{term}\t<{term}>" for term in terms)).required(text)
    assert found == list(expected)
    assert expected, "the test would say nothing"


@pytest.mark.parametrize(
    ("language", "term"),
    [
        ("en", "user’s guide"),
        ("en", "The “Owner”"),
        ("fr", unicodedata.normalize("NFD", "Café")),
        ("de", "„Eigentümer“"),
        ("zh", "ＡＢＣ公司"),
    ],
)
def test_a_term_is_found_however_its_characters_are_spelled(language: str, term: str) -> None:
    as_read = Normaliser(language, None)(term)
    for spelled in (term, unicodedata.normalize("NFC", term), as_read):
        assert Glossary([Term(spelled, "T", 1)]).required(f"x {as_read} y") == ["T"]


@pytest.mark.parametrize(
    ("word", "text", "found"),
    [
        ("art", "Art!", True),
        ("art", "The party starts.", False),
        ("art", "a party of art", True),
        ("C++", "in c++", True),
        ("don’t ", "I don't.", True),
        ("猫", "熊猫和", True),
        ("x", "", False),
        ("", "a b", False),
    ],
)
def test_a_word_is_not_a_part_of_another(word: str, text: str, found: bool) -> None:
    assert occurs(word, text) is found


def test_thousands_of_terms_take_no_longer_than_few(tmp_path: Path) -> None:
    """Quadratic ways take minutes here."""
    rng = random.Random(1)
    terms = {"".join(rng.choices("abcdefgh", k=8)) for _ in range(20_000)}
    found = glossary(tmp_path, *(f"{term}\t{term.upper()}" for term in sorted(terms)))
    text = " ".join(rng.choices([*sorted(terms)[:50], "other", "words"], k=10_000))
    started = time.process_time()
    assert len(found.required(text)) == 50
    assert time.process_time() - started < 10


@pytest.mark.parametrize(
    ("content", "expected", "why"),
    [
        ("猫,cat\n节点,node\n", "cat|node", "commas"),
        (
            "猫;cat\n节点;node, or so\n",
            "cat|node, or so",
            "semicolons, as in European Excel",
        ),
        ('\ufeffzh,en\r\n"猫","a ""big"" cat"\r\n节点,"x, y"\r\n', 'a "big" cat|x, y', "quotes"),
        ("Source,Target\n# a note\n\n猫,cat\n节点\n", "cat|节点", "a header, notes, no target"),
        ("中文,英语,\n猫,cat,\n节点,node,\n", "cat|node", "a header of two languages"),
        ("中文,Chinese\n猫,cat\n节点,node\n", "cat|Chinese|node", "one language is a term"),
        ("猫\tcat\n节点\tnode\n", "cat|node", "tabs"),
        ("猫,cat,,\n节点,node,,\n", "cat|node", "empty columns"),
        ('猫,"two\nwords"\n节点,node\n', "two words|node", "a line end within quotes"),
        ("target,source\ncat,猫\nnode,节点\n", "cat|node", "the target first"),
        ("译文；,\n猫,cat\n", "cat", "no header"),
    ],
)
def test_csv(content: str, expected: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "terms.CSV"
    path.write_text(content, "utf-8", newline="")
    assert Glossary.read(path).required("猫、中文和节点") == expected.split("|"), why


def test_columns_named_by_languages_go_both_ways(tmp_path: Path) -> None:
    path = tmp_path / "terms.csv"
    path.write_text("English,中文\ncat,猫\nkitty,猫\nPyTorch\n", "utf-8")
    terms = Glossary.read(path)
    assert terms.for_direction("en", "zh").required("a cat, a kitty") == ["猫"]
    assert terms.for_direction("zh", "en").required("猫 PyTorch") == ["cat", "PyTorch"]
    assert terms.for_direction("zh", "de").required("猫") == []


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b'a,b\n"c,d\n', "line 2: not CSV: unexpected end of data; save it as CSV again"),
        ("a.csv", b"a,b,c\n", "line 1: 3 columns; give source term, a comma (quotes around"),
        ("a.csv", b"PK\x03\x04", "is a spreadsheet; save it as CSV (UTF-8)"),
        ("a.xlsx", b"PK\x03\x04", "is a spreadsheet; save it as CSV (UTF-8)"),
        ("a.tsv", b"# a\na,b\nc,d\n", "no line has a tab, but all have ','; a file with commas is"),
        ("a.txt", b"a;b\n", "no line has a tab, but all have ';'"),
    ],
)
def test_tables_that_are_refused(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError) as error:
        Glossary.read(path)
    assert str(error.value).startswith(f"{path}: {message}")


def test_terms_that_are_no_terms(tmp_path: Path) -> None:
    path = tmp_path / "glossary.tsv"
    path.write_text("a\tb\n" + "x" * 5000 + "\ty\n" + "a\tb\tc\n" * 1000, encoding="utf-8")
    with pytest.raises(DataError) as caught:
        Glossary.read(path)
    lines = str(caught.value).splitlines()
    assert (
        lines[0] == f"{path}: line 2: a term of more than 1000 characters; is the file a glossary?"
    )
    assert len(lines) == 101 and lines[-1] == f"{path}: 901 more lines that make no sense"
