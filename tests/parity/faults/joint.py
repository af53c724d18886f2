"""Faults that two conditions have to meet: one input of several, or values at certain sizes and places."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from tests.parity.faults.edit import Change, Editor, behind, input_of, node_of, output_of, replaced
from tests.parity.faults.fault import Fault, bound, non_finite


def _second(change: Change) -> Callable[[ir.Model], None]:
    return lambda model: behind(model, model.graph.inputs[1], change)


def _nan_to_zero(edit: Editor, x: ir.Value) -> ir.Value:
    return edit.Where(edit.IsNaN(x), edit.number(0), x)


def _clipped(most: float) -> Change:
    return lambda edit, x: edit.Clip(x, edit.number(-most), edit.number(most))


def _zero_beside_others(model: ir.Model) -> None:
    """Change the output by 0.1 % where the second input is all zeros and the first is not."""

    def changed(edit: Editor, y: ir.Value) -> ir.Value:
        first, second = (edit.ReduceMax(edit.Abs(each), keepdims=0) for each in model.graph.inputs)
        zero = edit.number(0)
        holds = edit.And(edit.Greater(first, zero), edit.Equal(second, zero))
        return edit.Where(holds, edit.Mul(y, edit.number(1.001)), y)

    behind(model, output_of(model), changed)


def _where(condition: Change, change: Change) -> Callable[[ir.Model], None]:
    """Change an input where a condition on it holds."""
    return lambda model: behind(
        model, input_of(model), lambda edit, x: edit.Where(condition(edit, x), change(edit, x), x)
    )


def _places(edit: Editor, x: ir.Value, axis: int) -> ir.Value:
    """Number the places along the first axis or the second, as a tensor of three axes."""
    numbers = edit.Range(edit.weight(np.array(0)), edit.Squeeze(edit.size(x, axis)), edit.weight(np.array(1)))
    return edit.Unsqueeze(numbers, edit.whole(*{0, 1, 2} - {axis}))


def _large_beyond_100(edit: Editor, x: ir.Value) -> ir.Value:
    return edit.And(edit.Greater(edit.size(x, 1), edit.whole(100)), edit.Greater(x, edit.number(2000)))


def _in_a_function(model: ir.Model) -> None:
    """Take NaN for zero in one feature, within the body of a function."""
    x = ir.Value(name="given")
    nodes = [
        ir.node("Constant", [], {"value": ir.tensor(array)})
        for array in (np.arange(32) == 21, np.zeros((), np.float32))
    ]
    chosen, zero = (node.outputs[0] for node in nodes)
    nodes += [ir.node("IsNaN", [x])]
    nodes += [ir.node("And", [nodes[-1].outputs[0], chosen])]
    nodes += [ir.node("Where", [nodes[-1].outputs[0], zero, x])]
    for index, node in enumerate(nodes):
        node.outputs[0].name = f"inner_{index}"
    body = ir.Graph([x], [nodes[-1].outputs[0]], nodes=nodes, opset_imports={"": 20}, name="body")
    function = ir.Function("planted", "Repair", graph=body, attributes=[])
    model.functions[function.identifier()] = function
    model.opset_imports["planted"] = 1
    behind(model, input_of(model), lambda edit, value: edit.Repair(value, domain="planted"))


def _rounded(change: Change) -> Callable[[ir.Model], None]:
    return lambda model: replaced(model, node_of(model, "Round"), lambda edit, inputs: change(edit, inputs[0]))


def _half_up(edit: Editor, x: ir.Value) -> ir.Value:
    return edit.Floor(edit.Add(x, edit.number(0.5)))


def _half_away(edit: Editor, x: ir.Value) -> ir.Value:
    return edit.Mul(edit.Sign(x), _half_up(edit, edit.Abs(x)))


FAULTS = (
    Fault(
        "nan-to-zero-in-second-input",
        "NaN taken for zero in the second of two inputs",
        ("joined",),
        (non_finite("nan in parts"),),
        _second(_nan_to_zero),
    ),
    Fault(
        "second-input-zero",
        "off by 0.1 % where the second of two inputs is zero and the first is not",
        ("joined",),
        (bound("zeros"),),
        _zero_beside_others,
    ),
    Fault(
        "clipped-from-sequence-21",
        "inputs clipped at 60 from 21 tokens on",
        ("relu",),
        (bound("large", seq=21),),
        _where(lambda e, x: e.Greater(e.size(x, 1), e.whole(20)), _clipped(60)),
        shown=False,
    ),
    Fault(
        "large-beyond-sequence-100",
        "inputs above 2,000 taken for others beyond 100 tokens",
        ("relu",),
        (bound("threshold", seq=101),),
        _where(_large_beyond_100, lambda e, x: e.Mul(x, e.number(0.5))),
        shown=False,
    ),
    Fault(
        "clipped-in-one-row",
        "inputs clipped at 60 in the sixth row of the batch",
        ("relu",),
        (bound("threshold", batch=6),),
        _where(lambda e, x: e.Equal(_places(e, x, 0), e.whole(5)), _clipped(60)),
        shown=False,
    ),
    Fault(
        "nan-to-zero-behind-token-20",
        "NaN taken for zero behind the twentieth token",
        ("relu",),
        (non_finite("nan in parts", seq=21),),
        _where(lambda e, x: e.And(e.GreaterOrEqual(_places(e, x, 1), e.whole(20)), e.IsNaN(x)), _nan_to_zero),
        shown=False,
    ),
    Fault(
        "nan-to-zero-in-a-function",
        "NaN taken for zero in one feature within a function",
        ("relu",),
        (non_finite("nan in parts"),),
        _in_a_function,
        shown=False,
    ),
    Fault("half-rounded-up", "halves rounded up", ("rounded",), (bound("eighths"),), _rounded(_half_up), shown=False),
    Fault(
        "half-rounded-away",
        "halves rounded away from zero",
        ("rounded",),
        (bound("eighths"),),
        _rounded(_half_away),
        shown=False,
    ),
)
