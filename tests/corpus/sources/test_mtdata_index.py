"""Entries of the mtdata index, from a stand-in for that package."""

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from loopback import Server, zipped
from reading import EN, ZH, ZH_EN, obtained, texts

from transformer_mt.config.data import Languages, Source
from transformer_mt.corpus.sources.http import Unavailable
from transformer_mt.errors import DataError

PACKAGE = {
    "__init__.py": "",
    "iso/bcp47.py": "from ..entry import Language\n"
    "bcp47 = lambda code: Language({'zh': 'zho', 'en': 'eng'}[code])\n",
    "entry.py": """
from types import SimpleNamespace
class Language(str):
    lang = property(str)
class DatasetId(str):
    parse = classmethod(lambda cls, name: cls(name))
    langs = property(lambda self: [Language(code) for code in self.split("-")[-2:]])
class Entry(SimpleNamespace):
    in_paths = in_ext = ext = cols = None
""",
    "index.py": """
import json, pathlib, types
from .entry import DatasetId, Entry
entries = json.loads(pathlib.Path(__file__).with_name("entries.json").read_text())
entries = [Entry(did=DatasetId(entry.pop("did")), **entry) for entry in entries]
INDEX = types.SimpleNamespace(entries={entry.did: entry for entry in entries})
""",
}
PROGRAM = """#!{python}
import sys
sys.path.insert(0, {folder!r})
sys.modules["transformer_mt"] = None  # it has no tmt
option, program, *sys.argv[1:] = sys.argv[1:]
assert option == "-c"
exec(program)
"""


@pytest.fixture(autouse=True)
def mtdata(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program in the place of a Python that has mtdata, with entries at our server."""
    archive = server.serve("/a.zip", zipped({"a.en": EN, "a.zh": ZH, "LICENSE": b"CC0"}))
    pair = [server.serve("/b.zh", ZH), server.serve("/b.en", EN)]
    tmx = server.serve("/d.tmx.gz", gzip.compress(b"<tmx/>"))
    entries: list[dict[str, Any]] = [
        {"did": "Toy-two-1-eng-zho", "url": archive, "in_paths": ["*.en", "*.zh"], "in_ext": "txt"},
        {"did": "Toy-pair-1-zho-eng", "url": pair, "ext": "txt"},
        {"did": "Toy-tsv-1-zho-eng", "url": server.serve("/c.tsv", b"a\tb\n"), "ext": "tsv"},
        {"did": "Toy-tmx-1-eng-zho", "url": tmx, "ext": "tmx.gz"},
        {"did": "Toy-cols-1-eng-zho", "url": f"{server.base}/e", "ext": "tsv", "cols": [1, 2]},
        {"did": "Toy-none-1-eng-zho", "url": archive, "in_paths": ["*.xx"], "in_ext": "tmx"},
    ]
    folder = tmp_path / "other" / "mtdata"
    (folder / "iso").mkdir(parents=True)
    for name, content in {**PACKAGE, "entries.json": json.dumps(entries)}.items():
        (folder / name).write_text(content)
    python = tmp_path / "other" / "python"
    python.write_text(PROGRAM.format(python=sys.executable, folder=str(folder.parent)))
    python.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMT_CACHE", str(tmp_path / "own"))
    monkeypatch.setenv("TMT_MTDATA_PYTHON", "other/python")


def test_entries_of_mtdata(tmp_path: Path) -> None:
    two = obtained(tmp_path, mtdata="Toy-two-1-eng-zho", weight=3.0)
    assert (texts(two), two.source.weight) == ([ZH, EN], 3.0)
    assert [download.licence for download in two.downloads] == ["CC0"]
    pair = obtained(tmp_path, ZH_EN.reversed(), mtdata="Toy-pair-1-zho-eng")
    assert (texts(pair), len(pair.downloads)) == ([EN, ZH], 2)
    tsv = obtained(tmp_path, mtdata="Toy-tsv-1-zho-eng").source
    assert tsv == Source(tsv=tsv.tsv, direction="zh-en")
    tmx = obtained(tmp_path, mtdata="Toy-tmx-1-eng-zho").source
    assert tmx == Source(path=tmx.path) and str(tmx.path).endswith("/d.tmx.gz")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Toy-cols-1-eng-zho", "Toy-cols-1-eng-zho: mtdata has a parser of its own "),
        ("Toy-none-1-eng-zho", r"expected one file '.*xx' in .*, found 0 of: LICENSE, a"),
        ("Toy-twoo-1-eng-zho", "near ones for zh and en: Toy-two-1-eng-zho"),
        ("nonsense", "mtdata knows no such entry"),
    ],
)
def test_entries_that_cannot_be_had(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        obtained(tmp_path, mtdata=name)


def test_other_languages_no_network_and_no_mtdata(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DataError, match="is eng-zho; languages are de → en"):
        obtained(tmp_path, Languages(src="de", tgt="en"), mtdata="Toy-two-1-eng-zho")
    with pytest.raises(Unavailable, match="not in the cache"):
        obtained(tmp_path, mtdata="Toy-tmx-1-eng-zho", offline=True)
    (tmp_path / "other" / "mtdata" / "entry.py").write_text("")
    with pytest.raises(DataError, match=r"mtdata/bin/pip install mtdata && export "):
        obtained(tmp_path, mtdata="Toy-two-1-eng-zho")
    monkeypatch.setenv("TMT_MTDATA_PYTHON", "none/python")
    with pytest.raises(DataError, match=r"TMT_MTDATA_PYTHON=none/python: no such program; name "):
        obtained(tmp_path, mtdata="Toy-two-1-eng-zho")
