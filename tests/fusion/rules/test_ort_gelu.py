"""GELU as ONNX Runtime's own operator, where the graph cannot be raised to the standard's."""

from __future__ import annotations

import pytest

from tests.fusion.graphs import assert_fuses, assert_refuses, model

CONSTANTS = """float half = {0.5}, float one = {1}, float root = {1.4142135623730951}, float inner = {0.044715},
    float three = {3}, float outer = {0.7978845608}, float[8] b = {1,2,3,4,-1,-2,-3,-4}"""
ERF = "d = Div(x, root) e = Erf(d) g = Add(e, one) h = Mul(x, half) y = Mul(h, g)"
TANH = """c = Pow(x, three) m = Mul(c, inner) p = Add(x, m) a = Mul(p, outer) t = Tanh(a) g = Add(t, one)
    h = Mul(x, half) y = Mul(h, g)"""
# Softmax over the middle axis flattened the axes behind it too until opset 13.
HOLDS = "x = Softmax<axis = 1>(u) "
SHAPES = {"inputs": "float[2,3,8] u", "outputs": "float[2,3,8] y"}


@pytest.mark.parametrize("target", ["ort", "ort-cpu", "ort-cuda"])
@pytest.mark.parametrize(("body", "written"), [(ERF, "Gelu"), (TANH, "FastGelu")])
def test_where_the_opset_is_out_of_reach(body: str, written: str, target: str) -> None:
    fused, report = assert_fuses(model(HOLDS + body, CONSTANTS, **SHAPES, opset=12), ["Softmax", written], target)
    assert fused.graph[1].domain == "com.microsoft"
    assert fused.opset_imports == {"": 12, "com.microsoft": 1}
    assert report.rules == {"ort-gelu": 1}


@pytest.mark.parametrize("target", ["ort", "ort-cpu", "ort-cuda"])
@pytest.mark.parametrize("body", [ERF, TANH])
def test_the_standards_operator_goes_first(body: str, target: str) -> None:
    fused, report = assert_fuses(model(body, CONSTANTS, opset=18), ["Gelu"], target)
    assert fused.graph[0].domain == ""
    assert report.rules == {"gelu": 1}


def test_a_portable_graph_gets_none() -> None:
    of = model(HOLDS + ERF, CONSTANTS, **SHAPES, opset=12)
    assert_refuses(of, "Gelu needs opset 20; raising this graph above 12 would change one of its operators")


@pytest.mark.parametrize(("body", "written"), [(ERF, "BiasGelu"), (TANH, "FastGelu")])
def test_goes_on_to_the_form_with_a_bias(body: str, written: str) -> None:
    body = HOLDS.replace("x =", "w =") + "x = Add(w, b) " + body
    assert_fuses(model(body, CONSTANTS, **SHAPES, opset=12), ["Softmax", written], "ort")


def test_refuses_what_the_canonical_rule_refuses() -> None:
    wrong = CONSTANTS.replace("half = {0.5}", "half = {0.25}")
    report = assert_refuses(model(HOLDS + ERF, wrong, **SHAPES, opset=12), "GELU wants x * (0.5 + 0.5 * g)", "ort")
    assert [site.status for site in report.sites] == ["refused"]
