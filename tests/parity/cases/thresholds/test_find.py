"""Which thresholds a graph has, inside of branches and functions too."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from onnx import parser

from ffn_export.core import onnx_file
from ffn_export.parity.cases.thresholds.find import find
from ffn_export.parity.cases.thresholds.flat import flat


def model(nodes: str, inputs: str = "float[b, 4] x", functions: str = "") -> ir.Model:
    text = f'<ir_version: 10, opset_import: ["": 20, "f": 1]> g ({inputs}) => (float y) {{ {nodes} }}'
    return onnx_file.from_proto(parser.parse_model(text + functions))


@pytest.mark.parametrize(
    ("nodes", "limits"),
    [
        ("c = Constant <value_float = 7.0> () k = Greater(x, c) y = Cast<to = 1>(k)", [7.0]),
        ("c = Constant <value_float = 7.0> () k = Less(c, x) y = Cast<to = 1>(k)", [7.0]),
        ("c = Constant <value_float = 3.4e38> () y = Min(x, c)", []),
        ("a = Constant <value_float = 0.0> () b = Constant <value_float = 6.0> () y = Clip(x, a, b)", [0.0, 6.0]),
        ("h = Cast<to = 10>(x) y = Cast<to = 1>(h)", [-65504.0, 65504.0]),
        ("y = HardSwish(x)", [-3.0, 3.0]),
        ("y = HardSigmoid<alpha = 0.5, beta = 0.5>(x)", [-1.0, 1.0]),
        (
            "s = Shape(x) k = Constant <value_int = 7> () l = Greater(s, k) m = Cast<to = 1>(l) "
            "r = ReduceMax<keepdims = 0>(m) y = Mul(x, r)",
            [],
        ),
        ("y = Add(x, x)", []),
    ],
)
def test_numbers_that_values_of_the_inputs_are_held_against(nodes: str, limits: list[float]) -> None:
    assert [each.limit for each in find(flat(model(nodes)))] == limits


def test_what_is_turned_around_keeps_its_equal_numbers_on_their_side() -> None:
    above = "c = Constant <value_float = 7.0> () k = GreaterOrEqual(x, c) y = Cast<to = 1>(k)"
    turned = "c = Constant <value_float = 7.0> () k = GreaterOrEqual(c, x) y = Cast<to = 1>(k)"
    assert [find(flat(model(nodes)))[0].equal_is_above for nodes in (above, turned)] == [True, False]


def test_branches_and_functions_are_looked_into() -> None:
    branch = "c = Constant <value_float = {}> () z = Min(x, c)"
    nodes = (
        "k = Constant <value_int = 1> () l = Cast<to = 9>(k) h = If (l) <"
        f"then_branch = t () => (float[b, 4] z) {{ {branch.format(5)} }}, "
        f"else_branch = e () => (float[b, 4] z) {{ {branch.format(6)} }}> y = f.limited(h)"
    )
    function = (
        '<domain: "f", opset_import: ["": 20]> limited (x) => (y) { c = Constant <value_float = 8.0> () y = Max(x, c) }'
    )
    assert [each.limit for each in find(flat(model(nodes, functions=function)))] == [5.0, 6.0, 8.0]


def test_inputs_that_a_value_is_computed_from_are_known() -> None:
    (threshold,) = find(flat(model("k = Equal(ids, x) y = Cast<to = 1>(k)", "int64[b] ids, int64[b] x")))
    assert threshold.inputs == {"ids", "x"}
    assert threshold.asks_equal
    assert threshold.is_kink, "neither is written down"
