"""Advised settings beside a configuration: which of them it does not follow, and with them applied.

Comes in: a configuration, pieces of `Advice`, such as those of `recipes.py`.
"""

from collections.abc import Iterable
from operator import attrgetter
from typing import Any, NamedTuple

from transformer_mt.config.experiment import Config, build_config
from transformer_mt.config.yaml_text import flattened, parse_setting


class Advice(NamedTuple):
    key: str  # of the configuration, e.g. "model.dropout"
    value: Any
    why: str  # one line, with the source


def compare(cfg: Config, advice: list[Advice]) -> list[Advice]:
    """The advice that a configuration does not follow, small differences left out."""
    advised = apply_advice(cfg, advice)
    return [a for a in advice if _differs(a.key, _setting(cfg, a.key), _setting(advised, a.key))]


def apply_advice(cfg: Config, advice: Iterable[Advice], *, on_defaults: bool = True) -> Config:
    """A configuration with advised settings; the other ones of tokenizer, model and train are the
    defaults or, without `on_defaults`, those of `cfg`."""
    tree = cfg.model_dump()
    if on_defaults:
        tree |= {section: {} for section in ("tokenizer", "model", "train")}
    for a in advice:
        section, name = a.key.split(".")
        tree[section][name] = a.value
    if tree["model"].get("architecture") == "modern":
        tree["model"]["norm"] = "pre"  # the only one that goes with it
    return build_config(tree, "recipe")


def kept_settings(cfg: Config, overrides: Iterable[str]) -> dict[str, Any]:
    """The settings of `cfg` that `--set` has given, by key."""
    values = dict(flattened(cfg.model_dump()))
    named = flattened(dict(map(parse_setting, overrides)))
    return {key: values[key] for key, _ in named if key in values}


def changes(cfg: Config, advice: Iterable[Advice]) -> list[Advice]:
    """The advice that says something else than the configuration."""
    return [a for a in advice if attrgetter(a.key)(cfg) != a.value]


def _setting(cfg: Config, key: str) -> object:
    if key == "train.lr":
        return cfg.train.peak_lr(cfg.model.d_model)
    if key == "tokenizer.vocab_size":
        return cfg.tokenizer.vocab_sizes
    return attrgetter(key)(cfg)


def _differs(key: str, found: object, advised: object) -> bool:
    """Shares by 0.1, other numbers by a factor of 1.6, anything else at all."""
    if isinstance(found, tuple) and isinstance(advised, tuple):
        return any(_differs(key, a, b) for a, b in zip(found, advised, strict=True))
    if isinstance(found, bool | str) or not isinstance(found, int | float):
        return found != advised
    assert isinstance(advised, int | float)
    if key in ("model.dropout", "tokenizer.sampling"):
        return abs(found - advised) > 0.099
    return max(found, advised) > 1.6 * min(found, advised)
