"""A graph that trains or draws random numbers is no graph for inference, whatever a runtime makes of it."""

from __future__ import annotations

import pytest

from ffn_export.parity.checks import inference_only
from tests.fusion import graphs

TRAINS = "is in training mode"


@pytest.mark.parametrize(
    ("body", "constants", "word"),
    [
        ("y = Dropout(x, rate, training)", "float rate = {0.1}, bool training = {1}", TRAINS),
        ("y = RandomNormalLike(x)", "", "draws random numbers"),
        ("y = BatchNormalization<training_mode = 1>(x, s, s, s, s)", "float[1] s = {1}", TRAINS),
    ],
)
def test_what_trains_or_draws_is_named(body: str, constants: str, word: str) -> None:
    (line,) = inference_only.differences(graphs.model(body, constants))
    assert word in line


@pytest.mark.parametrize(
    ("body", "constants"),
    [
        ("y = Dropout(x)", ""),
        ("y = Dropout(x, rate, training)", "float rate = {0.1}, bool training = {0}"),
        ("y = BatchNormalization(x, s, s, s, s)", "float[1] s = {1}"),
    ],
)
def test_what_is_off_is_nothing(body: str, constants: str) -> None:
    assert inference_only.differences(graphs.model(body, constants)) == ()


def test_functions_are_looked_into() -> None:
    noisy = '<domain: "own", opset_import: ["" : 24]> Noisy (a) => (b) { b = RandomUniformLike(a) }'
    model = graphs.model("y = own.Noisy(x)", domains=("own",), functions=noisy)
    assert len(inference_only.differences(model)) == 1
