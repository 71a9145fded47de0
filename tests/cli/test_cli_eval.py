"""`tmt eval` in this process, with a small untrained model in a run of its own, and with files."""

import hashlib
import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from loopback import Server, running
from pairs_of_text import write_sides
from typer.testing import CliRunner

from transformer_mt.cli.eval import evaluate
from transformer_mt.config.experiment import Config
from transformer_mt.errors import DataError, TmtError
from transformer_mt.evaluation.system_names import name_systems
from transformer_mt.evaluation.test_sets import EvaluationSet, count_seen

Pairs = list[tuple[str, str]]
APP = typer.Typer()
APP.command("eval")(evaluate)


def tmt_eval(*arguments: str | Path, code: int = 0) -> tuple[str, str]:
    """Standard output and standard error; errors that are not exits come through."""
    result = CliRunner().invoke(APP, [*map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.stdout, result.stderr


@pytest.fixture
def run_dir(place: Path) -> Path:
    return place / "toy"


@pytest.fixture
def files(run_dir: Path, toy_pairs: Pairs, tmp_path: Path) -> Path:
    """A folder with the test set, a perfect translation of it and one with three wrong lines."""
    srcs, refs = map(list, zip(*toy_pairs[:6], strict=True))
    lines = {"src.zh": srcs, "ref.en": refs, "good.en": refs,
             "bad.en": ["x y z"] * 3 + refs[3:], "short.en": ["x"] * 5}  # fmt: skip
    for name, texts in lines.items():
        (tmp_path / name).write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    contrast = "".join(f"{zh}\t{en}\t{en} {en}\n" for zh, en in toy_pairs[:8])
    (tmp_path / "contrast.tsv").write_text(contrast, encoding="utf-8")
    return tmp_path


def hyps(folder: Path, *names: str) -> list[str | Path]:
    return [word for name in names for word in ("--hyp", folder / f"{name}.en")]


def test_one_model_is_scored_on_the_tests_of_its_run(run_dir: Path) -> None:
    found = json.loads(tmt_eval("-m", run_dir, "--json")[0])
    assert list(found) == ["toy"] and list(found["toy"]) == ["bleu", "chrf"]
    assert set(found["toy"]["bleu"]) == {"score", "signature"}
    table, _ = tmt_eval("-m", run_dir, "--chrf++", "--confidence")
    assert "chrF2++" in table and "BLEU" not in table and " … " in table


def test_files_and_models_are_compared_with_the_first_named(run_dir: Path, files: Path) -> None:
    given = ["--src", files / "src.zh", "--ref", files / "ref.en", "--json", "--chrf"]
    found = json.loads(tmt_eval(*hyps(files, "good", "bad"), "-m", run_dir, *given)[0])
    assert list(found) == ["src.zh"] and list(found["src.zh"]) == ["good.en", "bad.en", "toy"]
    good, bad, toy = (scores["chrf"] for scores in found["src.zh"].values())
    assert "difference" not in good and good["score"] == pytest.approx(100)
    for other in (bad, toy):
        assert other["difference"] == pytest.approx(other["score"] - good["score"])
        assert other["p_value"] < 0.5
    turned = json.loads(tmt_eval("-m", run_dir, *hyps(files, "good", "bad"), *given)[0])
    assert list(turned["src.zh"]) == ["toy", "good.en", "bad.en"]
    assert turned["src.zh"]["toy"]["chrf"]["score"] == toy["score"]


def test_a_model_does_not_differ_from_itself(run_dir: Path) -> None:
    shown, told = tmt_eval("-m", run_dir, "-m", run_dir / "model", "--json")
    assert "problem: toy has learned from 6 of the 6 sentences of toy" in told
    found = json.loads(shown)["toy"]
    assert list(found) == ["toy", "toy #2"]
    for score in found["toy #2"].values():
        assert (score["p_value"], score["difference"]) == (1, 0)


def test_files_are_scored_without_a_model_and_bleu_below_the_threshold_exits_with_1(
    files: Path,
) -> None:
    given = ["--ref", files / "ref.en", "--lang", "eng", "--chrf", "--min-bleu", "99"]
    found = json.loads(tmt_eval(*hyps(files, "good"), *given, "--json")[0])["good.en"]["bleu"]
    assert found["score"] == pytest.approx(100) and "tok:13a" in found["signature"]
    _, error = tmt_eval(*hyps(files, "bad"), *given, code=1)
    assert error == "tmt: BLEU is below 99.0 on bad.en\n"
    _, error = tmt_eval(*hyps(files, "good", "bad"), *given, code=1)
    assert error.endswith("\ntmt: BLEU is below 99.0 on ref.en (bad.en)\n")


def test_a_test_set_that_another_run_has_learned_is_counted(
    toy_config: Config, tmp_path: Path
) -> None:
    """A run holds sentences out of its own text alone."""
    pairs = [(f"句{i}。", f"sentence {i}.") for i in range(9)]
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.yaml").write_text(toy_config.to_yaml(), encoding="utf-8")
    (tmp_path / "data/clean").mkdir(parents=True)
    srcs, refs = (list(side) for side in zip(*pairs[3:6], ("新。", "new."), strict=True))
    test = EvaluationSet("held_out", "en", srcs, refs, "zh")
    assert count_seen(tmp_path / "model", [test]) == [0], "it keeps no text"
    write_sides(tmp_path / "data/clean/train", pairs, ("src", "tgt"))
    back = EvaluationSet("back", "zh", refs, srcs, "en")
    other = EvaluationSet("other", "en", srcs, refs[::-1], "zh")
    assert count_seen(tmp_path / "model", [test, back, other]) == [3, 3, 0]


def test_a_least_bleu_is_that_of_the_test_sets_themselves(run_dir: Path) -> None:
    """Not of their careless variants, which are worse."""
    _, error = tmt_eval("-m", run_dir, "--robustness", "--min-bleu", "100", code=1)
    assert error.endswith("tmt: BLEU is below 100.0 on toy\n")


def test_robustness_is_reported_apart(run_dir: Path, tmp_path: Path) -> None:
    """An untrained model: the test set keeps its score, and its variants get their own."""
    plain = json.loads(tmt_eval("-m", run_dir, "--json")[0])
    report = tmp_path / "report"
    found = json.loads(tmt_eval("-m", run_dir, "--robustness", "--json", "--report", report)[0])
    assert set(found) == {"toy", "toy.unpunctuated", "toy.words"}, "Chinese has no capitals"
    assert found["toy"] == plain["toy"]
    assert set(found["toy.words"]) == {"words"}
    written = json.loads((report / "report.json").read_text(encoding="utf-8"))
    assert set(written["words"]) == {"toy.words"} and written["contrast"] == {}


def test_contrast_gives_the_share_that_is_preferred(run_dir: Path, files: Path) -> None:
    given = ["--contrast", files / "contrast.tsv", "--json"]
    found = json.loads(tmt_eval("-m", run_dir, *given)[0])
    accuracy = found[str(files / "contrast.tsv")]["contrast"]
    assert accuracy["score"] == 100, "an untrained model gives half as long a text more"
    assert accuracy["low"] < 70 and accuracy["signature"] == "n:8|interval:wilson"
    assert "accuracy" in tmt_eval("-m", run_dir, *given[:2])[0]


def test_the_report_says_where_words_were_counted(run_dir: Path, files: Path) -> None:
    out = files / "report"
    given = ["--src", files / "src.zh", "--ref", files / "ref.en", "--report", out]
    _, error = tmt_eval("-m", run_dir, *hyps(files, "good"), *given)
    assert f"report: {out / 'report.html'}" in error
    plain = json.loads((out / "report.json").read_text(encoding="utf-8"))["tests"]["src.zh"]
    assert list(plain["systems"]) == ["toy", "good.en"]
    good = plain["systems"]["good.en"]
    assert good["frequency_basis"].startswith("the training text")
    assert sum(bucket["n"] for bucket in good["lengths"]) == 6 == len(plain["sentences"])
    assert not any(error["n"] for error in good["errors"])
    assert all(bucket["found"] == bucket["n"] for bucket in good["frequencies"])
    tmt_eval(*hyps(files, "bad"), *given, "--lang", "en", "--from", "zh")
    plain = json.loads((out / "report.json").read_text(encoding="utf-8"))["tests"]["src.zh"]
    assert plain["systems"]["bad.en"]["frequency_basis"].startswith("the references")


@pytest.mark.parametrize(
    ("words", "message", "why"),
    [
        (["--hyp", "good.en"], "--hyp needs --ref FILE and --lang CODE", "half a pair"),
        (["--hyp", "short.en", "--ref", "ref.en", "--lang", "en"],
         "short.en has 5 lines, the references have 6: the files must be", "lines"),
        (["--hyp", "good.en", "--src", "src.zh", "--ref", "ref.en", "--lang", "en"],
         "say their language, too, --from CODE", "sources of no language"),
        (["-m", "RUN", "--src", "src.zh"], "--src and --ref go together", "half a test set"),
        (["-m", "RUN", "--lang", "en"], "a model knows its languages", "said twice"),
        (["-m", "RUN", "--src", "src.zh", "--ref", "short.en"], "line-aligned", "lines"),
        (["-m", "RUN", "--testset", "wmt17", "--ref", "ref.en"], "not both", "two test sets"),
        (["-m", "RUN", "--testset", "wtm17"], "near names: .*wmt17", "misspelt"),
        (["-m", "RUN", "--to", "de"], "--to de: this model translates zh → en only", "direction"),
        (["-m", "RUN", "--contrast", "none.tsv"], "none.tsv: no such file", "no file"),
        (["--hyp", "good.en", "--ref", "ref.en", "--lang", "en", "--contrast", "contrast.tsv"],
         "--contrast needs a model", "a file prefers nothing"),
        (["--hyp", "good.en", "--ref", "ref.en", "--lang", "en", "--robustness"],
         "--robustness needs models", "a file says nothing of other texts"),
        (["--hyp", "good.en", "--ref", "ref.en", "--lang", "en", "--report", "r"],
         "--report shows the sources, too", "no sources"),
        (["--hyp", "good.en", "-m", "RUN", "--src", "src.zh", "--ref", "ref.en", "--to", "xx"],
         "unknown language code 'xx'", "no language"),
    ],
)  # fmt: skip
def test_mistakes_are_told(
    words: list[str], message: str, why: str, run_dir: Path, files: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(files)
    with pytest.raises(TmtError, match=message):
        tmt_eval(*[str(run_dir) if word == "RUN" else word for word in words])


def test_a_file_belongs_to_one_test_set(run_dir: Path, files: Path) -> None:
    clean = run_dir / "data" / "clean"
    for side in ("src", "tgt"):
        (clean / f"test.second.{side}").write_bytes((clean / f"test.toy.{side}").read_bytes())
    with pytest.raises(DataError, match="belongs to one test set, but there are 2: name its own"):
        tmt_eval("-m", run_dir, *hyps(files, "good"))
    for side in ("src", "tgt"):
        (clean / f"test.second.{side}").unlink()


@pytest.fixture
def set_of_sacrebleu(
    toy_pairs: Pairs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Server]:
    """`toy/one`: a test set that sacreBLEU fetches from a server on loopback."""
    import sacrebleu
    from sacrebleu.dataset.plain_text import PlainTextDataset

    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for side, name in enumerate(("one.zh", "one.en")):
            text = "".join(f"{pair[side]}\n" for pair in toy_pairs[:3]).encode()
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
    with running() as server:
        dataset = PlainTextDataset(
            name="toy/one",
            data=[server.serve("/one.tgz", packed.getvalue())],
            md5=[hashlib.md5(packed.getvalue()).hexdigest()],
            langpairs={"zh-en": ["one.zh", "one.en"]},
        )
        monkeypatch.setitem(sacrebleu.DATASETS, "toy/one", dataset)
        monkeypatch.setenv("TMT_CACHE", str(tmp_path / "cache"))
        yield server


def test_a_test_set_by_name(set_of_sacrebleu: Server, run_dir: Path, files: Path) -> None:
    named = ["--testset", "toy/one", "--json"]
    replies = dict(set_of_sacrebleu.replies)
    set_of_sacrebleu.replies.clear()
    with pytest.raises(DataError, match=r"one\.tgz: .*404"):
        tmt_eval("-m", run_dir, *named)
    set_of_sacrebleu.replies.update(replies)
    assert list(json.loads(tmt_eval("-m", run_dir, *named)[0])) == ["toy/one"]
    set_of_sacrebleu.replies.clear()  # it is in the cache now
    three = files / "three.en"
    three.write_text("".join((files / "ref.en").read_text("utf-8").splitlines(True)[:3]), "utf-8")
    found = json.loads(tmt_eval("--hyp", three, "--lang", "en", "--from", "zh", *named)[0])
    assert found["toy/one"]["bleu"]["score"] == pytest.approx(100)


@pytest.mark.parametrize(
    ("paths", "names", "why"),
    [
        (["runs/a/model", "b.txt"], ["a", "b.txt"], "run and file"),
        (["runs/a/out/t.txt", "runs/b/out/t.txt"], ["a", "b"], "what differs in between"),
        (["x/t.txt", "x/t.txt"], ["t.txt", "t.txt #2"], "the same one twice"),
        (["x/t.txt", "x/y/t.txt"], ["t.txt", "y"], "one folder deeper"),
    ],
)
def test_systems_have_short_names_that_differ(paths: list[str], names: list[str], why: str) -> None:
    systems = name_systems([(Path(path), False) for path in paths])
    assert [system.name for system in systems] == names, why
