import gzip
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from loopback import Server, running

from transformer_mt.config.data import Languages, Source
from transformer_mt.corpus.sources.by_name import Obtained, Origin, obtain
from transformer_mt.corpus.sources.http import Unavailable
from transformer_mt.errors import DataError

ZH, EN = "你好。\n再见。\n".encode(), b"Hello.\nGoodbye.\n"
ZH_EN = Languages(src="zh", tgt="en")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with running() as server:
        monkeypatch.setenv("TMT_OPUS_URL", server.base + "/opus/")
        monkeypatch.setenv("TMT_OPUS_API", server.base + "/api/")
        yield server


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, content in files.items():
            file.writestr(name, content)
    return buffer.getvalue()


def tarred(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as file:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def opus_zip(zh: str = "zh", **more: bytes) -> bytes:
    files = {f"News.en-{zh}.{zh}": ZH, f"News.en-{zh}.en": EN, f"News.en-{zh}.xml": b"<x/>"}
    return zipped({**files, **more})


def get(tmp_path: Path, languages: Languages = ZH_EN, offline: bool = False, **keys: Any) -> Any:
    source = Source.model_validate(keys)
    return obtain(source, languages, role="train", cache_dir=tmp_path, offline=offline)


def texts(found: Obtained) -> list[bytes]:
    return [Path(path).read_bytes() for path in found.source.files or []]


@pytest.mark.parametrize(
    "keys",
    [{"path": "a/b"}, {"files": ["a", "b"]}, {"tsv": "a"}, {"jsonl": "a"}, {"hf": "a/b"},
     {"demo": True}],
)  # fmt: skip
def test_what_needs_no_fetching_comes_back(tmp_path: Path, keys: dict[str, Any]) -> None:
    source = Source(**keys)
    assert get(tmp_path, **keys) == Obtained(source, [])
    assert list(tmp_path.iterdir()) == []


def test_opus_with_a_version(server: Server, tmp_path: Path) -> None:
    body = opus_zip(LICENSE=b"\n# \nCC BY 4.0,  see the site\nmore\n", README=b"License: no")
    url = server.serve("/opus/OPUS-News/v16/moses/en-zh.txt.zip", body)
    found = get(tmp_path, opus="News/v16", weight=2.0, limit=5, tag="x", clean={"too_long": 9})
    assert texts(found) == [ZH, EN]
    digest = hashlib.sha256(body).hexdigest()
    licence = "CC BY 4.0, see the site"
    assert found.origins == [Origin("opus:News/v16", url, digest, len(body), licence)]
    kept = {"weight": 2.0, "limit": 5, "tag": "x", "clean": {"too_long": 9}}
    assert found.source == Source(files=found.source.files, **kept)
    assert texts(get(tmp_path, ZH_EN.reversed(), opus="News/v16")) == [EN, ZH]
    assert get(tmp_path, opus="News/v16", offline=True).source.files == found.source.files
    assert len(server.requests) == 1


def test_files_lie_in_the_order_that_a_direction_promises(server: Server, tmp_path: Path) -> None:
    server.serve("/opus/OPUS-News/v16/moses/en-zh.txt.zip", opus_zip())
    found = get(tmp_path, opus="News/v16", direction="en-zh")
    assert found.source.direction == "en-zh"
    assert texts(found) == [EN, ZH]
    with pytest.raises(DataError, match="direction is en-de, but languages are zh → en"):
        get(tmp_path, opus="News/v16", direction="en-de")


@pytest.mark.parametrize(
    ("languages", "code"),
    [
        (ZH_EN, "zh_cn"),
        (ZH_EN, "zh_CN"),
        (ZH_EN.reversed(), "zh_Hans"),
        (Languages(src="en", tgt="zh-Hant"), "zh_tw"),
        (Languages(src="zh-TW", tgt="en"), "zh_TW"),
    ],
)
def test_chinese_as_opus_spells_it(
    server: Server, tmp_path: Path, languages: Languages, code: str
) -> None:
    server.serve(f"/opus/OPUS-News/v1/moses/en-{code}.txt.zip", opus_zip(code))
    found = get(tmp_path, languages, opus="News/v1")
    assert texts(found) == ([EN, ZH] if languages.src == "en" else [ZH, EN])


def test_opus_without_a_version(server: Server, tmp_path: Path) -> None:
    """The latest is asked for once; then the cache holds the answer, too."""
    query = "corpus=News&source=en&target={}&preprocessing=moses&version=latest"
    server.serve("/api/?" + query.format("zh"), b'{"corpora": []}')
    answer = {"corpora": [{"corpus": "News", "version": "v7", "url": "https://elsewhere/x"}]}
    server.serve("/api/?" + query.format("zh_cn"), json.dumps(answer).encode())
    server.serve("/opus/OPUS-News/v7/moses/en-zh_cn.txt.zip", opus_zip("zh_cn"))
    assert texts(get(tmp_path, opus="News")) == [ZH, EN]
    with pytest.raises(DataError, match="names no version, and OPUS cannot be asked"):
        get(tmp_path, opus="Other", offline=True)
    n_requests = len(server.requests)
    assert texts(get(tmp_path, opus="News/v7", offline=True)) == [ZH, EN]
    assert len(server.requests) == n_requests


def test_opus_that_does_not_have_it(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        get(tmp_path, opus="news/v16")
    message = str(caught.value)
    assert "opus:news/v16: no such corpus for zh-en in this version" in message
    assert "large and small letters count" in message
    assert (
        f"{server.base}/opus/OPUS-news/v16/moses/en-zh.txt.zip: the server answers 404" in message
    )
    with pytest.raises(DataError, match=r"name one, such as opus:news/v1. .* answers 404"):
        get(tmp_path, opus="news")
    server.serve("/api/", b'{"corpora": []}')
    with pytest.raises(DataError, match="OPUS knows no such corpus for en-zh, en-zh_cn, en-zh_CN"):
        get(tmp_path, opus="news")
    server.serve("/api/", b"<html>maintenance</html>")
    with pytest.raises(DataError, match="answer of another form: '<html>maintenance"):
        get(tmp_path, opus="news")
    with pytest.raises(DataError, match=r"opus:.*: not in the cache\. Tried:"):
        get(tmp_path, opus="news/v16", offline=True)


def test_an_opus_zip_without_the_pair(server: Server, tmp_path: Path) -> None:
    server.serve("/opus/OPUS-News/v1/moses/en-zh.txt.zip", zipped({"a.en": EN, "b.zh": ZH}))
    with pytest.raises(DataError, match=r"ending in \.en and \.zh, found 0 in .*: a.en, b.zh"):
        get(tmp_path, opus="News/v1")


def test_a_url_of_a_file(server: Server, tmp_path: Path) -> None:
    body = gzip.compress(ZH)
    url = server.serve("/x/pairs.tsv.gz", body)
    digest = hashlib.sha256(body).hexdigest()
    found = get(tmp_path, url=url, sha256=digest, limit=3)
    assert found.source == Source(path=found.source.path, limit=3)
    assert Path(found.source.path).name == "pairs.tsv.gz"
    assert Path(found.source.path).read_bytes() == body
    assert found.origins == [Origin(url, url, digest, len(body), None)]
    with pytest.raises(DataError, match="the file in the cache has sha256"):
        get(tmp_path, url=url, sha256="0" * 64)


@pytest.mark.parametrize("name", ["/a.tar.gz", "/a.zip", "/download?id=7"])
def test_a_url_of_an_archive(server: Server, tmp_path: Path, name: str) -> None:
    pack = zipped if "zip" in name else tarred
    body = pack({"c/a.zh": ZH, "c/a.en": EN, "c/README.md": b"About\n* License: CC0\n"})
    found = get(tmp_path, url=server.serve(name, body), direction="zh-en")
    directory = Path(found.source.path)
    assert found.source == Source(path=str(directory), direction="zh-en")
    assert (directory / "c" / "a.zh").read_bytes() == ZH
    assert found.origins[0].licence == "* License: CC0"
    same = get(tmp_path, url=server.serve("/mirror/b.bin", body))
    assert same.source.path == str(directory), "equal archives are unpacked once"


def test_archives_that_cannot_be_used(server: Server, tmp_path: Path) -> None:
    for name, body in [
        ("/evil.zip", zipped({"../../evil": b"x"})),
        ("/cut.zip", opus_zip()[:-30]),
        ("/page.zip", b"<html>log in</html>"),
        ("/cut.tar.gz", tarred({"a": os.urandom(9999)})[:-500]),
    ]:
        with pytest.raises(DataError, match=name[1:]):
            get(tmp_path / "cache", url=server.serve(name, body))
    left = [path.name for path in (tmp_path / "cache" / "unpacked").iterdir()]
    assert all(name.endswith(".lock") for name in left)
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]


def test_killed_while_unpacking(server: Server, tmp_path: Path) -> None:
    """What was half unpacked is never used, and does not stay."""
    url = server.serve("/a.zip", zipped({f"{i}.txt": os.urandom(1000) for i in range(1000)}))
    get(tmp_path / "download only", url=url)
    code = (
        "import sys; from pathlib import Path; from transformer_mt.config.data import *\n"
        "from transformer_mt.corpus.sources.by_name import obtain\n"
        "obtain(Source(url=sys.argv[1]), Languages(src='zh', tgt='en'), role='train',\n"
        "       cache_dir=Path(sys.argv[2]))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, url, str(tmp_path / "cache")])
    deadline = time.monotonic() + 20
    while not list((tmp_path / "cache").glob("unpacked/.*.tmp/new/*/9*.txt")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    found = get(tmp_path / "cache", url=url)
    assert len(list(Path(found.source.path).iterdir())) == 1000
    assert not list((tmp_path / "cache" / "unpacked").glob(".*"))


def sgm(lines: bytes) -> bytes:
    segments = b"".join(
        b'<seg id="%d">%s</seg>\n' % (i, line) for i, line in enumerate(lines.split(b"\n")[:-1], 1)
    )
    return b'<refset><doc docid="d" origlang="zh" genre="news">\n' + segments + b"</doc></refset>\n"


@pytest.fixture
def test_set(server: Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """`toy`: a set of a class that sacreBLEU has for those of WMT, at our server."""
    sacrebleu = pytest.importorskip("sacrebleu")
    from sacrebleu.dataset.fake_sgml import FakeSGMLDataset

    body = tarred({"test/src.zh.sgm": sgm(ZH), "test/ref.en.sgm": sgm(EN)})
    url = server.serve("/wmt/test.tgz", body)
    dataset = FakeSGMLDataset(
        name="toy/one",
        data=[url],
        md5=[hashlib.md5(body).hexdigest()],
        langpairs={"zh-en": ["test/src.zh.sgm", "test/ref.en.sgm"], "liv-en": ["x", "y"]},
    )
    monkeypatch.setitem(sacrebleu.DATASETS, "toy/one", dataset)
    return url


def test_a_test_set_of_sacrebleu(test_set: str, server: Server, tmp_path: Path) -> None:
    found = get(tmp_path, sacrebleu="toy/one", limit=1)
    assert texts(found) == [ZH, EN]
    assert found.source.limit == 1
    assert [(o.name, o.url) for o in found.origins] == [("sacrebleu:toy/one", test_set)]
    assert get(tmp_path, sacrebleu="toy/one", limit=1, offline=True) == found
    assert len(server.requests) == 1
    directory, lock = sorted((tmp_path / "sacrebleu").iterdir())
    assert (lock.name, directory.name[:13]) == (f"{directory.name}.lock", "toy_one.zh-en")
    assert sorted(path.name for path in directory.iterdir()) == ["reference.txt", "source.txt"]
    backwards = get(tmp_path, ZH_EN.reversed(), sacrebleu="toy/one", direction="zh-en")
    assert texts(backwards) == [ZH, EN]
    assert backwards.source.direction == "zh-en", "so that the readers turn it"


@pytest.mark.usefixtures("test_set")
def test_test_sets_that_are_not_there(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"sacreBLEU knows no such set; near names: .*wmt17"):
        get(tmp_path, sacrebleu="wtm17")
    with pytest.raises(DataError, match=r"sacrebleu:toy/one: has no zh-de, only zh-en, liv-en$"):
        get(tmp_path, Languages(src="zh", tgt="de"), sacrebleu="toy/one")
    with pytest.raises(DataError, match=r"{sacrebleu: toy/one, direction: zh-en}"):
        get(tmp_path, ZH_EN.reversed(), sacrebleu="toy/one")
    with pytest.raises(Unavailable, match="not in the cache"):
        get(tmp_path, sacrebleu="toy/one", offline=True)
    server.serve("/wmt/test.tgz", tarred({"test/src.zh.sgm": sgm(ZH)}))
    with pytest.raises(DataError, match=r"sacreBLEU cannot read zh-en .*; it may be damaged"):
        get(tmp_path, sacrebleu="toy/one")
    left = [path.suffix for path in (tmp_path / "sacrebleu").iterdir()]
    assert left == [".lock"]


def test_the_pairs_of_real_sets_are_understood() -> None:
    """Every zh–en set of sacreBLEU is found under our codes."""
    sacrebleu = pytest.importorskip("sacrebleu")
    from transformer_mt.corpus.sources.sacrebleu_sets import _their_pair

    sets = [one for one in sacrebleu.DATASETS.values() if "zh-en" in one.langpairs]
    assert len(sets) > 10
    for one in sets:
        assert _their_pair(Source(sacrebleu=one.name), one, ("zh", "en")) == "zh-en"


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
    (found,) = two.origins
    assert (found.name, found.licence) == ("mtdata:Toy-two-1-eng-zho", "CC0")
    pair = get(tmp_path, ZH_EN.reversed(), mtdata="Toy-pair-1-zho-eng")
    assert (texts(pair), len(pair.origins)) == ([EN, ZH], 2)
    tsv = get(tmp_path, mtdata="Toy-tsv-1-zho-eng").source
    assert tsv == Source(tsv=tsv.tsv, direction="zh-en")
    tmx = get(tmp_path, mtdata="Toy-tmx-1-eng-zho").source
    assert tmx == Source(path=tmx.path)
    assert Path(tmx.path).name == "d.tmx.gz"


@pytest.mark.usefixtures("mtdata_index")
def test_entries_of_mtdata_that_cannot_be_had(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"Toy-cols-1-eng-zho: mtdata has a parser of its own .*"):
        get(tmp_path, mtdata="Toy-cols-1-eng-zho")
    with pytest.raises(DataError, match=r"expected one file '.*xx' in .*, found 0 of: LICENSE, a"):
        get(tmp_path, mtdata="Toy-none-1-eng-zho")
    with pytest.raises(DataError, match="near ones for zh and en: Toy-two-1-eng-zho"):
        get(tmp_path, mtdata="Toy-twoo-1-eng-zho")
    with pytest.raises(DataError, match="mtdata knows no such entry"):
        get(tmp_path, mtdata="nonsense")
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
