"""Checkpoints: what is saved comes back, and damage costs one checkpoint and not the run."""

import errno
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from transformer_mt.errors import CheckpointError, TmtError
from transformer_mt.training import checkpoint as checkpoint_module
from transformer_mt.training.checkpoint import CheckpointStore, Progress, average_weights

IDENTITY = {"model": {"d_model": 32, "heads": 4}, "data": "f00d", "seed": 1}


def tensors(seed: int) -> dict[str, Tensor]:
    """Views of one flat buffer, as the optimizer hands them over."""
    flat = torch.randn(26, generator=torch.Generator().manual_seed(seed))
    return {"a.weight": flat[:24].view(4, 6), "a.bias": flat[24:]}


def optimizer_state(seed: int) -> dict[str, Tensor]:
    return {"exp_avg.a": torch.full((3,), float(seed)), "step": torch.tensor(float(seed))}


def make_store(tmp_path: Path, **changes: Any) -> CheckpointStore:
    return CheckpointStore(tmp_path / "checkpoints", {**IDENTITY, **changes})


def save(store: CheckpointStore, update: int, *, keep_last: int = 5, **changes: Any) -> None:
    progress = replace(Progress(update=update, validated=True, best_update=update), **changes)
    store.save(progress, tensors(update), optimizer_state(update), keep_last=keep_last)


def load(store: CheckpointStore) -> tuple[int | None, list[str]]:
    """Update of the newest intact checkpoint, and what was reported."""
    reports: list[str] = []
    found = store.load_newest(reports.append)
    return (found.progress.update if found else None), reports


def contents(tmp_path: Path) -> dict[str, str]:
    """Checkpoint → first letters of its files: o(ptimizer), p(rogress), w(eights)."""
    return {
        path.name.lstrip("0"): "".join(sorted(file.name[0] for file in path.iterdir()))
        for path in sorted((tmp_path / "checkpoints").iterdir())
    }


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def test_what_is_saved_comes_back_bit_equal(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    progress = Progress(
        update=7, epoch=2, next_in_epoch=3, seconds=1.0 / 3, skipped=4, best_update=5,
        best_metric=-1.1, validations_without_gain=1, validated=True,
    )  # fmt: skip
    store.save(progress, tensors(7), optimizer_state(7), keep_last=5)
    found = make_store(tmp_path).load_newest(pytest.fail)
    assert found is not None
    assert found.progress == progress
    for loaded, saved in ((found.weights, tensors(7)), (found.optimizer, optimizer_state(7))):
        assert loaded.keys() == saved.keys()
        for name, tensor in saved.items():
            assert loaded[name].equal(tensor) and loaded[name].dtype == tensor.dtype
    assert store.weights(7)["a.bias"].equal(tensors(7)["a.bias"])


def test_a_run_without_checkpoints_starts_from_nothing(tmp_path: Path) -> None:
    assert load(make_store(tmp_path)) == (None, [])
    assert make_store(tmp_path).validated_updates() == []


def test_the_newest_is_taken(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    for update in (9, 10, 200):
        save(store, update)
    assert load(store) == (200, [])


def test_saving_the_same_update_again_replaces_it(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    save(store, 5, validated=False)
    save(store, 5, epoch=3)
    found = store.load_newest(pytest.fail)
    assert found is not None and found.progress.epoch == 3
    assert store.validated_updates() == [5]


def one_digit_more(path: Path) -> None:
    """An update that is far beyond the real one, in a file that is otherwise intact."""
    path.write_text(path.read_text().replace('"update": 20', '"update": 200000000000'))


@pytest.mark.parametrize(
    ("name", "damage", "reason"),
    [
        ("weights.safetensors", cut, "weights.safetensors: truncated or altered"),
        ("optimizer.safetensors", cut, "optimizer.safetensors: truncated or altered"),
        ("weights.safetensors", Path.unlink, "weights.safetensors: missing"),
        ("progress.json", cut, "progress.json: damaged"),
        ("progress.json", lambda path: path.write_bytes(b"\xff\xfe garbage"), "damaged"),
        ("progress.json", lambda path: path.write_text("{}"), "progress.json: absent, or damaged"),
        ("progress.json", one_digit_more, "altered since it was written"),
        ("progress.json", lambda path: path.write_text("[1]"), "list"),
        ("progress.json", lambda path: path.write_text('{"files": [], "progress": 1}'), "list"),
        ("progress.json", lambda path: path.write_text("[" * 100_000), "damaged"),
        ("progress.json", Path.unlink, "progress.json: absent, or damaged"),
    ],
)
def test_a_damaged_newest_is_told_and_passed_over(
    tmp_path: Path, name: str, damage: Callable[[Path], None], reason: str
) -> None:
    store = make_store(tmp_path)
    for update in (10, 20):
        save(store, update)
    damaged = tmp_path / "checkpoints" / "00000020"
    damage(damaged / name)
    found, reports = load(store)
    assert found == 10
    assert len(reports) == 1
    assert reports[0].startswith(f"{damaged} is damaged (")
    assert reason in reports[0]
    assert reports[0].endswith("; using the checkpoint before it")
    assert not damaged.exists(), "or it would be in the way of the one that is made again"
    save(store, 20)
    assert load(store) == (20, [])


def test_nothing_usable_is_an_error_and_deletes_nothing(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    for update in (10, 20):
        save(store, update)
        cut(tmp_path / "checkpoints" / f"{update:08d}" / "weights.safetensors")
    with pytest.raises(CheckpointError) as caught:
        load(store)
    assert str(caught.value) == (
        f"{tmp_path}/checkpoints: no usable checkpoint: 00000020, 00000010 damaged; "
        "start over with --fresh"
    )
    assert contents(tmp_path) == {"10": "opw", "20": "opw"}


def test_checkpoints_that_all_lost_their_optimizer_do_not_start_a_new_run_unasked(
    tmp_path: Path,
) -> None:
    store = make_store(tmp_path)
    for update in (10, 20):
        save(store, update)
        (tmp_path / "checkpoints" / f"{update:08d}" / "optimizer.safetensors").unlink()
    with pytest.raises(CheckpointError) as caught:
        load(store)
    assert str(caught.value) == (
        f"{tmp_path}/checkpoints: no usable checkpoint: all without optimizer.safetensors; "
        "start over with --fresh"
    )


def test_an_older_damaged_one_does_not_stop_a_run_that_can_go_on(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    for update in (10, 20, 30):
        save(store, update)
    (tmp_path / "checkpoints" / "00000010" / "progress.json").write_text("garbage")
    assert load(store) == (30, [])
    save(store, 40)
    assert store.validated_updates() == [20, 30, 40]


def test_another_model_or_corpus_is_refused_with_both_values(tmp_path: Path) -> None:
    save(make_store(tmp_path), 10)
    store = make_store(tmp_path, model={"d_model": 64, "heads": 4}, seed=2)
    with pytest.raises(CheckpointError) as caught:
        load(store)
    assert str(caught.value).splitlines() == [
        f"{tmp_path}/checkpoints: cannot resume, what was trained is not what is configured:",
        "  model: trained with {'d_model': 32, 'heads': 4}, "
        "the configuration says {'d_model': 64, 'heads': 4}",
        "  seed: trained with 1, the configuration says 2",
        "change it back, start over with --fresh, or use another --run-dir",
    ]
    assert load(make_store(tmp_path)) == (10, [])


def test_identity_can_be_checked_before_anything_is_loaded_or_made(tmp_path: Path) -> None:
    make_store(tmp_path).check_identity()  # nothing there yet: nothing to contradict
    for update in (10, 20):
        save(make_store(tmp_path), update)
    make_store(tmp_path).check_identity()
    other = make_store(tmp_path, data="beef")
    for damaged in (None, "00000020"):
        if damaged is not None:
            (tmp_path / "checkpoints" / damaged / "progress.json").write_text("[")
        with pytest.raises(CheckpointError, match=r"  data: trained with f00d, .* says beef"):
            other.check_identity()


def test_only_what_is_needed_is_kept(tmp_path: Path) -> None:
    """Two to resume from; of the older ones the last validated and the best, weights only."""
    store = make_store(tmp_path)
    for update in range(10, 80, 10):
        save(store, update, keep_last=3, best_update=min(update, 20), validated=update != 50)
    assert contents(tmp_path) == {"20": "pw", "40": "pw", "60": "opw", "70": "opw"}
    assert store.validated_updates() == [20, 40, 60, 70]
    assert load(store) == (70, [])


def test_unvalidated_ones_go_when_newer_ones_are_there(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    for update in (10, 15, 18, 20, 30):
        save(store, update, keep_last=5, validated=update % 10 == 0, best_update=10)
    assert contents(tmp_path) == {"10": "pw", "20": "opw", "30": "opw"}


def test_the_best_of_the_checkpoint_to_fall_back_to_is_kept_too(tmp_path: Path) -> None:
    """If the newest, which is the best, is damaged, the former best is the best again."""
    store = make_store(tmp_path)
    save(store, 10, keep_last=1, best_update=10)
    save(store, 20, keep_last=1, best_update=10)
    save(store, 30, keep_last=1, best_update=30)
    cut(tmp_path / "checkpoints" / "00000030" / "weights.safetensors")
    found = store.load_newest(lambda _: None)
    assert found is not None and found.progress.best_update == 10
    assert store.weights(10)["a.bias"].equal(tensors(10)["a.bias"])


def test_average_is_the_mean_of_the_last_validated(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    for update in (10, 20, 30, 40):
        save(store, update, validated=update != 30)
    weights, updates = store.average(2, pytest.fail)
    assert updates == [20, 40]
    for name, weight in weights.items():
        mean = (tensors(20)[name].double() + tensors(40)[name].double()) / 2
        assert weight.dtype == torch.float32
        torch.testing.assert_close(weight, mean.float(), rtol=0, atol=1e-7)
    assert store.average(99, pytest.fail)[1] == [10, 20, 40]


def test_one_checkpoint_is_its_own_average(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    save(store, 10)
    assert store.average(1, pytest.fail)[0]["a.weight"].equal(tensors(10)["a.weight"])


def test_weights_that_do_not_fit_together_are_not_averaged(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    save_file({"w": torch.zeros(2)}, paths[0])
    save_file({"w": torch.zeros(3)}, paths[1])
    with pytest.raises(CheckpointError) as caught:
        average_weights(paths)
    message = f"{paths[1]}: other parameters than {paths[0]}; cannot average them"
    assert str(caught.value) == message


def test_a_full_disk_leaves_the_former_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_store(tmp_path)
    for update in (10, 20):
        save(store, update)

    def full(tensors: dict[str, Tensor], path: Path) -> None:
        if path.name.startswith("optimizer"):
            path.write_bytes(b"half")
            raise OSError(errno.ENOSPC, "No space left on device")
        save_file(tensors, path)

    monkeypatch.setattr(checkpoint_module, "save_file", full)
    with pytest.raises(TmtError, match=r"00000030: the disk is full \(\d+ MiB free\)"):
        save(store, 30)
    assert contents(tmp_path) == {"10": "opw", "20": "opw"}
    assert load(store) == (20, [])


def test_a_real_write_error_leaves_the_former_checkpoints(
    tmp_path: Path, limit_file_size: Callable[[int], None]
) -> None:
    store = make_store(tmp_path)
    save(store, 10)
    limit_file_size(100)
    with pytest.raises(TmtError, match="00000020: cannot be written: File too large"):
        save(store, 20)
    assert contents(tmp_path) == {"10": "opw"}


def test_what_a_killed_process_left_is_not_read_and_goes(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    save(store, 10)
    half = tmp_path / "checkpoints" / ".tmt-0123456789abcdef.tmp" / "new" / "00000020"
    half.mkdir(parents=True)
    (half / "weights.safetensors").write_bytes(b"half")
    assert load(store) == (10, [])
    save(store, 20)
    assert not half.parents[1].exists(), "the disk would fill up with them"


def test_clear_forgets_everything(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    save(store, 10)
    store.clear()
    assert load(store) == (None, [])
    store.clear()


def test_progress_is_readable_by_people(tmp_path: Path) -> None:
    save(make_store(tmp_path), 10)
    path = tmp_path / "checkpoints" / "00000010" / "progress.json"
    content = json.loads(path.read_text())
    assert content["identity"] == IDENTITY
    assert content["progress"]["update"] == 10
    assert set(content["files"]) == {"weights.safetensors", "optimizer.safetensors"}


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-3] ^= 4  # inside the last number: the file still opens
    path.write_bytes(content)


def test_a_damaged_checkpoint_is_left_out_of_the_mean_and_told(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    for update in (10, 20, 30):
        save(store, update)
    flip_a_bit(tmp_path / "checkpoints" / "00000020" / "weights.safetensors")
    told: list[str] = []
    assert store.average(2, told.append)[1] == [10, 30], "the one before it takes its place"
    assert len(told) == 1 and "00000020/weights.safetensors: truncated or altered" in told[0]
    with pytest.raises(CheckpointError, match=r"00000020/weights\.safetensors"):
        store.weights(20)
    for update in (10, 30):
        flip_a_bit(tmp_path / "checkpoints" / f"{update:08d}" / "weights.safetensors")
    with pytest.raises(CheckpointError, match="no validated checkpoint that is intact"):
        store.average(2, told.append)


def test_only_what_a_checkpoint_has_made_is_removed(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    save(store, 10)
    mine = [tmp_path / "checkpoints" / name for name in ("notes.txt", "00000010/notes.txt", ".x")]
    for path in mine:
        path.write_text("mine")
    for update in (20, 30, 40):
        save(store, update, keep_last=1)
    store.clear()
    assert [path.read_text() for path in mine] == ["mine"] * 3
    assert load(store) == (None, [])


def test_a_run_directory_that_is_gone_is_not_made_again(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    store = make_store(run)
    save(store, 10)
    shutil.rmtree(run)
    with pytest.raises(CheckpointError, match="the run directory is gone"):
        save(store, 20)
    assert not run.exists() and not store.holds(10)
