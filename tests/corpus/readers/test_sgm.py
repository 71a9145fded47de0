"""The old test sets of WMT: two files that run side by side, well-formed or not."""

import gzip
from pathlib import Path

import pytest
from reading import ZH_EN, read, refusal, turned

from transformer_mt.corpus.readers import sgm

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
SECOND = ENGLISH.replace('sysid="ref"', 'sysid="other"').replace("three", "other")


def write(root: Path, chinese: str = CHINESE, english: str = ENGLISH) -> None:
    (root / SRC).write_text(chinese, encoding="utf-8")
    (root / REF).write_text(english, encoding="utf-8")


def test_two_files(tmp_path: Path) -> None:
    write(tmp_path, english=ENGLISH + SECOND)  # of several references the first is taken
    assert read(tmp_path, files=[SRC, REF]) == PAIRS
    back = read(tmp_path, ZH_EN.reversed(), files=[SRC, REF], direction="zh-en")
    assert back == turned(PAIRS)
    for whole in (".", "*.sgm", "wmt17.sgm"):
        assert read(tmp_path, path=whole) == PAIRS
    for name in (SRC, REF):
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress((tmp_path / name).read_bytes()))
        (tmp_path / name).unlink()
    assert read(tmp_path, path=".") == PAIRS


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('<seg id="1">three', '<seg id="2">three',
         "doc b seg 1 (line 8) stands against doc b seg 2 (line 11)"),
        ('docid="b"', 'docid="c"', "doc b seg 1 (line 8) stands against doc c seg 1 (line 11)"),
        ('<seg id="1">three</seg>', "", "doc b seg 1 (line 8) stands against the end"),
        ("three</seg>", "three</seg><seg id='2'>four</seg>",
         "the end stands against doc b seg 2 (line 11)"),
        ("&copy </seg>", "", f"{REF}: line 4: a <seg> has no </seg>"),
        ("three</seg>", "three", f"{REF}: line 11: a <seg> has no </seg>"),
        (">three</seg>", "", f"{REF}: line 11: a <seg> has no </seg>"),
        (ENGLISH, "text\n", f"{REF}: no <seg>…</seg> found; expected an SGM file of WMT"),
    ],
)  # fmt: skip
def test_mistakes(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in ENGLISH
    write(tmp_path, english=ENGLISH.replace(old, new))
    assert message in refusal(tmp_path, files=[SRC, REF])


def test_what_would_take_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, f"<seg id=1>&#{'9' * 5000};</seg>", "<seg id=1>a</seg>")
    (src, _), *_ = read(tmp_path, files=[SRC, REF])
    assert src.startswith("&#999"), "no character, so it is text"
    monkeypatch.setattr(sgm, "_LARGEST", 1 << 10)
    assert "more than 0 MiB; an SGM file is a test set" in refusal(tmp_path, files=[SRC, REF])
