"""Checkpoints: what is saved comes back, and damage costs one checkpoint and not the run."""

import errno
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from full_disk import limited_file_size
from safetensors.torch import load_file, save_file
from torch import Tensor

from transformer_mt.errors import CheckpointError, TmtError
from transformer_mt.training import checkpoint as checkpoint_module
from transformer_mt.training.checkpoint import CheckpointStore, Progress

IDENTITY = {"model": {"d_model": 32, "heads": 4}, "data": "f00d", "seed": 1}
Damage = Callable[[Path], object]


def tensors(seed: int) -> dict[str, Tensor]:
    """Views of one flat buffer, as the optimizer hands them over."""
    flat = torch.randn(26, generator=torch.Generator().manual_seed(seed))
    return {"a.weight": flat[:24].view(4, 6), "a.bias": flat[24:]}


def optimizer_state(seed: int) -> dict[str, Tensor]:
    return {"exp_avg.a": torch.full((3,), float(seed)), "step": torch.tensor(float(seed))}


def make_store(tmp_path: Path, **changes: Any) -> CheckpointStore:
    return CheckpointStore(tmp_path / "checkpoints", {**IDENTITY, **changes})


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    return make_store(tmp_path)


def save(store: CheckpointStore, *updates: int, keep_last: int = 5, **changes: Any) -> None:
    for update in updates:
        progress = replace(Progress(update=update, validated=True, best_update=update), **changes)
        store.save(progress, tensors(update), optimizer_state(update), keep_last=keep_last)


def load(store: CheckpointStore) -> tuple[int | None, list[str]]:
    """Update of the newest intact checkpoint, and what was reported."""
    reports: list[str] = []
    found = store.load_newest(reports.append)
    return (found.progress.update if found else None), reports


def path_of(store: CheckpointStore, update: int, name: str = "weights.safetensors") -> Path:
    return store.directory / f"{update:08d}" / name


def contents(store: CheckpointStore) -> dict[str, str]:
    """Checkpoint → first letters of its files: o(ptimizer), p(rogress), w(eights)."""
    return {
        path.name.lstrip("0"): "".join(sorted(file.name[0] for file in path.iterdir()))
        for path in sorted(store.directory.iterdir())
    }


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-3] ^= 4  # inside the last number: the file still opens
    path.write_bytes(content)


def one_digit_more(path: Path) -> None:
    """An update that is far beyond the real one, in a file that is otherwise intact."""
    path.write_text(path.read_text().replace('"update": 20', '"update": 200000000000'))


def write(content: bytes) -> Damage:
    return lambda path: path.write_bytes(content)


def test_what_is_saved_comes_back_bit_equal(tmp_path: Path, store: CheckpointStore) -> None:
    progress = Progress(
        update=7, epoch=2, next_in_block=3, seconds=1.0 / 3, skipped=4, best_update=5,
        best_metric=-1.1, validations_without_gain=1, validated=True,
    )  # fmt: skip
    save(store, 7, validated=False)
    store.save(progress, tensors(7), optimizer_state(7), keep_last=5)  # replaces the other
    found = make_store(tmp_path).load_newest(pytest.fail)
    assert found is not None and found.progress == progress
    for loaded, saved in ((found.weights, tensors(7)), (found.optimizer, optimizer_state(7))):
        assert loaded.keys() == saved.keys()
        for name, tensor in saved.items():
            assert loaded[name].equal(tensor) and loaded[name].dtype == tensor.dtype
    assert store.weights(7)["a.bias"].equal(tensors(7)["a.bias"])
    content = json.loads(path_of(store, 7, "progress.json").read_text())
    assert content["identity"] == IDENTITY and content["progress"]["update"] == 7
    assert set(content["files"]) == {"weights.safetensors", "optimizer.safetensors"}


def test_a_run_without_checkpoints_starts_from_nothing(store: CheckpointStore) -> None:
    assert load(store) == (None, [])
    assert store.validated_updates() == []
    store.check_identity()
    save(store, 9, 10, 200)
    assert load(store) == (200, []), "the newest is taken"


@pytest.mark.parametrize(
    ("name", "damage", "reason"),
    [
        ("weights.safetensors", cut, "weights.safetensors: truncated or altered"),
        ("optimizer.safetensors", flip_a_bit, "optimizer.safetensors: truncated or altered"),
        ("weights.safetensors", Path.unlink, "weights.safetensors: missing"),
        ("progress.json", cut, "progress.json: damaged"),
        ("progress.json", write(b"\xff\xfe garbage"), "damaged"),
        ("progress.json", write(b"{}"), "progress.json: absent, or damaged"),
        ("progress.json", one_digit_more, "altered since it was written"),
        ("progress.json", write(b"[1]"), "list"),
        ("progress.json", write(b'{"files": [], "progress": 1}'), "list"),
        ("progress.json", write(b"[" * 100_000), "damaged"),
        ("progress.json", Path.unlink, "progress.json: absent, or damaged"),
    ],
)
def test_a_damaged_newest_is_told_and_passed_over(
    store: CheckpointStore, name: str, damage: Damage, reason: str
) -> None:
    save(store, 10, 20)
    damaged = path_of(store, 20).parent
    damage(damaged / name)
    found, (report,) = load(store)
    assert found == 10
    assert report.startswith(f"{damaged} is damaged (") and reason in report
    assert report.endswith("; using the checkpoint before it")
    assert not damaged.exists(), "or it would be in the way of the one that is made again"
    save(store, 20)
    assert load(store) == (20, [])


@pytest.mark.parametrize("name", ["weights.safetensors", "progress.json"])
def test_what_cannot_be_read_for_a_moment_is_not_damaged(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    save(store, 10, 20)
    before = contents(store)

    def stale(path: Path | str, *args: Any, **kwargs: Any) -> Any:
        if str(path).endswith(f"00000020/{name}"):
            raise OSError(errno.ESTALE, "Stale file handle")
        return load_file(path) if name.startswith("weights") else os_open(path, *args, **kwargs)

    os_open = os.open
    if name.startswith("weights"):
        monkeypatch.setattr(checkpoint_module, "load_file", stale)
    else:
        monkeypatch.setattr(os, "open", stale)
    with pytest.raises(CheckpointError, match=r"00000020: cannot be read: .*remove it"):
        load(store)
    assert contents(store) == before
    monkeypatch.undo()
    assert load(store) == (20, [])


def test_what_cannot_be_read_for_a_moment_is_not_removed(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(store, 10, 20, keep_last=5, best_update=20)
    os_open = os.open

    def stale(path: Path | str, *args: Any, **kwargs: Any) -> Any:
        if str(path).endswith("00000010/progress.json"):
            raise OSError(errno.ESTALE, "Stale file handle")
        return os_open(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", stale)
    save(store, 30, 40, keep_last=5, best_update=20)
    monkeypatch.undo()
    assert store.validated_updates() == [10, 20, 30, 40], "of which the mean is taken"
    save(store, 50, keep_last=1, best_update=20)
    assert [*contents(store)] == ["20", "40", "50"], "it goes once nothing needs it"


@pytest.mark.parametrize(
    ("name", "damage", "problem", "left"),
    [
        ("weights", cut, "00000020, 00000010 damaged", "opw"),
        ("optimizer", Path.unlink, "all without optimizer.safetensors", "pw"),
    ],
)
def test_nothing_usable_is_an_error_and_deletes_nothing(
    store: CheckpointStore, name: str, damage: Damage, problem: str, left: str
) -> None:
    save(store, 10, 20)
    for update in (10, 20):
        damage(path_of(store, update, f"{name}.safetensors"))
    with pytest.raises(CheckpointError, match=f"no usable checkpoint: {problem}; .* with --fresh"):
        load(store)
    assert contents(store) == {"10": left, "20": left}


def test_an_older_damaged_one_does_not_stop_a_run_that_can_go_on(store: CheckpointStore) -> None:
    save(store, 10, 20, 30)
    path_of(store, 10, "progress.json").write_text("garbage")
    assert load(store) == (30, [])
    save(store, 40)
    assert store.validated_updates() == [20, 30, 40]


def test_another_model_or_corpus_is_refused_with_both_values(
    tmp_path: Path, store: CheckpointStore
) -> None:
    """Also before anything is loaded, and where the newest checkpoint is damaged."""
    save(store, 10, 20)
    store.check_identity()
    other = make_store(tmp_path, model={"d_model": 64, "heads": 4}, seed=2)
    for act in (other.check_identity, lambda: load(other)):
        with pytest.raises(CheckpointError) as caught:
            act()
        assert str(caught.value).splitlines()[1:-1] == [
            "  model: trained with {'d_model': 32, 'heads': 4}, "
            "the configuration says {'d_model': 64, 'heads': 4}",
            "  seed: trained with 1, the configuration says 2",
        ]
    assert load(store) == (20, [])
    path_of(store, 20, "progress.json").write_text("[")
    with pytest.raises(CheckpointError, match=r"  data: trained with f00d, .* says beef"):
        make_store(tmp_path, data="beef").check_identity()


def test_only_what_is_needed_is_kept(store: CheckpointStore) -> None:
    """Two to resume from; of the older ones the last validated and the best, weights only."""
    for update in range(10, 80, 10):
        save(store, update, keep_last=3, best_update=min(update, 20), validated=update != 50)
    assert contents(store) == {"20": "pw", "40": "pw", "60": "opw", "70": "opw"}
    assert store.validated_updates() == [20, 40, 60, 70]
    assert load(store) == (70, [])


def test_the_best_of_the_checkpoint_to_fall_back_to_is_kept_too(store: CheckpointStore) -> None:
    """If the newest, which is the best, is damaged, the former best is the best again."""
    save(store, 10, 20, keep_last=1, best_update=10)
    save(store, 30, keep_last=1, best_update=30)
    cut(path_of(store, 30))
    found = store.load_newest(lambda _: None)
    assert found is not None and found.progress.best_update == 10
    assert store.weights(10)["a.bias"].equal(tensors(10)["a.bias"])


def test_average_is_the_mean_of_the_last_validated(store: CheckpointStore) -> None:
    save(store, 10, 20)
    save(store, 30, validated=False)
    save(store, 40)
    weights, updates = store.average(2, pytest.fail)
    assert updates == [20, 40]
    for name, weight in weights.items():
        mean = (tensors(20)[name].double() + tensors(40)[name].double()) / 2
        assert weight.dtype == torch.float32
        torch.testing.assert_close(weight, mean.float(), rtol=0, atol=1e-7)
    assert store.average(99, pytest.fail)[1] == [10, 20, 40]
    assert store.average(1, pytest.fail)[0]["a.bias"].equal(tensors(40)["a.bias"])
    other = {"a.weight": torch.zeros(3, 3), "a.bias": torch.zeros(2)}
    store.save(Progress(update=50, validated=True), other, optimizer_state(50), keep_last=5)
    with pytest.raises(CheckpointError, match=r"00000050/.* other parameters than .*00000040/"):
        store.average(2, pytest.fail)


def test_a_damaged_checkpoint_is_left_out_of_the_mean_and_told(store: CheckpointStore) -> None:
    save(store, 10, 20, 30)
    flip_a_bit(path_of(store, 20))
    told: list[str] = []
    assert store.average(2, told.append)[1] == [10, 30], "the one before it takes its place"
    assert len(told) == 1 and "00000020/weights.safetensors: truncated or altered" in told[0]
    with pytest.raises(CheckpointError, match=r"00000020/weights\.safetensors"):
        store.weights(20)
    for update in (10, 30):
        flip_a_bit(path_of(store, update))
    with pytest.raises(CheckpointError, match="no validated checkpoint that is intact"):
        store.average(2, told.append)


def test_a_full_disk_leaves_the_former_checkpoints(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(store, 10, 20)

    def full(tensors: dict[str, Tensor], path: Path) -> None:
        if path.name.startswith("optimizer"):
            path.write_bytes(b"half")
            raise OSError(errno.ENOSPC, "No space left on device")
        save_file(tensors, path)

    with monkeypatch.context() as patched, pytest.raises(TmtError, match="the disk is full"):
        patched.setattr(checkpoint_module, "save_file", full)
        save(store, 30)
    too_large = pytest.raises(TmtError, match="00000030: cannot be written: File too large")
    with limited_file_size(100), too_large:
        save(store, 30)
    assert contents(store) == {"10": "opw", "20": "opw"}
    assert load(store) == (20, [])


def test_what_a_killed_process_left_is_not_read_and_goes(store: CheckpointStore) -> None:
    save(store, 10)
    half = store.directory / ".tmt-0123456789abcdef.tmp" / "new" / "00000020"
    half.mkdir(parents=True)
    (half / "weights.safetensors").write_bytes(b"half")
    assert load(store) == (10, [])
    save(store, 20)
    assert not half.parents[1].exists(), "the disk would fill up with them"


def test_only_what_a_checkpoint_has_made_is_removed(store: CheckpointStore) -> None:
    save(store, 10)
    mine = [store.directory / name for name in ("notes.txt", "00000010/notes.txt", ".x")]
    for path in mine:
        path.write_text("mine")
    save(store, 20, 30, 40, keep_last=1)
    store.clear()
    assert [path.read_text() for path in mine] == ["mine"] * 3
    assert load(store) == (None, [])
    store.clear()


def test_a_run_directory_that_is_gone_is_not_made_again(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    store = make_store(run)
    save(store, 10)
    assert store.has_any()
    shutil.rmtree(run)
    with pytest.raises(CheckpointError, match="the run directory is gone"):
        save(store, 20)
    assert not run.exists() and not store.has_any()
