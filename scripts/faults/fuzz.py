"""Gives mutated files to everything that reads foreign files; only a `TmtError` may come of them.

    python scripts/faults/fuzz.py --minutes 5
    python scripts/faults/fuzz.py --target sgm --minutes 1

Targets in turn, each in a process of its own with an equal share of the time. With atheris (the
extra `fuzz`) the search is guided by coverage of this package; without it, mutations are drawn at
random. Inputs that broke something stay in fuzz-findings/. Exit status 1: there are some.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from fuzz_models import model_files

FINDINGS = Path("fuzz-findings")
LARGEST = 40_000  # bytes of an input
MARKS = (
    b"<", b">", b"</seg>", b"<seg>", b"<!--", b"]]>", b"&amp;", b"&#x", b'"', b"'", b"{", b"}",
    b"[", b"]", b":", b"\n", b"\t", b"\\u", b"\\ud800", b"\0", b"\xff", b"\xef\xbb\xbf", b"&a *a",
    b"9" * 5000, b" " * 50, b"1e999", b".nan", b"-1", b"null", b"`", b"](", b"\r", b"\xed\xa0",
)  # fmt: skip


class Target(NamedTuple):
    seeds: list[bytes]
    use: Callable[[bytes], object]


def targets(folder: Path) -> dict[str, Target]:
    """What is tried; `folder` takes the files."""
    from transformer_mt.config.data import Languages
    from transformer_mt.config.experiment import load_config
    from transformer_mt.corpus.readers.columns import read_arrow
    from transformer_mt.corpus.readers.lines import split_lines
    from transformer_mt.corpus.readers.sgm import read_sgm_pair
    from transformer_mt.corpus.readers.spreadsheets import read_table
    from transformer_mt.corpus.readers.tables import read_jsonl
    from transformer_mt.corpus.readers.tmx_xliff import read_markup
    from transformer_mt.corpus.sources.archives import unpack_archive
    from transformer_mt.corpus.sources.http import read_record
    from transformer_mt.system.output import remove
    from transformer_mt.translation.documents.forms import Form
    from transformer_mt.translation.documents.translate import read_document
    from transformer_mt.translation.glossary import Glossary

    zh_en = Languages(src="zh", tgt="en")

    def written(name: str, use: Callable[[Path], object], data: bytes) -> object:
        path = folder / name
        path.write_bytes(data)
        return use(path)

    def of_file(name: str, seeds: list[bytes], use: Callable[[Path], object]) -> Target:
        return Target(seeds, partial(written, name, use))

    def document(form: Form, data: bytes) -> object:
        found = read_document(data.decode(errors="replace"), form)
        return found.rebuild(found.segments), found.rebuild(["*x* <b>"] * len(found.segments))

    def unpacked(path: Path) -> object:
        remove(folder / "unpacked")
        return unpack_archive(path, folder / "unpacked")

    def arrow(path: Path) -> object:
        return list(read_arrow(path, zh_en, swapped=False))

    def table(path: Path) -> object:
        return list(read_table(path, zh_en, swapped=False))

    def config(path: Path) -> object:
        return load_config(path).to_yaml()

    texts = {
        "markdown": ["# A *b*\n\n- c `d` [e](f)\n> g\n\n| a | b |\n|---|---|\n| c | d |\n```\nx\n"],
        "html": ["<p>A <b>b</b> &amp; <a href='x'>c</a><script>x</script><!-- y --></p>"],
        "xml": ["<d><t>A</t><p>b <i>c</i> &amp; <x id='1'/>d <q translate='no'>e</q></p></d>"],
        "srt": ["1\n00:00:01,000 --> 00:00:02,000\n- a <i>b</i>\n- c\n\n2\n0:0 --> 1:1\nd\n"],
        "jsonl": ['{"text": "a \\u4f60\\n b", "x": [1]}\n{"text": ""}\n'],
    }  # fmt: skip
    forms: list[Form] = ["markdown", "html", "xml", "srt", "jsonl"]
    found = {
        form: Target([text.encode() for text in texts[form]], partial(document, form))
        for form in forms
    }
    pairs = b'{"translation": {"zh": "a", "en": "b"}}\n{"zh": "a", "en": null}\n'
    found |= {
        "sgm": of_file("t.sgm", SGM, lambda path: list(read_sgm_pair(path, path))),
        "tmx": of_file("t.xml", XML, lambda path: list(read_markup(path, zh_en))),
        "json": of_file("t.jl", [pairs], lambda path: list(read_jsonl(path, zh_en, swapped=False))),
        "tsv": of_file("t.tsv", [b"a\tb\r\n\xe4\xbd\xa0\tc\n", b'"a ""b"""\tb\n'], table),
        "csv": of_file("t.csv", SHEETS, table),
        "gz": of_file("t.gz", packed(), lambda path: list(split_lines(path))),
        "parquet": of_file("t.parquet", tables("parquet"), arrow),
        "arrow": of_file("t.arrow", tables("arrow"), arrow),
        "yaml": of_file("t.yaml", CONFIGS, config),
        "glossary": of_file("t.txt", [b"a b\tc\n# d\ne\t\n"], Glossary.read),
        "archive": of_file("t.tar.gz", archives(folder), unpacked),
        "record": of_file("t.json", [RECORD], read_record),
    }
    for name, (content, load) in model_files(folder).items():
        found[f"model {name}"] = Target([content], load)
    return found


SGM = [
    b'<srcset><doc docid="a" sysid=\'b\'>\n<seg id="1">x &amp; &#233;</seg>\n<SEG id=2>\ny</SEG >'
]
XML = [
    b'<?xml version="1.0"?><tmx version="1.4"><header/><body><tu><tuv xml:lang="zh"><seg>a<ph>b'
    b'</ph></seg></tuv><tuv lang="EN"><seg>c &lt; d</seg></tuv></tu></body></tmx>',
    b'<xliff><file source-language="zh" target-language="en"><body><trans-unit id="1">'
    b'<source>a</source><target state="new">b</target></trans-unit></body></file></xliff>',
    b'<dataset><doc id="1"><src lang="zh"><p><seg id="1">a</seg></p></src><ref lang="en" '
    b'translator="A"><p><seg id="1">b</seg></p></ref></doc></dataset>',
]
SHEETS = [
    'zh,en\n"你,好","a ""b"""\n再见,c\n'.encode(encoding) for encoding in ("utf-8", "utf-16", "gbk")
]
CONFIGS = [
    b"name: a\nlanguages: {src: zh, tgt: en}\ndata:\n  train: [a/b, {tsv: c, weight: 2.0, clean: "
    b"{empty: 0}}, opus:X/v1]\n  test: {x: sacrebleu:wmt17}\nmodel: &m {d_model: 64, heads: 4}\n"
    b"train: {lr: 1e-4, adam_betas: [0.9, 0.98], max_minutes: .inf}\ntokenizer: {vocab_size: 99}\n"
]
RECORD = json.dumps(
    {"name": "a.txt", "size": 3, "etag": '"x"', "last_modified": None, "sha256": "0" * 64}
).encode()


def tables(form: str) -> list[bytes]:
    import pyarrow
    from pyarrow import ipc, parquet

    zh, en = ["一", None, "三" * 9], ["1", "2", None]
    kinds = (
        {"zh": zh, "en": pyarrow.array(en).dictionary_encode(), "id": [1, 2, 3]},
        {"translation": [{"zh": z, "en": e} for z, e in zip(zh, en, strict=True)]},
        {"source": pyarrow.array(zh, pyarrow.large_string()), "target": en},
    )
    found = []
    for table in map(pyarrow.table, kinds):
        sink = pyarrow.BufferOutputStream()
        if form == "parquet":
            parquet.write_table(table, sink)
            found.append(sink.getvalue().to_pybytes())
            continue
        for writer in (ipc.new_file, ipc.new_stream):
            sink = pyarrow.BufferOutputStream()
            with writer(sink, table.schema) as out:
                out.write_table(table)
            found.append(sink.getvalue().to_pybytes())
    return found


def packed() -> list[bytes]:
    import gzip

    return [gzip.compress("a\n你好\r\n\n".encode() * n) for n in (1, 100)]


def archives(folder: Path) -> list[bytes]:
    import io
    import tarfile
    import zipfile

    found = []
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        raw = io.BytesIO()
        with tarfile.open(fileobj=raw, mode="w", format=form) as tar:
            member = tarfile.TarInfo("d/" + "é" * 120)
            member.size = 3
            tar.addfile(member, io.BytesIO(b"abc"))
        found.append(raw.getvalue())
    for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        raw = io.BytesIO()
        with zipfile.ZipFile(raw, "w", method) as file:
            file.writestr("d/a.txt", b"abc" * 100)
        found.append(raw.getvalue())
    return found


def mutated(choose: random.Random, seeds: list[bytes]) -> bytes:
    """A seed with some bytes changed, cut, repeated or put in."""
    data = bytearray(choose.choice(seeds))
    for _ in range(choose.randint(1, 6)):
        at = choose.randrange(len(data) + 1)
        end = min(len(data), at + choose.randint(1, 16))
        kind = choose.randrange(6)
        if kind == 0 and at < len(data):
            data[at] = choose.choice((0, 1, 0x7F, 0x80, 0xFF, choose.randrange(256)))
        elif kind == 1:
            data[at:end] = b""
        elif kind == 2:
            data[at:at] = choose.choice(MARKS)
        elif kind == 3:
            data[at:at] = data[at:end] * choose.randint(1, 50)
        elif kind == 4:
            other = choose.choice(seeds)
            data[at:end] = other[choose.randrange(len(other)) :][: choose.randint(1, 200)]
        elif choose.random() < 0.2:
            del data[at:]
    return bytes(data[:LARGEST])


def allowed(target: Target, data: bytes) -> None:
    """Raises: whatever comes of the input that is not a `TmtError`."""
    from transformer_mt.errors import TmtError

    try:
        target.use(data)
    except TmtError as error:
        assert str(error).strip(), "a message says something"


def at_random(name: str, target: Target, seconds: float, seed: int) -> int:
    """Mutations until the time is over; the status of the process."""
    choose, end, n_found = random.Random(seed), time.monotonic() + seconds, 0
    current = FINDINGS / f"{name.replace(' ', '-')}.current"  # stays if a signal ends the process
    while time.monotonic() < end:
        data = mutated(choose, target.seeds)
        current.write_bytes(data)
        try:
            allowed(target, data)
        except Exception:
            n_found += 1
            traceback.print_exc()
            current.rename(current.with_suffix(f".{n_found}"))
            if n_found == 5:
                break
    current.unlink(missing_ok=True)
    return 1 if n_found else 0


def guided(name: str, folder: Path, seconds: float, seed: int) -> None:
    """Does not return: libFuzzer ends the process."""
    import atheris

    with atheris.instrument_imports(include=["transformer_mt"]):
        target = targets(folder)[name]
    corpus = folder / "corpus"
    corpus.mkdir()
    for number, data in enumerate(target.seeds):
        (corpus / str(number)).write_bytes(data)
    prefix = FINDINGS / name.replace(" ", "-")
    options = (
        f"-max_total_time={max(1, int(seconds))}", f"-artifact_prefix={prefix}-", "-timeout=20",
        "-rss_limit_mb=4096", f"-max_len={LARGEST}", f"-seed={seed}", "-verbosity=0",
    )  # fmt: skip
    atheris.Setup([sys.argv[0], *options, str(corpus)], lambda data: allowed(target, data))
    atheris.Fuzz()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--target", help="one alone, in this process")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--random", action="store_true", help="without atheris")
    arguments = parser.parse_args()
    FINDINGS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        seconds = arguments.minutes * 60
        if arguments.target and not arguments.random and find_spec("atheris"):
            guided(arguments.target, folder, seconds, arguments.seed)
        known = targets(folder)
        if arguments.target:
            return at_random(arguments.target, known[arguments.target], seconds, arguments.seed)
    broken = []
    for target in known:
        share = arguments.minutes / len(known)
        options = ["--target", target, "--minutes", str(share), "--seed", str(arguments.seed)]
        command = [sys.executable, __file__, *options, *["--random"] * arguments.random]
        print(f"{target}: {share * 60:.0f} s", flush=True)
        if subprocess.run(command, timeout=share * 60 + 120).returncode:
            broken.append(target)
    print(f"broken: {', '.join(broken) or 'none'}", flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
