"""Adam on fp32 master weights, for a model that computes in any precision, on many processes.

Comes in: a model and its gradients. Goes out: updated weights. All parameters are views of one flat
buffer, so that clipping, Adam, the cast to the compute precision and what processes send each other
are few operations over it. This file knows nothing of data, losses or checkpoint files.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from transformer_mt.config.experiment import TrainConfig
from transformer_mt.system.processes.distributed import ALONE, Ranks

BUCKET_BYTES = 16 << 20  # of fp32 gradient sent at a time, while backward makes the next
ADD_ELEMENTS = 1 << 18  # converted to fp32 and added at a time: what stays in the cache of a core


def learning_rate(
    step: int, peak: float, warmup: int, *, cooldown: int = 0, last_step: int = 0
) -> float:
    """Linear warm-up, then decay with the inverse square root of the step, then a cool-down.

    With peak = d_model^−0.5 · warmup^−0.5 and no cool-down this is the paper's schedule. The
    cool-down multiplies it by a factor that falls linearly to 0.
    Source: Vaswani et al. 2017, section 5.3, formula 3; for the cool-down Hägele et al. 2024.
    Args:
        step: number of the update, from 1.
        peak: the rate at step = warmup.
        warmup: steps of linear increase; 0 starts at the peak.
        cooldown: steps of the cool-down, the last of which is `last_step`; 0: none.
    """
    rate = peak * step / warmup if step < warmup else peak * math.sqrt(max(1, warmup) / step)
    if not cooldown:
        return rate
    return rate * min(1.0, max(0.0, (last_step + 1 - step) / cooldown))


class MasterAdam:
    """Holds the fp32 master weights of a model and updates them.

    The model's own parameters become views of a buffer in `dtype`, refreshed after each update.
    With fp16 the loss must be multiplied by `loss_scale` before `backward`; it halves when a
    gradient overflows and doubles after `SCALE_GROWTH_INTERVAL` good updates.

    Several processes hold the same weights. Each accumulates the gradients of its own sentences;
    `step` updates with their sum. With `shard_optimizer` each keeps only its part of the master
    weights and moments (ZeRO stage 1: Rajbhandari et al. 2020), updates that, and gets the others'.
    """

    SCALE_GROWTH_INTERVAL = 1000

    def __init__(
        self, model: nn.Module, cfg: TrainConfig, dtype: torch.dtype, ranks: Ranks = ALONE
    ) -> None:
        self.names = [name for name, _ in model.named_parameters()]
        self._ranks = ranks
        self._shard = cfg.shard_optimizer and ranks.size > 1
        self._clip_norm = cfg.clip_norm
        self._reduce_dtype = torch.bfloat16 if cfg.reduce_dtype == "bf16" else torch.float32
        self._fp16 = dtype == torch.float16
        self.loss_scale = 2.0**14 if self._fp16 else 1.0
        self._good_updates = 0

        parameters = list(model.parameters())
        self._shapes = [parameter.shape for parameter in parameters]
        flat = torch.cat([p.detach().float().flatten() for p in parameters])
        flat = nn.functional.pad(flat, (0, -len(flat) % ranks.size))  # parts of equal size
        ranks.copy_from_main(flat)
        self._own = self._part_of(flat)
        self._working = flat if dtype == torch.float32 else flat.to(dtype)
        in_place = dtype == torch.float32
        self.master = self._working[self._own] if in_place else flat[self._own].clone()
        self.gradient = torch.zeros_like(flat)
        self._working_gradient = torch.zeros_like(self._working)
        self._adam = torch.optim.Adam(
            [self.master],
            lr=0.0,
            betas=(cfg.adam_betas[0], cfg.adam_betas[1]),
            eps=cfg.adam_eps,
            fused=True,
        )
        self._adam.state[self.master] = {
            "step": torch.zeros((), device=flat.device),
            "exp_avg": torch.zeros_like(self.master),
            "exp_avg_sq": torch.zeros_like(self.master),
        }  # Adam's own beginning, but there to be saved before the first update
        weights, gradients = self._views(self._working), self._views(self._working_gradient)
        for name, parameter in zip(self.names, parameters, strict=True):
            parameter.data = weights[name]
            parameter.grad = gradients[name]
        model.to(dtype)  # buffers; the parameters have their dtype already
        self._sender = _GradientSender(parameters, self._send) if ranks.size > 1 else None

    def expect_last(self) -> None:
        """The next `backward` is this process's last of the update: send what it finishes."""
        if self._sender is not None:
            self._sender.start()

    def accumulate(self) -> None:
        """Add the gradients of one micro-batch, in fp32, and clear them in the model."""
        unsent = slice(0, self._n_unsent)
        _add(self.gradient[unsent], self._working_gradient[unsent])
        self._working_gradient.zero_()

    def discard(self) -> None:
        """Forget the gradients of a micro-batch that failed, which will be done again in parts.

        What was sent already is whole, so that `accumulate` leaves it out of the repetition.
        """
        if self._sender is not None:
            self._sender.pause()
        self._working_gradient.zero_()

    def step(self, lr: float, n_tokens: int) -> float:
        """Divide the accumulated gradient by `n_tokens`, clip it and update the weights.

        Args:
            n_tokens: of the update, on all processes.
        Returns:
            The norm of the gradient before clipping; if it is not finite, nothing was updated.
        """
        if self._sender is not None:
            self._sender.finish()
        norm = self.gradient.norm().item() / (n_tokens * self.loss_scale)
        scale = 1 / (n_tokens * self.loss_scale)
        if math.isfinite(norm):
            if self._clip_norm and norm > self._clip_norm:
                scale *= self._clip_norm / norm
            self.master.grad = self.gradient[self._own].mul_(scale)
            self._adam.param_groups[0]["lr"] = lr
            self._adam.step()
            self._refresh()
        self._adapt_loss_scale(math.isfinite(norm))
        self.gradient.zero_()
        return norm

    def state(self) -> dict[str, Tensor]:
        """The moments, `exp_avg.<name>` and `exp_avg_sq.<name>`, step and loss scale."""
        state = self._adam.state[self.master]
        named = {
            f"{kind}.{name}": view
            for kind in ("exp_avg", "exp_avg_sq")
            for name, view in self._views(self._whole(state[kind])).items()
        }
        scale = [self.loss_scale, float(self._good_updates)]
        return {**named, "step": state["step"], "loss_scale": torch.tensor(scale)}

    def load(self, weights: dict[str, Tensor], state: dict[str, Tensor]) -> None:
        """Continue from saved weights and `state()`, which must fit this model.

        What rank 0 passes counts; the others may pass empty dictionaries.
        """
        self._fill(self.master, weights, "")
        adam = self._adam.state[self.master]
        for kind in ("exp_avg", "exp_avg_sq"):
            self._fill(adam[kind], state, f"{kind}.")
        numbers = self._ranks.told_by_main(
            (state["step"].item(), *state["loss_scale"].tolist()) if state else (0.0, 0.0, 0.0)
        )
        adam["step"].fill_(numbers[0])
        self.loss_scale, self._good_updates = numbers[1], int(numbers[2])
        self._refresh()

    def weights(self) -> dict[str, Tensor]:
        """The fp32 master weights by parameter name, as views."""
        return self._views(self._whole(self.master))

    @property
    def _n_unsent(self) -> int:
        return len(self.gradient) if self._sender is None else self._sender.n_unsent

    def _send(self, start: int, end: int) -> Callable[[], None]:
        """Begin to sum a part of the gradient over all processes; returns what waits for it."""
        part = self.gradient[start:end]
        _add(part, self._working_gradient[start:end])
        self._working_gradient[start:end].zero_()
        if self._reduce_dtype == torch.float32:
            return self._ranks.start_sum(part)
        rounded = part.to(self._reduce_dtype)
        wait = self._ranks.start_sum(rounded)

        def finish() -> None:
            wait()
            part.copy_(rounded)

        return finish

    def _part_of(self, flat: Tensor) -> slice:
        """Which part of the flat buffer this process updates: its own, or everything."""
        if not self._shard:
            return slice(0, len(flat))
        size = len(flat) // self._ranks.size
        return slice(self._ranks.rank * size, (self._ranks.rank + 1) * size)

    def _whole(self, part: Tensor) -> Tensor:
        """What all processes have in their parts."""
        if not self._shard:
            return part
        whole = part.new_zeros(len(self.gradient))
        whole[self._own] = part
        self._ranks.join_parts(whole)
        return whole

    def _fill(self, part: Tensor, named: dict[str, Tensor], prefix: str) -> None:
        """Set the part of this process from named tensors of rank 0."""
        whole = part.new_zeros(len(self.gradient))
        if self._ranks.is_main:
            for name, view in self._views(whole).items():
                view.copy_(named[prefix + name])
        self._ranks.copy_from_main(whole)
        part.copy_(whole[self._own])

    def _views(self, flat: Tensor) -> dict[str, Tensor]:
        sizes = [shape.numel() for shape in self._shapes]
        parts = flat[: sum(sizes)].split(sizes)
        return {
            name: part.view(shape)
            for name, part, shape in zip(self.names, parts, self._shapes, strict=True)
        }

    def _refresh(self) -> None:
        """Bring what the model computes with up to date with the master weights."""
        if self._working.dtype != torch.float32:
            self._working[self._own].copy_(self.master)
        if self._shard:
            self._ranks.join_parts(self._working)

    def _adapt_loss_scale(self, finite: bool) -> None:
        if not self._fp16:
            return
        self._good_updates = self._good_updates + 1 if finite else 0
        if not finite:
            self.loss_scale /= 2
        elif self._good_updates % self.SCALE_GROWTH_INTERVAL == 0:
            self.loss_scale *= 2


def _add(total: Tensor, part: Tensor) -> None:
    """Add in place. At once, torch would first copy all of `part` to the precision of `total`."""
    n = ADD_ELEMENTS if total.device.type == "cpu" else len(total)
    for into, values in zip(total.split(n), part.split(n), strict=True):
        into += values


class _GradientSender:
    """Sends gradients in buckets as soon as backward has finished them, the last layers' first.

    Every process sends the same buckets in the same order, whether it had sentences or not.
    """

    def __init__(
        self, parameters: list[nn.Parameter], send: Callable[[int, int], Callable[[], None]]
    ) -> None:
        self._send = send
        self._buckets: list[tuple[int, int]] = []  # start and end in the flat buffer
        self._sizes: list[int] = []  # parameters in each
        end = start = self._total = sum(p.numel() for p in parameters)
        n_parameters = 0
        for i, parameter in reversed(list(enumerate(parameters))):
            parameter.register_post_accumulate_grad_hook(self._hook(len(self._buckets)))
            start -= parameter.numel()
            n_parameters += 1
            if 4 * (end - start) >= BUCKET_BYTES or i == 0:
                self._buckets.append((start, end))
                self._sizes.append(n_parameters)
                end, n_parameters = start, 0
        self._pending = list(self._sizes)
        self._active = False
        self._waits: list[Callable[[], None]] = []

    @property
    def n_unsent(self) -> int:
        """Length of the beginning of the flat buffer that was not sent yet."""
        return self._buckets[len(self._waits) - 1][0] if self._waits else self._total

    def start(self) -> None:
        """From now on what backward finishes is sent."""
        self._active, self._pending = True, list(self._sizes)

    def pause(self) -> None:
        self._active = False

    def finish(self) -> None:
        """Send the rest, and wait for all of it."""
        self._active = False
        while len(self._waits) < len(self._buckets):
            self._send_next()
        for wait in self._waits:
            wait()
        self._waits = []

    def _hook(self, bucket: int) -> Callable[[Tensor], None]:
        def finished(_: Tensor) -> None:
            if not self._active:
                return
            self._pending[bucket] -= 1
            while len(self._waits) < len(self._buckets) and not self._pending[len(self._waits)]:
                self._send_next()

        return finished

    def _send_next(self) -> None:
        self._waits.append(self._send(*self._buckets[len(self._waits)]))
