"""Checkpoints: everything needed to resume, written so that a half-written one is never read.

One directory per checkpoint, `checkpoints/00001000/`, with `weights.safetensors`,
`optimizer.safetensors` and `progress.json`, the manifest, which holds the digests of all three. The
newest two keep all three; of the older ones, the best and those to average keep all but the
optimizer's state. A file whose bytes have changed since it was written is never used.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import AliasChoices, Field, TypeAdapter, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from transformer_mt.encoding.mixing import WHOLE_EPOCH
from transformer_mt.errors import CheckpointError
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.output import writing_folder
from transformer_mt.system.staging import remove_left_over
from transformer_mt.system.state import Damaged, Unreadable, damages, read_manifest, write_manifest

_WEIGHTS, _OPTIMIZER, _PROGRESS = "weights.safetensors", "optimizer.safetensors", "progress.json"
_FILES = (_PROGRESS, _OPTIMIZER, _WEIGHTS)
# Older files, from before epochs had blocks, call it `next_in_epoch`.
_Next = Annotated[int, Field(validation_alias=AliasChoices("next_in_block", "next_in_epoch"))]
N_RESUMABLE = 2  # if the newest one is damaged, there is one to fall back to


@dataclass(frozen=True)
class Progress:
    """Where training stands. Random numbers need no state: they are seeded by (seed, update)."""

    update: int = 0  # updates done
    epoch: int = 0
    block: int = 0  # of the epoch
    block_entries: int = WHOLE_EPOCH  # entries per block, about; absent in older files
    next_in_block: _Next = 0  # index of the next update in the plan of the block
    block_updates: int | None = None  # in this plan; absent in older files
    seconds: float = 0.0  # of training, all starts together
    cooldown_left: float | None = None  # as in `learning_rate`; absent in older files
    skipped: int = 0  # updates left out because their gradient was not finite
    split: int = 0  # micro-batches that did not fit into memory and were split
    best_update: int = 0  # update of the validation with the best metric; 0: none yet
    best_metric: float = 0.0
    metric: str | None = None  # the metric of `best_metric`; absent in older files
    validations_without_gain: int = 0
    validated: bool = False  # these weights have scores, and may be averaged


@dataclass(frozen=True)
class Checkpoint:
    progress: Progress
    weights: dict[str, Tensor]
    optimizer: dict[str, Tensor]


class CheckpointStore:
    """The checkpoints of one run.

    Args:
        directory: created with the first checkpoint.
        identity: model sizes and data fingerprint, which must not change between stop and resume.
    """

    def __init__(self, directory: Path, identity: dict[str, Any]) -> None:
        self.directory = directory
        self.identity = identity

    def save(
        self,
        progress: Progress,
        weights: dict[str, Tensor],
        optimizer: dict[str, Tensor],
        *,
        keep_last: int,
    ) -> None:
        """Write a checkpoint, then remove older ones that are no longer needed.

        Args:
            keep_last: how many validated checkpoints keep their weights, beside the best one.
        """
        if not self.directory.parent.is_dir():
            text = tr("{}: the run directory is gone; nothing of this training is on the disk any "
                      "more", self.directory.parent)  # fmt: skip
            raise CheckpointError(text)
        with writing_folder(self._path(progress.update), _PROGRESS, ours=True) as directory:
            for name, tensors in ((_WEIGHTS, weights), (_OPTIMIZER, optimizer)):
                # Copies of the views of a flat buffer: the file format does not take shared memory.
                save_file({n: t.detach().clone() for n, t in tensors.items()}, directory / name)
            content = {"progress": asdict(progress), "identity": self.identity}
            write_manifest(directory, _PROGRESS, content)
        self._prune(keep_last)

    def load_newest(self, report: Callable[[str], None]) -> Checkpoint | None:
        """The newest intact checkpoint, or None if the run has none.

        Args:
            report: called with a message about each damaged checkpoint that is skipped.
        Raises:
            CheckpointError: there are checkpoints but none is usable, one cannot be read, or the
                run was trained with another model or other data.
        """
        damaged = []
        for update in reversed(self._updates()):
            path = self._path(update)
            if not (path / _OPTIMIZER).is_file():
                continue  # kept for averaging only
            try:
                found, identity = self._read(update, _WEIGHTS, _OPTIMIZER)
                self._compare(identity)
                weights, optimizer = load_file(path / _WEIGHTS), load_file(path / _OPTIMIZER)
            except (Unreadable, OSError) as error:
                text = tr("{}: cannot be read: {}; if it stays so, remove it", path, error)
                raise CheckpointError(text) from error
            except (Damaged, SafetensorError) as error:
                damaged.append(path)
                report(tr("{} is damaged ({}); using the checkpoint before it", path, error))
                continue
            for worthless in damaged:
                _remove(worthless)
            return Checkpoint(found, weights, optimizer)
        if not self._updates():
            return None
        names = ", ".join(path.name for path in damaged)
        problem = tr("{} damaged", names) if names else tr("all without {}", _OPTIMIZER)
        raise CheckpointError(
            tr("{}: no usable checkpoint: {}; start over with --fresh", self.directory, problem)
        )

    def check_identity(self) -> None:
        """Raise the error of `load_newest` if the run was trained with another identity."""
        for _, identity in self._readable()[-1:]:
            self._compare(identity)

    def average(
        self, n_last: int, report: Callable[[str], None]
    ) -> tuple[dict[str, Tensor], list[int]]:
        """The mean of the weights of the last `n_last` validated checkpoints, and their updates.

        Source: Vaswani et al. 2017, section 6.1.
        Args:
            report: called with a message about each damaged checkpoint; an older one replaces it.
        Raises:
            CheckpointError: no intact checkpoint is left, or their parameters differ.
        """
        updates: list[int] = []
        for update in reversed(self.validated_updates()):
            if len(updates) == n_last:
                break
            try:
                self._read(update, _WEIGHTS)
                updates.insert(0, update)
            except Damaged as error:
                report(tr("{}; it is left out of the mean", error))
        if not updates:
            raise CheckpointError(tr("{}: no validated checkpoint that is intact", self.directory))
        return _mean([self._path(update) / _WEIGHTS for update in updates]), updates

    def weights(self, update: int) -> dict[str, Tensor]:
        """The weights of one checkpoint, by parameter name.
        Raises:
            CheckpointError: the checkpoint is absent or damaged.
        """
        try:
            self._read(update, _WEIGHTS)
        except Damaged as error:
            raise CheckpointError(str(error)) from error
        return load_file(self._path(update) / _WEIGHTS)

    def validated_updates(self) -> list[int]:
        """Updates whose checkpoints were validated, ascending."""
        return [progress.update for progress, _ in self._readable() if progress.validated]

    def has_any(self) -> bool:
        return bool(self._updates())

    def clear(self) -> None:
        """Remove all checkpoints; other files in the directory stay."""
        for update in self._updates():
            _remove(self._path(update))
        with suppress(OSError):
            self.directory.rmdir()

    def _path(self, update: int) -> Path:
        return self.directory / f"{update:08d}"

    def _updates(self) -> list[int]:
        """The updates of all checkpoints, damaged ones included, ascending."""
        folders = sorted(self.directory.glob("[0-9]" * 8))
        return [int(path.name) for path in folders if any((path / n).exists() for n in _FILES)]

    def _readable(self) -> list[tuple[Progress, dict[str, Any]]]:
        """Progress and identity of the checkpoints whose manifest is intact, ascending."""
        found = []
        for update in self._updates():
            with suppress(Damaged):
                found.append(self._read(update))
        return found

    def _read(self, update: int, *names: str) -> tuple[Progress, dict[str, Any]]:
        """Progress and identity of a checkpoint, after a check that the named files are intact.

        Raises:
            Damaged: a file is damaged, or the manifest is absent, altered, or of another update.
        """
        path = self._path(update)
        manifest = read_manifest(path, _PROGRESS) or {}
        try:
            progress = TypeAdapter(Progress).validate_python(manifest.get("progress"))
        except ValidationError as error:
            raise Damaged(tr("{}: absent, or damaged", path / _PROGRESS)) from error
        identity, listed = manifest.get("identity"), manifest.get("files", {})
        if not isinstance(identity, dict) or progress.update != update or not {*names} <= {*listed}:
            raise Damaged(tr("{}: not of this checkpoint", path / _PROGRESS))
        if problems := damages(path, {**manifest, "files": {name: listed[name] for name in names}}):
            raise Damaged("; ".join(problems))
        return progress, identity

    def _compare(self, saved: dict[str, Any]) -> None:
        changed = "\n".join(
            "  " + tr("{}: trained with {}, the configuration says {}", key, saved.get(key), value)
            for key, value in self.identity.items()
            if saved.get(key) != value
        )
        if changed:
            text = tr(
                "{}: cannot resume, what was trained is not what is configured:\n{}\nchange it "
                "back, start over with --fresh, or use another --run-dir", self.directory, changed,
            )  # fmt: skip
            raise CheckpointError(text)

    def _prune(self, keep_last: int) -> None:
        resumable = self._updates()[-N_RESUMABLE:]
        readable = [found for found, _ in self._readable()]  # others stay: perhaps readable later
        # The checkpoint to fall back to may name another best update.
        best = {found.best_update for found in readable if found.update in resumable}
        validated = [found.update for found in readable if found.validated]
        for update in (found.update for found in readable if found.update not in resumable):
            if update in (*validated[-keep_last:], *best):
                (self._path(update) / _OPTIMIZER).unlink(missing_ok=True)
            else:
                _remove(self._path(update))
        remove_left_over(self.directory)


def _remove(path: Path) -> None:
    """Remove a checkpoint, damaged or not; other files in its folder stay."""
    for name in _FILES:
        (path / name).unlink(missing_ok=True)
    with suppress(OSError):
        path.rmdir()


def _mean(paths: list[Path]) -> dict[str, Tensor]:
    """The mean of several weight files.

    Raises:
        CheckpointError: names or shapes of the parameters differ.
    """
    total = {name: weight.double() for name, weight in load_file(paths[0]).items()}
    for path in paths[1:]:
        weights = load_file(path)
        if {n: w.shape for n, w in weights.items()} != {n: w.shape for n, w in total.items()}:
            raise CheckpointError(
                tr("{}: other parameters than {}; cannot average them", path, paths[0])
            )
        for name, weight in weights.items():
            total[name] += weight
    return {name: (weight / len(paths)).float() for name, weight in total.items()}
