"""A finished model → a smaller and faster one that learns from its translations.

Comes in: a teacher, or several that vote, and text of the source language. Goes out: in the run of
the student its corpus, `data/distilled/`, and its configuration, `student.yaml`, which is trained
as any other; then both models side by side, in the student's metadata.

Source: Kim and Rush 2016, "Sequence-Level Knowledge Distillation"; Kasai et al. 2021, "Deep
Encoder, Shallow Decoder".
"""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

import torch

from transformer_mt.config.data import Languages
from transformer_mt.config.experiment import Config, changed_config, load_config
from transformer_mt.corpus.clean import test_names
from transformer_mt.corpus.readers.lines import missing
from transformer_mt.errors import ConfigError, DataError, TmtError
from transformer_mt.evaluation.metrics import Scorer
from transformer_mt.evaluation.test_sets import (
    EvaluationSet,
    describe_model,
    read_dev_sets,
    read_test_sets,
)
from transformer_mt.export.training_data import training_data
from transformer_mt.messages.catalogue import tr
from transformer_mt.model_dir import (
    DISTILLED,
    add_metadata,
    read_metadata,
    weights_digest,
)
from transformer_mt.pipeline.run_dir import Run, find_model
from transformer_mt.rendering.progress import Stages
from transformer_mt.system.output import write_text
from transformer_mt.system.state import Damaged, fingerprint, read_json
from transformer_mt.system.terminal import Say
from transformer_mt.training.checkpoint import CheckpointStore
from transformer_mt.translation.backtranslate import inputs_print, translate_corpus
from transformer_mt.translation.direction import direction_of_file
from transformer_mt.translation.translator import Translator

MOST_ENCODER_LAYERS = 6  # that a student gets for decoder layers that it has not
_N_TIMED, _ROUNDS = 300, 3  # sentences of dev, each time, after a round to warm up


@dataclass(frozen=True)
class Teacher:
    """One model, or several that vote."""

    model_dirs: list[Path]
    cfg: Config  # of the first
    direction: Languages  # that the student learns
    clean_dir: Path | None  # with the training text of the first, and its dev and test sets

    @classmethod
    def find(cls, models: Sequence[Path], to: str | None) -> "Teacher":
        """Look for models as `find_model` does; `to` is a language that they write.

        Raises:
            TmtError: a run that has not finished, no model, or a direction that it has not.
        """
        model_dirs = [find_model(path) for path in models]
        for path in model_dirs:
            read_metadata(path)
        cfg = load_config(model_dirs[0] / "config.yaml")
        direction = direction_of_file(model_dirs[0], cfg.languages, to)
        clean_dir = Run(model_dirs[0].parent).clean_dir
        has_text = all((clean_dir / f"{part}.src").is_file() for part in ("train", "dev"))
        one_way = direction.model_copy(update={"bidirectional": False})
        return cls(model_dirs, cfg, one_way, clean_dir if has_text else None)

    @property
    def student_name(self) -> str:
        """Of a teacher of both directions there are two students."""
        pair = f"-{self.direction.pair}" if self.cfg.languages.bidirectional else ""
        return f"{self.cfg.name}{pair}-student"

    @property
    def matrix_parameters(self) -> int:
        """Of the largest of them."""
        configs = [load_config(path / "config.yaml") for path in self.model_dirs]
        return max(cfg.model.matrix_parameters for cfg in configs)

    def files(self, part: str) -> list[str]:
        """Source and target of a part of the clean text, in the student's order."""
        assert self.clean_dir is not None
        sides = ["src", "tgt"] if self.direction.src == self.cfg.languages.src else ["tgt", "src"]
        return [str((self.clean_dir / f"{part}.{side}").absolute()) for side in sides]


def begin_student(
    teacher: Teacher, monos: Sequence[Path], run: Run, overrides: Sequence[str], *,
    beam: int | None, say: Say, fresh: bool = False, check: Callable[[Config], None] | None = None,
) -> Path:  # fmt: skip
    """Write the corpus and the configuration of a student into its run directory; the latter.

    Args:
        fresh: a student that was trained there is to be forgotten.
        check: called with the student's configuration before the work.
    Raises:
        DataError: no text to translate, or a missing file.
        ConfigError: see `student_config`; or a student of other text was trained there.
    """
    own = [Path(teacher.files("train")[0])] if teacher.clean_dir else []
    texts, names = [*own, *monos], ["train"] * len(own)
    names += [f"mono{i}" for i in range(1, len(monos) + 1)]
    if run.directory.resolve() in (path.resolve().parent for path in teacher.model_dirs):
        raise TmtError(tr("{}: is the teacher's run; name another, --run-dir DIR", run.directory))
    for mono in monos:  # before hours of translating the others
        if not mono.exists():
            raise DataError(missing(mono))
    if not texts:
        raise DataError(
            tr(
                "{}: does not lie in a run that keeps its training text: give text of the source "
                "language, --mono FILE",
                teacher.model_dirs[0],
            )
        )
    prefixes = [run.directory.absolute() / "data" / "distilled" / name for name in names]
    cfg = student_config(teacher, prefixes, overrides)  # its mistakes are told before the work
    path = run.directory / "student.yaml"
    if not fresh and path.is_file() and CheckpointStore(run.checkpoints_dir, {}).has_any():
        _refuse_other_text(teacher, dict(zip(prefixes, texts, strict=True)), cfg, run, beam)
    if check is not None:
        check(cfg)
    first, *others = teacher.model_dirs
    with run.held():
        for text, prefix in zip(texts, prefixes, strict=True):
            say(tr("[distill] translating {}", text))
            made = translate_corpus(
                first, text, prefix, others=others, to=teacher.direction.tgt, beam=beam, say=say
            )
            say(tr("{:,} pairs; left out: {:,} empty, {:,} cut", made.pairs, made.empty, made.cut))
        write_text(path, cfg.to_yaml())
    return path


def _refuse_other_text(
    teacher: Teacher, texts: Mapping[Path, Path], cfg: Config, run: Run, beam: int | None
) -> None:
    """Args: texts: by the prefix of their translations."""
    changed = []
    for prefix, text in texts.items():
        report: dict[str, Any] = {}
        with suppress(Damaged):
            report = read_json(prefix.with_name(f"{prefix.name}.json")) or {}
        made_from = inputs_print(teacher.model_dirs, text, teacher.direction, beam)
        if report.get("made_from") != made_from:
            changed.append(str(text))
    before = load_config(run.directory / "student.yaml")
    names = [[Path(str(source)).name for source in one.data.train] for one in (before, cfg)]
    if changed or names[0] != names[1]:
        raise ConfigError(
            tr(
                "{}: a student was trained here with other text, teachers, --to or --beam: {}; "
                "--fresh begins anew, another --run-dir beside it",
                run.directory,
                ", ".join(changed) or "data.train",
            )
        )


def student_config(teacher: Teacher, prefixes: Sequence[Path], overrides: Sequence[str]) -> Config:
    """The teacher's experiment with another corpus, a deep encoder, a shallow decoder, no beam.

    Args:
        prefixes: of the corpora that the teacher writes.
        overrides: as `--set` has them.
    Raises:
        ConfigError: a mistake in `overrides`, a student larger than its teacher, or no dev or test.
    """
    tree, model = teacher.cfg.model_dump(), teacher.cfg.model
    tree["name"] = teacher.student_name
    tree["languages"] = teacher.direction.model_dump()
    tree["data"] |= {"train": [{"path": str(path)} for path in prefixes], "dev": [], "test": {}}
    if teacher.clean_dir is not None:
        names = test_names(teacher.clean_dir)
        tree["data"]["dev"] = [{"files": teacher.files("dev")}]
        tree["data"]["test"] = {name: {"files": teacher.files(f"test.{name}")} for name in names}
    tree["tokenizer"]["path"] = str(teacher.model_dirs[0].absolute())
    decoder_layers = 2 if model.decoder_layers > 2 else 1
    deep = min(MOST_ENCODER_LAYERS, model.encoder_layers + model.decoder_layers - decoder_layers)
    tree["model"]["encoder_layers"] = max(model.encoder_layers, deep)
    tree["model"]["decoder_layers"] = decoder_layers
    if teacher.cfg.train.precision != "fp32":
        tree["train"]["precision"] = "auto"  # the student may be trained on another machine
    of_run = Run(teacher.model_dirs[0].parent).config_path
    if not of_run.is_file() or load_config(of_run).train.max_tokens == "auto":
        tree["train"]["max_tokens"] = "auto"  # where the model directory has a number
    tree["decode"] |= {"beam": 1, "channel": 0.0}
    cfg = changed_config(tree, tr("the student"), overrides)
    if not (cfg.data.dev and cfg.data.test):
        raise ConfigError(
            tr(
                "{}: does not lie in a run with dev and test sets; name some, such as --set "
                "'data.dev=[my/dev]' --set 'data.test={{news: my/test}}'",
                teacher.model_dirs[0],
            )
        )
    own, most = cfg.model.matrix_parameters, teacher.matrix_parameters
    if own > most:
        raise ConfigError(
            tr(
                "the student would have {:,} parameters in its layers, its teacher has {:,}: make "
                "model.encoder_layers, model.d_model or model.ffn smaller",
                own,
                most,
            )
        )
    return cfg


def compare_with_teacher(
    teacher: Teacher, run: Run, monos: Sequence[Path], stages: Stages
) -> dict[str, Any]:
    """Measure both on the student's dev and test sets; the student's metadata keep it.

    Returns:
        `teacher` and `student`, each with names, parameters, bytes of all files, beam, scores
        and sentences/s; and `sources`, the texts that the student has its knowledge from.
    """
    cfg = load_config(run.model_dir / "config.yaml")
    dirs = {"teacher": teacher.model_dirs, "student": [run.model_dir]}
    weights = [weights_digest(path) for path in chain(*dirs.values())]
    measured = fingerprint(weights, *(one.decode.to_fingerprint() for one in (teacher.cfg, cfg)))
    known: dict[str, Any] = read_metadata(run.model_dir).get(DISTILLED, {})
    if known.get("measured") == measured:
        return known
    sets = read_dev_sets(run.clean_dir, cfg.languages)
    sets += read_test_sets(run.clean_dir, cfg.languages)
    translators = {name: Translator.load(*paths) for name, paths in dirs.items()}
    stages.begin(tr("measuring speed"), 2 * (_ROUNDS + 1))
    speeds = _speeds(translators, sets[0], stages)
    found: dict[str, Any] = {"measured": measured, "device": translators["student"].device.type}
    found["sources"] = training_data(teacher.model_dirs[0], teacher.cfg)
    found["sources"] += [{"name": mono.name, "kept": None, "origins": []} for mono in monos]
    stages.begin(tr("translating dev and test sets"), 2 * len(sets))
    for name, translator in translators.items():
        scores = {}
        for one in sets:
            hyps = translator.translate_texts(one.srcs, to=one.tgt)
            scored = Scorer(one.tgt).score(hyps, one.refs)
            scores[one.name] = {metric: score.to_json() for metric, score in scored.items()}
            stages.advance()
        about = [describe_model(path) for path in dirs[name]]
        files = chain.from_iterable(path.iterdir() for path in dirs[name])
        found[name] = {
            "names": [one["name"] for one in about],
            "parameters": sum(one["parameters"] for one in about),
            "bytes": sum(file.stat().st_size for file in files),
            "beam": translator.cfg.decode.beam,
            "sentences_per_s": round(speeds[name], 1),
            "scores": scores,
        }
    add_metadata(run.model_dir, {DISTILLED: found})
    return found


def _speeds(
    translators: Mapping[str, Translator], dev: EvaluationSet, stages: Stages
) -> dict[str, float]:
    """Sentences per second of each, by turns; on a CPU per second of one core's work."""
    on_cpu = all(one.device.type == "cpu" for one in translators.values())
    clock = time.process_time if on_cpu else time.perf_counter  # others may keep the cores busy
    texts, seconds = dev.srcs[:_N_TIMED], defaultdict[str, list[float]](list)
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for _ in range(_ROUNDS + 1):
            for name, translator in translators.items():
                started = clock()
                translator.translate_texts(texts, to=dev.tgt)
                seconds[name].append(clock() - started)
                stages.advance()
    finally:
        torch.set_num_threads(n_threads)
    return {name: len(texts) / median(took[1:]) for name, took in seconds.items()}
