"""`tmt bench`: through the command, on small text; numbers that must fit together."""

import json
from pathlib import Path

import pytest
from pairs_of_text import write_sides
from typer.testing import CliRunner

from transformer_mt.cli.bench import bench_app
from transformer_mt.corpus.readers.demo import build_demo
from transformer_mt.errors import ConfigError, DataError
from transformer_mt.profiling import bench_train as bench
from transformer_mt.profiling.bench_train import bench_configuration
from transformer_mt.profiling.timed_updates import PARTS


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two aligned files, `text.zh` and `text.en`."""
    folder = tmp_path_factory.mktemp("text")
    write_sides(folder / "text", build_demo().train[:1000])
    return folder / "text.zh", folder / "text.en"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"d_model": 16, "heads": 2, "ffn": 32, "encoder_layers": 1, "decoder_layers": 1}
    monkeypatch.setitem(bench.SIZES, "tiny", sizes)
    monkeypatch.setattr(bench, "FILE_VOCABULARY", 1000)
    monkeypatch.setattr(bench, "WARM_UP", 1)


@pytest.mark.usefixtures("small")
def test_the_command_measures_two_files(paths: tuple[Path, Path]) -> None:
    words = ["train", "--src", str(paths[0]), "--tgt", str(paths[1]), "--updates", "3"]
    words += ["--max-tokens", "400", "--precision", "fp32", "--processes", "1", "--json"]
    result = CliRunner().invoke(bench_app, words, catch_exceptions=False)
    found = json.loads(result.stdout)
    assert (found["size"], found["updates"], found["processes"]) == ("tiny", 3, 1)
    assert found["precision"] == "float32"
    for key in ("src_tokens_per_s", "tgt_tokens_per_s", "peak_memory_mib", "first_update_s"):
        assert found[key] > 0, key
    assert max(found["src_tokens_per_s"], found["tgt_tokens_per_s"]) < found["tokens_per_s"]
    assert list(found["part_ms"]) == list(PARTS)
    assert max(found["part_ms"].values()) < found["update_ms"]
    assert 0 < found["gflops"] < found["peak_gflops"]
    assert found["share_of_peak"] == pytest.approx(found["gflops"] / found["peak_gflops"])
    assert 0 <= found["tgt_padding"] < found["src_padding"] < 0.5


@pytest.mark.usefixtures("small")
def test_text_that_is_too_small_for_the_vocabulary_is_told(
    paths: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "FILE_VOCABULARY", 100_000)
    cfg = bench_configuration("tiny", *paths, max_tokens=400, precision="fp32")
    with pytest.raises(DataError, match="too little text to measure with; give a larger corpus"):
        bench.bench_training(cfg, "tiny", n_updates=1, processes=1)


@pytest.mark.parametrize(
    ("names", "languages"),
    [
        (("train.en", "train.de"), "en-de"),
        (("a.zh.gz", "b.b.en.gz"), "zh-en"),
        (("news.en-de.de", "news.en-de.en"), "de-en"),
        ((None, None), "zh-en"),
    ],
)
def test_files_are_named_after_their_languages(
    names: tuple[str | None, str | None], languages: str
) -> None:
    src, tgt = (None if name is None else Path(name) for name in names)
    cfg = bench_configuration("base", src, tgt, max_tokens=4096, precision="auto")
    assert cfg.languages.pair == languages
    assert cfg.tokenizer.joint == (src is not None)


@pytest.mark.parametrize(
    ("src", "tgt", "message"),
    [
        ("a.en", None, "--src and --tgt go together"),
        ("a.txt", "a.en", r"a.txt: the name of the file must end with its language: a.en"),
        ("a.en", "b.en", "src and tgt are both 'en'"),
    ],
)
def test_mistakes_are_told(src: str, tgt: str | None, message: str) -> None:
    tgt_path = None if tgt is None else Path(tgt)
    with pytest.raises(ConfigError, match=message):
        bench_configuration("tiny", Path(src), tgt_path, max_tokens=4096, precision="auto")


def test_unknown_sizes_and_precisions_are_told() -> None:
    for command in ("train", "decode"):
        found = CliRunner().invoke(bench_app, [command, "--size", "huge"])
        assert "--size huge: expected tiny, small, base or big" in str(found.exception)
    with pytest.raises(ConfigError, match=r"train\.precision"):
        bench_configuration("tiny", None, None, max_tokens=4096, precision="fp8")


def test_base_and_big_are_table_3_of_the_paper() -> None:
    for size, sizes in (("base", (512, 8, 2048, 6, 6, 0.1)), ("big", (1024, 16, 4096, 6, 6, 0.3))):
        cfg = bench_configuration(size, None, None, max_tokens=4096, precision="auto").model
        layers = cfg.encoder_layers, cfg.decoder_layers
        assert (cfg.d_model, cfg.heads, cfg.ffn, *layers, cfg.dropout) == sizes
