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
from pathlib import Path
from typing import Any

import pytest
from loopback import Server

from transformer_mt.config.data import Languages, Source
from transformer_mt.corpus.sources.by_name import Obtained, Origin, obtain
from transformer_mt.corpus.sources.http import Unavailable
from transformer_mt.errors import DataError

ZH, EN = "你好。\n再见。\n".encode(), b"Hello.\nGoodbye.\n"
ZH_EN = Languages(src="zh", tgt="en")


@pytest.fixture
def server(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The server in place of OPUS."""
    monkeypatch.setenv("TMT_OPUS_URL", server.base + "/opus/")
    monkeypatch.setenv("TMT_OPUS_API", server.base + "/api/")
    return server


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
