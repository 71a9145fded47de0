"""Errors that a reference tells: found where they are, and excused where the reference does it."""

import pytest

from transformer_mt.evaluation.error_checks import CHECKS, Case, check_sentences


def found(kind: str, case: Case) -> str | None:
    """What the check says; "" where nothing is wrong, None where it does not apply."""
    check, _ = CHECKS[kind]
    finding = check(case)
    if finding is None:
        return None
    assert (finding.severity > 0) == bool(finding.detail)
    return finding.detail


def zh_en(src: str, ref: str, hyp: str) -> Case:
    return Case(src, ref, hyp, "zh", "en")


def en_de(src: str, ref: str, hyp: str) -> Case:
    return Case(src, ref, hyp, "en", "de")


@pytest.mark.parametrize(
    ("case", "expected", "why"),
    [
        (zh_en("他有23本书", "He has 23 books", "He has 23 books"), "", "digits"),
        (zh_en("他有23本书", "He has 23 books", "He has 32 books"), "without 23", "changed"),
        (zh_en("他有２３本书", "He has 23 books", "He has many"), "without 23", "full width"),
        (zh_en("他有23本书", "He has 23 books", "He has twenty-three books"), "", "words"),
        (zh_en("他有3本书", "He has three books", "He has three books"), "", "digit and word"),
        (zh_en("他有三本书", "He has three books", "He has 3 books"), "", "numeral and digit"),
        (zh_en("他有三本书", "He has three books", "He has books"), "without 3", "words missing"),
        (zh_en("他有三十二本书", "He has 32 books", "He has some"), "without 32", "numerals"),
        (zh_en("卖了150万辆", "It sold 1.5 million", "It sold 1,500,000"), "", "scales"),
        (zh_en("卖了150万辆", "It sold 1.5 million", "It sold 1.5"), "without 1500000", "no scale"),
        (zh_en("共200人", "200 people", "20 people"), "without 200", "zeros count"),
        (zh_en("星期三来", "Come on Wednesday", "Come"), None, "no number in the reference"),
        (zh_en("3点到", "Arrive at three", "Arrive at 3:00"), "", "the time"),
        (zh_en("1998年", "In 1998", "In 1989"), "without 1998", "years"),
        (zh_en("一个人", "A person", "A person"), None, "one is no number"),
        (zh_en("你们两个", "You two", "Both of you"), None, "two has too many words"),
        (en_de("It is 12 km", "Es sind 12 km", "Es sind zwölf km"), "", "unread words excused"),
        (en_de("It is 12 km", "Es sind 12 km", "Es sind 13 km"), "without 12", "another number"),
        (en_de("It is 1,500 m", "Es sind 1.500 m", "Es sind 1500 m"), "", "separators"),
        (en_de("It costs 4,000", "Es kostet 4000", "Es kostet 4 000"), "", "thousands apart"),
        (en_de("It costs 12,345", "Es kostet 12345", "Es kostet 12\u202f345"), "", "narrow"),
        (en_de("It costs 4,000", "Es kostet 4000", "Es kostet 5 000"), "without 4000", "another"),
        (en_de("Rooms 4 and 100", "Zimmer 4 und 100", "Zimmer 4 100"), "", "two numbers"),
        (en_de("It is 254", "Es ist 254", "Es ist ٢٥٤"), "", "digits of another script"),
        (en_de("Number 1102", "Nummer 1102", "Nummer 113"), "without 1102", "large"),
        (zh_en("3千本", "3,000 books", "3 thou\u017fand books"), "without 3000", "a long s"),
        (zh_en("3百万", "3 million", "3 m\u0131llion"), "without 3000000", "an i without a dot"),
        (Case("Chapters 1, 2 and 3", "第1、2、3章", "第1，2，3章", "en", "zh"), "", "a list"),
        (Case("Chapters 1, 2 and 3", "第1、2、3章", "第１，２，３章", "en", "zh"), "", "wide"),
        (zh_en("１，５００人", "1500 people", "15 people"), "without 1500", "wide thousands"),
        (zh_en("1，500人", "1,500 people", "1500 people"), "", "thousands with a wide comma"),
        (Case("", "He has 23 books", "He has books", "", "en"), None, "no source"),
    ],
)  # fmt: skip
def test_numbers(case: Case, expected: str | None, why: str) -> None:
    assert found("numbers", case) == expected, why


@pytest.mark.parametrize(
    ("case", "expected", "why"),
    [
        (zh_en("用Kubernetes部署", "Deploy with Kubernetes", "Do"), "without Kubernetes", "gone"),
        (zh_en("用Kubernetes部署", "Deploy with Kubernetes", "with kubernetes"), "", "case"),
        (zh_en("汤姆Tom来了", "He came", "He came"), None, "the reference leaves it out, too"),
        (zh_en("见 https://a.org/b。", "See https://a.org/b.", "See a.org"),
         "without https://a.org/b", "addresses"),
        (zh_en("写给 me@a.org", "Write to me@a.org", "Write"), "without me@a.org", "e-mail"),
        (en_de("Apple is big", "Apple ist groß", "Der Apfel ist groß"), "without Apple", "capital"),
        (en_de("an arm in London", "ein Arm in London", "ein Bein in Londons"), "", "inflected"),
        (en_de("an arm", "ein arm", "ein Bein"), None, "without capital it is a word"),
    ],
)  # fmt: skip
def test_names(case: Case, expected: str | None, why: str) -> None:
    assert found("names", case) == expected, why


@pytest.mark.parametrize(
    ("ref", "hyp", "language", "is_wrong", "why"),
    [
        ("a man at the bar", "a man at the bar at the bar", "en", True, "three words at once"),
        ("it is of value", "it is of of of of value", "en", True, "one word, four times"),
        ("it is very good", "it is very very good", "en", False, "emphasis"),
        ("no no no no", "no no no no", "en", False, "the reference does so"),
        ("no no no no", "no no no no no no no", "en", True, "but not as often"),
        ("one of the men and one of the women", "one of the men, one of the girls", "en", False,
         "short stretches come again"),
        ("he left", "when he had gone to the sea I said when he had gone to the sea", "en", True,
         "a long stretch, not at once"),
        ("我们应该考虑", "我们应该考虑考虑考虑", "zh", True, "characters"),
        ("谢谢你", "谢谢你", "zh", False, "reduplication"),
        ("你", "哈" * 30_000, "zh", True, "hostile"),
        ("", "", "en", False, "nothing"),
    ],
)  # fmt: skip
def test_repetition(ref: str, hyp: str, language: str, is_wrong: bool, why: str) -> None:
    assert bool(found("repetition", Case("", ref, hyp, "", language))) == is_wrong, why


@pytest.mark.parametrize(
    ("n_ref", "n_hyp", "kind", "why"),
    [
        (20, 20, None, "equal"),
        (20, 9, "omission", "less than half"),
        (20, 11, None, "more than half"),
        (4, 1, None, "few words in all"),
        (4, 0, "omission", "nothing is always too little"),
        (0, 0, None, "nothing for nothing"),
        (10, 21, "too long", "more than twice"),
        (10, 19, None, "less than twice"),
        (1, 3, None, "few words more"),
        (0, 8, "too long", "something for nothing"),
    ],
)
def test_lengths(n_ref: int, n_hyp: int, kind: str | None, why: str) -> None:
    case = Case("x", "word " * n_ref, "word " * n_hyp, "de", "en")
    for name in ("omission", "too long"):
        expected = f"{n_hyp} for {n_ref} words" if name == kind else ""
        assert found(name, case) == expected, why


@pytest.mark.parametrize(
    ("ref", "hyp", "expected", "why"),
    [
        ("a b", "a ⁇ b", "1 unknown", "SentencePiece"),
        ("a b", "<unk> \ufffd", "2 unknown", "others"),
        ("What ⁇", "What ⁇", "", "the reference has it"),
        ("a", "a?", "", "a plain question mark"),
    ],
)
def test_unknown(ref: str, hyp: str, expected: str, why: str) -> None:
    assert found("unknown", zh_en("", ref, hyp)) == expected, why


@pytest.mark.parametrize(
    ("case", "is_wrong", "why"),
    [
        (en_de("A man eats an apple.", "Ein Mann isst.", "A man eats an apple."), True, "copied"),
        (en_de("A man eats an apple.", "Ein Mann isst.", "Ein Mann isst."), False, "translated"),
        (en_de("kubectl get pods", "kubectl get pods", "kubectl get pods"), False,
         "the reference copies it"),
        (en_de("Tom!", "Tom!", "Tom!"), False, "a name"),
        (zh_en("他去上海。", "He goes to Shanghai.", "He goes to 上海."), True, "left over"),
        (zh_en("上海", "上海 means on the sea", "上海 is on the sea"), False, "quoted"),
        (Case("He runs a lot.", "他常跑步。", "He runs a lot.", "en", "zh"), True, "to Chinese"),
    ],
)  # fmt: skip
def test_untranslated(case: Case, is_wrong: bool, why: str) -> None:
    assert bool(found("untranslated", case)) == is_wrong, why


@pytest.mark.parametrize(("src", "tgt"), [("zh", "en"), ("en", "zh"), ("en", "de"), ("de", "ja")])
def test_a_perfect_translation_has_no_error(src: str, tgt: str) -> None:
    texts = [
        "在2021年3月，Tom 有 150万 ⁇ https://a.b/c",
        "3 men, 5.0 GHz, no no no no no, me@a.org",
        "",
    ]
    cases = [Case(text, ref, ref, src, tgt) for text in texts for ref in texts]
    for kind, verdicts in check_sentences(cases).items():
        assert not any(finding.severity for finding in verdicts.values()), kind


def test_hostile_text_is_survived() -> None:
    texts = ["\x00\ud800" * 10, "<script>", "1" * 10_000, "٣٤", "a" * 10_000, "1,2.3," * 500]
    check_sentences([Case(a, b, a, "zh", "en") for a in texts for b in texts])
