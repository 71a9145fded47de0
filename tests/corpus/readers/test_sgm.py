"""The old test sets of WMT: two files that run side by side, well-formed or not."""

import gzip
from pathlib import Path

import pytest

from transformer_mt.config.data import Languages, Source
from transformer_mt.corpus.readers.pairs import read_pairs
from transformer_mt.errors import DataError

ZH_EN = Languages(src="zh", tgt="en")
SRC, REF = "wmt17-src.zh.sgm", "wmt17-ref.en.sgm"

CHINESE = """<srcset setid="wmt17" srclang="any">
<doc sysid="ref" docid="a.1" genre="news" origlang="zh">
<p>
<seg id="1">甲 & 乙</seg>
<seg id="2">二</seg>
</p>
</doc>
<DOC docid='b' sysid='ref'><SEG id=1>三</SEG></DOC>
</srcset>
"""
ENGLISH = """<refset setid="wmt17" srclang="any" trglang="en">
<doc sysid="ref" docid="a.1" genre="news" origlang="zh">
<p>
<seg id="1"> R&D &amp; AT&T, x < y &#233; &quot;q&quot; &copy </seg>
<seg id="2">
  two
  lines
</seg>
</p>
</doc>
<doc docid="b" sysid="ref"><seg id="1">three</seg></doc>
</refset>
"""
PAIRS = [("甲 & 乙", 'R&D & AT&T, x < y é "q" &copy'), ("二", "two lines"), ("三", "three")]


def write(root: Path, chinese: str = CHINESE, english: str = ENGLISH) -> None:
    (root / SRC).write_text(chinese, encoding="utf-8")
    (root / REF).write_text(english, encoding="utf-8")


def read(root: Path, source: Source, languages: Languages = ZH_EN) -> list[tuple[str, str]]:
    return list(read_pairs(source, languages, root=root, role="test"))


def test_two_files(tmp_path: Path) -> None:
    write(tmp_path)
    assert read(tmp_path, Source(files=[SRC, REF])) == PAIRS
    turned = Source(files=[SRC, REF], direction="zh-en")
    assert read(tmp_path, turned, ZH_EN.reversed()) == [(en, zh) for zh, en in PAIRS]
    for whole in (Source(path="."), Source(path="*.sgm"), Source(path="wmt17.sgm")):
        assert read(tmp_path, whole) == PAIRS
    for name in (SRC, REF):
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress((tmp_path / name).read_bytes()))
        (tmp_path / name).unlink()
    assert read(tmp_path, Source(files=[f"{SRC}.gz", f"{REF}.gz"])) == PAIRS
    assert read(tmp_path, Source(path=".")) == PAIRS


def test_of_several_references_the_first_is_taken(tmp_path: Path) -> None:
    second = ENGLISH.replace('sysid="ref"', 'sysid="other"').replace("three", "other")
    write(tmp_path, english=ENGLISH + second)
    assert read(tmp_path, Source(files=[SRC, REF])) == PAIRS


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('<seg id="1">three', '<seg id="2">three',
         "doc b seg 1 (line 8) stands against doc b seg 2 (line 11)"),
        ('docid="b"', 'docid="c"', "doc b seg 1 (line 8) stands against doc c seg 1 (line 11)"),
        ('<seg id="1">three</seg>', "", "doc b seg 1 (line 8) stands against the end"),
        ("three</seg>", "three</seg><seg id='2'>four</seg>",
         "the end stands against doc b seg 2 (line 11)"),
        ("&copy </seg>", "", f"{REF}: line 8: a <seg> starts inside another"),
        ("three</seg>", "three", f"{REF}: line 12: the last <seg> has no </seg>"),
        (ENGLISH, "text\n", f"{REF}: no <seg>…</seg> found; expected an SGM file of WMT"),
    ],
)  # fmt: skip
def test_mistakes(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in ENGLISH
    write(tmp_path, english=ENGLISH.replace(old, new))
    with pytest.raises(DataError) as caught:
        read(tmp_path, Source(files=[SRC, REF]))
    assert message in str(caught.value)
