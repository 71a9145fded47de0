"""All parameters of a model as one flat buffer, and the gradient of an update as another.

So clipping, Adam, the cast to the compute precision and the messages between processes take few
operations. The gradient is the sum over micro-batches and over all processes, in fp32. It is sent
in buckets, those of the last layers first, while backward computes the next ones. This file knows
no loss and no optimizer.
"""

from collections.abc import Callable, Collection

import torch
from torch import Tensor, nn

from transformer_mt.system.processes.distributed import Ranks

BUCKET_BYTES = 16 << 20  # of fp32 gradient sent at a time
ADD_ELEMENTS = 1 << 18  # converted to fp32 and added at a time: they stay in the cache of a core


class FlatParameters:
    """The weights and the gradients of a model, each as one flat tensor of n numbers.

    Attributes:
        exact: (n,) fp32 weights, which the optimizer updates.
        rounded: (n,) weights in the compute precision; the model's parameters are views of it. With
            fp32 it is `exact` itself.
        gradients: (n,) in the compute precision; backward adds to it.
    """

    def __init__(self, model: nn.Module, dtype: torch.dtype, last: Collection[str] = ()) -> None:
        """Args: last: names of the parameters to place after all others."""
        named = dict(sorted(model.named_parameters(), key=lambda item: item[0] in last))
        self.parameters = list(named.values())
        self._shapes = {name: parameter.shape for name, parameter in named.items()}
        self.exact = torch.cat([p.detach().float().flatten() for p in self.parameters])
        model.to(dtype)  # before the views: on a GPU, the cast moves recurrent weights
        self.rounded = self.exact.to(dtype)
        self.gradients = torch.zeros_like(self.rounded)
        weights, gradients = self.views(self.rounded), self.views(self.gradients)
        for name, parameter in named.items():
            parameter.data = weights[name]
            parameter.grad = gradients[name]

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
        """Overwrite a flat tensor with the tensors named prefix + parameter name."""
        for name, view in self.views(flat).items():
            view.copy_(named[prefix + name])


class GradientSum:
    """Adds up the gradients of an update.

    Every process sends the same buckets in the same order, whether it has sentences or not.

    Args:
        send_dtype: dtype of the gradients that processes send to each other.
    Attributes:
        total: (n,) fp32.
    """

    def __init__(self, flat: FlatParameters, ranks: Ranks, send_dtype: torch.dtype) -> None:
        self.total = torch.zeros_like(flat.exact)
        self._of_batch = flat.gradients
        self._parameters = flat.parameters
        self._gradients = list(flat.views(flat.gradients).values())
        self._ranks = ranks
        self._send_dtype = send_dtype
        self._buckets: list[slice] = []  # of the flat tensors, from their end to their start
        self._n_parameters: list[int] = []  # of each bucket
        self._unfinished: list[int] = []  # parameters of each bucket still without gradient
        self._sending = False
        self._waits: list[Callable[[], None]] = []  # one for each bucket that was sent
        if ranks.size > 1:
            self._form_buckets(flat)

    def send_with_next(self) -> None:
        """The next `backward` is this process's last of the update: send each finished bucket."""
        self._sending, self._unfinished = True, list(self._n_parameters)

    def take(self, loss: Tensor) -> None:
        """Backward of a micro-batch, if nobody sends meanwhile: all gradients are copied at once,
        where `backward` would add each to the zeros in its place."""
        torch._foreach_copy_(self._gradients, torch.autograd.grad(loss, self._parameters))

    def add(self) -> None:
        """Add the gradients of one micro-batch, and clear them in the model."""
        self._add(slice(0, self._n_unsent))
        self._of_batch.zero_()

    def discard(self) -> None:
        """Discard the gradients of a failed micro-batch, which is then repeated in parts.

        Buckets that were sent already are complete, so `add` skips them in the repetition.
        """
        self._sending = False
        self._of_batch.zero_()

    def finish(self) -> Tensor:
        """Send the remaining buckets, wait for all, and return `total`; the caller clears it."""
        self._sending = False
        while len(self._waits) < len(self._buckets):
            self._send_next()
        for wait in self._waits:
            wait()
        self._waits = []
        return self.total

    @property
    def _n_unsent(self) -> int:
        """Length of the leading part of the flat tensors that has not been sent yet."""
        return self._buckets[len(self._waits) - 1].start if self._waits else len(self.total)

    def _form_buckets(self, flat: FlatParameters) -> None:
        end = start = len(flat.exact)
        n_parameters = 0
        for i, parameter in reversed(list(enumerate(flat.parameters))):
            parameter.register_post_accumulate_grad_hook(self._hook(len(self._buckets)))
            start -= parameter.numel()
            n_parameters += 1
            if 4 * (end - start) >= BUCKET_BYTES or i == 0:
                self._buckets.append(slice(start, end))
                self._n_parameters.append(n_parameters)
                end, n_parameters = start, 0

    def _hook(self, bucket: int) -> Callable[[Tensor], None]:
        def finished(_: Tensor) -> None:
            if not self._sending:
                return
            self._unfinished[bucket] -= 1
            while len(self._waits) < len(self._buckets) and not self._unfinished[len(self._waits)]:
                self._send_next()

        return finished

    def _send_next(self) -> None:
        bucket = self._buckets[len(self._waits)]
        part = self.total[bucket]
        self._add(bucket)
        self._of_batch[bucket].zero_()
        if self._send_dtype == torch.float32:
            self._waits.append(self._ranks.start_sum(part))
            return
        rounded = part.to(self._send_dtype)
        wait = self._ranks.start_sum(rounded)

        def finish() -> None:
            wait()
            part.copy_(rounded)

        self._waits.append(finish)

    def _add(self, where: slice) -> None:
        """In parts: torch would otherwise first convert all gradients to fp32."""
        total, part = self.total[where], self._of_batch[where]
        n = ADD_ELEMENTS if total.device.type == "cpu" else len(total)
        for into, values in zip(total.split(n), part.split(n), strict=True):
            into += values
