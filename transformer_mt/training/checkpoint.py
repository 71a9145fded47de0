"""Checkpoints: everything needed to go on, written so that a half-written one is never read.

One directory per checkpoint, `checkpoints/00001000/`, with `weights.safetensors`,
`optimizer.safetensors` and `progress.json`, which holds the digests of the other two. The newest
two keep all of it; older ones that are still wanted for averaging keep their weights only.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from transformer_mt.errors import CheckpointError
from transformer_mt.files import remove, sha256, write_json, writing

_WEIGHTS, _OPTIMIZER, _PROGRESS = "weights.safetensors", "optimizer.safetensors", "progress.json"
_DAMAGE = (OSError, ValueError, KeyError, TypeError, AttributeError)  # of reading bad JSON
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


class CheckpointStore:
    """The checkpoints of one run.

    Args:
        directory: made when the first checkpoint is saved.
        identity: what may not change between stop and resume: model sizes and data fingerprint.
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
        """Write a checkpoint, then drop what is no longer needed.

        Args:
            keep_last: how many validated checkpoints keep their weights, beside the best one.
        """
        with writing(self._path(progress.update)) as directory:
            directory.mkdir(parents=True)
            save_file(_contiguous(weights), directory / _WEIGHTS)
            save_file(_contiguous(optimizer), directory / _OPTIMIZER)
            digests = {name: sha256(directory / name) for name in (_WEIGHTS, _OPTIMIZER)}
            content = {"progress": asdict(progress), "identity": self.identity, "files": digests}
            write_json(directory / _PROGRESS, content)
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
                checkpoint = self._load(path)
            except (*_DAMAGE, SafetensorError) as error:
                damaged.append(path)
                report(f"{path} is damaged ({error}); using the checkpoint before it")
                continue
            for worthless in damaged:
                remove(worthless)
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
            try:
                content = json.loads((self._path(update) / _PROGRESS).read_text(encoding="utf-8"))
                identity = dict(content["identity"])
            except (OSError, ValueError, KeyError, TypeError):
                continue  # damaged: `load_newest` reports it
            self._compare(identity)
            return

    def average(self, n_last: int) -> tuple[dict[str, Tensor], list[int]]:
        """The mean of the weights of the last `n_last` validated checkpoints, and their updates.

        Source: Vaswani et al. 2017, section 6.1.
        """
        updates = self.validated_updates()[-n_last:]
        return average_weights([self._path(update) / _WEIGHTS for update in updates]), updates

    def weights(self, update: int) -> dict[str, Tensor]:
        return load_file(self._path(update) / _WEIGHTS)

    def validated_updates(self) -> list[int]:
        """Updates whose checkpoints were validated and still have their weights, ascending."""
        progress = {update: self._progress(update) for update in sorted(self._updates())}
        return [update for update, at in progress.items() if at is not None and at.validated]

    def clear(self) -> None:
        remove(self.directory)

    def _path(self, update: int) -> Path:
        return self.directory / f"{update:08d}"

    def _updates(self) -> list[int]:
        return [int(path.name) for path in self.directory.glob("[0-9]" * 8)]

    def _load(self, path: Path) -> Checkpoint:
        content = json.loads((path / _PROGRESS).read_text(encoding="utf-8"))
        for name, digest in content["files"].items():
            if sha256(path / name) != digest:
                raise ValueError(f"{name} is truncated or altered")
        self._compare(content["identity"])
        progress = replace(Progress(), **content["progress"])
        return Checkpoint(progress, load_file(path / _WEIGHTS), load_file(path / _OPTIMIZER))

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

    def _progress(self, update: int) -> Progress | None:
        """What a checkpoint says of itself; None if that is damaged."""
        try:
            content = json.loads((self._path(update) / _PROGRESS).read_text(encoding="utf-8"))
            return Progress(**content["progress"])
        except _DAMAGE:
            return None

    def _prune(self, keep_last: int) -> None:
        updates = sorted(self._updates())
        resumable = updates[-N_RESUMABLE:]
        # Also what the checkpoint to fall back to calls the best one.
        best = {at.best_update for update in resumable if (at := self._progress(update))}
        wanted = {*self.validated_updates()[-keep_last:], *best}
        for update in updates:
            if update in resumable:
                continue
            if update in wanted:
                remove(self._path(update) / _OPTIMIZER)
            else:
                remove(self._path(update))
        for left_over in self.directory.glob(".*"):  # of a process that was killed while writing
            remove(left_over)


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
