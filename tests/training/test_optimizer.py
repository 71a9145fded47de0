"""The optimizer against torch's Adam, and the learning rate against the paper's formula."""

import math
from collections import OrderedDict
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from transformer_mt.config.experiment import TrainConfig
from transformer_mt.training.flat_parameters import FlatParameters
from transformer_mt.training.optimizer import LossScale, MasterOptimizer, learning_rate

X, Y, Z = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(1))


class Tied(nn.Module):
    """One weight under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(5, 5, bias=False), nn.Linear(5, 5, bias=False)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).tanh())[:, :3]


def make_module(seed: int = 0, *, tied: bool = False) -> nn.Module:
    torch.manual_seed(seed)
    if tied:
        return Tied()
    names = ("0", "tanh", "some_layers", "norm")
    modules = nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3), nn.LayerNorm(3)
    return nn.Sequential(OrderedDict(zip(names, modules, strict=True)))


class Learned:
    """A module and its optimizer."""

    def __init__(
        self, module: nn.Module, dtype: torch.dtype = torch.float32, **settings: Any
    ) -> None:
        self.module = module
        self.optimizer = MasterOptimizer(module, TrainConfig.model_validate(settings), dtype)

    def add(self, x: Tensor) -> None:
        (loss_of(self.module, x) * self.optimizer.loss_scale.factor).backward()
        self.optimizer.gradient.add()

    def update(self, x: Tensor, lr: float = 0.01) -> float:
        self.add(x)
        return self.optimizer.step(lr, len(x))

    def weights(self) -> dict[str, Tensor]:
        return {name: weight.clone() for name, weight in self.optimizer.weights().items()}

    def state(self) -> dict[str, Tensor]:
        return {name: tensor.clone() for name, tensor in self.optimizer.state().items()}


def loss_of(module: nn.Module, x: Tensor) -> Tensor:
    """A sum over the rows, as the training loss is one over tokens."""
    dtype = next(module.parameters()).dtype
    return (module(x.to(dtype)).float() * torch.arange(1.0, 4.0)).square().sum()


def assert_equal(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].equal(tensor), name


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("clip_norm", [0.0, 0.5, 1e6])
def test_equals_torchs_adam_on_an_ordinary_model(clip_norm: float, tied: bool) -> None:
    theirs = make_module(tied=tied)
    settings = {"clip_norm": clip_norm, "adam_betas": [0.8, 0.95], "adam_eps": 1e-7}
    ours = Learned(make_module(tied=tied), **settings)
    adam = torch.optim.Adam(theirs.parameters(), betas=(0.8, 0.95), eps=1e-7)
    norms = []
    for step, x in enumerate([X, Y, Z, X, Y]):
        lr = 0.01 * (step + 1)
        norms.append(ours.update(x, lr))
        adam.zero_grad()
        (loss_of(theirs, x) / len(x)).backward()
        limit = clip_norm or math.inf
        expected_norm = nn.utils.clip_grad_norm_(theirs.parameters(), limit).item()
        adam.param_groups[0]["lr"] = lr
        adam.step()
        assert norms[-1] == pytest.approx(expected_norm, rel=1e-5)
    assert min(norms) > 0.5, "the small limit must have clipped every time"
    mine, other = ours.module.state_dict(), theirs.state_dict()
    for name in mine:
        torch.testing.assert_close(mine[name], other[name], rtol=1e-5, atol=1e-6, msg=name)
    assert_equal(ours.weights(), dict(ours.module.named_parameters()))


def test_no_optimizer_of_torch_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one that a process makes loads torch._dynamo."""
    monkeypatch.delattr(torch.optim.Optimizer, "__init__")
    with pytest.raises(TypeError):
        torch.optim.Adam(make_module().parameters())
    Learned(make_module()).update(X)


@pytest.mark.parametrize("at_a_time", [7, 1 << 18])  # a part need not be a multiple of it
def test_micro_batches_add_up_to_their_update(
    at_a_time: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transformer_mt.training.flat_parameters.ADD_ELEMENTS", at_a_time)
    whole, parts = Learned(make_module()), Learned(make_module())
    norm = whole.update(X)
    for part in X.split(1):
        parts.add(part)
    assert parts.optimizer.step(0.01, len(X)) == pytest.approx(norm, rel=1e-5)
    for name, weight in whole.weights().items():
        torch.testing.assert_close(parts.weights()[name], weight, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_saved_state_continues_bit_equal(dtype: torch.dtype, optimizer: str) -> None:
    one = Learned(make_module(), dtype, optimizer=optimizer)
    other = Learned(make_module(seed=9), dtype, optimizer=optimizer)
    one.optimizer.loss_scale.factor = 64.0 if dtype == torch.float16 else 1.0
    for x in (X, Y, Z):
        one.update(x)
    saved = one.weights(), one.state()
    kept = one.weights(), one.state()
    other.optimizer.load(*saved)
    for x in (X, Y, Z):
        norm = one.update(x)
        assert math.isfinite(norm) and norm == other.update(x)
    for found, unchanged in zip(saved, kept, strict=True):
        assert_equal(found, unchanged)  # it was copied
    assert_equal(other.weights(), one.weights())
    assert_equal(other.state(), one.state())
    assert_equal(other.module.state_dict(), one.module.state_dict())
    assert not one.weights()["0.weight"].equal(kept[0]["0.weight"])


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_a_gradient_that_is_not_finite_changes_nothing(value: float) -> None:
    learned = Learned(make_module())
    learned.update(X)
    before = learned.weights(), learned.state()
    learned.add(Y)
    learned.optimizer.gradient.total[3] = value
    assert not math.isfinite(learned.optimizer.step(0.01, len(Y)))
    assert_equal(learned.weights(), before[0])
    assert_equal(learned.state(), before[1])
    assert math.isfinite(learned.update(Y)), "the next update starts afresh"
    assert not learned.weights()["0.weight"].equal(before[0]["0.weight"])


def test_bf16_model_is_the_rounded_master() -> None:
    module = make_module()
    exact = {name: weight.clone() for name, weight in module.named_parameters()}
    learned = Learned(module, torch.bfloat16)
    assert_equal(learned.weights(), exact)  # the master keeps what rounding would lose
    for lr in (1e-4, 1e-4, 1e-6):
        before = learned.weights()["0.weight"]
        learned.update(X, lr=lr)
        for name, parameter in module.named_parameters():
            assert parameter.dtype == torch.bfloat16
            assert parameter.equal(learned.weights()[name].bfloat16())
    moved = (learned.weights()["0.weight"] - before).abs()
    assert 0 < moved.max() < 2e-6, "small steps add up, though bf16 cannot see one"


def test_fp16_loss_scale_halves_on_overflow_and_doubles_after_good_updates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(LossScale, "GROWTH_INTERVAL", 3)
    learned = Learned(make_module(), torch.float16)
    loss_scale = learned.optimizer.loss_scale
    assert loss_scale.factor > 1000
    loss_scale.factor = 64.0  # what these gradients can bear
    scales = []
    for poisoned in (True, False, False, False, False, True, False, False, False):
        if poisoned:
            learned.optimizer.gradient.total[0] = math.inf
        assert math.isfinite(learned.update(X, lr=1e-5)) != poisoned
        scales.append(loss_scale.factor)
    assert scales == [32, 32, 32, 64, 64, 32, 32, 32, 64]


def test_fp16_gradients_are_unscaled_before_clipping() -> None:
    exact = Learned(make_module(), clip_norm=0.1)
    half = Learned(make_module(), torch.float16, clip_norm=0.1)
    half.optimizer.loss_scale.factor = 64.0
    norm = exact.update(X)
    assert norm > 0.1
    assert half.update(X) == pytest.approx(norm, rel=0.01)


@pytest.mark.parametrize(("d_model", "warmup"), [(512, 4000), (128, 10), (64, 1)])
def test_learning_rate_is_the_papers_formula(d_model: int, warmup: int) -> None:
    peak = TrainConfig(warmup_updates=warmup).peak_lr(d_model)
    for step in (1, 2, warmup, warmup + 1, 10 * warmup, 100_000):
        expected = d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
        assert learning_rate(step, peak, warmup) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("step", "warmup", "left", "expected", "why"),
    [
        (1, 100, 1, 0.01, "the first step is not lost at zero"),
        (100, 100, 1, 1.0, "the peak"),
        (400, 100, 1, 0.5, "four times the steps, half the rate"),
        (1, 0, 1, 1.0, "no warm-up starts at the peak"),
        (4, 0, 1, 0.5, "and decays at once"),
        (301, 100, 1.7, (100 / 301) ** 0.5, "the cool-down has not begun"),
        (351, 100, 0.5, 0.5 * (100 / 351) ** 0.5, "half way down"),
        (400, 100, -0.1, 0, "never less than nothing"),
    ],
)
def test_learning_rate(step: int, warmup: int, left: float, expected: float, why: str) -> None:
    found = learning_rate(step, 1.0, warmup, cooldown_left=left)
    assert found == pytest.approx(expected), why


@pytest.mark.parametrize(
    ("lr", "warmup", "expected"),
    [(0.003, 4000, 0.003), ("paper", 4000, 512**-0.5 * 4000**-0.5), ("paper", 0, 512**-0.5)],
)
def test_peak_learning_rate(lr: float | str, warmup: int, expected: float) -> None:
    cfg = TrainConfig.model_validate({"lr": lr, "warmup_updates": warmup})
    assert cfg.peak_lr(512) == pytest.approx(expected)


class _Moving(nn.Linear):
    """Moves its parameters when it is cast, as recurrent layers do on a GPU."""

    def _apply(self, fn: Any, recurse: bool = True) -> "_Moving":
        super()._apply(fn, recurse)
        for parameter in self.parameters():
            parameter.data = parameter.data.clone()
        return self


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_parameters_stay_views_of_the_flat_buffer(dtype: torch.dtype) -> None:
    model = nn.Sequential(nn.Linear(3, 2), _Moving(2, 2))
    before = [parameter.detach().clone() for parameter in model.parameters()]
    flat = FlatParameters(model, dtype)
    assert torch.equal(flat.exact, torch.cat([p.flatten() for p in before]))
    flat.rounded.add_(1)
    for parameter, old in zip(model.parameters(), before, strict=True):
        assert torch.equal(parameter.detach(), old.to(dtype) + 1)
