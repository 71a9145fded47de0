"""Every function that a text passes, from cleaning to translation, as a function of one text.

Comes in: a folder for files, and a model for its tokenizers. Goes out: functions by name. This file
does not know what is done with them.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import get_args

from hostile_texts import PHRASES

from transformer_mt.config.data import Languages
from transformer_mt.config.model import TokenizerConfig
from transformer_mt.config.yaml_text import parse_yaml
from transformer_mt.corpus.cleaning.lexical_model import _Pairs
from transformer_mt.corpus.cleaning.rules import ForeignLanguage, PairScorer, comparison_key
from transformer_mt.corpus.diagnostics.line_units import LineUnits
from transformer_mt.corpus.diagnostics.source_watch import SourceWatch
from transformer_mt.corpus.readers.lines import split_lines
from transformer_mt.corpus.readers.sgm import read_sgm_pair
from transformer_mt.corpus.readers.tables import read_jsonl, read_tsv
from transformer_mt.corpus.readers.tmx_xliff import read_markup
from transformer_mt.corpus.report.profile import profile
from transformer_mt.encoding.tokenizer import Tokenizer, train_tokenizer
from transformer_mt.errors import ConfigError
from transformer_mt.evaluation.contrast import read_contrast
from transformer_mt.evaluation.error_checks import CHECKS, Case
from transformer_mt.evaluation.metrics import Scorer
from transformer_mt.rendering.cells import clip
from transformer_mt.search.loop_detection import most_repeated
from transformer_mt.text.normalise import ChineseScript, Normaliser
from transformer_mt.text.sentences import join_translations, split_sentences, split_text
from transformer_mt.text.units import text_units
from transformer_mt.text.words import mark_differences, split_pieces
from transformer_mt.translation.direction import direction_of
from transformer_mt.translation.documents.forms import Form
from transformer_mt.translation.documents.spans import has_words, protected_spans
from transformer_mt.translation.documents.translate import translate_document
from transformer_mt.translation.glossary import Glossary, Term
from transformer_mt.translation.lexical_constraints import ConstraintEncoder
from transformer_mt.translation.output_checks import faults
from transformer_mt.translation.segment_search import most_agreed

Function = Callable[[str], object]

ZH_EN, EN_DE = Languages(src="zh", tgt="en"), Languages(src="en", tgt="de")
OTHER = {
    "zh": "今天三点，天气很好。",
    "en": "The weather is fine at three today.",
    "de": "Schön um 3.",
}


def text_functions(folder: Path, model_dir: Path | None = None) -> dict[str, Function]:
    """All functions.

    Args:
        folder: for files that are read.
        model_dir: for its tokenizers; None: a small one is learned.
    """
    return {
        **dict(_cleaning()),
        **dict(_files(folder)),
        **dict(_tokens(folder, model_dir)),
        **dict(_translating()),
        **dict(_evaluating()),
    }


def _cleaning() -> Iterator[tuple[str, Function]]:
    for code in ("en", "zh", "de"):
        yield f"normalise {code}", Normaliser(code, None)
    for script in get_args(ChineseScript):
        try:
            yield f"normalise {script}", Normaliser("zh", script)
        except ConfigError:  # opencc is not installed
            break
    yield "language", ForeignLanguage("en")
    yield "comparison_key", comparison_key
    for languages in (ZH_EN, EN_DE):
        scorer = PairScorer(languages)
        src, tgt = OTHER[languages.src], OTHER[languages.tgt]
        yield f"scores {languages.pair} source", partial(_swap(scorer.scores), tgt)
        yield f"scores {languages.pair} target", partial(scorer.scores, src)
        yield f"scores {languages.pair} both", _twice(scorer.scores)
    yield "text_units", lambda text: text_units([text])
    yield (
        "lexical units",
        lambda text: _Pairs.at([text], [text], [0], [0]),
    )
    yield "line_units", lambda text: LineUnits.of([text])
    yield "watch", lambda text: list(SourceWatch("x", ZH_EN).observe([(text, text)] * 2))
    yield "profile", lambda text: profile([(text, text)], ZH_EN)
    yield "clip", lambda text: clip(text, 80)


def _files(folder: Path) -> Iterator[tuple[str, Function]]:
    """Readers: the text is a file, or a line of one among others."""

    def reading(name: str, read: Callable[[Path], object], form: str) -> tuple[str, Function]:
        def function(text: str) -> object:
            path = folder / f"text.{name}"
            path.write_text(form.format(text), encoding="utf-8", newline="")
            return read(path)

        return f"read {name}", function

    unit = "<tu><tuv xml:lang='zh'><seg>{0}</seg></tuv><tuv xml:lang='en'><seg>a</seg></tuv></tu>"
    sgm = "<srcset><doc docid='a'><seg id='1'>{0}</seg></doc></srcset>"
    yield reading("lines", lambda path: list(split_lines(path)), "{0}")
    yield reading("tsv", lambda path: list(read_tsv(path)), "a\tb\n{0}\tb\n")
    yield reading("jsonl", lambda path: list(read_jsonl(path, ZH_EN, swapped=False)), "{0}\n")
    yield reading("tmx", lambda path: list(read_markup(path, ZH_EN)), f"<tmx>{unit}</tmx>")
    yield reading("sgm", lambda path: list(read_sgm_pair(path, path)), sgm)
    yield reading("glossary", Glossary.read, "{0}\tb\n")
    yield reading("contrast", read_contrast, "{0}\tb\tc\n")
    yield "yaml", lambda text: parse_yaml(text, "x.yaml")
    yield "yaml value", lambda text: parse_yaml(f"a: {text}\nb: 1\n", "x.yaml")
    for form in get_args(Form):
        name = f"document {form}"
        yield name, lambda text, form=form: translate_document(text, form, _shouted)
    yield (
        "document jsonl line",
        lambda text: translate_document('{"text": "' + text + '"}\n', "jsonl", _shouted),
    )
    yield (
        "document segments",
        lambda text: translate_document(
            text, "markdown", lambda segments: [text[: 2 * len(s)] for s in segments]
        ),
    )


def _shouted(segments: list[str]) -> list[str]:
    return [segment.upper() for segment in segments]


def _tokens(folder: Path, model_dir: Path | None) -> Iterator[tuple[str, Function]]:
    if model_dir is None:
        path = folder / "growth.model"
        cfg = TokenizerConfig.model_validate({"vocab_size": 700, "byte_fallback": True})
        train_tokenizer(list(PHRASES) * 3, path, cfg, ["zh", "en"], seed=1)
    else:
        path = next(p for p in sorted(model_dir.rglob("tokenizer*.model")))
    tokenizer = Tokenizer.load(path)
    yield "encode", lambda text: tokenizer.encode([text])
    yield "encode two", lambda text: tokenizer.encode([text, text])
    yield "decode", lambda text: tokenizer.decode(tokenizer.encode([text]))
    for language in ("zh", "en"):
        encoder = ConstraintEncoder(tokenizer, language)
        yield f"required {language}", encoder.required
        yield f"banned {language}", lambda text, encoder=encoder: encoder.banned([text])
    yield "most_repeated", lambda text: most_repeated(tokenizer.encode([text])[0])

    def fits(part: str) -> bool:
        return len(tokenizer.encode([part])[0]) <= 100

    yield "split_text tokens", lambda text: split_text(text, fits, "zh")


def _translating() -> Iterator[tuple[str, Function]]:
    for code in ("en", "zh", "fr", "de"):
        yield f"split_sentences {code}", lambda text, code=code: split_sentences(text, code)
    for code in ("en", "zh"):
        yield f"split_text {code}", lambda text, code=code: split_text(text, _fits, code)
    yield "join", lambda text: join_translations(split_sentences(text, "en"), "en")
    for languages in (ZH_EN, EN_DE):
        sides = {"src": languages.src, "tgt": languages.tgt}
        find, pair, src = partial(faults, **sides), languages.pair, OTHER[languages.src]
        yield f"faults {pair} source", partial(_swap(find), OTHER[languages.tgt])
        yield f"faults {pair} target", partial(find, src)
        yield f"faults {pair} both", _twice(find)
    yield "protected_spans", protected_spans
    yield "has_words", has_words
    yield "direction", lambda text: direction_of(text, _both_ways(), None)
    glossary = Glossary([Term("the cat", "Katze", 1), Term("哈哈", None, 2), Term("a", "b", 3)])
    yield "glossary", glossary.required
    yield "long glossary", lambda text: Glossary([Term(text, "x", 1)]).required(text)


def _fits(part: str) -> bool:
    return len(part) <= 100


def _both_ways() -> Languages:
    return Languages(src="zh", tgt="en", bidirectional=True)


def _evaluating() -> Iterator[tuple[str, Function]]:
    for kind, (find, _) in CHECKS.items():
        for languages in (ZH_EN, EN_DE):
            src, tgt = languages.src, languages.tgt
            yield (
                f"check {kind} {languages.pair}",
                lambda text, f=find, s=src, t=tgt: [
                    f(Case(*texts, s, t))
                    for texts in (
                        (text, text, text),
                        (text, text, OTHER[t]),
                        (OTHER[s], OTHER[t], text),
                    )
                ],
            )
    for code in ("en", "zh"):
        yield f"pieces {code}", partial(_swap(split_pieces), code)
        yield (
            f"differences {code}",
            lambda text, code=code: mark_differences(text, text[1:] + "x", code),
        )
    yield "most_agreed", lambda text: most_agreed([text, text[1:], "x"])
    for code in ("en", "zh"):
        scorer = Scorer(code)
        yield f"score {code}", lambda text, scorer=scorer: scorer.score([text], [text[1:]])


def _swap(function: Callable[..., object]) -> Callable[[str, str], object]:
    return lambda second, first: function(first, second)


def _twice(function: Callable[..., object]) -> Function:
    return lambda text: function(text, text)
