"""`import transformer_mt as tmt`: train, load, translate, score, attention, evaluate; threads."""

import json
import multiprocessing
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
import write_notebook
from safetensors.torch import load_file

import transformer_mt as tmt
from transformer_mt.config.experiment import Config, load_config, load_experiment
from transformer_mt.encoding.tokenizer import Tokenizer
from transformer_mt.errors import ConfigError, DataError, TrainingStopped
from transformer_mt.model_dir import build_model, save_model_dir, weights_of
from transformer_mt.pipeline import start
from transformer_mt.pipeline.start import TrainedModel
from transformer_mt.translation.translator import Translator

SMALL: dict[str, object] = {
    "data.root": ".", "data.train": ["own"], "data.test": {"own": "own"},
    "data.dev": [{"path": "own", "limit": 5}], "data.clean.overlap": False, "data.workers": 1,
    "tokenizer.vocab_size": 320,
    "model.d_model": 16, "model.heads": 2, "model.ffn": 16, "model.encoder_layers": 1,
    "model.decoder_layers": 1, "train.max_updates": 4, "train.cooldown_updates": 2,
    "train.validate_every": 2, "train.tokens_per_update": 200, "train.average": 2,
    "decode.beam": 1, "decode.max_length_ratio": 0.5,
}  # fmt: skip


@pytest.fixture(scope="module")
def model_dir(
    tmp_path_factory: pytest.TempPathFactory,
    toy_config: Config,
    tokenizer_dir: Path,
    tokenizers: tuple[Tokenizer, Tokenizer],
) -> Path:
    path = tmp_path_factory.mktemp("api") / "model"
    torch.manual_seed(1)
    model = build_model(toy_config, tokenizers)
    save_model_dir(path, toy_config, weights_of(model), tokenizer_dir, {"name": "toy"})
    return path


@pytest.fixture(scope="module")
def texts(toy_pairs: list[tuple[str, str]]) -> list[str]:
    return [zh for zh, _ in toy_pairs[:120]]


@pytest.fixture
def two_threads() -> Iterator[None]:
    """So that translating uses two worker processes, or two threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_the_import_loads_nothing() -> None:
    code = "import sys; before = {*sys.modules}; import transformer_mt as tmt; assert tmt.load; " \
        "print(*sorted({*sys.modules} - before))"  # fmt: skip
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {*found.stdout.split()} - {"errno"} == {"transformer_mt", "transformer_mt.errors"}


def test_translations_scores_and_attention_are_those_of_the_translator(
    model_dir: Path, texts: list[str]
) -> None:
    translator = Translator.load(model_dir)
    with tmt.load(model_dir) as model:
        found = model.translate(texts[:5], beam=5, n_best=2, max_length=8)
        assert found == translator.translate(texts[:5], beam=5, n_best=2, max_length=8, retry=True)
        assert [len(t.alternatives) for t in found] == [2] * 5
        assert model.translate(texts[:2], prefix="the")[0].text.startswith("the")
        pairs = [(text, "the cat") for text in texts[:3]]
        assert model.score(pairs) == translator.score_pairs(texts[:3], ["the cat"] * 3)
        assert model.score([]) == [] == model.translate([])
        maps = model.attention(texts[0], "the cat")
        assert maps.cross.shape[2:] == (len(maps.tgt_in_pieces), len(maps.src_pieces))
        assert model.config.languages.pair == "zh-en"


def test_several_models_vote(model_dir: Path, texts: list[str], tmp_path: Path) -> None:
    """What two models say has a probability between those of each alone."""
    other, weights = tmp_path / "other", load_file(model_dir / "model.safetensors")
    changed = {name: 0.9 * weight for name, weight in weights.items()}
    save_model_dir(other, load_config(model_dir / "config.yaml"), changed, model_dir, {})
    found = []
    for paths in ([model_dir, str(other)], [model_dir], [other]):
        with tmt.load(*paths, precision="fp32") as model:
            found.append(model.translate(texts[:8], beam=1, max_length=1))
    n_same = 0
    for both, one, two in zip(*found, strict=True):
        if both.text == one.text == two.text:
            n_same += 1
            assert one.log_prob != two.log_prob
            assert sorted([one.log_prob, both.log_prob, two.log_prob])[1] == both.log_prob
    assert n_same


def test_mistakes(
    model_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, texts: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(tmt.TmtError, match="no finished run under runs/"):
        tmt.load()
    with pytest.raises(tmt.TmtError, match="nowhere: no such model directory"):
        tmt.load("nowhere")
    with pytest.raises(DataError, match="2 sources but 1 references"):
        tmt.evaluate(model_dir, texts=(texts[:2], ["the cat"]))
    model = tmt.load(model_dir)
    with pytest.raises(TypeError, match=r"texts is a list: translate\(\[text\]\)"):
        model.translate(texts[0])
    with pytest.raises(ConfigError, match="n-best 3 needs a beam of at least 3"):
        model.translate(texts[:1], beam=2, n_best=3)
    model.close()
    model.close()
    with pytest.raises(tmt.TmtError, match="this model is closed; load it again"):
        model.translate(texts[:1])


@pytest.mark.usefixtures("two_threads")
def test_threads_share_a_model(model_dir: Path, texts: list[str]) -> None:
    """With worker processes, made before there are threads, and with threads only."""
    calls = [texts[start : start + 40] for start in (0, 20, 40)]
    for warm_up in (True, False):
        with tmt.load(model_dir) as model:
            if warm_up:
                expected = [model.translate(call, beam=2, max_length=5) for call in calls]
            with ThreadPoolExecutor(3) as pool:
                jobs = [pool.submit(model.translate, call, beam=2, max_length=5) for call in calls]
                assert [job.result() for job in jobs] == expected
                assert pool.submit(torch.get_num_threads).result() == 2


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("end", ["close", "del"])
def test_no_process_outlives_a_model(
    model_dir: Path, texts: list[str], end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transformer_mt.search.engine.may_fork", lambda: True)
    others = {*multiprocessing.active_children()}
    model = tmt.load(model_dir)
    model.translate(texts[:40], beam=2, max_length=5)
    assert {*multiprocessing.active_children()} - others
    if end == "close":
        model.close()
    else:
        del model
    assert not {*multiprocessing.active_children()} - others


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory, toy_pairs: list[tuple[str, str]]) -> Path:
    """A folder with two text files and `runs/tiny`, trained on them in this process."""
    folder = tmp_path_factory.mktemp("experiment")
    for side, code in enumerate(("zh", "en")):
        text = "".join(f"{pair[side]}\n" for pair in toy_pairs)
        (folder / f"own.{code}").write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        trained = tmt.train("tiny", SMALL, processes=1)
    assert (trained.run_dir, trained.model_dir) == (Path("runs/tiny"), Path("runs/tiny/model"))
    assert trained.metadata["trained"]["updates"] == 4
    assert {*trained.scores} == {"own"} and {"bleu", "chrf"} <= {*trained.scores["own"]}
    return folder


def test_train_again_load_evaluate(experiment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same call again, now in two processes, finds that nothing is left to do."""
    monkeypatch.chdir(experiment)
    weights = Path("runs/tiny/model/model.safetensors")
    before = weights.stat().st_mtime_ns
    again = tmt.train("tiny", SMALL, run_dir="runs/tiny", processes=2)
    assert (again.run_dir, weights.stat().st_mtime_ns) == (Path("runs/tiny"), before)
    with tmt.load() as model:
        srcs = ["这只狗很大。", "谁在公园里？"]
        refs = [translation.text for translation in model.translate(srcs, retry=False)]
    own = tmt.evaluate("runs/tiny", metrics=["bleu"]).only_scores()
    assert own["own"]["bleu"].score == pytest.approx(again.scores["own"]["bleu"], abs=0.5)
    found = tmt.evaluate("runs/tiny", texts=(srcs, refs), metrics=["chrf"])
    assert found.only_scores()["texts"]["chrf"].score == pytest.approx(100)


def test_the_page_is_the_notebook_and_both_run(
    experiment: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All code cells in order, with the small model in the place of the one on the page."""
    notebook = write_notebook.NOTEBOOK.read_text(encoding="utf-8")
    page = write_notebook.PAGE.read_text(encoding="utf-8")
    assert notebook == write_notebook.notebook_of(page), "python scripts/write_notebook.py"
    assert len(page.split()) <= 600
    train = tmt.train

    def train_small(config: str, settings: dict[str, object]) -> TrainedModel:
        return train(config, {**settings, **SMALL}, processes=1)

    monkeypatch.chdir(experiment)
    monkeypatch.setattr(tmt, "train", train_small)
    names: dict[str, object] = {}
    for cell in json.loads(notebook)["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    said = capsys.readouterr().out
    assert said.startswith("runs/tiny/model\n{'own': {'bleu':") and "nrefs:1" in said
    with pytest.raises(tmt.TmtError, match="closed"):
        names["model"].translate(["x"])


def test_a_training_that_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"train\.lr: expected a number or 'paper'"):
        tmt.train("tiny", {"train.lr": "fast"})
    with ThreadPoolExecutor(1) as pool, pytest.raises(tmt.TmtError, match="needs the main thread"):
        pool.submit(tmt.train, "tiny").result()
    for status, error in ((start.STOPPED, TrainingStopped), (2, tmt.TmtError)):
        monkeypatch.setattr(start, "launch", lambda *_, status=status: status)
        with pytest.raises(error):
            tmt.train("tiny", processes=2)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("key", "value"),
    [("train.lr", 1e-05), ("languages.src", "no"), ("data.root", "数据/\N{PARTY POPPER} x"),
     ("train.patience", None), ("data.train", [{"path": "a: b", "weight": 2.0}]),
     ("data.clean.numbers", False)],
)  # fmt: skip
def test_settings_arrive_as_they_are(key: str, value: object) -> None:
    cfg = load_experiment("tiny", start.as_overrides({key: value})).model_dump()
    for part in key.split("."):
        cfg = cfg[part]
    assert cfg == value
