"""Muon against singular values, torch's own, and itself on several processes."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from transformer_mt.config.experiment import TrainConfig
from transformer_mt.config.model import ModelConfig
from transformer_mt.model.encoder_decoder import hidden_matrices
from transformer_mt.model.transformer import Transformer
from transformer_mt.system.processes.distributed import Ranks
from transformer_mt.training.muon import UPDATE_RMS, momentum_at, orthogonalise
from transformer_mt.training.optimizer import MasterOptimizer

CFG = ModelConfig(d_model=16, heads=2, ffn=24, encoder_layers=1, decoder_layers=2,
                  architecture="modern", tie_embeddings="all")  # fmt: skip


def make_model() -> Transformer:
    torch.manual_seed(0)
    return Transformer(CFG, 30, 30)


def set_gradients(model: nn.Module, optimizer: MasterOptimizer, seed: int) -> dict[str, Tensor]:
    """Random ones, as the sum over the micro-batches of an update."""
    torch.manual_seed(seed)
    gradients = {name: torch.randn_like(p) for name, p in model.named_parameters()}
    for name, view in optimizer._flat.views(optimizer.gradient.total).items():
        view.copy_(gradients[name])
    return gradients


@pytest.mark.parametrize("shape", [(3, 8, 8), (2, 8, 24), (2, 24, 8), (1, 1, 5)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_singular_values_become_nearly_equal(
    shape: tuple[int, int, int], dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    u, _, v = torch.linalg.svd(torch.randn(shape), full_matrices=False)
    values = torch.logspace(0, -1.5, u.size(-1))  # within a factor of 30
    found = orthogonalise((1e-6 * u @ torch.diag(values) @ v).to(dtype)).float()
    cores = u.mT @ found @ v.mT  # in the basis of the singular vectors
    diagonals = cores.diagonal(dim1=1, dim2=2)
    assert diagonals.min() > 0.6 and diagonals.max() < 1.3
    assert (cores - torch.diag_embed(diagonals)).abs().max() < (
        1e-4 if dtype.itemsize == 4 else 0.1
    )


def test_nothing_comes_of_nothing() -> None:
    assert orthogonalise(torch.zeros(2, 3, 4)).equal(torch.zeros(2, 3, 4))


def test_hidden_matrices_are_those_of_the_layers() -> None:
    model = make_model()
    found = hidden_matrices(model)
    assert sum(found.values()) == 1 * (4 + 3) + 2 * (8 + 3)
    rest = {name for name, _ in model.named_parameters()} - set(found)
    assert all("norm" in name or "embedding" in name or name == "output.weight" for name in rest)


def test_equals_torchs_muon_and_adam(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its matrices, Q, K and V each as one of its own, and Adam's rest."""
    model = make_model()
    settings = {"optimizer": "muon", "weight_decay": 0.1, "clip_norm": 0, "adam_eps": 1e-7,
                "momentum_warmup": 2}  # fmt: skip
    ours = MasterOptimizer(model, TrainConfig.model_validate(settings), torch.float32)
    matrices = hidden_matrices(model)
    theirs = {name: weight.clone() for name, weight in ours.weights().items()}
    parts = {
        name: [nn.Parameter(part.clone()) for part in theirs[name].chunk(n)]
        for name, n in matrices.items()
    }
    rest = {n: nn.Parameter(w.clone()) for n, w in theirs.items() if n not in matrices}
    # Theirs has 0.2 for the size, and bf16 for the products.
    muon = torch.optim.Muon(
        [part for several in parts.values() for part in several], lr=1.0,
        weight_decay=0.1 * 0.2 / UPDATE_RMS, adjust_lr_fn="match_rms_adamw",
    )  # fmt: skip
    adam = torch.optim.Adam(rest.values(), betas=(0.9, 0.98), eps=1e-7)
    for step in range(4):
        lr = 0.01 * (step + 1)
        gradients = set_gradients(model, ours, step)
        ours.step(lr, 1)
        for name, several in parts.items():
            for part, gradient in zip(several, gradients[name].chunk(len(several)), strict=True):
                part.grad = gradient
        for name, parameter in rest.items():
            parameter.grad = gradients[name]
        muon.param_groups[0]["lr"] = lr * UPDATE_RMS / 0.2
        muon.param_groups[0]["momentum"] = [0.8, 0.875, 0.95, 0.95][step]
        adam.param_groups[0]["lr"] = lr
        muon.step()
        adam.step()
    found = ours.weights()
    for name, parameter in rest.items():
        torch.testing.assert_close(found[name], parameter.data)
    for name, several in parts.items():
        expected = torch.cat([part.data for part in several])
        moved = (expected - theirs[name]).norm()
        assert (found[name] - expected).norm() < 0.03 * moved, name


def test_the_momentum_grows_and_then_stays() -> None:
    momenta = [momentum_at(step, 1000) for step in range(1003)]
    assert momenta[0] == 0.8 and sorted(momenta) == momenta
    assert momenta[999] < momenta[1000] == momenta[1002] == 0.95
    assert momentum_at(0, 0) == 0.95


class FakeRanks(Ranks):
    """Keeps what is sent instead of sending it."""

    def start_sum(self, tensor: Tensor) -> Callable[[], None]:
        SENT.append(tensor.clone())
        return lambda: None

    def copy_from_main(self, tensor: Tensor) -> None: ...


SENT: list[Tensor] = []


@pytest.mark.parametrize("n", [2, 3, 50])
def test_processes_share_the_matrices_out(n: int) -> None:
    """What they send sums to what one of them would have made, and each makes its share."""
    shares = []
    for rank in range(n):
        SENT.clear()
        model = make_model()
        ranks = FakeRanks(rank, n) if n > 1 else FakeRanks()
        cfg = TrainConfig(optimizer="muon")
        optimizer = MasterOptimizer(model, cfg, torch.float32, ranks)
        set_gradients(model, optimizer, 1)
        assert optimizer._muon
        optimizer._muon.step(0.1, 0.95)
        shares.append(list(SENT))
    SENT.clear()
    model = make_model()
    alone = MasterOptimizer(model, TrainConfig(optimizer="muon"), torch.float32, FakeRanks())
    set_gradients(model, alone, 1)
    assert alone._muon
    alone._muon.step(0.1, 0.95)
    for i, whole in enumerate(SENT):
        parts = [share[i] for share in shares]
        torch.testing.assert_close(torch.stack(parts).sum(0), whole, atol=1e-5, rtol=1e-4)
        n_done = [int(part.flatten(1).any(1).sum()) for part in parts]
        assert sum(n_done) == len(whole) and max(n_done) == -(-len(whole) // n)
