"""Functions that call functions, in ONNX's reference evaluator."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx import parser

from ffn_export.parity.checks import bodies
from ffn_export.runtimes.evaluator import Evaluator

INNER = """
    <domain: "mine", opset_import: ["": 20]>
    inner (x) => (y) { y = Gelu(x) }"""
OUTER = """
    <domain: "mine", opset_import: ["mine": 1]>
    outer (x) => (y) { y = mine.inner(x) }"""
BRANCH = """
    <domain: "mine", opset_import: ["": 20, "mine": 1]>
    outer (x) => (y) {
        yes = Constant<value = bool {1}>()
        y = If (yes) <
            then_branch = a () => (p) { p = mine.inner(x) },
            else_branch = b () => (q) { q = Neg(x) }
        >
    }"""


@pytest.mark.parametrize("outer", [OUTER, BRANCH], ids=["without standard operators", "in a branch"])
@pytest.mark.parametrize("is_called_first", [False, True])
def test_a_function_may_call_another_in_any_order(outer: str, is_called_first: bool) -> None:
    functions = INNER + outer if is_called_first else outer + INNER
    text = '<ir_version: 10, opset_import: ["": 20, "mine": 1]> g (float[n] x) => (float[n] y) { y = mine.outer(x) }'
    proto = parser.parse_model(text + functions)
    x = np.array([-1.0, 0.0, 2.0], np.float32)
    (y,) = Evaluator(proto).run(None, {"x": x})
    assert y == pytest.approx([-0.158655, 0.0, 1.9545], abs=1e-5)
    check = bodies.judge(ir.from_proto(proto), {"x": x})
    assert check is not None
    assert (check.verdict, check.notes) == ("passed", ())
