"""`tmt distill`: a student in one command, which goes on after a kill, and can be trained again."""

import json
import multiprocessing
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from command import tmt_here
from pairs_of_text import write_sides
from safetensors.torch import load_file
from timed_by_size import time_by_size

from transformer_mt.cli.distill import for_minutes
from transformer_mt.config.experiment import build_config, load_config
from transformer_mt.export.card import model_card
from transformer_mt.model_dir import add_metadata, save_model_dir, weights_of
from transformer_mt.pipeline import distill, start
from transformer_mt.pipeline.run_dir import Run
from transformer_mt.translation import backtranslate
from transformer_mt.translation.translator import Translator

_RULES = ("mismatch", "duplicate", "length_ratio", "numbers", "repeated", "identical")
_TRAIN = {
    "max_updates": 4, "max_tokens": 600, "tokens_per_update": 300, "validate_every": 2, "lr": 5e-3,
    "warmup_updates": 2, "cooldown_updates": 0, "average": 0, "keep_last": 1, "precision": "fp32",
}  # fmt: skip


@pytest.fixture(scope="module")
def teacher(
    tmp_path_factory: pytest.TempPathFactory,
    translator: Translator,
    tokenizer_dir: Path,
    toy_pairs: list[tuple[str, str]],
) -> Run:
    """A run whose model was trained for a second, with its clean text."""
    run = Run(tmp_path_factory.mktemp("runs") / "teacher")
    tree = translator.cfg.model_dump()
    clean = {**dict.fromkeys(_RULES, False), "overlap": False}
    tree["data"] |= {"workers": 1, "clean": tree["data"]["clean"] | clean}
    cfg = build_config(tree | {"name": "teacher", "train": _TRAIN}, "teacher")
    run.claim()
    run.config_path.write_text(cfg.to_yaml(), encoding="utf-8")
    run.clean_dir.mkdir(parents=True)
    for part, pairs in {
        "train": toy_pairs,
        "dev": toy_pairs[:9],
        "test.toy": toy_pairs[:5],
    }.items():
        write_sides(run.clean_dir / part, pairs, ("src", "tgt"))
    weights = weights_of(translator.model)
    save_model_dir(run.model_dir, cfg, weights, tokenizer_dir, {"name": "teacher", "scores": {}})
    return run


def words(teacher: Run, run: Run, *more: str | Path) -> list[str | Path]:
    options: list[str | Path] = ["--run-dir", run.directory, "--processes", "1", *more]
    return ["distill", "-m", teacher.directory, *options]


@pytest.fixture(scope="module")
def student(teacher: Run) -> tuple[Run, str]:
    """The student's run, and the table of both models."""
    run = Run(teacher.directory.with_name("student"))
    return run, tmt_here(*words(teacher, run)).stdout


def weights_in(run: Run) -> dict[str, Any]:
    return load_file(run.model_dir / "model.safetensors")


def same(ours: dict[str, Any], theirs: dict[str, Any]) -> bool:
    return ours.keys() == theirs.keys() and all(ours[k].equal(v) for k, v in theirs.items())


def test_the_student_has_the_teachers_words_and_tokenizers(
    teacher: Run, student: tuple[Run, str]
) -> None:
    run, _ = student
    srcs, tgts = (
        (run.directory / f"data/distilled/train.{code}").read_text().splitlines()
        for code in ("zh", "en")
    )
    texts = (teacher.clean_dir / "train.src").read_text().splitlines()
    found = Translator.load(teacher.model_dir).translate_texts(texts)  # with its own beam
    written = dict(zip(texts, found, strict=True))
    assert len(srcs) > 150 and [written[src] for src in srcs] == tgts
    for name in ("tokenizer.src.model", "tokenizer.tgt.model"):
        ours, theirs = (path / name for path in (run.model_dir, teacher.model_dir))
        assert ours.read_bytes() == theirs.read_bytes()
    cfg = load_config(run.model_dir / "config.yaml")
    assert (cfg.name, cfg.decode.beam) == ("teacher-student", 1)
    assert (cfg.model.encoder_layers, cfg.model.decoder_layers) == (3, 1)
    for part in ("dev", "test.toy"):
        ours, theirs = (one.clean_dir / f"{part}.tgt" for one in (run, teacher))
        assert ours.read_bytes() == theirs.read_bytes()


def test_both_models_stand_beside_each_other(student: tuple[Run, str]) -> None:
    run, table = student
    rows = {line[:24].strip(): line[24:].split() for line in table.splitlines()}
    info = json.loads(tmt_here("info", "-m", run.directory, "--json").stdout)
    known = info["distilled"]
    assert rows["beam"] == ["3", "1"]
    for metric in ("bleu", "chrf"):
        dev = [known[name]["scores"]["dev"][metric]["score"] for name in ("teacher", "student")]
        assert rows[f"dev {metric}"] == [f"{score:.2f}" for score in dev]
        own = known["student"]["scores"]["toy"][metric]
        assert own == info["scores"]["toy"][metric], "as the training has scored it"
    assert known["student"]["parameters"] == info["parameters"]
    assert all(known[name]["sentences_per_s"] > 0 for name in ("teacher", "student"))
    card = model_card(run.model_dir, "me/student")
    assert "translations that teacher wrote" in card and "| toy bleu |" in card
    assert "| the bundled corpus |" in card, "the text that the teacher has learned from"


def test_the_same_command_again_does_nothing(
    teacher: Run, student: tuple[Run, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, table = student
    monkeypatch.setattr(Translator, "translate", None)
    monkeypatch.setattr(Translator, "translate_texts", None)
    assert tmt_here(*words(teacher, run)).stdout == table


def test_another_student_is_refused_before_the_work(
    teacher: Run, student: tuple[Run, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, mono, start = student[0], tmp_path / "more.zh", student[0].directory / "start.yaml"
    mono.write_text("猫看见狗。\n", encoding="utf-8")
    monkeypatch.setattr(distill, "translate_corpus", lambda *_, **__: pytest.fail("translated"))
    config = (run.directory / "student.yaml").read_text(encoding="utf-8")
    start.write_text(config.replace("seed: ", "seed: 9"), encoding="utf-8")
    for more, told in (
        (["--beam", "2"], "with other text, teachers, --to or --beam: "),
        (["--mono", mono], f"--beam: {mono}; --fresh begins anew, another --run-dir"),
        (["--minutes", "9"], "start.yaml: the training began with other settings: seed"),
    ):
        assert told in tmt_here(*words(teacher, run, *more), code=2).stderr
    assert (run.directory / "student.yaml").read_text(encoding="utf-8") == config
    start.unlink()
    found = distill.Teacher.find([teacher.directory], None)
    with pytest.raises(pytest.fail.Exception, match="translated"):
        distill.begin_student(found, [mono], run, [], beam=None, say=print, fresh=True)


def test_its_configuration_alone_trains_the_same_student(
    student: tuple[Run, str], tmp_path: Path
) -> None:
    run, again = student[0], Run(tmp_path / "again")
    config = run.directory / "student.yaml"
    tmt_here("train", config, "--run-dir", again.directory, "--processes", "1")
    assert same(weights_in(again), weights_in(run))


def test_minutes_choose_a_schedule_and_no_size(
    student: tuple[Run, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed = time_by_size(monkeypatch)
    path = student[0].directory / "student.yaml"
    made = load_config(for_minutes(path, [], 3.0, 1, tmp_path / "run", fresh=False))
    own = load_config(path)
    assert (made.train.max_minutes, own.train.max_minutes) == (3.0, None)
    assert made.train.cooldown_updates != own.train.cooldown_updates
    for model in (made.model, *timed):
        assert model.model_copy(update={"dropout": own.model.dropout}) == own.model
    n_updates = 0.8 * 180 / max(1.0, made.train.tokens_per_update / 1000)
    assert 8 * made.train.validate_every == pytest.approx(n_updates, abs=5)
    assert (made.data, made.tokenizer, made.decode) == (own.data, own.tokenizer, own.decode)
    said = ["train.lr=0.001", "train.tokens_per_update=900", "model.dropout=0.45"]
    kept = load_config(for_minutes(path, said, 3.0, 1, tmp_path / "kept", fresh=False))
    assert (kept.train.lr, kept.train.tokens_per_update, kept.model.dropout) == (0.001, 900, 0.45)


def test_killed_between_two_stages_it_goes_on(
    teacher: Run, student: tuple[Run, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the corpus, and after the training: each is made once, and the student is the same."""
    run = Run(tmp_path / "killed")

    def killed_in(module: Any, name: str) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(module, name, lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
            fork = multiprocessing.get_context("fork")
            child = fork.Process(target=tmt_here, args=words(teacher, run))
            child.start()
            child.join(120)
        assert child.exitcode == -signal.SIGKILL

    killed_in(start, "train_experiment")
    assert (run.directory / "student.yaml").is_file() and not run.model_dir.exists()
    with monkeypatch.context() as patch:
        patch.setattr(backtranslate, "run_shards", None)  # which writes the corpus
        killed_in(distill, "read_dev_sets")
    assert same(weights_in(run), weights_in(student[0]))
    monkeypatch.setattr(start, "train_experiment", lambda *_, **__: {})
    table = tmt_here(*words(teacher, run)).stdout
    score = [line for line in student[1].splitlines() if line.startswith("dev bleu")]
    assert [line for line in table.splitlines() if line.startswith("dev bleu")] == score


def test_models_that_vote_and_more_text(teacher: Run, tmp_path: Path) -> None:
    mono, run = tmp_path / "more.zh", Run(tmp_path / "run")
    mono.write_text("猫看见狗。\n\n老师喜欢书。\n", encoding="utf-8")
    found = distill.Teacher.find([teacher.directory, teacher.model_dir], None)
    path = distill.begin_student(found, [mono], run, ["seed=7"], beam=1, say=print)
    cfg = load_config(path)
    assert cfg.seed == 7
    assert [Path(str(source)).name for source in cfg.data.train] == ["train", "mono1"]
    made = json.loads((run.directory / "data/distilled/mono1.json").read_text())
    assert (made["pairs"], made["empty"]) == (2, 1)


def test_a_teacher_of_both_directions_has_a_student_of_one(teacher: Run, tmp_path: Path) -> None:
    tree = load_config(teacher.config_path).model_dump()
    tree["languages"]["bidirectional"] = tree["tokenizer"]["joint"] = True
    cfg = build_config(tree, "both")
    (tmp_path / "config.yaml").write_text(cfg.to_yaml(), encoding="utf-8")
    found = distill.Teacher([tmp_path], cfg, cfg.languages.reversed(), teacher.clean_dir)
    made = distill.student_config(found, [tmp_path / "train"], [])
    assert (made.name, made.languages.pair) == ("teacher-en-zh-student", "en-zh")
    assert [Path(name).name for name in made.data.dev[0].files or ()] == ["dev.tgt", "dev.src"]


@pytest.mark.parametrize(
    ("model", "more", "told"),
    [
        ("unfinished", [], "its training has not finished; tmt train {}/config.yaml"),
        ("nothing", [], "no such model directory"),
        ("alone", [], "not lie in a run that keeps its training text: give text of the source"),
        ("alone", ["--mono", "mono.zh"], "with dev and test sets; name some, such as --set"),
        ("teacher", ["--mono", "mono.txt"], "mono.txt: no such file; near names in .: mono.zh"),
        ("teacher", ["--set", "model.ffn=512"], "in its layers, its teacher has 40,960: make"),
        ("teacher", ["--set", "model.layers=2"], "model.layers: unknown key"),
        ("teacher", ["--run-dir", "{}"], "{}: is the teacher's run; name another, --run-dir"),
        ("teacher", ["--minutes", "0"], "--set train.max_minutes: expected a number greater"),
        ("teacher", ["--minutes", "1", "--set", "model.architecture=rnn"], "for Transformers"),
        ("teacher", ["--to", "de"], "--to de: this model translates zh → en only"),
    ],
)  # fmt: skip
def test_mistakes_are_told_before_the_work(
    teacher: Run, tmp_path: Path, model: str, more: list[str], told: str
) -> None:
    shutil.copytree(teacher.model_dir, tmp_path / "alone")
    shutil.copytree(teacher.directory, tmp_path / "unfinished")
    shutil.rmtree(tmp_path / "unfinished" / "model")
    (tmp_path / "mono.zh").write_text("猫看见狗。\n", encoding="utf-8")
    path = teacher.directory if model == "teacher" else tmp_path / model
    done = tmt_here(
        "distill",
        "-m",
        path,
        "--run-dir",
        "made",
        *(word.format(path) for word in more),
        cwd=tmp_path,
        code=2,
    )
    assert told.format(path) in done.stderr
    assert not (tmp_path / "made").exists()


def test_more_metadata_keeps_the_rest(teacher: Run, tmp_path: Path) -> None:
    path = tmp_path / "model"
    shutil.copytree(teacher.model_dir, path)
    before = json.loads((path / "metadata.json").read_text())
    add_metadata(path, {"more": [1]})
    Translator.load(path)
    after = json.loads((path / "metadata.json").read_text())
    assert after["more"] == [1] and after["digest"] != before["digest"]
    assert {k: after[k] for k in before if k != "digest"} == {
        k: v for k, v in before.items() if k != "digest"
    }
