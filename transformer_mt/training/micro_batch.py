"""One micro-batch: forward, loss, backward; its gradients are added to those of the update.

Comes in: a model and padded token ids. Goes out: the loss, and an optimizer ready for its step.
This file knows no plan, memory limit or file.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from transformer_mt.config.experiment import TrainConfig
from transformer_mt.encoding.tokenizer import PAD_ID
from transformer_mt.kernels.choice import use_kernels
from transformer_mt.model.encoder_decoder import EncoderDecoder
from transformer_mt.model.transformer import Transformer
from transformer_mt.system.device import choose_precision
from transformer_mt.system.processes.distributed import ALONE, Ranks
from transformer_mt.training.guided_attention import AttentionGuide
from transformer_mt.training.loss import OutputLoss
from transformer_mt.training.optimizer import MasterOptimizer
from transformer_mt.training.padding import Batch
from transformer_mt.training.recorded import CudaGraphs, RecordedMicroBatches


class Learner:
    """A model with its loss and its optimizer, as in training.

    Attributes:
        dtype: the compute precision.
        guide: leads the attention, if there is one.
    """

    def __init__(self, model: EncoderDecoder, cfg: TrainConfig, ranks: Ranks = ALONE) -> None:
        self.model = model
        self.device = model.output.weight.device
        self.dtype = choose_precision(cfg.precision, self.device)
        self.optimizer = MasterOptimizer(model, cfg, self.dtype, ranks)
        self.guide: AttentionGuide | None = None
        self._output_loss = OutputLoss(cfg.label_smoothing, PAD_ID)
        self._scale = torch.ones((), device=self.device)  # of the loss
        self._recorded = None
        if self.device.type == "cuda" and isinstance(model, Transformer):
            use_kernels(model, self.device)
            self._recorded = RecordedMicroBatches(self._add_gradients, self._tables, CudaGraphs())

    def send_with_next(self) -> None:
        """The next micro-batch is this process's last of the update: send gradients in backward.

        Not with recordings, which save more time than this overlap would.
        """
        if self._recorded is None:
            self.optimizer.gradient.send_with_next()

    def add_gradients(self, batch: Batch, done: Callable[[str], None] | None = None) -> Tensor:
        """Forward, loss and backward of one micro-batch.

        Args:
            done: called with `forward`, `loss` and `backward` after each of them; never for a model
                whose micro-batches are recorded on a GPU.
        Returns:
            The unsmoothed loss, in nats, summed over the target tokens: a scalar on the device,
            which the host need not wait for.
        """
        self._scale.fill_(self.optimizer.loss_scale.factor)
        return self._recorded(batch) if self._recorded else self._add_gradients(batch, done)

    def _add_gradients(self, batch: Batch, done: Callable[[str], None] | None = None) -> Tensor:
        weights = self.guide.collector(batch) if self.guide else None
        hidden = self.model(batch.src, batch.tgt_in, weights)  # (B, T, D)
        if done:
            done("forward")
        sums = self._output_loss(hidden, self.model.output.weight, batch.tgt_out, batch.real)
        if done:
            done("loss")
        led = self.guide.loss(batch, weights) if self.guide and weights else 0
        loss = (sums.loss + led) * self._scale
        if self._recorded:
            self.optimizer.gradient.take(loss)
        else:
            loss.backward()
        self.optimizer.gradient.add()
        if done:
            done("backward")
        return sums.nll

    def _tables(self) -> list[Tensor]:
        """Tensors that the model reads besides parameters; longer sentences replace some."""
        owners = (vars(module) | module._buffers for module in self.model.modules())
        return [value for owner in owners for value in owner.values() if isinstance(value, Tensor)]
