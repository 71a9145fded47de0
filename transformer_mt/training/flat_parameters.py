"""All parameters of a model as one flat buffer.

Comes in: a model. Goes out: `FlatParameters`, so that clipping, Adam, the cast to the compute
precision and the messages between processes are few operations. This file knows no optimizer.
"""

import torch
from torch import Tensor, nn


class FlatParameters:
    """The weights and the gradients of a model, each as one flat tensor of n numbers.

    Attributes:
        exact: (n,) fp32 weights, which the optimizer updates.
        rounded: (n,) weights in the compute precision; the model's parameters are views of it. With
            fp32 it is `exact` itself.
        gradients: (n,) in the compute precision; backward adds to it.
    """

    def __init__(self, model: nn.Module, dtype: torch.dtype) -> None:
        named = dict(model.named_parameters())
        self.parameters = list(named.values())
        self._shapes = {name: parameter.shape for name, parameter in named.items()}
        self.exact = torch.cat([p.detach().float().flatten() for p in self.parameters])
        self.rounded = self.exact.to(dtype)
        self.gradients = torch.zeros_like(self.rounded)
        weights, gradients = self.views(self.rounded), self.views(self.gradients)
        for name, parameter in named.items():
            parameter.data = weights[name]
            parameter.grad = gradients[name]
        model.to(dtype)  # buffers; the parameters have their dtype already

    def round(self) -> None:
        """Bring the model's weights up to date with the exact ones."""
        if self.rounded is not self.exact:
            self.rounded.copy_(self.exact)

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """The parts of a flat tensor by parameter name, in the parameters' shapes."""
        parts = flat.split([shape.numel() for shape in self._shapes.values()])
        return {
            name: part.view(shape)
            for (name, shape), part in zip(self._shapes.items(), parts, strict=True)
        }

    def fill(self, flat: Tensor, named: dict[str, Tensor], prefix: str = "") -> None:
        """Overwrite a flat tensor with the tensors called prefix + parameter name."""
        for name, view in self.views(flat).items():
            view.copy_(named[prefix + name])
