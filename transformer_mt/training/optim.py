"""Adam on fp32 master weights, for a model that computes in any precision.

Comes in: a model and its gradients. Goes out: updated weights. All parameters are views of one flat
buffer, so that clipping, Adam and the cast to the compute precision are one operation each. This
file knows nothing of data, losses or checkpoint files.
"""

import math

import torch
from torch import Tensor, nn

from transformer_mt.config import TrainConfig


def learning_rate(step: int, peak: float, warmup: int) -> float:
    """Linear warm-up, then decay with the inverse square root of the step.

    With peak = d_model^−0.5 · warmup^−0.5 this is the paper's schedule.
    Source: Vaswani et al. 2017, section 5.3, formula 3.
    Args:
        step: number of the update, from 1.
        peak: the rate at step = warmup.
        warmup: steps of linear increase; 0 starts at the peak.
    """
    if step < warmup:
        return peak * step / warmup
    return peak * math.sqrt(max(1, warmup) / step)


class MasterAdam:
    """Holds the fp32 master weights of a model and updates them.

    The model's own parameters become views of a buffer in `dtype`, refreshed after each update.
    With fp16 the loss must be multiplied by `loss_scale` before `backward`; it halves when a
    gradient overflows and doubles after `SCALE_GROWTH_INTERVAL` good updates.
    """

    SCALE_GROWTH_INTERVAL = 1000

    def __init__(self, model: nn.Module, cfg: TrainConfig, dtype: torch.dtype) -> None:
        self.names = [name for name, _ in model.named_parameters()]
        parameters = list(model.parameters())
        self._shapes = [parameter.shape for parameter in parameters]
        self.master = torch.cat([p.detach().float().flatten() for p in parameters])
        self.gradient = torch.zeros_like(self.master)
        self._clip_norm = cfg.clip_norm
        self._fp16 = dtype == torch.float16
        self.loss_scale = 2.0**14 if self._fp16 else 1.0
        self._good_updates = 0
        self._adam = torch.optim.Adam(
            [self.master],
            lr=0.0,
            betas=(cfg.adam_betas[0], cfg.adam_betas[1]),
            eps=cfg.adam_eps,
            fused=True,
        )
        self._adam.state[self.master] = {
            "step": torch.zeros((), device=self.master.device),
            "exp_avg": torch.zeros_like(self.master),
            "exp_avg_sq": torch.zeros_like(self.master),
        }  # Adam's own beginning, but there to be saved before the first update
        self._working = self.master if dtype == torch.float32 else self.master.to(dtype)
        self._working_gradient = torch.zeros_like(self._working)
        weights, gradients = self._views(self._working), self._views(self._working_gradient)
        for name, parameter in zip(self.names, parameters, strict=True):
            parameter.data = weights[name]
            parameter.grad = gradients[name]
        model.to(dtype)  # buffers; the parameters have their dtype already

    def accumulate(self) -> None:
        """Add the gradients of one micro-batch, in fp32, and clear them in the model."""
        self.gradient += self._working_gradient
        self._working_gradient.zero_()

    def step(self, lr: float, n_tokens: int) -> float:
        """Divide the accumulated gradient by `n_tokens`, clip it and update the weights.

        Returns:
            The norm of the gradient before clipping; if it is not finite, nothing was updated.
        """
        norm = self.gradient.norm().item() / (n_tokens * self.loss_scale)
        scale = 1 / (n_tokens * self.loss_scale)
        if math.isfinite(norm):
            if self._clip_norm and norm > self._clip_norm:
                scale *= self._clip_norm / norm
            self.master.grad = self.gradient.mul_(scale)
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
            for name, view in self._views(state[kind]).items()
        }
        scale = [self.loss_scale, float(self._good_updates)]
        return {**named, "step": state["step"], "loss_scale": torch.tensor(scale)}

    def load(self, weights: dict[str, Tensor], state: dict[str, Tensor]) -> None:
        """Continue from saved weights and `state()`; both must fit this model."""
        self._fill(self.master, weights)
        adam = self._adam.state[self.master]
        adam["step"].copy_(state["step"])
        for kind in ("exp_avg", "exp_avg_sq"):
            self._fill(adam[kind], {name: state[f"{kind}.{name}"] for name in self.names})
        self.loss_scale = state["loss_scale"][0].item()
        self._good_updates = int(state["loss_scale"][1].item())
        self._refresh()

    def weights(self) -> dict[str, Tensor]:
        """The fp32 master weights by parameter name, as views."""
        return self._views(self.master)

    def _fill(self, flat: Tensor, named: dict[str, Tensor]) -> None:
        for name, view in self._views(flat).items():
            view.copy_(named[name])

    def _views(self, flat: Tensor) -> dict[str, Tensor]:
        parts = flat.split([shape.numel() for shape in self._shapes])
        return {
            name: part.view(shape)
            for name, part, shape in zip(self.names, parts, self._shapes, strict=True)
        }

    def _refresh(self) -> None:
        if self._working is not self.master:
            self._working.copy_(self.master)

    def _adapt_loss_scale(self, finite: bool) -> None:
        if not self._fp16:
            return
        self._good_updates = self._good_updates + 1 if finite else 0
        if not finite:
            self.loss_scale /= 2
        elif self._good_updates % self.SCALE_GROWTH_INTERVAL == 0:
            self.loss_scale *= 2
