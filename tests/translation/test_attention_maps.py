"""Attention maps: which map is picked, which weights are masked, which choices are refused."""

import numpy as np
import pytest
from toy_maps import make_maps

from transformer_mt.errors import ConfigError
from transformer_mt.translation.attention_maps import (
    KINDS,
    Choice,
    Kind,
    parse_choice,
    parse_kind,
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("layer", "head"), [(1, 3), (2, "mean"), ("mean", 1), ("mean", "mean")])
def test_every_row_of_a_picked_map_sums_to_1(kind: Kind, layer: Choice, head: Choice) -> None:
    maps = make_maps()
    picked = maps.pick(kind, layer, head)
    assert picked.shape == (len(maps.row_pieces(kind)), len(maps.column_pieces(kind)))
    np.testing.assert_allclose(picked.sum(axis=-1), 1, atol=1e-6)


def test_layers_and_heads_are_counted_from_1() -> None:
    maps = make_maps()
    np.testing.assert_array_equal(maps.pick("cross", 1, 1), maps.cross[0, 0])
    np.testing.assert_array_equal(maps.pick("cross", 2, 3), maps.cross[1, 2])


def test_only_the_upper_triangle_of_the_decoder_is_masked() -> None:
    maps = make_maps()
    np.testing.assert_array_equal(maps.masked("decoder"), np.triu(np.ones((6, 6), bool), 1))
    assert not maps.masked("encoder").any()
    assert not maps.masked("cross").any()


def test_a_layer_or_head_that_does_not_exist() -> None:
    with pytest.raises(ConfigError, match="cross attention: layer 3: this model has 1 to 2; or"):
        make_maps().pick("cross", 3, 1)
    with pytest.raises(ConfigError, match="cross attention: head 0: this model has 1 to 3; or"):
        make_maps().pick("cross", 1, 0)


@pytest.mark.parametrize("text", ["0", "00", "9" * 5000, "²", "-1", "1\n", ""])
def test_numbers_that_are_none(text: str) -> None:
    with pytest.raises(ConfigError, match="expected a number, counted from 1, or mean"):
        parse_choice(text, "--layer")


def test_options_are_parsed_or_explained() -> None:
    assert (parse_choice("2", "--layer"), parse_choice("mean", "--head")) == (2, "mean")
    assert parse_kind("decoder") == "decoder"
    with pytest.raises(ConfigError, match=r"^--layer two: expected a number, counted from 1, or"):
        parse_choice("two", "--layer")
    with pytest.raises(ConfigError, match="--head 0: expected"):
        parse_choice("0", "--head")
    with pytest.raises(ConfigError, match=r"^--kind self: allowed are encoder, decoder, cross$"):
        parse_kind("self")
