"""`scripts/faults/growth.py`: shapes from a seed, and functions whose time grows too fast."""

from typing import Any

import growth
import pytest
import text_path


def test_shapes_follow_from_seed_and_number() -> None:
    first = [growth.make_shape(1, index) for index in range(200)]
    assert first[100:] == [growth.make_shape(1, index) for index in range(100, 200)]
    assert first != [growth.make_shape(2, index) for index in range(200)]
    assert len(set(first)) > 190
    assert all(shape.text(n).encode() for shape in first for n in (0, 100))
    assert all(1000 < len(shape.text(1000)) < 1200 for shape in first)


def test_a_quadratic_function_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    tally, spent = growth.Tally(), 0.0
    monkeypatch.setattr(growth.time, "process_time", lambda: spent)

    def quadratic(text: str) -> None:
        nonlocal spent
        spent += 1e-9 * len(text) ** 2

    growth.check(quadratic, growth.Shape("", "ab", "c"), tally)
    (failure,) = tally.failures
    assert "times for twice the text: '' + 'ab' * n + 'c'" in failure


def test_a_linear_function_passes() -> None:
    tally = growth.Tally()
    growth.check(lambda text: sorted(text.split()), growth.Shape("", "b a ", ""), tally)
    assert not tally.failures and tally.n == 1


def test_what_a_function_raises_is_a_failure_unless_users_are_told() -> None:
    tally = growth.Tally()
    growth.check(lambda text: int("x"), growth.Shape("", "a", ""), tally)
    assert "ValueError" in tally.failures[0]

    def refuse(text: str) -> None:
        raise growth.TmtError(text[:5])

    tally = growth.Tally()
    growth.check(refuse, growth.Shape("", "a", ""), tally)
    assert not tally.failures


KNOWN = [
    growth.Shape("@ ", "a", ""), growth.Shape("&", "amp;", ""), growth.Shape("&", "#38;", "lt;"),
    growth.Shape("a", "\u0301\u0323", ""), growth.Shape("", "一", ""), growth.Shape("", "9", ""),
    growth.Shape("a@", "a.", "1"), growth.Shape("", "3 5 7 ", ""), growth.Shape("", "(", ""),
]  # fmt: skip


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return text_path.text_functions(tmp_path_factory.mktemp("growth"))


OWNED_ELSEWHERE = ("document", "read", "yaml")  # have tests of their own


def test_texts_that_took_long_once(functions: Any) -> None:
    names = ["normalise zh", "normalise en", "comparison_key", "scores zh-en source",
             "scores zh-en both", "scores en-de target"]  # fmt: skip
    for shape in KNOWN:
        for name in names:
            tally = growth.Tally()
            growth.check(functions[name], shape, tally)
            assert not tally.failures, name


def test_some_shapes_for_every_function(functions: Any) -> None:
    own = {n: f for n, f in functions.items() if not n.startswith(OWNED_ELSEWHERE)}
    tallies = growth.check_shapes(own, 1, range(len(own)))
    assert len(tallies) == len(own)
    assert [text for tally in tallies.values() for text in tally.failures] == []
