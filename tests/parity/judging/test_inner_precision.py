from __future__ import annotations

import pytest

from ffn_export.parity.judging.inner_precision import inner_precisions
from tests.fusion.graphs import model

TWO = "float[batch,seq,8] y, float[batch,seq,8] z"
LOOP = """
    y = Loop (turns, "", x) <body = turn (int64 i, bool go, float[batch,seq,8] h) => (bool on,
        float[batch,seq,8] next) { on = Identity(go) small = Cast<to = 10>(h) next = Cast<to = 1>(small) }>
"""


@pytest.mark.parametrize(
    ("body", "constants", "found"),
    [
        ("h = Cast<to = 10>(x) r = Relu(h) y = Cast<to = 1>(r) z = Relu(x)", "", {"y": "float16"}),
        ("h = Cast<to = 10>(x) b = Cast<to = 16>(h) y = Cast<to = 1>(b) z = Relu(x)", "", {"y": "bfloat16"}),
        ("h = Cast<to = 1>(w) y = Mul(x, h) z = Relu(x)", "float16[1] w = {2}", {}),  # only stored in half precision
        ("h = Cast<to = 10>(w) b = Cast<to = 1>(h) y = Mul(x, b) z = Relu(x)", "float[1] w = {2}", {}),
        (f"{LOOP} z = Relu(x)", "int64 turns = {3}", {"y": "float16"}),
    ],
)
def test_what_is_computed_of_an_input_counts(body: str, constants: str, found: dict[str, str]) -> None:
    assert inner_precisions(model(body, constants, outputs=TWO, opset=20)) == found


def test_an_input_in_half_precision() -> None:
    of = model("f = Cast<to = 1>(x) y = Relu(f)", inputs="float16[n] x", outputs="float[n] y", opset=20)
    assert inner_precisions(of) == {"y": "float16"}
