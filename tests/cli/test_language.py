"""What is told of a command line that Typer does not take."""

from pathlib import Path

import pytest
from command import tmt_here


@pytest.mark.parametrize(
    ("words", "told", "why"),
    [
        (["translate", "——beam", "3", "你好"], "——beam: type --beam", "a Chinese input method"),
        (["train", "tiny", "–minutes=5"], "–minutes=5: type --minutes=5", "a word processor"),
        (["info", "—m", "model"], "—m: type -m", "a short option"),
        (["info", "model"], "(model); a model has an option: tmt info -m model", "no option"),
        (["serve", "hf:a/b"], "(hf:a/b); a model has an option: tmt serve -m hf:a/b", "the Hub"),
    ],
)
def test_an_option_typed_wrong_is_answered_with_the_right_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], told: str, why: str
) -> None:
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 200)
    (tmp_path / "model").mkdir()
    assert told in tmt_here(*words, cwd=tmp_path, code=2).stderr, why


@pytest.mark.parametrize("text", ["——他说", "—other", "–"])
def test_a_text_may_begin_with_a_dash(tmp_path: Path, text: str) -> None:
    done = tmt_here("translate", text, cwd=tmp_path, code=2)
    assert "no finished run" in done.stderr


def test_a_file_that_is_no_model_has_no_option(tmp_path: Path) -> None:
    (tmp_path / "my.zh").write_text("")
    done = tmt_here("info", "my.zh", cwd=tmp_path, code=2)
    assert "(my.zh)" in done.stderr and "-m" not in done.stderr
