"""The page of an evaluation: whole, self-contained, never the text's to command; and its script."""

import json
import re
import shutil
import subprocess
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from parsed_page import HOSTILE, ParsedPage

from transformer_mt.evaluation.metrics import Scorer, share_score
from transformer_mt.evaluation.report import describe_evaluation, write_evaluation_page
from transformer_mt.evaluation.systems import Evaluation
from transformer_mt.evaluation.test_sets import EvaluationSet


def write(
    tmp_path: Path, outputs: dict[str, list[str]], texts: list[str]
) -> tuple[ParsedPage, Any]:
    test = EvaluationSet(texts[0], "zh", texts, texts[::-1], "en")
    scores = Scorer("zh").compare(outputs, test.refs, n=10)
    contrast = {name: {"contrast": share_score("accuracy", 3, 4)} for name in outputs}
    evaluation = Evaluation(
        [test], {test.name: outputs}, {test.name: scores, "pronouns.tsv": contrast}, {}
    )
    report = describe_evaluation(evaluation, {})
    write_evaluation_page(report, evaluation, tmp_path / "report.html")
    return ParsedPage(tmp_path / "report.html"), json.loads(json.dumps(report))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> tuple[ParsedPage, Any]:
    outputs = {HOSTILE[0]: HOSTILE, HOSTILE[4]: HOSTILE[::-1]}
    return write(tmp_path_factory.mktemp("page"), outputs, HOSTILE)


def test_hostile_text_stays_text_and_the_page_needs_nothing_else(
    hostile: tuple[ParsedPage, Any],
) -> None:
    page, plain = hostile
    tags = [tag for tag, _ in page.elements]
    assert tags.count("script") == 2 and {"img", "svg"}.isdisjoint(tags)
    assert page.needs_nothing_else() and page.values_of("href") == []
    assert page.values_of("autocomplete") == ["off"] * 6  # a reload shows what the controls say
    sentences = page.data["tests"][0]["sentences"]
    assert [sentence["src"] for sentence in sentences] == HOSTILE
    assert [sentence["hyps"][1] for sentence in sentences] == HOSTILE[::-1]
    assert page.data["systems"] == [HOSTILE[0], HOSTILE[4]]
    test = plain["tests"][HOSTILE[0]]
    assert test["sentences"][1]["systems"][HOSTILE[0]]["text"] == HOSTILE[1]
    for word in ("accuracy", "pronouns.tsv", "BLEU", "By length", "Rare words"):
        assert word in page.text
    own = test["systems"][HOSTILE[0]]
    assert own["frequency_basis"].startswith("the references")
    assert own["scores"]["bleu"]["signature"] in page.text
    assert plain["contrast"]["pronouns.tsv"][HOSTILE[0]]["score"] == 75


@pytest.mark.parametrize("n_systems", [1, 2, 3])
def test_marks_cut_the_texts_into_what_differs(tmp_path: Path, n_systems: int) -> None:
    outputs = {str(i): [f"这只{i}猫😀。", "完全相同"] for i in range(n_systems)}
    page, _ = write(tmp_path, outputs, ["The cat.", "这只猫。"])
    for sentence in page.data["tests"][0]["sentences"]:
        firsts = [sentence["hyps"][0]] * (n_systems - 1) or [sentence["ref"]]
        seconds = sentence["hyps"][1:] or sentence["hyps"]
        pairs = sentence["marks"]
        assert len(pairs) == len(firsts) == len(seconds)
        for texts, marks in zip(zip(firsts, seconds, strict=True), pairs, strict=True):
            assert [sum(lengths) for lengths in marks] == [len(text) for text in texts]
    if n_systems > 1:
        assert page.data["tests"][0]["sentences"][0]["marks"][0] == [[2, 1, 3], [2, 1, 3]]


def test_the_title_says_systems_scores_and_test_set(tmp_path: Path) -> None:
    texts = ["完全相同", "这只猫。"]
    page, plain = write(tmp_path, {"a": texts[::-1], "b": texts}, texts)
    scores = plain["tests"]["完全相同"]["systems"]["b"]["scores"]
    title = f"Evaluation: a 100.00 · b {scores['bleu']['score']:.2f} BLEU on 完全相同"
    assert f"<title>{title}</title>" in page.source and f"<h1>{title}</h1>" in page.source


def test_sentences_stand_before_the_tables_of_errors(hostile: tuple[ParsedPage, Any]) -> None:
    text = hostile[0].text
    assert text.index("Scores") < text.index("largest differences first") < text.index("Errors on")


def run_script(code: str) -> Any:
    """What an expression over the functions of the page is worth."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed: the page's script cannot be run")
    template = resources.files("transformer_mt.evaluation") / "page.html.j2"
    scripts = re.findall(r"<script>(.*?)</script>", template.read_text("utf-8"), re.DOTALL)
    script = re.sub(r"\{\{ tr\((\".*?\")\)\|script_json \}\}", r"\1", scripts[0])
    program = f"{script}\nconsole.log(JSON.stringify({code}))"
    result = subprocess.run([node, "-e", program], capture_output=True, text=True, check=True)
    return json.loads(result.stdout)


SENTENCES = [
    {"src": "long source", "ref": "One", "hyps": ["one", "two"], "chrf": [30, 60],
     "errors": [[[0, "x"]], []]},
    {"src": "short", "ref": "two", "hyps": ["two", "two"], "chrf": [50, 50],
     "errors": [[], [[2, "y"]]]},
    {"src": "middle s", "ref": "three", "hyps": ["three", "four"], "chrf": [100, 10],
     "errors": [[], []]},
]  # fmt: skip
VIEW = {"key": "number", "down": False, "kind": -1, "whose": -1, "other": 1, "query": "",
        "differing": False}  # fmt: skip


CHOSEN = [  # change of the view, sentences in order
    ({}, [0, 1, 2]),
    ({"down": True}, [2, 1, 0]),
    ({"key": 1}, [2, 1, 0]),
    ({"key": 0}, [0, 1, 2]),
    ({"key": "difference"}, [2, 1, 0]),
    ({"key": "distance"}, [2, 0, 1]),
    ({"key": "length"}, [1, 2, 0]),
    ({"kind": 2}, [1]),
    ({"kind": 2, "whose": 0}, []),
    ({"kind": 0, "whose": 0}, [0]),
    ({"differing": True}, [0, 2]),
    ({"query": "TWO"}, [0, 1]),
]


def test_the_script_sorts_filters_and_marks() -> None:
    """Lengths of stretches are those of code points."""
    views = json.dumps([{**VIEW, **change} for change, _ in CHOSEN])
    chosen = f"{views}.map(view => choose({json.dumps(SENTENCES)}, view))"
    found = run_script(f"[{chosen}, stretches('a😀b猫', [1, 1, 2])]")
    for (change, expected), indices in zip(CHOSEN, found[0], strict=True):
        assert indices == expected, change
    assert found[1] == [["a", False], ["😀", True], ["b猫", False]]
