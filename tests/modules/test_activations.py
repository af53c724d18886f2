from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from ffn_export.errors import UsageError
from ffn_export.modules import ACTIVATIONS, make_activation, numpy_twin, twin_of
from ffn_export.modules.activations import activation_name

# Both tails, the kinks of hardswish at -3 and 3, and the steep part.
POINTS = np.concatenate([np.linspace(-40.0, 40.0, 4001), [-3.0, 3.0, 0.0, -1e-9, 1e-9]])


def test_registry_is_the_one_that_the_twin_has() -> None:
    assert list(ACTIVATIONS) == list(numpy_twin.ACTIVATIONS)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_agrees_with_its_twin_at_every_point(name: str) -> None:
    module = make_activation(name)
    expected = twin_of(module)(POINTS)
    actual = module(torch.from_numpy(POINTS)).numpy()
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12)
    assert np.abs(expected).max() > 0.9


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_twin_is_the_function_of_that_name(name: str) -> None:
    assert twin_of(make_activation(name)) is numpy_twin.ACTIVATIONS[name]


@pytest.mark.parametrize(
    ("name", "x", "y"),
    [
        ("relu", -2.0, 0.0),
        ("gelu", 1.0, 0.8413447460685429),  # the normal distribution at 1
        ("gelu_tanh", 1.0, 0.8411919906082768),
        ("quick_gelu", 1.0, 1 / (1 + math.exp(-1.702))),
        ("silu", 2.0, 2 / (1 + math.exp(-2))),
        ("relu2", 3.0, 9.0),
        ("tanh", 0.5, math.tanh(0.5)),
        ("elu", -1.0, math.exp(-1) - 1),
        ("mish", 1.0, math.tanh(math.log(1 + math.e))),
        ("hardswish", 1.0, 4 / 6),
        ("leaky_relu", -2.0, -0.02),
    ],
)
def test_known_values(name: str, x: float, y: float) -> None:
    assert numpy_twin.ACTIVATIONS[name](x) == pytest.approx(y, abs=1e-15, rel=1e-14)


def test_twin_is_sound_far_out() -> None:
    with np.errstate(over="raise", invalid="raise"):
        for name, function in numpy_twin.ACTIVATIONS.items():
            assert np.isfinite(function([-1e4, 1e4])).all(), name
        # The left tail of GELU is x * erfc(-x / sqrt 2) / 2, not a difference of ones.
        assert numpy_twin.ACTIVATIONS["gelu"](-10.0) == pytest.approx(-10 * 7.619853024160525e-24, rel=1e-9)


@pytest.mark.parametrize(("alias", "name"), [("gelu_new", "gelu_tanh"), ("swish", "silu"), ("gelu", "gelu")])
def test_names_of_hugging_face_configs(alias: str, name: str) -> None:
    assert activation_name(alias) == name


def test_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"unknown activation 'gelu_tan': did you mean 'gelu_tanh'\?"):
        make_activation("gelu_tan")


def test_twin_refuses_constants_that_it_does_not_have() -> None:
    with pytest.raises(UsageError, match=r"alpha=1\.0 only"):
        twin_of(torch.nn.ELU(alpha=0.5))
