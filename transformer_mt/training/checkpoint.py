"""Checkpoints: everything needed to go on, written so that a half-written one is never read.

One directory per checkpoint, `checkpoints/00001000/`, with `weights.safetensors`,
`optimizer.safetensors` and `progress.json`, the manifest, which holds the digests of all three. The
newest two keep all of it; older ones that are still wanted for averaging keep their weights only.
A file whose bytes have changed since it was written is never used.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from transformer_mt.errors import CheckpointError
from transformer_mt.system.output import writing_folder
from transformer_mt.system.staging import remove_left_over
from transformer_mt.system.state import Damaged, damages, read_manifest, write_manifest

_WEIGHTS, _OPTIMIZER, _PROGRESS = "weights.safetensors", "optimizer.safetensors", "progress.json"
N_RESUMABLE = 2  # a damaged newest checkpoint leaves one to fall back to


@dataclass(frozen=True)
class Progress:
    """Where training stands. Random numbers need no state: they are seeded by (seed, update)."""

    update: int = 0  # updates done
    epoch: int = 0
    next_in_epoch: int = 0  # index of the next update in the epoch's plan
    seconds: float = 0.0  # of training, over all starts
    skipped: int = 0  # updates left out because their gradient was not finite
    split: int = 0  # micro-batches that did not fit into memory and were done in halves
    best_update: int = 0  # validation with the best metric; 0: none yet
    best_metric: float = 0.0
    validations_without_gain: int = 0
    validated: bool = False  # the weights of this checkpoint may be averaged


@dataclass(frozen=True)
class Checkpoint:
    progress: Progress
    weights: dict[str, Tensor]
    optimizer: dict[str, Tensor]


@dataclass(frozen=True)
class _Described:
    """What a checkpoint says of itself."""

    progress: Progress
    identity: dict[str, Any]
    manifest: dict[str, Any]


class CheckpointStore:
    """The checkpoints of one run.

    Args:
        directory: made when the first checkpoint is saved.
        identity: model sizes and data fingerprint, which may not change between stop and resume.
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
        """Write a checkpoint, then remove the older ones that nothing needs.

        Args:
            keep_last: how many validated checkpoints keep their weights, beside the best one.
        """
        if not self.directory.parent.is_dir():
            raise CheckpointError(
                f"{self.directory.parent}: the run directory is gone; nothing of this training is "
                "on the disk any more"
            )
        with writing_folder(self._path(progress.update), _PROGRESS, ours=True) as directory:
            save_file(_contiguous(weights), directory / _WEIGHTS)
            save_file(_contiguous(optimizer), directory / _OPTIMIZER)
            content = {"progress": asdict(progress), "identity": self.identity}
            write_manifest(directory, _PROGRESS, content)
        self._prune(keep_last)

    def load_newest(self, report: Callable[[str], None]) -> Checkpoint | None:
        """The newest intact checkpoint, or None if the run has none.

        Args:
            report: told about every damaged checkpoint that was passed over.
        Raises:
            CheckpointError: there are checkpoints and none can be used, or the run was trained
                with another model or other data.
        """
        damaged = []
        for update in sorted(self._updates(), reverse=True):
            path = self._path(update)
            if not (path / _OPTIMIZER).is_file():
                continue  # kept for averaging only
            try:
                checkpoint = self._load(update)
            except Damaged as error:
                damaged.append(path)
                report(f"{path} is damaged ({error}); using the checkpoint before it")
                continue
            for worthless in damaged:
                self._remove(worthless)
            return checkpoint
        if not self._updates():
            return None
        problem = f"{', '.join(path.name for path in damaged)} damaged"
        raise CheckpointError(
            f"{self.directory}: no usable checkpoint: "
            f"{problem if damaged else f'all without {_OPTIMIZER}'}; start over with --fresh"
        )

    def check_identity(self) -> None:
        """Raise what `load_newest` would raise if the run was trained from something else."""
        for update in sorted(self._updates(), reverse=True):
            if (found := self._described(update)) is not None:
                self._compare(found.identity)
                return

    def average(
        self, n_last: int, report: Callable[[str], None]
    ) -> tuple[dict[str, Tensor], list[int]]:
        """The mean of the weights of the last `n_last` validated checkpoints, and their updates.

        Source: Vaswani et al. 2017, section 6.1.
        Args:
            report: told about every damaged checkpoint, in whose place the one before it is taken.
        Raises:
            CheckpointError: no intact one is left, or they do not fit together.
        """
        updates: list[int] = []
        for update in reversed(self.validated_updates()):
            if len(updates) == n_last:
                break
            try:
                self._check_weights(update)
            except CheckpointError as error:
                report(f"{error}; it is left out of the mean")
                continue
            updates.insert(0, update)
        if not updates:
            raise CheckpointError(f"{self.directory}: no validated checkpoint that is intact")
        return average_weights([self._path(update) / _WEIGHTS for update in updates]), updates

    def weights(self, update: int) -> dict[str, Tensor]:
        """
        Raises:
            CheckpointError: the checkpoint is absent or damaged.
        """
        self._check_weights(update)
        return load_file(self._path(update) / _WEIGHTS)

    def validated_updates(self) -> list[int]:
        """Updates whose checkpoints were validated and have a file of weights, ascending."""
        return [
            update
            for update in sorted(self._updates())
            if (found := self._described(update)) is not None and found.progress.validated
        ]

    def holds(self, update: int) -> bool:
        return self._described(update) is not None

    def has_any(self) -> bool:
        return bool(self._updates())

    def clear(self) -> None:
        """Remove all checkpoints; other files in the directory stay."""
        for update in self._updates():
            self._remove(self._path(update))
        with suppress(OSError):
            self.directory.rmdir()

    def _path(self, update: int) -> Path:
        return self.directory / f"{update:08d}"

    def _updates(self) -> list[int]:
        files = (_PROGRESS, _OPTIMIZER, _WEIGHTS)
        return [
            int(path.name)
            for path in self.directory.glob("[0-9]" * 8)
            if any((path / name).exists() for name in files)
        ]

    def _load(self, update: int) -> Checkpoint:
        """
        Raises:
            Damaged: a file of the checkpoint is not as it was written.
            CheckpointError: it is of another model or other data.
        """
        path = self._path(update)
        described = self._read(update)
        if problems := damages(path, described.manifest):
            raise Damaged("; ".join(problems))
        self._compare(described.identity)
        try:
            weights, optimizer = load_file(path / _WEIGHTS), load_file(path / _OPTIMIZER)
        except (SafetensorError, OSError) as error:
            raise Damaged(f"{path}: {error}") from error
        return Checkpoint(described.progress, weights, optimizer)

    def _check_weights(self, update: int) -> None:
        path = self._path(update)
        try:
            manifest = self._read(update).manifest
            listed = {_WEIGHTS: manifest["files"][_WEIGHTS]}
            problems = damages(path, {**manifest, "files": listed})
        except (Damaged, KeyError) as error:
            problems = [str(error)]
        if problems:
            raise CheckpointError("; ".join(problems))

    def _described(self, update: int) -> "_Described | None":
        """What a checkpoint says of itself; None if that is damaged."""
        try:
            return self._read(update)
        except Damaged:
            return None

    def _read(self, update: int) -> "_Described":
        """
        Raises:
            Damaged: the manifest is absent, altered, or of another update.
        """
        path = self._path(update)
        manifest = read_manifest(path, _PROGRESS) or {}
        identity = manifest.get("identity")
        try:
            progress = TypeAdapter(Progress).validate_python(manifest.get("progress"))
        except ValidationError as error:
            raise Damaged(f"{path / _PROGRESS}: absent, or damaged") from error
        if not isinstance(identity, dict) or progress.update != update:
            raise Damaged(f"{path / _PROGRESS}: not of this checkpoint")
        return _Described(progress, identity, manifest)

    def _remove(self, path: Path) -> None:
        """Remove a checkpoint, damaged or not, but nothing else that lies in its folder."""
        for name in (_PROGRESS, _OPTIMIZER, _WEIGHTS):
            (path / name).unlink(missing_ok=True)
        with suppress(OSError):
            path.rmdir()

    def _compare(self, saved: dict[str, Any]) -> None:
        changed = [
            f"{key}: trained with {saved.get(key)}, the configuration says {self.identity[key]}"
            for key in self.identity
            if saved.get(key) != self.identity[key]
        ]
        if changed:
            raise CheckpointError(
                f"{self.directory}: cannot resume, what was trained is not what is configured:\n"
                + "\n".join(f"  {line}" for line in changed)
                + "\nchange it back, start over with --fresh, or use another --run-dir"
            )

    def _prune(self, keep_last: int) -> None:
        updates = sorted(self._updates())
        resumable = updates[-N_RESUMABLE:]
        # The checkpoint to fall back to may name another best one.
        best = {at.progress.best_update for u in resumable if (at := self._described(u))}
        wanted = {*self.validated_updates()[-keep_last:], *best}
        for update in updates:
            if update in resumable:
                continue
            if update in wanted:
                (self._path(update) / _OPTIMIZER).unlink(missing_ok=True)
            else:
                self._remove(self._path(update))
        remove_left_over(self.directory)


def average_weights(paths: list[Path]) -> dict[str, Tensor]:
    """The mean of several weight files with the same names and shapes.

    Raises:
        CheckpointError: they do not fit together.
    """
    total = {name: weight.double() for name, weight in load_file(paths[0]).items()}
    for path in paths[1:]:
        weights = load_file(path)
        if {n: w.shape for n, w in weights.items()} != {n: w.shape for n, w in total.items()}:
            raise CheckpointError(f"{path}: other parameters than {paths[0]}; cannot average them")
        for name, weight in weights.items():
            total[name] += weight
    return {name: (weight / len(paths)).float() for name, weight in total.items()}


def _contiguous(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Views of one flat buffer, each on its own: the file format knows no shared memory."""
    return {name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}
