"""Graphs with drawn weights, and the nodes of ``ai.ffn_export`` that they become."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime

from ffn_export.fusion.functions.contract import DOMAIN
from ffn_export.fusion.functions.inline import written_out
from ffn_export.fusion.functions.outline import outlined
from tests.fusion.graphs import Array, X, Y, feeds, model, operators, run
from tests.native.provider import PROBLEM, relative_l2, session_with

LEVELS = [
    onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
]
Sizes = Mapping[str, tuple[int, ...]]


def graph(body: str, weights: Sizes, *, inputs: str = X, outputs: str = Y, constants: str = "") -> ir.Model:
    """Parse a body, with an initializer of drawn numbers for each of the weights."""
    draw = np.random.default_rng(5)
    placeholders = ", ".join(f"float[{','.join(map(str, shape))}] {name}" for name, shape in weights.items())
    of = model(body, constants, inputs=f"{inputs}, {placeholders}", outputs=outputs)
    for value in [value for value in of.graph.inputs if value.name in weights]:
        of.graph.inputs.remove(value)
        array = draw.standard_normal(weights[str(value.name)]).astype(np.float32) / 2
        value.const_value = ir.tensor(array, name=value.name)
        of.graph.register_initializer(value)
    return of


def nodes(of: ir.Model) -> list[ir.Node]:
    """Return the nodes of our domain."""
    return [node for node in of.graph.all_nodes() if node.domain == DOMAIN]


def attributes(node: ir.Node) -> dict[str, Any]:
    return {name: attribute.value for name, attribute in node.attributes.items()}


def names(node: ir.Node) -> list[str | None]:
    return [None if value is None else value.name for value in node.inputs]


def at_level(of: ir.Model, level: Any, inputs: Mapping[str, Array]) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.log_severity_level = 3
    data = ir.to_proto(of).SerializeToString()
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return [np.asarray(each) for each in session.run(None, dict(inputs))]


def assert_bit_equal(one: ir.Model, other: ir.Model, inputs: Mapping[str, Array] | None = None) -> None:
    """Compare the bits of all outputs at every optimisation level of ONNX Runtime."""
    inputs = inputs or feeds(one)
    for level in LEVELS:
        for expected, actual in zip(at_level(one, level, inputs), at_level(other, level, inputs), strict=True):
            assert actual.dtype == expected.dtype
            assert np.array_equal(actual.view(np.uint8), expected.view(np.uint8)), level


def assert_outlines(
    of: ir.Model, expected: Sequence[str], inputs: Mapping[str, Array] | None = None, *, exact: bool = True
) -> ir.Model:
    """Outline, and compare node list, checker, numbers, the bodies written out again, and the kernels if installed.

    Args:
        of: The graph.
        expected: Operators of the nodes, in graph order.
        inputs: Inputs; None draws them.
        exact: Whether bodies hold the operators of the graph, so that the bits are the same.
    """
    before = ir.to_proto(of)
    one = outlined(of).model
    assert ir.to_proto(of) == before, "the model given was changed"
    assert [node.op_type for node in nodes(one)] == list(expected)
    assert {node.domain for function in one.functions.values() for node in function} <= {""}
    onnx.checker.check_model(ir.to_proto(one))
    inputs = inputs or feeds(of)
    again = written_out(one)
    assert nodes(again) == []
    for expected_value, actual, inlined in zip(run(of, inputs), run(one, inputs), run(again, inputs), strict=True):
        assert actual.shape == expected_value.shape
        assert np.array_equal(actual, inlined)
        assert np.allclose(actual, expected_value, rtol=1e-4, atol=1e-5)
        assert not exact or np.array_equal(actual, expected_value)
    if PROBLEM is None and expected:
        session = session_with(ir.to_proto(one).SerializeToString(), "f32")
        claimed = session.get_provider_graph_assignment_info()
        assert sum(len(each.get_nodes()) for each in claimed if each.ep_name != "CPUExecutionProvider") == len(expected)
        for native, body in zip(session.run(None, dict(inputs)), run(one, inputs), strict=True):
            assert relative_l2(native, body) < 1e-6
    return one


def assert_left(of: ir.Model, inputs: Mapping[str, Array] | None = None, *, kinds: Sequence[str] = ()) -> ir.Model:
    """Check that nothing but nodes of these kinds is outlined, and that the function stays the same."""
    one = assert_outlines(of, kinds, inputs)
    assert kinds or operators(one) == operators(of)
    return one
