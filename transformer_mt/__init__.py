"""tmt, a translation trainer: from two text files to a scored translator.

    import transformer_mt as tmt

    trained = tmt.train("tiny", {"train.max_minutes": 10})
    with tmt.load(trained.model_dir) as model:
        print(model.translate(["这只动物没有穿过街道，因为它太累了。"])[0].text)

Nothing is imported before it is needed; see docs/python.md.
"""

# `python -m transformer_mt` runs this file while the current folder is still on the search path
# (see `__main__.py`): here only modules are imported that Python has loaded for itself.
from transformer_mt.errors import TmtError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike
    from pathlib import Path

    from transformer_mt.evaluation.systems import Evaluation
    from transformer_mt.pipeline.start import TrainedModel
    from transformer_mt.translation.translation_model import TranslationModel

__all__ = ["TmtError", "evaluate", "load", "train"]
__version__ = "0.1.0"


def load(*models: "str | PathLike[str]", precision: str = "auto") -> "TranslationModel":
    """A trained model, ready to translate, score and explain.

    Args:
        models: a run directory, a model directory, or `hf:OWNER/NAME` on the Hub; several vote on
            each token; none: the newest finished run under `runs/`.
        precision: auto, fp32, bf16, fp16 or int8; auto is bf16 where the hardware multiplies it
            natively, int8 is for CPUs with VNNI.
    Raises:
        TmtError: there is no such model, it is damaged, or the models do not go together.
    """
    from transformer_mt.translation.translation_model import TranslationModel

    return TranslationModel(*_model_dirs(models), precision=precision)


def train(
    config: "str | PathLike[str]",
    settings: "Mapping[str, object] | None" = None,
    *,
    run_dir: "str | PathLike[str] | None" = None,
    reverse: bool = False,
    offline: bool = False,
    fresh: bool = False,
    processes: int | None = None,
) -> "TrainedModel":
    """Do what `tmt train` does: all that is missing, from raw text to a scored model.

    The same call again resumes a training that was stopped, or returns a finished one.

    Args:
        config: a YAML file, or the name of a bundled configuration, such as `tiny`.
        settings: changes of single settings, `{"train.max_minutes": 10}`.
        run_dir: where everything goes; None: `runs/<name>`.
        reverse: the same experiment in the other direction.
        offline: never use the network.
        fresh: forget checkpoints, metrics and model first.
        processes: that train together; None: one per GPU, or per core of a CPU.
    Raises:
        TrainingStopped: a signal, such as Ctrl-C, ended it early.
        TmtError: everything else that a user can mend.
    """
    from pathlib import Path

    from transformer_mt.pipeline.start import start_training

    return start_training(
        config,
        settings or {},
        run_dir=None if run_dir is None else Path(run_dir),
        reverse=reverse,
        offline=offline,
        fresh=fresh,
        processes=processes,
    )


def evaluate(
    *models: "str | PathLike[str]",
    texts: "tuple[Sequence[str], Sequence[str]] | None" = None,
    testset: str | None = None,
    metrics: "Sequence[str]" = ("bleu", "chrf"),
    to: str | None = None,
    beam: int | None = None,
) -> "Evaluation":
    """Translate test sets and score the translations with sacreBLEU, as `tmt eval` does.

    Args:
        models: run or model directories; of several, the first is the baseline of the others; none:
            the newest finished run.
        texts: sources and references.
        testset: a test set of sacreBLEU by name, such as `wmt17`. Without `texts` and `testset`:
            the test sets of the first model's run.
        metrics: of bleu, chrf, chrf++, ter, spbleu.
        to: the language to translate into, for models of both directions.
        beam: None: what each model's configuration says.
    Raises:
        TmtError: no such model, no test set, or texts that do not fit together.
    """
    from transformer_mt.evaluation.systems import evaluate_models

    return evaluate_models(
        _model_dirs(models), texts, testset=testset, metrics=metrics, to=to, beam=beam
    )


def _model_dirs(models: "Sequence[str | PathLike[str]]") -> "list[Path]":
    from pathlib import Path

    from transformer_mt.pipeline.run_dir import find_model

    return [find_model(Path(model)) for model in models] or [find_model(None)]
