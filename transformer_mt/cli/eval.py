"""The command `tmt eval`: parse, call, print."""

import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from transformer_mt.cli.options import (
    OUTPUT,
    AsJson,
    Device,
    Into,
    SearchPrecision,
    find_model_path,
    say,
    show,
)
from transformer_mt.errors import TmtError
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.terminal import terminal_width

if TYPE_CHECKING:
    from transformer_mt.evaluation.system_names import System
    from transformer_mt.evaluation.systems import Evaluation
    from transformer_mt.evaluation.test_sets import EvaluationSet

# The options, in the groups of `--help`.
_judged: Any = partial(Option, rich_help_panel="What is judged")
_texts: Any = partial(Option, rich_help_panel="Test sets")
_score: Any = partial(Option, rich_help_panel="Scores")
_out: Any = partial(Option, rich_help_panel=OUTPUT)
_MODELS = (
    "model or run directory, or hf:OWNER/NAME; repeat to compare; default: the newest finished run"
)
_TESTSET = "a test set of sacreBLEU by name, such as wmt17"
_SPBLEU = "BLEU over the sub-words of FLORES-200"
_LANG = "target language, with --hyp and without a model"
_FROM = "source language, where --lang is given"
_HYPS = "a file of translations, as one more system; repeat to compare"
_COMET = "also COMET, by a Python that has unbabel-comet"
_CONTRAST = "also accuracy on a TSV of source, right, wrong; may be repeated"
_ROBUSTNESS = "also lower-cased, without final marks, single words"
_REPORT = "write report.html and report.json: errors, sentences"


def evaluate(
    context: typer.Context,
    models: Annotated[list[Path] | None, _judged("-m", "--model", help=_MODELS)] = None,
    hyps: Annotated[list[Path] | None, _judged("--hyp", help=_HYPS)] = None,
    src: Annotated[Path | None, _texts("--src", help="source texts")] = None,
    ref: Annotated[Path | None, _texts("--ref", help="their references")] = None,
    testset: Annotated[str | None, _texts(help=_TESTSET)] = None,
    bleu: Annotated[bool, _score("--bleu", help="with chrF the default")] = False,
    chrf: Annotated[bool, _score("--chrf", help="character n-grams")] = False,
    chrf_words: Annotated[bool, _score("--chrf++", help="chrF with word bigrams")] = False,
    ter: Annotated[bool, _score("--ter", help="edits per word: less is better")] = False,
    spbleu: Annotated[bool, _score("--spbleu", help=_SPBLEU)] = False,
    comet: Annotated[Path | None, _score(metavar="PYTHON", help=_COMET)] = None,
    contrast: Annotated[list[Path] | None, _score(help=_CONTRAST)] = None,
    robustness: Annotated[bool, _score("--robustness", help=_ROBUSTNESS)] = False,
    lang: Annotated[str | None, _texts(help=_LANG)] = None,
    from_language: Annotated[str | None, _texts("--from", help=_FROM)] = None,
    to: Into = None,
    beam: Annotated[int | None, _judged(min=1, help="1 is greedy search")] = None,
    device: Device = "auto",
    precision: SearchPrecision = "auto",
    confidence: Annotated[bool, _score(help="95 % interval from 1000 bootstrap samples")] = False,
    min_bleu: Annotated[float | None, _out(help="exit 1 if BLEU is lower")] = None,
    report: Annotated[Path | None, _out(metavar="DIR", help=_REPORT)] = None,
    as_json: AsJson = False,
) -> None:
    """Score models and translations with sacreBLEU, by default with BLEU and chrF.

    The default test sets are those of the run of the first model. With several systems, the first
    named is the baseline, and the difference of each other one is tested by paired bootstrap.
    """
    chosen = {"bleu": bleu, "chrf": chrf, "chrf++": chrf_words, "ter": ter, "spbleu": spbleu}
    metrics = [name for name, on in chosen.items() if on]
    if min_bleu is not None and not 0 <= min_bleu <= 100:
        raise TmtError(tr("--min-bleu {}: expected a number from 0 to 100", min_bleu))
    if min_bleu is not None and metrics and not bleu:
        metrics.insert(0, "bleu")
    from transformer_mt.evaluation.systems import evaluate_systems
    from transformer_mt.rendering.progress import ShownStages
    from transformer_mt.system.output import check_folder_target

    if report:
        check_folder_target(report)
    systems = _systems(context, models or [], hyps or [])
    tests = _test_sets(systems, (src, ref), testset, (from_language, lang), to)
    if report and not all(test.src for test in tests):
        raise TmtError(tr("--report shows the sources, too: give --src FILE, and --from CODE"))
    with ShownStages() as stages:
        found = evaluate_systems(
            systems, tests, metrics or ("bleu", "chrf"), comet_python=comet,
            contrast_paths=contrast or (), to=to, beam=beam, confidence=confidence,
            precision=precision, robustness=robustness, stages=stages,
        )  # fmt: skip
    _print(found, as_json=as_json)
    if report:
        with ShownStages() as stages:
            stages.begin(tr("looking for errors, sentence by sentence"))
            _write_report(found, systems, report)
    if min_bleu is not None:
        _insist(found, [test.name for test in tests], min_bleu)


def _systems(context: typer.Context, models: list[Path], hyps: list[Path]) -> "list[System]":
    """The systems, in the order in which -m and --hyp were first named."""
    from transformer_mt.evaluation.system_names import name_systems

    if not models and not hyps:
        return name_systems([(find_model_path(None), True)])
    both = {
        "models": [(find_model_path(path), True) for path in models],
        "hyps": [(path, False) for path in hyps],
    }
    # Parameters are processed, and stored, in the order of the command line.
    order = sorted(both, key=list(context.params).index)
    return name_systems([entry for option in order for entry in both[option]])


def _test_sets(
    systems: "list[System]",
    files: tuple[Path | None, Path | None],
    testset: str | None,
    codes: tuple[str | None, str | None],
    to: str | None,
) -> "list[EvaluationSet]":
    """The test sets that the options mean: files, a name, or those of the first model's run."""
    from transformer_mt.config.data import Languages
    from transformer_mt.config.experiment import load_config
    from transformer_mt.evaluation import test_sets as evaluation
    from transformer_mt.text.languages import canonical_code

    src, ref = files
    from_code, code = codes
    if testset and (src or ref):
        raise TmtError(tr("give --testset NAME, or --src FILE and --ref FILE, not both"))
    model = next((system.path for system in systems if system.is_model), None)
    if model is not None:
        if from_code or code:
            raise TmtError(tr("--lang and --from go with --hyp alone: a model knows its languages"))
        languages = load_config(model / "config.yaml").languages
    elif not code or not (testset or ref):
        raise TmtError(tr("--hyp needs --ref FILE and --lang CODE, or a model beside it (-m)"))
    elif ref and not src:
        name = systems[0].name if len(systems) == 1 else ref.name
        return [evaluation.references_only(ref, canonical_code(code), name)]
    elif not from_code:
        raise TmtError(tr("sources without a model: say their language, too, --from CODE"))
    else:
        languages = Languages(src=canonical_code(from_code), tgt=canonical_code(code))
    if testset:
        return evaluation.named_test_sets(testset, languages, to, say)
    if src and ref:
        return [evaluation.files_test_set(src, ref, languages, to)]
    if model is None or src or ref:
        raise TmtError(tr("--src and --ref go together"))
    return evaluation.run_test_sets(model, languages, to)


def _print(found: "Evaluation", *, as_json: bool) -> None:
    """The scores; on standard error how many translations of each model have faults."""
    from transformer_mt.evaluation.metrics import fit_comparison, fit_scores

    if as_json:
        show(json.dumps(found.to_json()))
    elif len(found.systems) == 1:
        show(fit_scores(found.only_scores(), terminal_width(sys.stdout)))
    else:
        show(fit_comparison(found.scores, terminal_width(sys.stdout)))
    for test in found.tests:
        for system, counts in found.faults[test.name].items():
            if counts["any"]:
                kinds = ", ".join(f"{fault} {n}" for fault, n in counts.items() if fault != "any")
                n_texts = len(test.refs)
                say(
                    tr(
                        "{}: {} of {} by {} have faults: {}",
                        test.name,
                        counts["any"],
                        n_texts,
                        system,
                        kinds,
                    )
                )


def _write_report(found: "Evaluation", systems: "list[System]", directory: Path) -> None:
    from transformer_mt.evaluation.report import describe_evaluation, write_evaluation_page
    from transformer_mt.evaluation.test_sets import training_text
    from transformer_mt.system.output import write_json, writing_files

    model = next((system.path for system in systems if system.is_model), None)
    training = {test.tgt: model and training_text(model, test.tgt) for test in found.tests}
    content = describe_evaluation(found, training)
    with writing_files(directory) as folder:
        write_json(folder / "report.json", content)
        write_evaluation_page(content, found, folder / "report.html")
    say(tr("report: {}", directory / "report.html"))


def _insist(found: "Evaluation", names: list[str], min_bleu: float) -> None:
    """Exit with 1 where a BLEU on one of these test sets is too low."""
    one = len(found.systems) == 1
    low = [
        name if one else f"{name} ({system})"
        for name in names
        for system, scores in found.scores[name].items()
        if scores["bleu"].score < min_bleu
    ]
    if low:
        say(tr("tmt: BLEU is below {} on {}", min_bleu, ", ".join(low)))
        raise typer.Exit(1)
