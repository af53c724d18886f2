from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch

from ffn_export.errors import UsageError
from ffn_export.modules import ACTIVATIONS, FeedForward, FeedForwardConfig

TwinError = Callable[..., float]


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation_agrees_with_the_twin(activation: str, twin_error: TwinError) -> None:
    torch.manual_seed(0)
    assert twin_error(FeedForward(6, 16, activation), (2, 3, 6)) <= 1e-12


@pytest.mark.parametrize("leading", [(), (5,), (0,), (2, 3), (0, 3), (2, 0), (2, 1, 3)])
@pytest.mark.parametrize("bias", [True, False])
def test_any_leading_dimensions(leading: tuple[int, ...], bias: bool, twin_error: TwinError) -> None:
    torch.manual_seed(0)
    assert twin_error(FeedForward(6, 16, bias=bias), (*leading, 6)) <= 1e-12


def test_positions_do_not_see_each_other() -> None:
    torch.manual_seed(0)
    ff = FeedForward(4, 8).double().eval()
    x = torch.randn(2, 5, 4, dtype=torch.float64)
    changed = x.clone()
    changed[0, 1] += 1.0
    moved = (ff(changed) - ff(x)).abs().amax(dim=-1) > 0
    assert moved.nonzero().tolist() == [[0, 1]]


def test_dropout_comes_last_and_only_in_training() -> None:
    ff = FeedForward(4, 8, dropout=0.5)
    x = torch.randn(64, 4)
    assert (ff.train()(x) == 0).float().mean().item() == pytest.approx(0.5, abs=0.25)
    assert (ff.eval()(x) != 0).all()


def test_from_any_config_object() -> None:
    config = SimpleNamespace(hidden_size=4, intermediate_size=8, hidden_dropout_prob=0.2)
    ff = FeedForward.from_config(config)
    assert (ff.d_model, ff.d_ff, ff.dropout.p, ff.activation_name) == (4, 8, 0.2, "gelu")
    config.hidden_act = "gelu_new"
    assert FeedForward.from_config(config).activation_name == "gelu_tanh"
    assert FeedForward.from_config(FeedForwardConfig(4, 8, 0.0, "relu")).activation_name == "relu"


def test_config_errors_say_what_is_missing() -> None:
    with pytest.raises(UsageError, match="the config lacks intermediate_size, hidden_dropout_prob"):
        FeedForward.from_config(SimpleNamespace(hidden_size=4))
    with pytest.raises(UsageError, match="hidden_act must be the name of an activation"):
        FeedForward.from_config(
            SimpleNamespace(hidden_size=4, intermediate_size=8, hidden_dropout_prob=0.1, hidden_act=torch.relu)
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"d_model": 0}, "d_model must be a whole number of at least 1, got 0"),
        ({"d_ff": -3}, "d_ff must be a whole number of at least 1, got -3"),
        ({"d_ff": 2.5}, "d_ff must be a whole number of at least 1, got 2.5"),
        ({"d_ff": True}, "d_ff must be a whole number of at least 1, got True"),
        ({"dropout": 1.5}, "dropout must be a number from 0 to 1, got 1.5"),
        ({"activation": "rleu"}, "did you mean 'relu'"),
    ],
)
def test_bad_arguments(arguments: dict[str, object], message: str) -> None:
    settings: dict[str, object] = {"d_model": 4, "d_ff": 8} | arguments
    with pytest.raises(UsageError, match=message):
        FeedForward(**settings)  # type: ignore[arg-type]
