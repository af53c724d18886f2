"""Bodies of a vendor's operators are run and judged, although ONNX Runtime has kernels of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from ffn_export.fusion.functions import portable
from ffn_export.parity.checks import bodies
from ffn_export.parity.checks.bodies import judge

DOMAIN = "com.microsoft"
WIDTH = 16
ROW = np.linspace(0.5, 1.5, WIDTH, dtype=np.float32)


def called(operator: str, constants: int, computed: int = 1, **attributes: float) -> ir.Model:
    """Return a graph of one call: computed inputs first, then rows of constants."""
    inputs = [
        ir.Value(name=f"x{i}", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(["n", WIDTH]))
        for i in range(computed)
    ]
    rows = [
        ir.Value(name=f"row{i}", const_value=ir.tensor(ROW + np.float32(i), name=f"row{i}")) for i in range(constants)
    ]
    for row in rows:
        row.shape, row.dtype = ir.Shape([WIDTH]), ir.DataType.FLOAT
    node = ir.node(operator, [*inputs, *rows], attributes, domain=DOMAIN)
    node.outputs[0].name = "y"
    opsets = {"": 17, DOMAIN: 1}
    graph = ir.Graph(inputs, node.outputs, nodes=[node], initializers=rows, opset_imports=opsets, name="g")
    return portable.add(ir.Model(graph, ir_version=10))


CALLS: dict[str, Callable[[], ir.Model]] = {
    "Gelu": lambda: called("Gelu", 0),
    "BiasGelu": lambda: called("BiasGelu", 1),
    "FastGelu": lambda: called("FastGelu", 1),
    "QuickGelu": lambda: called("QuickGelu", 0, alpha=1.702),
    "SkipLayerNormalization": lambda: called("SkipLayerNormalization", 3, 2, epsilon=1e-12),
    "SkipSimplifiedLayerNormalization": lambda: called("SkipSimplifiedLayerNormalization", 2, 2, epsilon=1e-6),
}


@pytest.mark.parametrize("operator", CALLS)
def test_a_body_is_what_its_operator_computes(operator: str) -> None:
    model = CALLS[operator]()
    assert [function.name for function in model.functions.values()] == [operator]
    found = judge(model)
    assert (found.findings, found.notes) == ((), ())


def swapped(before: str, after: str) -> Callable[[ir.Function], None]:
    def change(body: ir.Function) -> None:
        next(node for node in body.graph if node.op_type == before).op_type = after

    return change


def left_out(body: ir.Function) -> None:
    """Hand on the first operand of the last sum in place of the sum."""
    add = [node for node in body.graph if node.op_type == "Add"][-1]
    add.op_type = "Identity"
    add.resize_inputs(1)


def epsilon(body: ir.Function) -> None:
    node = next(n for n in body.graph if n.op_type == "Constant" and "value_float" in n.attributes)
    node.attributes["value_float"] = ir.AttrFloat32("value_float", 1e-5)


def number(body: ir.Function) -> None:
    for node in body.graph:
        tensor = node.attributes.get_tensor("value") if "value" in node.attributes else None
        if tensor is not None and abs(float(tensor.numpy().reshape(-1)[0]) - 0.044715) < 1e-6:
            node.attributes["value"] = ir.AttrTensor("value", ir.tensor(np.float32(0.0447)))


@pytest.mark.parametrize(
    ("operator", "change"),
    [
        ("Gelu", swapped("Erf", "Tanh")),
        ("BiasGelu", swapped("Add", "Sub")),
        ("FastGelu", number),
        ("QuickGelu", swapped("Sigmoid", "Tanh")),
        ("SkipLayerNormalization", swapped("Sub", "Add")),
        ("SkipLayerNormalization", left_out),
        ("SkipLayerNormalization", epsilon),
        ("SkipSimplifiedLayerNormalization", epsilon),
    ],
)
def test_a_wrong_body_is_found(operator: str, change: Callable[[ir.Function], None]) -> None:
    model = CALLS[operator]()
    (body,) = model.functions.values()
    change(body)
    (failure,) = judge(model).findings
    assert failure.startswith(
        f"the body of function com.microsoft::{operator} is not that operator: output 0 is off by"
    )


def test_a_body_that_nothing_calls_is_named() -> None:
    model = CALLS["Gelu"]()
    model.graph[0].domain, model.graph[0].op_type = "", "Relu"
    assert judge(model).notes == ("function com.microsoft::Gelu is called by nothing: its body was not judged",)


def scaled_rows(opset: int = 17, operator: str = "Mul") -> tuple[ir.Model, dict[str, Any]]:
    """Return a graph that calls a function of the file's own, and inputs of it."""
    x, w = ir.val("x", ir.DataType.FLOAT, ["n", 2, WIDTH]), ir.val("w", ir.DataType.FLOAT, [WIDTH])
    w.const_value = ir.tensor(ROW, name="w")
    inner, scale = ir.Value(name="inner"), ir.Value(name="scale")
    soft = ir.node("Softmax", [inner])
    product = ir.node(operator, [soft.outputs[0], scale])
    body = ir.Graph([inner, scale], product.outputs, nodes=[soft, product], opset_imports={"": opset}, name="Rows")
    function = ir.Function("mine", "Rows", graph=body, attributes=[])
    call = ir.node("Rows", [x, w], domain="mine")
    call.outputs[0].name, call.outputs[0].dtype = "y", ir.DataType.FLOAT
    opsets = {"": 17, "mine": 1}
    graph = ir.Graph([x], call.outputs, nodes=[call], initializers=[w], opset_imports=opsets, name="g")
    feeds = {"x": np.random.default_rng(0).standard_normal((3, 2, WIDTH)).astype(np.float32)}
    return ir.Model(graph, ir_version=10, functions=[function]), feeds


def test_a_body_of_any_domain_is_run() -> None:
    model, feeds = scaled_rows()
    found = judge(model, feeds)
    assert (found.findings, found.notes) == ((), ())


def test_a_body_may_hold_operators_that_the_evaluator_has_in_no_body() -> None:
    """ONNX's evaluator alone runs no GELU in a function, of which a native FeedForward is made."""
    model, feeds = scaled_rows(20)
    (function,) = model.functions.values()
    function.graph[0].op_type = "Gelu"
    model.opset_imports[""] = model.graph.opset_imports[""] = 20
    found = judge(model, feeds)
    assert (found.verdict, found.findings, found.notes) == ("passed", (), ())


def test_bodies_of_which_none_is_judged_do_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    model, feeds = scaled_rows()
    assert judge(model).verdict == "not checked"

    def no_operator(call: onnx.ModelProto, given: Any) -> Any:
        raise NotImplementedError(f"no operator of {len(call.functions)} functions")

    monkeypatch.setattr(bodies, "_run", no_operator)
    found = judge(model, feeds)
    assert found.verdict == "not checked"
    assert found.notes == (
        "the body of function mine::Rows was not judged: NotImplementedError: no operator of 1 functions",
    )


def test_a_body_that_another_runtime_reads_otherwise_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    model, feeds = scaled_rows()
    run = bodies._run

    def wrong_with_functions(call: onnx.ModelProto, given: Any) -> Any:
        return [array + 0.1 * len(call.functions) for array in run(call, given)]

    monkeypatch.setattr(bodies, "_run", wrong_with_functions)
    (failure,) = judge(model, feeds).findings
    assert failure.startswith("the body of function mine::Rows is not what ONNX Runtime computes: output 0 is off by")


def test_a_body_of_a_standard_operator_is_that_operator() -> None:
    model, _ = scaled_rows()
    (function,) = model.functions.values()
    function.domain, function.name = "", "Pow"
    model.graph[0].domain, model.graph[0].op_type = "", "Pow"
    (failure,) = judge(ir.Model(model.graph, ir_version=10, functions=[function])).findings
    assert failure.startswith("the body of function ::Pow is not that operator")


@pytest.mark.parametrize(
    ("want", "wrong"),
    [
        (np.array([1000, 1001]), np.array([1000, 1002])),
        (np.array([2**63 - 1, 0]), np.array([2**63 - 2, 0])),
        (np.array([1.0, 2, -1e9, -1e9], np.float32), np.array([1.0, 3, -1e9, -1e9], np.float32)),
        (np.array([1.0, 2, -np.inf], np.float32), np.array([1.0, 2, -9], np.float32)),
        (np.array([1.0, 2, 3], np.float32), np.array([1.0, 2, np.nan], np.float32)),
    ],
)
def test_outputs_that_are_read_otherwise(want: Any, wrong: Any) -> None:
    """Sums in another order change floating-point numbers alone, and those by little of their own size."""
    assert bodies._apart(wrong, want, bodies._READ_ALIKE) is not None
    assert bodies._apart(want, want, bodies._READ_ALIKE) is None
