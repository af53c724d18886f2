from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from ffn_export.errors import UsageError
from ffn_export.modules import GatedFeedForward

TwinError = Callable[..., float]


@pytest.mark.parametrize("activation", ["silu", "gelu", "gelu_tanh", "relu"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_agrees_with_the_twin(activation: str, packed: bool, bias: bool, twin_error: TwinError) -> None:
    torch.manual_seed(0)
    gated = GatedFeedForward(6, 10, activation, bias=bias, packed=packed)
    for leading in [(), (0,), (3,), (2, 3), (0, 3), (2, 1, 3)]:
        assert twin_error(gated, (*leading, 6)) <= 1e-12


@pytest.mark.parametrize("bias", [False, True])
def test_packed_and_apart_are_the_same_function(bias: bool) -> None:
    torch.manual_seed(0)
    apart = GatedFeedForward(6, 10, bias=bias).double()
    packed = GatedFeedForward(6, 10, bias=bias, packed=True).double()
    x = torch.randn(2, 3, 6, dtype=torch.float64)
    assert not torch.allclose(packed(x), apart(x))
    torch.testing.assert_close(packed.load_gated(apart)(x), apart(x), rtol=0, atol=1e-15)

    again = GatedFeedForward(6, 10, bias=bias).double().load_gated(packed)
    torch.testing.assert_close(again.state_dict(), apart.state_dict(), rtol=0, atol=0)


def test_the_first_half_of_the_packed_projection_is_the_gate() -> None:
    torch.manual_seed(0)
    packed = GatedFeedForward(2, 3, "relu", packed=True)
    with torch.no_grad():
        packed.gate_up.weight[:3] = 0.0
    assert (packed(torch.randn(5, 2)) == 0).all()


def test_loading_copies_and_does_not_share() -> None:
    apart = GatedFeedForward(2, 3)
    packed = GatedFeedForward(2, 3, packed=True).load_gated(apart)
    with torch.no_grad():
        apart.gate.weight.zero_()
        apart.down.weight.zero_()
    assert packed.gate_up.weight[:3].abs().sum() > 0
    assert packed.down.weight.abs().sum() > 0


@pytest.mark.parametrize(
    "other", [GatedFeedForward(2, 4), GatedFeedForward(2, 3, "relu"), GatedFeedForward(2, 3, bias=True)]
)
def test_loading_another_function_is_refused(other: GatedFeedForward) -> None:
    with pytest.raises(UsageError, match="load_gated needs equal d_model, d_ff, activation and bias"):
        GatedFeedForward(2, 3, packed=True).load_gated(other)


def test_bad_arguments() -> None:
    with pytest.raises(UsageError, match="d_ff must be"):
        GatedFeedForward(4, 0)
    with pytest.raises(UsageError, match="did you mean 'silu'"):
        GatedFeedForward(4, 8, "siluu")
    with pytest.raises(UsageError, match="dropout must be"):
        GatedFeedForward(4, 8, dropout=-0.1)
