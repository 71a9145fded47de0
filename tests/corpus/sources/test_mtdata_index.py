"""Entries of the mtdata index, from the real package where a Python has it, or a stand-in."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from loopback import Server, zipped

from transformer_mt.config.data import Languages, Source
from transformer_mt.corpus.sources.cache import Cache
from transformer_mt.corpus.sources.http import Unavailable
from transformer_mt.corpus.sources.local import Obtained
from transformer_mt.corpus.sources.obtain import obtain
from transformer_mt.errors import DataError

ZH, EN = "你好。\n再见。\n".encode(), b"Hello.\nGoodbye.\n"
ZH_EN = Languages(src="zh", tgt="en")


def get(folder: Path, languages: Languages = ZH_EN, offline: bool = False, **keys: Any) -> Obtained:
    return obtain(Source.model_validate(keys), languages, Cache(folder, offline))


def texts(found: Obtained) -> list[bytes]:
    return [Path(path).read_bytes() for path in found.source.files or []]


MAKE_INDEX = """
import pickle, sys, types, json
from mtdata import __version__
from mtdata.entry import Entry
module = sys.modules["mtdata.index"] = types.ModuleType("mtdata.index")
Index = module.Index = type("Index", (), {"__module__": "mtdata.index"})
index = Index()
entries = [Entry(**keys) for keys in json.loads(sys.argv[1])]
index.entries = {entry.did: entry for entry in entries}
with open(f"{sys.argv[2]}/mtdata.index.{__version__}.pkl", "wb") as file:
    pickle.dump(index, file)
"""


@pytest.fixture
def mtdata_index(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index of the real package, if a Python has one, with entries at our server."""
    monkeypatch.setenv("TMT_CACHE", str(tmp_path))
    python = os.environ.get("TMT_MTDATA_PYTHON", sys.executable)
    asked = [python, "-c", "import mtdata; print(mtdata.__version__)"]
    version = subprocess.run(asked, capture_output=True, text=True).stdout
    if not version or [int(part) for part in version.split(".")[:2]] < [0, 5]:
        pytest.skip(f"{python} has no mtdata, or an old one: {version}")
    archive = server.serve("/a.zip", zipped({"a.en": EN, "a.zh": ZH, "LICENSE": b"CC0"}))
    entries = [
        {"did": "Toy-two-1-eng-zho", "url": archive, "in_paths": ["*.en", "*.zh"], "in_ext": "txt"},
        {
            "did": "Toy-pair-1-zho-eng",
            "url": [server.serve("/b.zh", ZH), server.serve("/b.en", EN)],
            "ext": "txt",
        },
        {"did": "Toy-tsv-1-zho-eng", "url": server.serve("/c.tsv", b"a\tb\n")},
        {"did": "Toy-tmx-1-eng-zho", "url": server.serve("/d.tmx.gz", gzip.compress(b"<tmx/>"))},
        {"did": "Toy-cols-1-eng-zho", "url": server.serve("/e.tsv", b"0\ta\tb\n"), "cols": [1, 2]},
        {"did": "Toy-none-1-eng-zho", "url": archive, "in_paths": ["*.xx"], "in_ext": "tmx"},
    ]
    (tmp_path / "mtdata").mkdir()
    subprocess.run(
        [python, "-c", MAKE_INDEX, json.dumps(entries), str(tmp_path / "mtdata")],
        check=True,
        cwd=tmp_path,
    )


@pytest.mark.usefixtures("mtdata_index")
def test_entries_of_mtdata(server: Server, tmp_path: Path) -> None:
    two = get(tmp_path, mtdata="Toy-two-1-eng-zho", weight=3.0)
    assert (texts(two), two.source.weight) == ([ZH, EN], 3.0)
    assert [download.licence for download in two.downloads] == ["CC0"]
    pair = get(tmp_path, ZH_EN.reversed(), mtdata="Toy-pair-1-zho-eng")
    assert (texts(pair), len(pair.downloads)) == ([EN, ZH], 2)
    tsv = get(tmp_path, mtdata="Toy-tsv-1-zho-eng").source
    assert tsv == Source(tsv=tsv.tsv, direction="zh-en")
    tmx = get(tmp_path, mtdata="Toy-tmx-1-eng-zho").source
    assert tmx == Source(path=tmx.path) and str(tmx.path).endswith("/d.tmx.gz")


@pytest.mark.usefixtures("mtdata_index")
def test_entries_of_mtdata_that_cannot_be_had(tmp_path: Path) -> None:
    for name, message in (
        ("Toy-cols-1-eng-zho", "Toy-cols-1-eng-zho: mtdata has a parser of its own "),
        ("Toy-none-1-eng-zho", r"expected one file '.*xx' in .*, found 0 of: LICENSE, a"),
        ("Toy-twoo-1-eng-zho", "near ones for zh and en: Toy-two-1-eng-zho"),
        ("nonsense", "mtdata knows no such entry"),
    ):
        with pytest.raises(DataError, match=message):
            get(tmp_path, mtdata=name)
    with pytest.raises(DataError, match="is eng-zho; languages are de → en"):
        get(tmp_path, Languages(src="de", tgt="en"), mtdata="Toy-two-1-eng-zho")
    with pytest.raises(Unavailable, match="not in the cache"):
        get(tmp_path, mtdata="Toy-tmx-1-eng-zho", offline=True)


PROGRAM = """#!{python}
import sys
sys.path.insert(0, {folder!r})
option, program, *sys.argv[1:] = sys.argv[1:]
assert option == "-c"
exec(program)
"""
INDEX = """
from types import SimpleNamespace as Thing
key = Thing(langs=("eng", "zho"))
INDEX = Thing(entries={"Toy-two-1-eng-zho": Thing(
    did=key, url=["URL/a.zh", "URL/a.en"], in_paths=None, in_ext=None, ext="txt", cols=None)})
"""


def test_mtdata_of_another_python(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its interpreter runs the program, whatever this one has installed."""
    monkeypatch.setenv("TMT_CACHE", str(tmp_path / "own"))
    package, python = tmp_path / "mtdata", tmp_path / "other" / "python"
    (package / "iso").mkdir(parents=True)
    (package / "entry.py").write_text("class DatasetId:\n    parse = staticmethod(str)\n")
    (package / "iso" / "bcp47.py").write_text("bcp47 = None\n")
    server.serve("/a.en", EN), server.serve("/a.zh", ZH)
    index = INDEX.replace("URL", server.base).replace('("eng", "zho")', '("zho", "eng")')
    (package / "index.py").write_text(index)
    python.parent.mkdir()
    python.write_text(PROGRAM.format(python=sys.executable, folder=str(tmp_path)))
    python.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMT_MTDATA_PYTHON", "other/python")
    assert texts(get(tmp_path / "cache", mtdata="Toy-two-1-eng-zho")) == [ZH, EN]
    monkeypatch.setenv("TMT_MTDATA_PYTHON", "none/python")
    with pytest.raises(DataError, match=r"TMT_MTDATA_PYTHON=none/python: no such program; name "):
        get(tmp_path / "cache", mtdata="Toy-two-1-eng-zho")


def test_without_mtdata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mtdata.py").write_text("")  # a module that has nothing in it
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("TMT_CACHE", str(tmp_path / "own"))
    with pytest.raises(DataError, match=r"mtdata/bin/pip install mtdata && export "):
        get(tmp_path / "cache", mtdata="Toy-two-1-eng-zho")
