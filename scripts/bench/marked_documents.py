"""Documents with nested marks: do all marks come back, and is the text translated as well as plain?

    python scripts/bench/marked_documents.py -m runs/tiny --src test.zh --ref test.en

Each document has five of the sentences, every one with a mark inside a mark, by turns in Markdown,
HTML, SubRip, WebVTT and Word. Told are, for each form: documents that are well-formed with every
mark; sentences whose marks stand in the order of the source; BLEU of the text without marks beside
that of the sentences translated plain.
"""

import argparse
import random
import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from io import BytesIO
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import docx
import pyromark

from transformer_mt.corpus.readers.lines import split_lines
from transformer_mt.evaluation.metrics import Scorer
from transformer_mt.rendering.cells import align_columns
from transformer_mt.translation.alignment import AttentionAligner
from transformer_mt.translation.documents.translate import translate_document, translate_package
from transformer_mt.translation.translator import Translator

SENTENCES = 5  # of a document
SPECIAL = re.compile(r"[<>&*_\[\]`#|\\~{}]|^\d|^[-+=]|-->|://")


class Marked(NamedTuple):
    """A sentence in five parts: the inner mark is around the third, the outer one around 2 to 4."""

    parts: list[str]

    def between(self, outer: tuple[str, str], inner: tuple[str, str]) -> str:
        a, b, c, d, e = self.parts
        return f"{a}{outer[0]}{b}{inner[0]}{c}{inner[1]}{d}{outer[1]}{e}"


class Sentence(NamedTuple):
    """A sentence that came back: its text, and its marks in their order, `/` before an end."""

    text: str
    marks: list[str]


class Form(NamedTuple):
    write: Callable[[list[Marked]], Any]
    read: Callable[[Any], list[Sentence]]
    marks: list[str]


def drawn(sentence: str, draw: random.Random) -> Marked:
    """Marks at random words, or characters where there are no spaces; none of them is empty."""
    units = re.findall(r"\S+\s*" if " " in sentence else r".", sentence)
    cuts = sorted(draw.sample(range(len(units)), 4)) if len(units) > 4 else []
    if not cuts:  # all of it, twice
        return Marked(["", "", sentence, "", ""])
    places = [0, *cuts, len(units)]
    return Marked(["".join(units[a:b]) for a, b in pairwise(places)])


class _Tags(HTMLParser):
    """Text and tags of a fragment."""

    def __init__(self) -> None:
        super().__init__()
        self.text, self.marks = "", list[str]()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.marks.append(tag)

    def handle_endtag(self, tag: str) -> None:
        self.marks.append(f"/{tag}")

    def handle_data(self, data: str) -> None:
        self.text += data


def parsed(fragment: str) -> Sentence:
    tags = _Tags()
    tags.feed(fragment)
    tags.close()
    return Sentence(tags.text.strip(), tags.marks)


def write_markdown(sentences: list[Marked]) -> str:
    shown = [s.between(("<u>**", "**</u>"), ("[", "](https://a.b)")) for s in sentences]
    return "".join(f"{text}\n\n" for text in shown)


def read_markdown(document: str) -> list[Sentence]:
    return [parsed(p) for p in re.findall(r"<p>(.*?)</p>", pyromark.html(document), re.DOTALL)]


def write_html(sentences: list[Marked]) -> str:
    shown = [s.between(('<b class="x">', "</b>"), ("<i>", "</i>")) for s in sentences]
    return "<html><body>\n" + "".join(f"<p>{text}</p>\n" for text in shown) + "</body></html>\n"


def read_html(document: str) -> list[Sentence]:
    return [parsed(p) for p in re.findall(r"<p>(.*?)</p>", document, re.DOTALL)]


def subtitles(first: str, numbered: bool, point: str) -> Form:
    def write(sentences: list[Marked]) -> str:
        shown = [s.between(("<b>", "</b>"), ("<i>", "</i>")) for s in sentences]
        cues = [
            f"{i}\n" * numbered + f"00:00:{i:02}{point}000 --> 00:00:{i:02}{point}900\n{text}\n\n"
            for i, text in enumerate(shown, 1)
        ]
        return first + "".join(cues)

    def read(document: str) -> list[Sentence]:
        return [parsed(cue.replace("\n", " ")) for cue in re.findall(CUE, document)]

    return Form(write, read, ["b", "i", "/i", "/b"])


CUE = r"-->.*\n((?:.+\n?)+)"


def write_docx(sentences: list[Marked]) -> bytes:
    document = docx.Document()
    for sentence in sentences:
        paragraph = document.add_paragraph()
        for i, text in enumerate(sentence.parts):
            run = paragraph.add_run(text)
            run.bold, run.italic = 1 <= i <= 3, i == 2
    content = BytesIO()
    document.save(content)
    return content.getvalue()


def read_docx(document: bytes) -> list[Sentence]:
    """The marks of each run, as tags would have them."""
    found = []
    for paragraph in docx.Document(BytesIO(document)).paragraphs:
        marks, bold, italic = list[str](), False, False
        for run in [*paragraph.runs, None]:
            now_bold, now_italic = (bool(run and run.bold), bool(run and run.italic))
            marks += ["/i"] * (italic and not now_italic) + ["/b"] * (bold and not now_bold)
            marks += ["b"] * (now_bold and not bold) + ["i"] * (now_italic and not italic)
            bold, italic = now_bold, now_italic
        found.append(Sentence(paragraph.text.strip(), marks))
    return found


FORMS = {
    "markdown": Form(write_markdown, read_markdown, ["u", "strong", "a", "/a", "/strong", "/u"]),
    "html": Form(write_html, read_html, ["b", "i", "/i", "/b"]),
    "srt": subtitles("", True, ","),
    "vtt": subtitles("WEBVTT\n\n", False, "."),
    "docx": Form(write_docx, read_docx, ["b", "i", "/i", "/b"]),
}


def is_nested(marks: list[str]) -> bool:
    open_marks: list[str] = []
    for mark in marks:
        if not mark.startswith("/"):
            open_marks.append(mark)
        elif not open_marks or open_marks.pop() != mark[1:]:
            return False
    return not open_marks


def rows(
    pairs: list[tuple[str, str]], translator: Translator, n_documents: int
) -> Iterator[tuple[str, ...]]:
    draw, align = random.Random(1), AttentionAligner(translator)
    scorer = Scorer(translator.cfg.languages.tgt)
    plain = dict(
        zip(srcs := [src for src, _ in pairs], translator.translate_texts(srcs), strict=True)
    )
    found: dict[str, list[tuple[str, str, str]]] = {name: [] for name in FORMS}
    whole = dict.fromkeys(FORMS, 0)
    in_order = dict.fromkeys(FORMS, 0)
    for number in range(n_documents):
        name = list(FORMS)[number % len(FORMS)]
        form = FORMS[name]
        own = pairs[number * SENTENCES : (number + 1) * SENTENCES]
        document = form.write([drawn(src, draw) for src, _ in own])
        translate: Any = translate_package if name == "docx" else translate_document
        back = form.read(translate(document, name, translator.translate_texts, align=align))
        every = len(back) == len(own) and all(
            set(s.marks) == set(form.marks) and is_nested(s.marks) for s in back
        )
        whole[name] += every
        in_order[name] += sum(s.marks == form.marks for s in back)
        found[name] += [(s.text, plain[src], ref) for s, (src, ref) in zip(back, own, strict=False)]
    for name in (*FORMS, "all"):
        names = [*FORMS] if name == "all" else [name]
        texts, plains, refs = zip(*(row for each in names for row in found[each]), strict=True)
        bleu = [scorer.score(hyps, refs, ["bleu"])["bleu"].score for hyps in (texts, plains)]
        n = sum(len(found[each]) for each in names)
        yield (
            name,
            str(n // SENTENCES),
            str(sum(whole[each] for each in names)),
            f"{sum(in_order[each] for each in names) / n:.1%}",
            f"{bleu[0]:.2f}",
            f"{bleu[1]:.2f}",
            f"{bleu[0] - bleu[1]:+.2f}",
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-m", "--model", type=Path, required=True)
    parser.add_argument("--src", type=Path, required=True)
    parser.add_argument("--ref", type=Path, required=True)
    parser.add_argument("--documents", type=int, default=200)
    options = parser.parse_args()
    pairs = zip(split_lines(options.src), split_lines(options.ref), strict=True)
    usual = (pair for pair in pairs if pair[0].strip() and not SPECIAL.search(pair[0]))
    model_dir = options.model / "model" if (options.model / "model").is_dir() else options.model
    translator = Translator.load(model_dir, precision="fp32")  # as alone as in a batch
    kept = list(islice(usual, options.documents * SENTENCES))
    head = ("form", "documents", "every mark", "in order", "BLEU", "BLEU plain", "difference")
    table = [head, *rows(kept, translator, len(kept) // SENTENCES)]
    print(align_columns(table, numbers=range(1, len(head))))


if __name__ == "__main__":
    main()
