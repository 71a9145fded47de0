"""The model directory: what was saved is what is loaded, and nothing altered is used."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from full_disk import limited_file_size
from safetensors.torch import load_file, save_file
from torch import Tensor

from transformer_mt.config.experiment import Config, build_config
from transformer_mt.errors import ModelDirError, TmtError
from transformer_mt.model.transformer import Transformer
from transformer_mt.model_dir import (
    build_model,
    load_model_dir,
    load_tokenizers,
    read_metadata,
    save_model_dir,
)
from transformer_mt.system.state import sha256
from transformer_mt.translation.translator import Translator

FILES = ["config.yaml", "model.safetensors", "tokenizer.src.model", "tokenizer.tgt.model"]


def joint_config(cfg: Config) -> Config:
    tree = cfg.model_dump()
    tree["tokenizer"]["joint"] = True
    return build_config(tree, "joint")


def weights_of(model: Transformer) -> dict[str, Tensor]:
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def save(path: Path, cfg: Config, tokenizer_dir: Path, **metadata: Any) -> Transformer:
    """Save a freshly initialised model."""
    torch.manual_seed(1)
    model = build_model(cfg, load_tokenizers(tokenizer_dir, joint=cfg.tokenizer.joint)).eval()
    save_model_dir(path, cfg, weights_of(model), tokenizer_dir, metadata)
    return model


@pytest.fixture
def model_dir(tmp_path: Path, toy_config: Config, tokenizer_dir: Path) -> Path:
    path = tmp_path / "model"
    save(path, toy_config, tokenizer_dir)
    return path


def test_loading_draws_no_random_numbers(model_dir: Path) -> None:
    """For weights that come from a file, they would be drawn in vain."""
    before = torch.get_rng_state()
    load_model_dir(model_dir)
    assert torch.get_rng_state().equal(before)


@pytest.mark.parametrize("joint", [False, True])
def test_round_trip(tmp_path: Path, toy_config: Config, tokenizer_dir: Path, joint: bool) -> None:
    """Also from another place: a model directory can be moved."""
    cfg = joint_config(toy_config) if joint else toy_config
    model = save(tmp_path / "model", cfg, tokenizer_dir, scores={"dev": 1.5})
    shutil.move(tmp_path / "model", tmp_path / "elsewhere")
    loaded = load_model_dir(tmp_path / "elsewhere")
    assert loaded.config == cfg
    assert loaded.metadata["scores"] == {"dev": 1.5}
    assert not loaded.model.training
    found, saved = weights_of(loaded.model), weights_of(model)
    assert found.keys() == saved.keys()
    assert all(found[name].equal(weight) for name, weight in saved.items())
    src, tgt_in = torch.tensor([[5, 9, 3, 0]]), torch.tensor([[2, 7, 30]])
    with torch.no_grad():
        assert loaded.model(src, tgt_in).equal(model(src, tgt_in))
    for mine, original in zip(
        loaded.tokenizers, load_tokenizers(tokenizer_dir, joint=joint), strict=True
    ):
        assert mine.encode(["猫 the cat"]) == original.encode(["猫 the cat"])
    assert (loaded.tokenizers[0] is loaded.tokenizers[1]) == joint


def test_a_translator_needs_nothing_else(model_dir: Path, toy_config: Config) -> None:
    loaded = load_model_dir(model_dir)
    direct = Translator(loaded.model, loaded.tokenizers, toy_config)
    from_disk = Translator.load(model_dir, precision="fp32")
    assert from_disk.translate(["猫看见狗"]) == direct.translate(["猫看见狗"])


@pytest.mark.parametrize(
    ("tying", "joint", "stored"),
    [("all", True, 1), ("decoder", False, 2), ("none", False, 3)],
)
def test_tied_matrices_are_stored_once(
    tmp_path: Path, toy_config: Config, tokenizer_dir: Path, tying: str, joint: bool, stored: int
) -> None:
    cfg = joint_config(toy_config) if joint else toy_config
    tree = cfg.model_dump()
    tree["model"]["tie_embeddings"] = tying
    path = tmp_path / "model"
    save(path, build_config(tree, "tied"), tokenizer_dir)
    names = load_file(path / "model.safetensors").keys()
    assert sum("embedding" in name or name == "output.weight" for name in names) == stored
    model = load_model_dir(path).model
    shared = model.output.weight is model.decoder_embedding.tokens.weight
    assert shared == (tying != "none")


def test_what_lies_in_it(tmp_path: Path, toy_config: Config, tokenizer_dir: Path) -> None:
    path = tmp_path / "model"
    save(path, toy_config, tokenizer_dir)
    assert sorted(p.name for p in path.iterdir()) == sorted([*FILES, "metadata.json"])
    metadata = json.loads((path / "metadata.json").read_text(encoding="utf-8"))
    assert metadata["format"] == 1
    assert metadata["versions"]["torch"] == torch.__version__
    assert metadata["files"] == {name: sha256(path / name) for name in FILES}
    save(tmp_path / "joint", joint_config(toy_config), tokenizer_dir)
    assert {p.name for p in (tmp_path / "joint").glob("*.model")} == {"tokenizer.model"}


def test_saving_again_replaces_what_tmt_made_and_nothing_else(
    model_dir: Path, toy_config: Config, tokenizer_dir: Path
) -> None:
    (model_dir / "notes.txt").write_text("mine")
    save(model_dir, toy_config, tokenizer_dir, name="second")
    assert read_metadata(model_dir)["name"] == "second"
    assert (model_dir / "notes.txt").read_text() == "mine"
    assert [p.name for p in model_dir.parent.iterdir()] == ["model"]


def test_a_missing_tokenizer_is_named_and_the_old_model_kept(
    model_dir: Path, toy_config: Config, tokenizer_dir: Path, tmp_path: Path
) -> None:
    weights = load_file(model_dir / "model.safetensors")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(TmtError, match=r"empty/tokenizer.(src|tgt).model: No such file"):
        save_model_dir(model_dir, toy_config, weights, empty, {})
    load_model_dir(model_dir)


def test_a_write_error_keeps_the_old_model(
    model_dir: Path, toy_config: Config, tokenizer_dir: Path
) -> None:
    too_large = pytest.raises(TmtError, match="model: cannot be written: File too large")
    with limited_file_size(20_000), too_large:
        save(model_dir, toy_config, tokenizer_dir)
    load_model_dir(model_dir)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def alter(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def pipe(path: Path) -> None:
    """A pipe that nobody writes to: whoever opened it would wait for ever."""
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (Path.unlink, "missing"),
        (cut, "truncated or altered (its size differs)"),
        (alter, "truncated or altered (its SHA-256 differs)"),
        (pipe, "missing"),
    ],
)
def test_damage_is_noticed_and_the_file_named(
    model_dir: Path, name: str, damage: Callable[[Path], None], problem: str
) -> None:
    damage(model_dir / name)
    with pytest.raises(ModelDirError) as caught:
        load_model_dir(model_dir)
    assert str(caught.value) == f"{model_dir / name}: {problem}; copy the whole model directory"


def test_all_damaged_files_are_named_at_once(model_dir: Path) -> None:
    for name in FILES[:3]:
        cut(model_dir / name)
    with pytest.raises(ModelDirError) as caught:
        read_metadata(model_dir)
    assert [line.split(":")[0] for line in str(caught.value).splitlines()] == [
        str(model_dir / name) for name in FILES[:3]
    ]


def test_what_is_no_model_directory(tmp_path: Path) -> None:
    with pytest.raises(ModelDirError) as caught:
        load_model_dir(tmp_path / "absent")
    expected = f"{tmp_path}/absent: no such model directory; train one with tmt train CONFIG"
    assert str(caught.value) == expected
    with pytest.raises(ModelDirError) as caught:
        load_model_dir(tmp_path)
    assert str(caught.value) == f"{tmp_path}: not a model directory: metadata.json is missing"
    (tmp_path / "file").touch()
    with pytest.raises(ModelDirError, match="file: no such model directory"):
        load_model_dir(tmp_path / "file")


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", '{"files": 1}', '{"files": {}}', "\udc80"]
)
def test_unreadable_metadata(model_dir: Path, content: str) -> None:
    path = model_dir / "metadata.json"
    path.write_bytes(content.encode("utf-8", errors="surrogateescape"))
    with pytest.raises(ModelDirError) as caught:
        load_model_dir(model_dir)
    assert str(path) in str(caught.value) or "format None" in str(caught.value)


def test_an_altered_metadata_is_noticed(model_dir: Path) -> None:
    path = model_dir / "metadata.json"
    path.write_text(path.read_text().replace('"format": 1', '"format": 1, "name": "x"', 1))
    with pytest.raises(ModelDirError, match=r"metadata.json: altered .*copy the whole"):
        load_model_dir(model_dir)


def test_metadata_without_a_digest_of_its_own_is_read(model_dir: Path) -> None:
    """As model directories of the first format have it."""
    path = model_dir / "metadata.json"
    content = json.loads(path.read_text())
    del content["digest"], content["file_sizes"]
    path.write_text(json.dumps(content))
    load_model_dir(model_dir)
    alter(model_dir / "model.safetensors")
    with pytest.raises(ModelDirError, match="its SHA-256 differs"):
        load_model_dir(model_dir)


@pytest.mark.parametrize("name", ["../outside", "/etc/hostname", ""])
def test_metadata_cannot_list_files_outside(model_dir: Path, name: str) -> None:
    path = model_dir / "metadata.json"
    content = json.loads(path.read_text())
    del content["digest"], content["file_sizes"]
    content["files"][name] = "0"
    path.write_text(json.dumps(content))
    with pytest.raises(ModelDirError, match="not a name of a file inside"):
        load_model_dir(model_dir)


def test_another_format_is_refused(model_dir: Path) -> None:
    path = model_dir / "metadata.json"
    content = {**json.loads(path.read_text()), "format": 2}
    del content["digest"], content["file_sizes"]
    path.write_text(json.dumps(content))
    with pytest.raises(ModelDirError) as caught:
        load_model_dir(model_dir)
    assert str(caught.value) == f"{model_dir}: format 2; this tmt reads format 1"


def swap_weights(model_dir: Path, weights: dict[str, Tensor]) -> None:
    """Replace the weights by others, with their digest."""
    save_file(weights, model_dir / "model.safetensors")
    metadata = json.loads((model_dir / "metadata.json").read_text())
    metadata["files"]["model.safetensors"] = sha256(model_dir / "model.safetensors")
    for key in ("file_sizes", "digest"):
        metadata.pop(key, None)
    (model_dir / "metadata.json").write_text(json.dumps(metadata))


def test_weights_of_another_model_are_refused(model_dir: Path) -> None:
    weights = load_file(model_dir / "model.safetensors")
    path = model_dir / "model.safetensors"
    name = "encoder_layers.0.ffn.fc1.bias"
    swap_weights(model_dir, {**weights, name: torch.zeros(65)})
    with pytest.raises(ModelDirError) as caught:
        load_model_dir(model_dir)
    assert str(caught.value) == (
        f"{path}: does not fit config.yaml: {name}: shape (65,), expected (64,)"
    )
    del weights[name]
    swap_weights(model_dir, {**weights, "other": torch.zeros(1)})
    with pytest.raises(ModelDirError) as caught:
        load_model_dir(model_dir)
    assert str(caught.value) == (
        f"{path}: does not fit config.yaml: parameters differ: {name}, other"
    )


@pytest.mark.parametrize("dtype", [torch.int8, torch.bool, torch.int64])
def test_weights_that_are_no_floats_are_refused(model_dir: Path, dtype: torch.dtype) -> None:
    weights = load_file(model_dir / "model.safetensors")
    name = "encoder_layers.0.ffn.fc1.bias"
    swap_weights(model_dir, {**weights, name: weights[name].to(dtype)})
    with pytest.raises(ModelDirError, match=r"model.safetensors: .*weights of the type "):
        load_model_dir(model_dir)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("d_model: 32", "d_model: 32768"),
        ("ffn: 64", "ffn: 1048576"),
        ("encoder_layers: 2", "encoder_layers: 1000"),
    ],
)
def test_sizes_beyond_the_file_take_no_memory(model_dir: Path, old: str, new: str) -> None:
    """A configuration may promise more than a machine holds; the weights' file says what is."""
    path = model_dir / "config.yaml"
    path.write_text(path.read_text().replace(old, new, 1))
    metadata = json.loads((model_dir / "metadata.json").read_text())
    metadata["files"]["config.yaml"] = sha256(path)
    del metadata["file_sizes"], metadata["digest"]
    (model_dir / "metadata.json").write_text(json.dumps(metadata))
    with pytest.raises(ModelDirError, match=r"does not fit config\.yaml"):
        load_model_dir(model_dir)


def test_others_may_read_the_weights(
    tmp_path: Path, toy_config: Config, tokenizer_dir: Path
) -> None:
    old = os.umask(0o022)
    try:
        save(tmp_path / "model", toy_config, tokenizer_dir)
    finally:
        os.umask(old)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "model").iterdir()}
    assert set(modes.values()) == {0o644}, modes
    assert (tmp_path / "model").stat().st_mode & 0o777 == 0o755
