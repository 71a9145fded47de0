"""Hugging Face datasets: of a folder, of a hub, and without the network."""

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from loopback import Reply, Server, running
from reading import ZH_EN, read, refusal

from transformer_mt.config.data import Source
from transformer_mt.config.experiment import build_config
from transformer_mt.corpus.cleaning.score import score_sources
from transformer_mt.corpus.readers import columns
from transformer_mt.corpus.readers.pairs import read_pairs, source_files
from transformer_mt.corpus.readers.tables import Pair
from transformer_mt.corpus.sources.obtain import obtain_sources
from transformer_mt.errors import DataError

SHA = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hf-cache")


def pairs(*numbers: int) -> list[Pair]:
    return [(f"第{i}句", f"sentence {i}\u2028\n") for i in numbers]


def parquet(path: Path, *numbers: int) -> bytes:
    rows = [{"translation": {"en": en, "zh": zh}, "id": 1} for zh, en in pairs(*numbers)]
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=1000)
    return path.read_bytes()


def test_two_splits_of_a_folder_are_two_texts(tmp_path: Path) -> None:
    """Cleaning keeps what it has scored by the files alone, and both are in the same ones."""
    parquet(tmp_path / "set" / "train.parquet", *range(40))
    parquet(tmp_path / "set" / "validation.parquet", *range(40, 60))
    train = [{"hf": "set", "split": split} for split in ("train", "validation")]
    data = {"root": str(tmp_path), "train": train, "workers": 1}
    languages = {"src": "zh", "tgt": "en"}
    cfg = build_config({"name": "t", "languages": languages, "data": data}, "t")
    scored = score_sources(obtain_sources(cfg, print), tmp_path / "work", print)
    assert [source.sizes for source in scored.sources] == [[40], [20]]


def test_a_local_folder(tmp_path: Path) -> None:
    """Several files in their order, more rows than a batch, and the split of the role."""
    parquet(tmp_path / "set" / "train-00000.parquet", *range(11_000))
    parquet(tmp_path / "set" / "train-00001.parquet", 11_000)
    parquet(tmp_path / "set" / "validation.parquet", 100)
    parquet(tmp_path / "set" / "test.parquet", 200)
    for offline in (False, True):
        assert read(tmp_path, hf="set", offline=offline) == pairs(*range(11_001))
        assert read(tmp_path, role="dev", hf="set", offline=offline) == pairs(100)
        assert read(tmp_path, hf=str(tmp_path / "set"), split="test", offline=offline) == pairs(200)
    assert len(source_files(Source(hf="set"), ZH_EN, tmp_path)) == 4
    assert "hf:set/nope: cannot load the split 'nope': " in refusal(
        tmp_path, hf="set", split="nope"
    )
    message = refusal(tmp_path, hf="set/test.parquet")
    assert message.endswith("hf takes a dataset name or a folder; for a file write its path alone")


def test_reads_as_it_goes(tmp_path: Path) -> None:
    parquet(tmp_path / "set" / "train.parquet", *range(50_000))
    stream = read_pairs(Source(hf="set"), ZH_EN, root=tmp_path, role="train")
    before = pyarrow.total_allocated_bytes()
    assert list(itertools.islice(stream, 2)) == pairs(0, 1)
    assert pyarrow.total_allocated_bytes() - before < 1 << 20


def test_other_columns(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    train = folder / "train.jsonl"
    for row in ('{"zho": "a", "eng": "b"}', '{"id": 3, "src": "a", "tgt": "b"}'):
        train.write_text(row)
        assert read(tmp_path, hf="set") == [("a", "b")]
    train.write_text('{"text": "a", "label": 1}')
    assert "hf:set: found the keys text, label; expected" in refusal(tmp_path, hf="set")
    train.unlink()
    buffers = map(pyarrow.py_buffer, (b"\0\0\0\0\1\0\0\0", b"\xff"))
    table = pyarrow.table({"zh": pyarrow.StringArray.from_buffers(1, *buffers), "en": ["x"]})
    pyarrow.parquet.write_table(table, folder / "train.parquet")
    assert "column zh: damaged text: Invalid UTF8" in refusal(tmp_path, hf="set")


@pytest.mark.parametrize("script", [True, False])
def test_a_local_folder_never_runs_code(tmp_path: Path, script: bool) -> None:
    folder = tmp_path / "set"
    parquet(folder / "train.parquet", 1)
    for name in ("__init__.py", "train.py", "setup.py", *(["set.py"] if script else [])):
        (folder / name).write_text(f"open({str(tmp_path / 'touched')!r}, 'w').close()\n")
    program = b"cos\nsystem\n(S'touch " + bytes(tmp_path / "touched") + b"'\ntR."
    (folder / "train.pkl").write_bytes(program)
    if script:
        assert "script" in refusal(tmp_path, hf="set")
    else:
        assert read(tmp_path, hf="set") == pairs(1)
    assert not (tmp_path / "touched").exists()


def test_out_of_reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    def unreachable(*_: object, **__: object) -> None:
        raise ConnectionError("Couldn't reach the Hub\n(offline)")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    monkeypatch.setattr(columns, "_out_of_reach", lambda: None)
    lines = refusal(tmp_path, hf="some/set", config="en-zh").split("\n")
    assert lines[0] == (
        "hf:some/set/en-zh: cannot load the split 'train': ConnectionError: Couldn't reach the "
        f"Hub (offline) (and there is no folder {tmp_path}/some/set)"
    )
    assert "Files of your own work without network. These settings read my/text.zh and" in lines[1]
    assert "  --set 'data.train=[my/text]' --set 'data.dev=[]' --set 'data.test={}'" in lines
    with pytest.raises(DataError, match="the network is not to be used: get it with tmt data do"):
        read(tmp_path, hf="some/set", offline=True)
    assert source_files(Source(hf="some/set"), ZH_EN, tmp_path) == []


def test_without_a_network_the_hub_is_not_asked_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    started = time.monotonic()
    message = refusal(tmp_path, hf="some/set")
    assert time.monotonic() - started < 5
    assert "the split 'train': 127.0.0.1 cannot be reached (Connection refused) and the" in message
    assert "check the network, and HTTPS_PROXY if there is a proxy" in message
    assert "Retrying" not in caplog.text


@pytest.fixture
def hub() -> Iterator[Server]:
    with running() as server:
        headers = {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": SHA}
        server.missing = Reply(status=404, headers=headers)
        yield server


def put_on_hub(hub: Server, name: str, files: dict[str, bytes]) -> None:
    """What `datasets` asks a hub for: the files below `data/`, and facts about them."""
    facts = [{"type": "file", "path": p, "size": len(f), "oid": p} for p, f in files.items()]
    siblings = [{"rfilename": path} for path in files]
    info = {"id": name, "sha": SHA, "siblings": siblings, "tags": [], "private": False}
    answers: dict[str, Any] = dict.fromkeys(["", f"/revision/{SHA}", "/revision/main"], info)
    answers[f"/tree/{SHA}"] = [{"type": "directory", "path": "data", "oid": "d"}]
    answers |= {f"/tree/{SHA}/data": facts, f"/paths-info/{SHA}": facts}
    for path, value in answers.items():
        headers = {"Content-Type": "application/json"}
        hub.serve(f"/api/datasets/{name}{path}", Reply(json.dumps(value).encode(), headers=headers))
    for path, content in files.items():
        reply = Reply(content, etag=f'"{path}"', headers={"X-Repo-Commit": SHA})
        for revision in (SHA, "main"):
            hub.serve(f"/datasets/{name}/resolve/{revision}/{path}", reply)


def read_from_hub(
    hub: Server, tmp_path: Path, *, offline: bool
) -> "subprocess.CompletedProcess[str]":
    code = (
        "import json, sys; from pathlib import Path\n"
        "from reading import read\n"
        f"json.dump(read(Path('.'), role='dev', hf='own/set', offline={offline}), sys.stdout)\n"
    )
    quiet = {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    own = {"HF_ENDPOINT": hub.base, "HF_HOME": str(tmp_path / "hf-home"), **quiet}
    own["PYTHONPATH"] = os.pathsep.join(sys.path)
    return subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **own}, capture_output=True, text=True
    )


def test_a_hub_and_then_without_it(hub: Server, tmp_path: Path) -> None:
    put_on_hub(
        hub,
        "own/set",
        {
            "data/train-00000-of-00001.parquet": parquet(tmp_path / "a", 1),
            "data/validation-00000-of-00001.parquet": parquet(tmp_path / "b", 10, 11),
        },
    )
    first = read_from_hub(hub, tmp_path, offline=False)
    assert first.returncode == 0, first.stderr
    assert list(map(tuple, json.loads(first.stdout))) == pairs(10, 11)
    n_requests = len(hub.requests)
    again = read_from_hub(hub, tmp_path, offline=True)
    assert (again.returncode, again.stdout) == (0, first.stdout), again.stderr
    assert len(hub.requests) == n_requests, "offline means offline"
