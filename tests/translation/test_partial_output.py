"""What is kept of a long translation: all of it, whenever it stops, and never something else."""

from pathlib import Path

import pytest

from transformer_mt.errors import TmtError
from transformer_mt.translation.partial_output import PartialOutput

MADE_FROM = {"input": "a", "model": "b", "options": "c"}
TEXTS = [(f"line {i}\nof 两\ud800", ["cut"] * (i % 2)) for i in range(10)]


def opened(folder: Path, made_from: dict[str, str] = MADE_FROM, *, fresh: bool = False):
    return PartialOutput(folder / "out", made_from, at_once=2, fresh=fresh)


def stopped(folder: Path, n: int) -> Path:
    """The file of a translation that was stopped after n texts."""
    with pytest.raises(KeyboardInterrupt), opened(folder) as kept:
        for i in range(0, n, 2):
            kept.add(TEXTS[i : i + 2])
        raise KeyboardInterrupt
    return folder / "out.partial"


def test_what_is_kept_is_read_again(tmp_path: Path) -> None:
    path = stopped(tmp_path, 4)
    with opened(tmp_path) as kept:
        assert kept.n_kept == 4
        kept.add(TEXTS[4:6])
        assert [(text, list(faults)) for text, faults in kept.texts()] == TEXTS[:6]
    assert not path.exists(), "all went well"


@pytest.mark.parametrize("n_lost", range(1, 60))
def test_a_kill_within_a_write(n_lost: int, tmp_path: Path) -> None:
    """Whatever part of the last texts is missing, whole groups of texts are kept."""
    path = stopped(tmp_path, 6)
    path.write_bytes(path.read_bytes()[:-n_lost])
    with opened(tmp_path) as kept:
        assert kept.n_kept == 4
        kept.add(TEXTS[4:6])
        assert [text for text, _ in kept.texts()] == [text for text, _ in TEXTS[:6]]


def test_a_kill_before_the_first_text(tmp_path: Path) -> None:
    path = stopped(tmp_path, 2)
    header = path.read_bytes().split(b"\n")[0]
    for start in (b"", header[:20], header + b"\n"):
        path.write_bytes(start)
        with opened(tmp_path) as kept:
            assert kept.n_kept == 0
    assert not path.exists()


@pytest.mark.parametrize("name", MADE_FROM)
def test_another_input_model_or_option_is_refused(name: str, tmp_path: Path) -> None:
    path = stopped(tmp_path, 4)
    before = path.read_bytes()
    with pytest.raises(TmtError, match=f"keeps 4 translations .* another {name}; .*--force"):
        opened(tmp_path, MADE_FROM | {name: "x"})
    assert path.read_bytes() == before
    with pytest.raises(KeyboardInterrupt), opened(tmp_path, fresh=True) as kept:
        assert kept.n_kept == 4, "the stopped command may have had --force"
        raise KeyboardInterrupt
    with opened(tmp_path, MADE_FROM | {name: "x"}, fresh=True) as kept:
        assert kept.n_kept == 0


def test_files_of_others_stay(tmp_path: Path) -> None:
    path = tmp_path / "out.partial"
    for content in (b"mine\n", b'{"a": 1}'):
        path.write_bytes(content)
        for fresh in (False, True):
            with pytest.raises(TmtError, match="was not written by tmt; rename it"):
                opened(tmp_path, fresh=fresh)
        assert path.read_bytes() == content
    path.unlink()
    (tmp_path / "mine").write_text("mine")
    path.symlink_to("mine")
    with pytest.raises(TmtError, match=r"out\.partial: cannot be written"):
        opened(tmp_path)
    assert (tmp_path / "mine").read_text() == "mine"


def test_two_at_once(tmp_path: Path) -> None:
    with opened(tmp_path) as kept:
        kept.add(TEXTS[:2])
        with pytest.raises(TmtError, match="another tmt is writing it"):
            opened(tmp_path)


def test_a_file_that_was_edited(tmp_path: Path) -> None:
    """Its header or its texts are of another form: nothing is taken for a translation."""
    path = stopped(tmp_path, 4)
    header, *lines = path.read_text().splitlines(keepends=True)
    path.write_text('{"tmt_partial": 1, "made_from": ["a"]}\n' + "".join(lines))
    with pytest.raises(TmtError, match="with another "), opened(tmp_path):
        pass
    for other in ('["y", 3]\n', '["y", [3]]\n', '["y"]\n', "3\n"):
        path.write_text("".join([header, *lines[:2], other, *lines[3:]]))
        with pytest.raises(KeyboardInterrupt), opened(tmp_path) as kept:
            assert kept.n_kept == 2
            raise KeyboardInterrupt
