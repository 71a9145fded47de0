"""What tmt keeps for itself: an intact value, nothing, or a message; never a belief in damage."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer_mt.system import state
from transformer_mt.system.state import (
    Damaged,
    GrowingRecords,
    content_of,
    damages,
    fingerprint,
    read_json,
    read_manifest,
    read_records,
    write_manifest,
)

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def make(folder: Path, content: dict[str, object] | None = None) -> Path:
    (folder / "sub").mkdir(parents=True)
    (folder / "a").write_bytes(b"one")
    (folder / "sub" / "b").write_bytes(b"two")
    write_manifest(folder, "m.json", content or {"made_from": "x"})
    return folder


@given(st.dictionaries(st.text(), PLAIN, max_size=4))
def test_a_manifest_gives_back_what_was_kept(
    tmp_path_factory: pytest.TempPathFactory, content: dict[str, object]
) -> None:
    own = {"files", "file_sizes", "digest"}
    content = {key: value for key, value in content.items() if key not in own}
    folder = make(tmp_path_factory.mktemp("x") / "folder", content)
    manifest = read_manifest(folder, "m.json")
    assert manifest is not None and damages(folder, manifest) == []
    assert manifest["files"].keys() == {"a", "sub/b"}
    if content:
        assert content_of(manifest) == content


def test_every_bit_of_every_file_counts(tmp_path: Path) -> None:
    folder = make(tmp_path / "folder")
    for name in ("a", "sub/b", "m.json"):
        whole = (folder / name).read_bytes()
        for bit in range(8 * len(whole)):
            content = bytearray(whole)
            content[bit // 8] ^= 1 << bit % 8
            (folder / name).write_bytes(content)
            try:
                manifest = read_manifest(folder, "m.json")
                assert manifest is not None
                # White space and the case of an escape mean the same.
                seen = bool(damages(folder, manifest)) or json.loads(content) == json.loads(whole)
                assert seen, (name, bit, bytes(content))
            except Damaged as error:
                assert str(folder / name) in str(error)
        (folder / name).write_bytes(whole)


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    folder = make(tmp_path / "folder")
    manifest = read_manifest(folder, "m.json") or {}
    (folder / "a").write_bytes(b"One")
    assert damages(folder, manifest, digests=False) == []
    (folder / "sub" / "b").write_bytes(b"longer")
    manifest["files"] |= {"absent": "", "../x": ""}
    assert [problem.removeprefix(f"{folder}") for problem in damages(folder, manifest)] == [
        "/a: truncated or altered (its SHA-256 differs)",
        "/sub/b: truncated or altered (its size differs)",
        "/absent: missing",
        ": lists '../x', which is not a name of a file inside",
    ]


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_text(""),
        lambda path: path.write_text("[1]"),
        lambda path: path.write_text("{"),
        lambda path: path.write_text('{"a": ' * 100_000),
        lambda path: path.write_text('{"a": ' + "9" * 5000 + "}"),
        lambda path: path.write_bytes(b"\xff\xfe"),
        lambda path: path.symlink_to("/dev/zero"),
        os.mkfifo,
        Path.mkdir,
    ],
)
def test_damage_is_told_and_nothing_is_waited_for(
    tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    path = tmp_path / "x.json"
    damage(path)
    with pytest.raises(Damaged, match=r"x\.json"):
        read_json(path)


def test_a_file_that_is_too_large_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "MAX_BYTES", 100)
    (tmp_path / "x.json").write_text(json.dumps({"a": "x" * 100}))
    with pytest.raises(Damaged, match="at most 100 are read"):
        read_json(tmp_path / "x.json")


def test_absent_is_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "absent", tmp_path / "no" / "folder", tmp_path / "file" / "x"):
        assert read_json(path) is None
        assert read_records(path) == []
        assert read_manifest(path, "m.json") is None


def test_records_that_are_cut_or_damaged_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"a": 1}\n[2]\n\xff\n{"a": 2}\n{"a":')
    assert read_records(path) == [{"a": 1}, {"a": 2}]


LINES = [
    b'{"a": 1}\n',
    b"[2]\n",
    b"\xff\n",
    b'{"a":\n',
    b"\n",
    b'{"b": "\xc3\xa9}{"}\n',
    b'{"c": {}}\n',
]


@given(st.lists(st.sampled_from(LINES), max_size=12), st.data())
def test_growing_records_are_those_of_the_whole_file(lines: list[bytes], data: Any) -> None:
    whole = b"".join(lines)
    cuts = data.draw(st.lists(st.integers(0, len(whole)), max_size=6).map(sorted))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "x.jsonl"
        growing, found = GrowingRecords(path), 0
        for cut in [*cuts, len(whole)]:
            path.write_bytes(whole[:cut])
            growing.read()
            assert len(growing.records) >= found, "none is taken back"
            found = len(growing.records)
        assert growing.records == read_records(path) and growing.n_begun <= 1
        assert not growing.read()


def test_a_file_that_was_replaced_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    growing = GrowingRecords(path)
    assert not growing.read() and growing.records == [] and growing.n_begun == 0
    begun = set()
    for text in ('{"a": 1}\n{"a": 2}\n', '{"a": 1}\n', '{"a": 3}\n{"a": 1}\n{"a": 4}\n', ""):
        path.write_text(text)
        assert growing.read()
        assert growing.records == read_records(path)
        begun.add(growing.n_begun)
    assert len(begun) == 4
    path.unlink()
    path.mkdir()
    assert growing.read() and growing.records == [] and not growing.read()


def test_fingerprint_is_of_the_values() -> None:
    assert fingerprint({"a": 1, "b": [2.5, "x"]}) == fingerprint({"b": [2.5, "x"], "a": 1})
    different = [("a",), ("b",), ("a", "b"), (["a", "b"],), ({"a": 1},), ({"a": "1"},), (None,)]
    assert len({fingerprint(*parts) for parts in different}) == len(different)
