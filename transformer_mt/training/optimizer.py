"""Adam, or Muon and Adam, on fp32 master weights, for any compute precision and any number of
processes.

Comes in: a model and its gradients. Goes out: updated weights. This file knows nothing of data,
losses or checkpoint files.
"""

import math

import torch
from torch import Tensor, nn
from torch.optim.adam import adam

from transformer_mt.config.experiment import TrainConfig
from transformer_mt.model.encoder_decoder import hidden_matrices
from transformer_mt.system.processes.distributed import ALONE, Ranks
from transformer_mt.training.flat_parameters import FlatParameters, GradientSum
from transformer_mt.training.muon import Muon, momentum_at

_MOMENTS = ("exp_avg", "exp_avg_sq")


def learning_rate(step: int, peak: float, warmup: int, *, cooldown_left: float = 1.0) -> float:
    """Linear warm-up, then decay with the inverse square root of the step, then a cool-down.

    With peak = d_model^−0.5 · warmup^−0.5 and no cool-down this is the paper's schedule. The
    cool-down multiplies it by a factor that falls linearly to 0.
    Source: Vaswani et al. 2017, section 5.3, formula 3; for the cool-down Hägele et al. 2024.
    Args:
        step: number of the update, from 1.
        peak: the rate at step = warmup.
        warmup: steps of linear increase; 0 starts at the peak.
        cooldown_left: remaining share of the cool-down; above 1: it has not begun.
    """
    rate = peak * step / warmup if step < warmup else peak * math.sqrt(max(1, warmup) / step)
    return rate * min(1.0, max(0.0, cooldown_left))


class LossScale:
    """The factor of the loss that keeps small fp16 gradients from underflowing; otherwise 1.

    It halves when a gradient overflows and doubles after `GROWTH_INTERVAL` good updates.
    """

    GROWTH_INTERVAL = 1000

    def __init__(self, dtype: torch.dtype) -> None:
        self._fp16 = dtype == torch.float16
        self.factor = 2.0**14 if self._fp16 else 1.0
        self.good_updates = 0

    def adapt(self, *, finite: bool) -> None:
        if not self._fp16:
            return
        self.good_updates = self.good_updates + 1 if finite else 0
        if not finite:
            self.factor /= 2
        elif self.good_updates % self.GROWTH_INTERVAL == 0:
            self.factor *= 2


class MasterOptimizer:
    """Holds the fp32 master weights of a model and updates them; see `FlatParameters`.

    The loss must be multiplied by `loss_scale.factor` before `backward`. Several processes hold the
    same weights; each adds up the gradients of its own sentences, and `step` updates with their
    sum.

    Attributes:
        gradient: where the gradients of an update are added up.
    """

    def __init__(
        self, model: nn.Module, cfg: TrainConfig, dtype: torch.dtype, ranks: Ranks = ALONE
    ) -> None:
        self._ranks = ranks
        self._clip_norm, self._weight_decay = cfg.clip_norm, cfg.weight_decay
        self._momentum_warmup = cfg.momentum_warmup
        n_stacked = hidden_matrices(model)
        self._flat = FlatParameters(model, dtype, last=n_stacked)
        ranks.copy_from_main(self._flat.exact)
        self._flat.round()
        send_dtype = torch.bfloat16 if cfg.reduce_dtype == "bf16" else torch.float32
        self.gradient = GradientSum(self._flat, ranks, send_dtype)
        self.loss_scale = LossScale(dtype)
        self._moments = {name: torch.zeros_like(self._flat.exact) for name in _MOMENTS}
        n_others = len(self._flat.exact) - sum(self.weights()[name].numel() for name in n_stacked)
        self._matrices = self._flat.exact[n_others:]
        self._muon = None
        if cfg.optimizer == "muon":
            views = self._flat.views
            self._muon = Muon(
                views(self._flat.exact),
                views(self.gradient.total),
                views(self._moments["exp_avg"]),
                n_stacked,
                torch.bfloat16 if dtype == torch.bfloat16 else torch.float32,
                ranks,
            )
        n_adam = n_others if self._muon else len(self._flat.exact)
        self._adam_weights = self._flat.exact[:n_adam]
        self._adam_moments = [self._moments[name][:n_adam] for name in _MOMENTS]
        self._betas, self._eps = cfg.adam_betas, cfg.adam_eps
        self._step = torch.zeros((), device=self._flat.exact.device)

    def step(self, lr: float, n_tokens: int) -> float:
        """Divide the gradient by `n_tokens`, clip it and update the weights.

        Args:
            n_tokens: target tokens of the update, on all processes.
        Returns:
            The norm of the gradient before clipping; if it is not finite, nothing was updated.
        """
        gradient = self.gradient.finish()
        norm = gradient.norm().item() / (n_tokens * self.loss_scale.factor)
        scale = 1 / (n_tokens * self.loss_scale.factor)
        if math.isfinite(norm):
            if self._clip_norm and norm > self._clip_norm:
                scale *= self._clip_norm / norm
            self._update(gradient.mul_(scale), lr)
        self.loss_scale.adapt(finite=math.isfinite(norm))
        gradient.zero_()
        return norm

    def _update(self, gradient: Tensor, lr: float) -> None:
        if self._weight_decay:
            self._matrices.mul_(1 - lr * self._weight_decay)
        if self._muon:
            self._muon.step(lr, momentum_at(int(self._step), self._momentum_warmup))
        # As a function: the class torch.optim.Adam would load torch._dynamo, which takes 1.6 s.
        exp_avg, exp_avg_sq = self._adam_moments
        adam(
            [self._adam_weights],
            [gradient[: len(self._adam_weights)]],
            [exp_avg],
            [exp_avg_sq],
            [],
            [self._step],
            fused=True,
            amsgrad=False,
            beta1=self._betas[0],
            beta2=self._betas[1],
            lr=lr,
            weight_decay=0.0,
            eps=self._eps,
            maximize=False,
        )
        self._flat.round()

    def weights(self) -> dict[str, Tensor]:
        """The fp32 master weights by parameter name, as views."""
        return self._flat.views(self._flat.exact)

    def state(self) -> dict[str, Tensor]:
        """The moments, `exp_avg.<name>` and `exp_avg_sq.<name>`, step and loss scale."""
        named = {
            f"{moment}.{name}": view
            for moment in _MOMENTS
            for name, view in self._flat.views(self._moments[moment]).items()
        }
        scale = torch.tensor([self.loss_scale.factor, float(self.loss_scale.good_updates)])
        return {**named, "step": self._step, "loss_scale": scale}

    def load(self, weights: dict[str, Tensor], state: dict[str, Tensor]) -> None:
        """Continue from saved weights and `state()`, which must fit this model.

        Rank 0's arguments count; the others may pass empty dictionaries.
        """
        flats = {"": self._flat.exact, **{f"{m}.": self._moments[m] for m in _MOMENTS}}
        for prefix, flat in flats.items():
            if self._ranks.is_main:
                self._flat.fill(flat, state if prefix else weights, prefix)
            self._ranks.copy_from_main(flat)
        step, factor, good_updates = self._ranks.told_by_main(
            (state["step"].item(), *state["loss_scale"].tolist()) if state else (0.0, 0.0, 0.0)
        )
        self._step.fill_(step)
        self.loss_scale.factor, self.loss_scale.good_updates = factor, int(good_updates)
        self._flat.round()
