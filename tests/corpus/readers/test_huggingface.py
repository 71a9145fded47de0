import contextlib
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from loopback import Reply, Server, running

from transformer_mt.config.data import Source
from transformer_mt.corpus.readers.huggingface import hub_rows
from transformer_mt.errors import DataError

SHA = "0123456789abcdef0123456789abcdef01234567"


def row(i: int) -> dict[str, Any]:
    return {"translation": {"en": f"sentence {i}\u2028\n", "zh": f"第{i}句"}, "id": i}


def parquet(path: Path, n: int, start: int = 0) -> bytes:
    table = pyarrow.Table.from_pylist([row(i) for i in range(start, start + n)])
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(table, path, row_group_size=1000)
    return path.read_bytes()


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hf-cache")


def rows(tmp_path: Path, role: Any = "train", offline: bool = False, **keys: Any) -> list[Any]:
    return list(hub_rows(Source(**keys), root=tmp_path, role=role, offline=offline))


@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("offline", [False, True])
def test_a_local_folder(tmp_path: Path, offline: bool) -> None:
    """Several files in their order, more rows than a batch, and the split of the role."""
    parquet(tmp_path / "set" / "train-00000.parquet", 7000)
    parquet(tmp_path / "set" / "train-00001.parquet", 10, start=7000)
    parquet(tmp_path / "set" / "validation.parquet", 3, start=100)
    parquet(tmp_path / "set" / "test.parquet", 2, start=200)
    assert rows(tmp_path, hf="set", offline=offline) == [row(i) for i in range(7010)]
    assert rows(tmp_path, "dev", hf="set", offline=offline) == [row(i) for i in (100, 101, 102)]
    assert rows(tmp_path, "test", hf="set", offline=offline) == [row(i) for i in (200, 201)]
    named = rows(tmp_path, hf=str(tmp_path / "set"), split="test", offline=offline)
    assert named == [row(i) for i in (200, 201)]


@pytest.mark.usefixtures("own_cache")
def test_reads_as_it_goes(tmp_path: Path) -> None:
    parquet(tmp_path / "set" / "train.parquet", 50_000)
    stream = hub_rows(Source(hf="set"), root=tmp_path, role="train")
    before = pyarrow.total_allocated_bytes()
    assert list(itertools.islice(stream, 2)) == [row(0), row(1)]
    assert pyarrow.total_allocated_bytes() - before < 1 << 20


@pytest.mark.usefixtures("own_cache")
def test_mistakes_are_worded(tmp_path: Path) -> None:
    parquet(tmp_path / "set" / "train.parquet", 3)
    with pytest.raises(DataError, match=r"hf:set/nope: cannot load the split 'nope': .*nope"):
        rows(tmp_path, hf="set", split="nope")
    with pytest.raises(DataError, match="takes a dataset name or a folder; for a file write its"):
        rows(tmp_path, hf="set/train.parquet")


@pytest.fixture
def hub() -> Iterator[Server]:
    with running() as server:
        commit = {"X-Repo-Commit": SHA}
        server.missing = Reply(status=404, headers={"X-Error-Code": "EntryNotFound", **commit})
        yield server


def put_on_hub(hub: Server, name: str, files: dict[str, bytes]) -> None:
    """What `datasets` asks a hub for: the files below `data/`, and facts about them."""
    facts = [{"type": "file", "path": p, "size": len(f), "oid": p} for p, f in files.items()]
    api = f"/api/datasets/{name}"
    siblings = [{"rfilename": path} for path in files]
    info = {"id": name, "sha": SHA, "siblings": siblings, "tags": [], "private": False}
    for path in (api, f"{api}/revision/{SHA}", f"{api}/revision/main"):
        hub.serve(path, json_reply(info))
    hub.serve(f"{api}/tree/{SHA}", json_reply([{"type": "directory", "path": "data", "oid": "d"}]))
    hub.serve(f"{api}/tree/{SHA}/data", json_reply(facts))
    hub.serve(f"{api}/paths-info/{SHA}", json_reply(facts))
    for path, content in files.items():
        reply = Reply(content, etag=f'"{path}"', headers={"X-Repo-Commit": SHA})
        hub.serve(f"/datasets/{name}/resolve/{SHA}/{path}", reply)
        hub.serve(f"/datasets/{name}/resolve/main/{path}", reply)


def json_reply(value: Any) -> Reply:
    return Reply(json.dumps(value).encode(), headers={"Content-Type": "application/json"})


def read_from_hub(
    hub: Server, tmp_path: Path, *, offline: bool
) -> "subprocess.CompletedProcess[str]":
    code = (
        "import json, sys; from pathlib import Path\n"
        "from transformer_mt.config.data import Source\n"
        "from transformer_mt.corpus.readers.huggingface import hub_rows\n"
        "source = Source.model_validate('hf:own/set')\n"
        f"rows = hub_rows(source, root=Path('.'), role='dev', offline={offline})\n"
        "json.dump(list(rows), sys.stdout)\n"
    )
    quiet = {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    own = {"HF_ENDPOINT": hub.base, "HF_HOME": str(tmp_path / "hf-home"), **quiet}
    return subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **own}, capture_output=True, text=True
    )


def test_a_hub_and_then_without_it(hub: Server, tmp_path: Path) -> None:
    files = {
        "data/train-00000-of-00001.parquet": parquet(tmp_path / "a", 5),
        "data/validation-00000-of-00001.parquet": parquet(tmp_path / "b", 3, start=10),
    }
    early = read_from_hub(hub, tmp_path, offline=True)
    assert "the network is not to be used" in early.stderr
    assert hub.requests == []
    put_on_hub(hub, "own/set", files)
    first = read_from_hub(hub, tmp_path, offline=False)
    assert first.returncode == 0, first.stderr
    assert json.loads(first.stdout) == [row(i) for i in (10, 11, 12)]
    n_requests = len(hub.requests)
    again = read_from_hub(hub, tmp_path, offline=True)
    assert again.returncode == 0, again.stderr
    assert again.stdout == first.stdout
    assert len(hub.requests) == n_requests, "offline means offline"


def test_a_hub_that_does_not_have_it(hub: Server, tmp_path: Path) -> None:
    hub.missing = Reply(status=404, headers={"X-Error-Code": "RepoNotFound"})
    failed = read_from_hub(hub, tmp_path, offline=False)
    assert "hf:own/set: cannot load the split 'validation': DatasetNotFoundError" in failed.stderr


@pytest.mark.usefixtures("own_cache")
def test_a_local_folder_never_runs_code(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    parquet(folder / "train.parquet", 3)
    touched = f"open({str(tmp_path / 'touched')!r}, 'w').close()\n"
    for name in ("set.py", "__init__.py", "train.py", "setup.py"):
        (folder / name).write_text(touched)
    (folder / "train.pkl").write_bytes(
        b"cos\nsystem\n(S'touch " + bytes(tmp_path / "touched") + b"'\ntR."
    )
    with contextlib.suppress(DataError):
        assert rows(tmp_path, hf="set") == [row(i) for i in range(3)]
    assert not (tmp_path / "touched").exists()


@pytest.mark.usefixtures("own_cache")
def test_damaged_text_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    bad = pyarrow.StringArray.from_buffers(
        1, pyarrow.py_buffer(b"\0\0\0\0\1\0\0\0"), pyarrow.py_buffer(b"\xff")
    )
    table = pyarrow.table({"zh": bad, "en": ["x"]})
    pyarrow.parquet.write_table(table, tmp_path / "set" / "train.parquet")
    with pytest.raises(DataError, match="set"):
        rows(tmp_path, hf="set")
