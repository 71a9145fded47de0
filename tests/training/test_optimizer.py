"""The optimizer against torch's Adam, and the learning rate against the paper's formula."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from transformer_mt.config.experiment import TrainConfig
from transformer_mt.training.optimizer import LossScale, MasterAdam, learning_rate


def make_module(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3), nn.LayerNorm(3))


def make_optimizer(
    module: nn.Module, dtype: torch.dtype = torch.float32, **settings: Any
) -> MasterAdam:
    return MasterAdam(module, TrainConfig.model_validate(settings), dtype)


def batches(n: int, seed: int = 1) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(4, 5, generator=generator) for _ in range(n)]


def loss_of(module: nn.Module, x: Tensor) -> Tensor:
    """A sum over the rows, as the training loss is one over tokens."""
    dtype = next(module.parameters()).dtype
    return (module(x.to(dtype)).float() * torch.arange(1.0, 4.0)).square().sum()


def update(optimizer: MasterAdam, module: nn.Module, x: Tensor, lr: float = 0.01) -> float:
    (loss_of(module, x) * optimizer.loss_scale.factor).backward()
    optimizer.gradient.add()
    return optimizer.step(lr, len(x))


def copies(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: weight.clone() for name, weight in weights.items()}


def assert_equal(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].equal(tensor), name


@pytest.mark.parametrize("clip_norm", [0.0, 0.5, 1e6])
def test_equals_torchs_adam_on_an_ordinary_model(clip_norm: float) -> None:
    ours, theirs = make_module(), make_module()
    optimizer = make_optimizer(ours, clip_norm=clip_norm, adam_betas=[0.8, 0.95], adam_eps=1e-7)
    adam = torch.optim.Adam(theirs.parameters(), betas=(0.8, 0.95), eps=1e-7)
    norms = []
    for step, x in enumerate(batches(5)):
        lr = 0.01 * (step + 1)
        norm = update(optimizer, ours, x, lr)
        adam.zero_grad()
        (loss_of(theirs, x) / len(x)).backward()
        limit = clip_norm or math.inf
        expected_norm = nn.utils.clip_grad_norm_(theirs.parameters(), limit).item()
        adam.param_groups[0]["lr"] = lr
        adam.step()
        assert norm == pytest.approx(expected_norm, rel=1e-5)
        norms.append(norm)
    assert min(norms) > 0.5, "the small limit must have clipped every time"
    for (name, mine), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6, msg=name)
        assert optimizer.weights()[name].equal(mine.detach())


@pytest.mark.parametrize("at_a_time", [7, 1 << 18])  # a part need not be a multiple of it
def test_micro_batches_add_up_to_their_update(
    at_a_time: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transformer_mt.training.gradient_sum.ADD_ELEMENTS", at_a_time)
    (x,) = batches(1)
    whole, parts = make_module(), make_module()
    of_whole, of_parts = make_optimizer(whole), make_optimizer(parts)
    norm = update(of_whole, whole, x)
    for part in x.split(1):
        loss_of(parts, part).backward()
        of_parts.gradient.add()
    assert of_parts.step(0.01, len(x)) == pytest.approx(norm, rel=1e-5)
    for mine, other in zip(whole.parameters(), parts.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)


def test_gradients_do_not_leak_into_the_next_update() -> None:
    module = make_module()
    optimizer = make_optimizer(module)
    x, _ = batches(2)
    update(optimizer, module, x, lr=0.0)
    first = update(optimizer, module, x, lr=0.0)
    assert update(optimizer, module, x, lr=0.0) == pytest.approx(first, rel=1e-6)


def test_gradient_scale_does_not_depend_on_the_number_of_tokens() -> None:
    """Sums over tokens divided by their number: twice the batch, the same norm."""
    module = make_module()
    optimizer = make_optimizer(module)
    (x,) = batches(1)
    once = update(optimizer, module, x, lr=0.0)
    assert update(optimizer, module, torch.cat([x, x]), lr=0.0) == pytest.approx(once, rel=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_saved_state_continues_bit_equal(dtype: torch.dtype) -> None:
    data = batches(6)
    module = make_module()
    optimizer = make_optimizer(module, dtype)
    optimizer.loss_scale.factor = 64.0 if dtype == torch.float16 else 1.0
    for x in data[:3]:
        update(optimizer, module, x)
    weights, state = copies(optimizer.weights()), copies(optimizer.state())
    other_module = make_module(seed=9)
    other = make_optimizer(other_module, dtype)
    other.load(weights, state)
    for x in data[3:]:
        norm = update(optimizer, module, x)
        assert math.isfinite(norm) and norm == update(other, other_module, x)
    assert_equal(other.weights(), optimizer.weights())
    assert_equal(other.state(), optimizer.state())
    assert not optimizer.weights()["0.weight"].equal(weights["0.weight"])
    for mine, theirs in zip(module.parameters(), other_module.parameters(), strict=True):
        assert mine.equal(theirs)


def test_loading_copies_and_does_not_hold_on_to_what_was_given() -> None:
    module = make_module()
    optimizer = make_optimizer(module)
    update(optimizer, module, batches(1)[0])
    weights, state = copies(optimizer.weights()), copies(optimizer.state())
    kept = copies(weights), copies(state)
    optimizer.load(weights, state)
    update(optimizer, module, batches(1)[0])
    assert_equal(weights, kept[0])
    assert_equal(state, kept[1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_state_before_the_first_update_can_be_saved(dtype: torch.dtype) -> None:
    """It can be asked for: the first updates of a run may all have been left out."""
    module = make_module()
    optimizer = make_optimizer(module, dtype)
    state = copies(optimizer.state())
    assert state["step"] == 0
    assert all(not tensor.any() for name, tensor in state.items() if name.startswith("exp_avg"))
    other_module = make_module()
    other = make_optimizer(other_module, dtype)
    other.load(copies(optimizer.weights()), state)
    (x,) = batches(1)
    update(optimizer, module, x)
    update(other, other_module, x)
    assert_equal(other.weights(), optimizer.weights())


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_a_gradient_that_is_not_finite_changes_nothing(value: float) -> None:
    module = make_module()
    optimizer = make_optimizer(module)
    x, y = batches(2)
    update(optimizer, module, x)
    before = copies(optimizer.weights()), copies(optimizer.state())
    loss_of(module, y).backward()
    optimizer.gradient.add()
    optimizer.gradient.total[3] = value
    assert not math.isfinite(optimizer.step(0.01, len(y)))
    assert_equal(optimizer.weights(), before[0])
    assert_equal(optimizer.state(), before[1])
    assert math.isfinite(update(optimizer, module, y)), "the next update starts afresh"
    assert not optimizer.weights()["0.weight"].equal(before[0]["0.weight"])


def test_bf16_model_is_the_rounded_master() -> None:
    module = make_module()
    exact = copies(dict(module.named_parameters()))
    optimizer = make_optimizer(module, torch.bfloat16)
    for name, master in optimizer.weights().items():
        assert master.dtype == torch.float32
        assert master.equal(exact[name]), "the master keeps what rounding would lose"
    for x in batches(4):
        update(optimizer, module, x, lr=1e-4)
        for name, parameter in module.named_parameters():
            assert parameter.dtype == torch.bfloat16
            assert parameter.equal(optimizer.weights()[name].bfloat16())


def test_small_steps_add_up_in_the_master_though_bf16_cannot_see_one() -> None:
    module = make_module()
    optimizer = make_optimizer(module, torch.bfloat16)
    (x,) = batches(1)
    before = copies(optimizer.weights())
    update(optimizer, module, x, lr=1e-6)
    moved = (optimizer.weights()["0.weight"] - before["0.weight"]).abs()
    assert 0 < moved.max() < 2e-6


def test_fp16_loss_scale_halves_on_overflow_and_doubles_after_good_updates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(LossScale, "GROWTH_INTERVAL", 3)
    module = make_module()
    optimizer = make_optimizer(module, torch.float16)
    (x,) = batches(1)
    assert optimizer.loss_scale.factor > 1000
    optimizer.loss_scale.factor = 64.0  # what these gradients can bear
    scales = [optimizer.loss_scale.factor]
    for poisoned in (True, False, False, False, False, True, False, False, False):
        if poisoned:
            optimizer.gradient.total[0] = math.inf
        norm = update(optimizer, module, x, lr=1e-5)
        assert math.isfinite(norm) != poisoned
        scales.append(optimizer.loss_scale.factor)
    assert [scale / scales[0] for scale in scales] == [
        1, 0.5, 0.5, 0.5, 1, 1, 0.5, 0.5, 0.5, 1,
    ]  # fmt: skip


def test_fp16_gradients_are_unscaled_before_clipping() -> None:
    exact, half = make_module(), make_module()
    of_exact = make_optimizer(exact, clip_norm=0.1)
    of_half = make_optimizer(half, torch.float16, clip_norm=0.1)
    of_half.loss_scale.factor = 64.0
    (x,) = batches(1)
    norm = update(of_exact, exact, x)
    assert norm > 0.1
    assert update(of_half, half, x) == pytest.approx(norm, rel=0.01)


def test_a_shared_parameter_is_one_weight() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(5, 5, bias=False), nn.Linear(5, 5, bias=False)
            self.second.weight = self.first.weight

        def forward(self, x: Tensor) -> Tensor:
            return self.second(self.first(x).tanh())[:, :3]

    ours, theirs = Tied(), Tied()
    theirs.load_state_dict(ours.state_dict())
    optimizer = make_optimizer(ours, clip_norm=0.0)
    assert list(optimizer.weights()) == ["first.weight"]
    assert ours.first.weight.data_ptr() == ours.second.weight.data_ptr()
    adam = torch.optim.Adam(theirs.parameters(), lr=0.01, betas=(0.9, 0.98), eps=1e-9)
    for x in batches(3):
        update(optimizer, ours, x)
        adam.zero_grad()
        (loss_of(theirs, x) / len(x)).backward()
        adam.step()
    torch.testing.assert_close(ours.second.weight, theirs.second.weight, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("d_model", "warmup"), [(512, 4000), (128, 10), (64, 1)])
def test_learning_rate_is_the_papers_formula(d_model: int, warmup: int) -> None:
    peak = TrainConfig(warmup_updates=warmup).peak_lr(d_model)
    for step in (1, 2, warmup, warmup + 1, 10 * warmup, 100_000):
        expected = d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
        assert learning_rate(step, peak, warmup) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("step", "warmup", "expected", "why"),
    [
        (1, 100, 0.01, "the first step is not lost at zero"),
        (50, 100, 0.5, "half way up"),
        (100, 100, 1.0, "the peak"),
        (400, 100, 0.5, "four times the steps, half the rate"),
        (1, 0, 1.0, "no warm-up starts at the peak"),
        (4, 0, 0.5, "and decays at once"),
    ],
)
def test_learning_rate(step: int, warmup: int, expected: float, why: str) -> None:
    assert learning_rate(step, 1.0, warmup) == pytest.approx(expected), why


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"lr": 0.003}, 0.003),
        ({"lr": "paper", "warmup_updates": 4000}, 512**-0.5 * 4000**-0.5),
        ({"lr": "paper", "warmup_updates": 0}, 512**-0.5),
    ],
)
def test_peak_learning_rate(settings: dict[str, Any], expected: float) -> None:
    found: Callable[[int], float] = TrainConfig.model_validate(settings).peak_lr
    assert found(512) == pytest.approx(expected)
