"""Sources by name or address → local files, and the record of their downloads."""

import gzip
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from command import tmt_here
from loopback import Server, digest, tarred, zipped
from reading import EN, ZH, ZH_EN, obtained, texts

from transformer_mt.config.data import Languages, Source
from transformer_mt.corpus.sources.cache import Cache, Download
from transformer_mt.corpus.sources.find import PublicCorpus, find_corpora
from transformer_mt.corpus.sources.http import Unavailable
from transformer_mt.corpus.sources.local import Obtained
from transformer_mt.errors import DataError

ZIP = "/opus/OPUS-News/v1/moses/en-{}.txt.zip"


@pytest.fixture
def server(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The server in place of OPUS."""
    monkeypatch.setenv("TMT_OPUS_URL", server.base + "/opus/")
    monkeypatch.setenv("TMT_OPUS_API", server.base + "/api/")
    return server


def opus_zip(zh: str = "zh", **more: bytes) -> bytes:
    files = {f"News.en-{zh}.{zh}": ZH, f"News.en-{zh}.en": EN, f"News.en-{zh}.xml": b"<x/>"}
    return zipped({**files, **more})


@pytest.mark.parametrize(
    "keys",
    [{"path": "a/b"}, {"files": ["a", "b"]}, {"tsv": "a"}, {"jsonl": "a"}, {"hf": "a/b"},
     {"demo": True}],
)  # fmt: skip
def test_what_needs_no_fetching_comes_back(tmp_path: Path, keys: dict[str, Any]) -> None:
    assert obtained(tmp_path, **keys) == Obtained(Source(**keys), [])
    assert list(tmp_path.iterdir()) == []


def test_opus_with_a_version(server: Server, tmp_path: Path) -> None:
    body = opus_zip(LICENSE=b"\n# \nCC BY 4.0,  see the site\nmore\n", README=b"License: no")
    url = server.serve(ZIP.format("zh"), body)
    kept: dict[str, Any] = {"weight": 2.0, "limit": 5, "tag": "x", "clean": {"too_long": 9}}
    found = obtained(tmp_path, opus="News/v1", **kept)
    assert texts(found) == [ZH, EN]
    assert found.source == Source(files=found.source.files, **kept)
    (folder,) = {Path(path).parent for path in found.source.files or []}
    licence = "CC BY 4.0, see the site"
    assert found.downloads == [Download(folder, url, digest(body), len(body), licence)]
    assert texts(obtained(tmp_path, ZH_EN.reversed(), opus="News/v1")) == [EN, ZH]
    turned = obtained(tmp_path, offline=True, opus="News/v1", direction="en-zh")
    assert (turned.source.direction, texts(turned)) == ("en-zh", [EN, ZH])
    with pytest.raises(DataError, match="direction is en-de, but languages are zh → en"):
        obtained(tmp_path, opus="News/v1", direction="en-de")
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("src", "tgt", "code"),
    [("zh", "en", "zh_cn"), ("zh", "en", "zh_CN"), ("en", "zh", "zh_Hans"),
     ("en", "zh-Hant", "zh_tw"), ("zh-TW", "en", "zh_TW")],
)  # fmt: skip
def test_chinese_as_opus_spells_it(
    server: Server, tmp_path: Path, src: str, tgt: str, code: str
) -> None:
    server.serve(ZIP.format(code), opus_zip(code))
    found = obtained(tmp_path, Languages(src=src, tgt=tgt), opus="News/v1")
    assert texts(found) == ([EN, ZH] if src == "en" else [ZH, EN])


def test_opus_without_a_version(server: Server, tmp_path: Path) -> None:
    """The latest is asked for once; then the cache holds the answer, too."""
    query = "/api/?corpus=News&source=en&target={}&preprocessing=moses&version=latest"
    server.serve(query.format("zh"), b'{"corpora": []}')
    answer = {"corpora": [{"corpus": "News", "version": "v1", "url": "https://elsewhere/x"}]}
    server.serve(query.format("zh_cn"), json.dumps(answer).encode())
    server.serve(ZIP.format("zh_cn"), opus_zip("zh_cn"))
    assert texts(obtained(tmp_path, opus="News")) == [ZH, EN]
    n_requests = len(server.requests)
    for name in ("News", "News/v1"):
        assert texts(obtained(tmp_path, opus=name, offline=True)) == [ZH, EN]
    assert texts(obtained(tmp_path, opus="News")) == [ZH, EN]
    with pytest.raises(DataError, match="names no version, and OPUS cannot be asked"):
        obtained(tmp_path, opus="Other", offline=True)
    assert len(server.requests) == n_requests


def test_opus_that_does_not_have_it(server: Server, tmp_path: Path) -> None:
    no_version = r"no such corpus for zh-en in this version; large and small letters count"
    with pytest.raises(DataError, match=rf"(?s){no_version}.*/en-zh.txt.zip: the server answers 4"):
        obtained(tmp_path, opus="news/v16")
    with pytest.raises(DataError, match=r"opus:.*: not in the cache\. Tried:"):
        obtained(tmp_path, opus="news/v16", offline=True)
    with pytest.raises(DataError, match=r"name one, such as opus:news/v1. .* answers 404"):
        obtained(tmp_path, opus="news")
    server.serve("/api/", b'{"corpora": []}')
    with pytest.raises(DataError, match="OPUS knows no such corpus for en-zh, en-zh_cn, en-zh_CN"):
        obtained(tmp_path, opus="news")
    server.serve("/api/", b"<html>maintenance</html>")
    with pytest.raises(DataError, match="answer of another form: '<html>maintenance"):
        obtained(tmp_path, opus="news")
    server.serve(ZIP.format("zh"), zipped({"a.en": EN, "b.zh": ZH}))
    with pytest.raises(DataError, match=r"ending in \.en and \.zh, found 0 in .*: a.en, b.zh"):
        obtained(tmp_path, opus="News/v1")


def listed(name: str, version: str, pairs: int, kilobytes: int) -> dict[str, Any]:
    facts = {"alignment_pairs": pairs, "size": kilobytes, "latest": "True"}
    return {"corpus": name, "version": version, **facts}


def serve_list(server: Server) -> None:
    """The answers of OPUS about all corpora in en and zh."""
    query = "/api/?source=en&target={}&preprocessing=moses&version=latest"
    news, books = listed("News-Commentary", "v16", 300_000, 90_000), listed("Books", "v1", 9, 1)
    server.serve(query.format("zh"), json.dumps({"corpora": [books, news]}).encode())
    wiki = listed("wikimedia", "v20230407", 40_000, 8000)
    server.serve(query.format("zh_CN"), json.dumps({"corpora": [wiki]}).encode())
    for code in ("zh_cn", "zh_Hans"):
        server.serve(query.format(code), b'{"corpora": []}')


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("News-Comentary/v16", "opus:News-Commentary/v16"),
        ("news_commentary/v16", "opus:News-Commentary/v16"),
        ("News-Commentary/v99", "opus:News-Commentary/v16"),
        ("newscommentary", "opus:News-Commentary/v16"),
        ("Wikimedia", "opus:wikimedia/v20230407"),
        ("Nothing/v1", None),
    ],
)
def test_near_names_of_opus(server: Server, tmp_path: Path, name: str, near: str | None) -> None:
    serve_list(server)
    for code in ("zh", "zh_cn", "zh_CN", "zh_Hans"):
        corpus = name.partition("/")[0]
        asked = f"?corpus={corpus}&source=en&target={code}&preprocessing=moses&version=latest"
        server.serve(f"/api/{asked}", b'{"corpora": []}')
    with pytest.raises(DataError) as caught:
        obtained(tmp_path, opus=name)
    assert ("near names for zh-en: " in str(caught.value)) is bool(near)
    assert not near or near in str(caught.value)
    assert "all names: tmt data find SRC TGT" in str(caught.value)


def test_all_corpora_of_two_languages(server: Server) -> None:
    serve_list(server)
    found = find_corpora(ZH_EN)
    assert found[:3] == [
        PublicCorpus("opus:News-Commentary/v16", "train", 300_000, 90_000_000),
        PublicCorpus("opus:wikimedia/v20230407", "train", 40_000, 8_000_000),
        PublicCorpus("opus:Books/v1", "train", 9, 1000),
    ]
    assert PublicCorpus("sacrebleu:wmt19", "test", None, None) in found
    printed = [line.split() for line in tmt_here("data", "find", "中文", "en").stdout.split("\n")]
    assert printed[0] == ["opus:News-Commentary/v16", "300,000", "pairs", "90.0", "MB"]
    assert ["sacrebleu:wmt19", "test", "set"] in printed
    listed_again = json.loads(tmt_here("data", "find", "zh", "en", "--json").stdout)
    assert listed_again == [vars(corpus) for corpus in found]


def test_a_url_of_a_file(server: Server, tmp_path: Path) -> None:
    body = gzip.compress(ZH)
    url = server.serve("/x/pairs.tsv.gz", body)
    found = obtained(tmp_path, url=url, sha256=digest(body), limit=3)
    (download,) = found.downloads
    assert found.source == Source(path=str(download.path), limit=3)
    assert (download.path.name, download.path.read_bytes()) == ("pairs.tsv.gz", body)
    with pytest.raises(DataError, match="the file in the cache has sha256"):
        obtained(tmp_path, url=url, sha256="0" * 64)


@pytest.mark.parametrize("name", ["/a.tar", "/a.zip", "/download?id=7"])
def test_a_url_of_an_archive(server: Server, tmp_path: Path, name: str) -> None:
    pack = zipped if "zip" in name else tarred
    body = pack({"c/a.zh": ZH, "c/a.en": EN, "c/README.md": b"About\n* License: CC0\n"})
    found = obtained(tmp_path, url=server.serve(name, body), direction="zh-en")
    (download,) = found.downloads
    assert found.source == Source(path=str(download.path), direction="zh-en")
    assert (download.path / "c" / "a.zh").read_bytes() == ZH
    assert download.licence == "* License: CC0"
    same = obtained(tmp_path, url=server.serve("/mirror/b.bin", body))
    assert same.source.path == found.source.path, "equal archives are unpacked once"


def test_archives_that_cannot_be_used(server: Server, tmp_path: Path) -> None:
    for name, body in [
        ("/evil.zip", zipped({"../../evil": b"x"})),
        ("/cut.zip", opus_zip()[:-30]),
        ("/cut.tar.gz", gzip.compress(tarred({"a": os.urandom(9999)}))[:-500]),
    ]:
        with pytest.raises(DataError, match=name[1:]):
            obtained(tmp_path / "cache", url=server.serve(name, body))
    left = [path.name for path in (tmp_path / "cache" / "unpacked").iterdir()]
    assert all(name.endswith(".lock") for name in left)
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]


def test_killed_while_unpacking(server: Server, tmp_path: Path) -> None:
    """What was half unpacked is never used, and does not stay."""
    url = server.serve("/a.zip", zipped({f"{i}.txt": os.urandom(1000) for i in range(1000)}))
    code = (
        "import sys; from pathlib import Path\n"
        "from transformer_mt.corpus.sources.cache import Cache\n"
        "Cache(Path(sys.argv[2])).content(sys.argv[1])\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, url, str(tmp_path)])
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("unpacked/.*.tmp/new/*/9*.txt")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    found = Cache(tmp_path).content(url)
    assert len(list(found.path.iterdir())) == 1000
    assert not list((tmp_path / "unpacked").glob(".*"))


def sgm(lines: bytes) -> bytes:
    segments = b"".join(
        b'<seg id="%d">%s</seg>\n' % (i, line) for i, line in enumerate(lines.split(b"\n")[:-1], 1)
    )
    return b'<refset><doc docid="d" origlang="zh" genre="news">\n' + segments + b"</doc></refset>\n"


@pytest.fixture
def test_set(server: Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """`toy/one`: a set of a class that sacreBLEU has for those of WMT, at our server."""
    import sacrebleu
    from sacrebleu.dataset.fake_sgml import FakeSGMLDataset

    body = gzip.compress(tarred({"test/src.zh.sgm": sgm(ZH), "test/ref.en.sgm": sgm(EN)}))
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
    found = obtained(tmp_path, sacrebleu="toy/one", limit=1)
    assert (texts(found), found.source.limit) == ([ZH, EN], 1)
    assert [download.url for download in found.downloads] == [test_set]
    assert obtained(tmp_path, sacrebleu="toy/one", limit=1, offline=True) == found
    assert len(server.requests) == 1
    directory, lock = sorted((tmp_path / "sacrebleu").iterdir())
    assert (lock.name, directory.name[:13]) == (f"{directory.name}.lock", "toy_one.zh-en")
    assert sorted(path.name for path in directory.iterdir()) == ["reference.txt", "source.txt"]
    backwards = obtained(tmp_path, ZH_EN.reversed(), sacrebleu="toy/one", direction="zh-en")
    assert texts(backwards) == [ZH, EN]
    assert backwards.source.direction == "zh-en", "so that the readers turn it"


@pytest.mark.usefixtures("test_set")
def test_test_sets_that_are_not_there(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"sacreBLEU knows no such set; near names: .*wmt17"):
        obtained(tmp_path, sacrebleu="wtm17")
    with pytest.raises(DataError, match=r"sacrebleu:toy/one: has no zh-de, only zh-en, liv-en$"):
        obtained(tmp_path, Languages(src="zh", tgt="de"), sacrebleu="toy/one")
    with pytest.raises(DataError, match=r"{sacrebleu: toy/one, direction: zh-en}"):
        obtained(tmp_path, ZH_EN.reversed(), sacrebleu="toy/one")
    with pytest.raises(Unavailable, match="not in the cache"):
        obtained(tmp_path, sacrebleu="toy/one", offline=True)
    server.serve("/wmt/test.tgz", gzip.compress(tarred({"test/src.zh.sgm": sgm(ZH)})))
    with pytest.raises(DataError, match=r"sacreBLEU cannot read zh-en .*; it may be damaged"):
        obtained(tmp_path, sacrebleu="toy/one")
    assert [path.suffix for path in (tmp_path / "sacrebleu").iterdir()] == [".lock"]


def test_the_pairs_of_real_sets_are_understood() -> None:
    """Every zh–en set of sacreBLEU is found under our codes."""
    import sacrebleu

    from transformer_mt.corpus.sources.sacrebleu_sets import _their_pair

    sets = [one for one in sacrebleu.DATASETS.values() if "zh-en" in one.langpairs]
    assert len(sets) > 10
    for one in sets:
        assert _their_pair(Source(sacrebleu=one.name), one, ("zh", "en")) == "zh-en"
