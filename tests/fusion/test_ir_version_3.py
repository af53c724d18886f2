"""Files of IR version 3: their initializers are inputs, and constants all the same."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from ffn_export.fusion.pipeline import fuse
from tests.fusion.graphs import assert_same_function, model, operators

GELU = "a = Sub(x, b) d = Div(a, root) e = Erf(d) p = Add(e, one) q = Mul(a, p) y = Mul(q, half)"
NUMBERS = "float[8] b = {1, 2, 3, 4, 5, 6, 7, 8}, float root = {1.41421356}, float one = {1}, float half = {0.5}"


def with_inputs(body: str, version: int) -> ir.Model:
    of = model(body, NUMBERS, opset=13)
    of.ir_version = version
    of.graph.inputs.extend(of.graph.initializers.values())
    onnx.checker.check_model(ir.to_proto(of))
    return of


@pytest.mark.parametrize("target", ["portable", "ort", "ort-cpu"])
def test_what_is_fused_is_a_file_of_version_4(target: str) -> None:
    of = with_inputs(GELU, 3)
    fused, report = fuse(of, target)
    assert operators(fused) == ["Sub", "Gelu"]
    assert [value.name for value in fused.graph.inputs] == ["x"]
    assert fused.ir_version == 4
    assert report.rules == {"gelu": 1}
    onnx.checker.check_model(ir.to_proto(fused), full_check=True)
    assert_same_function(of, fused)


def test_a_file_in_which_nothing_is_fused_stays_as_it_came() -> None:
    of = with_inputs(GELU.replace("Erf", "Cos"), 3)
    fused, report = fuse(of, "portable")
    assert ir.to_proto(fused) == ir.to_proto(of)
    assert report.nodes == {"before": 6, "after": 6}


def test_the_runtime_takes_them_for_constants_too() -> None:
    proto = ir.to_proto(with_inputs(GELU, 3)).SerializeToString()
    session = onnxruntime.InferenceSession(proto, providers=["CPUExecutionProvider"])
    assert [value.name for value in session.get_inputs()] == ["x"]
    assert session.get_overridable_initializers() == []
    given = {"x": np.ones((1, 1, 8), np.float32), "half": np.asarray(1, np.float32)}
    with pytest.raises(Exception, match="Invalid input name"):
        session.run(None, given)


def test_from_version_4_on_a_caller_may_override_them() -> None:
    fused, report = fuse(with_inputs(GELU, 4), "portable")
    assert operators(fused)[-1] == "Mul"
    assert "the caller may change" in str(report.sites[0].reason)
