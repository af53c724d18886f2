"""A wrong node is named in a branch, in the body of a loop, and where only inputs beyond a threshold show it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest
import torch

import ffn_export as fx
from tests.parity.faults.edit import Change, Editor, behind, node_of

INPUTS = {"x": "float32[batch,seq,8]"}


def module() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 8)).eval()


def named(plant: Callable[[ir.Model], None]) -> str:
    source = module()
    model = fx.export(source, INPUTS)
    plant(model)
    found = fx.bisect(model, against=source, inputs=INPUTS, runtime="ort-cpu")
    assert found.verdict == "node", found.reason
    assert found.part is not None
    return str(found.part.node.name)


def hidden(change: Change) -> Callable[[ir.Model], None]:
    return lambda model: behind(model, node_of(model, "Relu").outputs[0], change)


def scaled(edit: Editor, x: ir.Value) -> ir.Value:
    """Two branches in a branch; the one that is taken is off by 1 %."""

    def branch(name: str, factor: float) -> ir.Graph:
        number = ir.Value(name=f"{name}_factor", const_value=ir.tensor(np.float32(factor)))
        node = ir.node("Mul", [x, number], name=f"wrong_{name}")
        node.outputs[0].name = f"{name}_scaled"
        return ir.Graph([], node.outputs, nodes=[node], initializers=[number], name=name)

    is_long = edit.Less(edit.Squeeze(edit.size(x, 1)), edit.weight(np.array(1000)))
    inner = ir.node("If", [is_long], {"then_branch": branch("short", 1.01), "else_branch": branch("long", 1.0)})
    inner.outputs[0].name = "chosen"
    outer = ir.Graph([], inner.outputs, nodes=[inner], name="outer")
    return edit.If(is_long, then_branch=outer, else_branch=branch("other", 1.0))


def summed(edit: Editor, x: ir.Value) -> ir.Value:
    """Three iterations, each of which adds nothing and then a thousandth."""
    step, goes_on, state = (ir.Value(name=name) for name in ("step", "goes_on", "state"))
    step.type, goes_on.type, state.type = (
        ir.TensorType(dtype) for dtype in (ir.DataType.INT64, ir.DataType.BOOL, ir.DataType.FLOAT)
    )
    step.shape, goes_on.shape = ir.Shape([]), ir.Shape([])
    little = ir.Value(name="little", const_value=ir.tensor(np.float32(1e-3)))
    kept = ir.node("Identity", [goes_on])
    wrong = ir.node("Add", [state, little], name="wrong_sum")
    kept.outputs[0].name, wrong.outputs[0].name = "kept", "sum"
    kept.outputs[0].type, wrong.outputs[0].type = goes_on.type, state.type
    outputs = [kept.outputs[0], wrong.outputs[0]]
    body = ir.Graph([step, goes_on, state], outputs, nodes=[kept, wrong], initializers=[little], name="body")
    return edit.Loop(edit.weight(np.array(3)), edit.weight(np.array(True)), x, body=body)


def clipped(edit: Editor, x: ir.Value) -> ir.Value:
    node = edit.node("Clip", x, None, edit.number(1e4))
    node.name = "wrong_clip"
    return node.outputs[0]


@pytest.mark.slow
@pytest.mark.traced
@pytest.mark.parametrize(("change", "name"), [(scaled, "wrong_short"), (summed, "wrong_sum"), (clipped, "wrong_clip")])
def test_the_node_is_named(change: Change, name: str) -> None:
    assert named(hidden(change)) == name
