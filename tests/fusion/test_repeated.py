"""A layer that is called for each term of a formula is one product."""

from __future__ import annotations

import math

import onnx_ir as ir
import pytest
import torch
from torch import nn

import ffn_export as fx
from ffn_export.fusion import repeated

INPUTS = {"x": "float32[batch,seq,20]"}


class Spelled(nn.Module):
    """A feed-forward whose activation calls its first layer three times."""

    def __init__(self, bias: bool) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(20, 33, bias), nn.Linear(33, 20, bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        up = self.up
        gate = 1 + torch.tanh(math.sqrt(2 / math.pi) * (up(x) + 0.044715 * up(x) ** 3))
        out: torch.Tensor = self.down(0.5 * up(x) * gate)
        return out


def apart(model: ir.Model) -> ir.Model:
    """Give each reader of the first layer a copy of it, as exporters do that merge nothing."""
    last = next(node for node in model.graph if len(node.outputs[0].uses()) > 1)
    before = [value.producer() for value in last.inputs if value is not None]
    layer = [node for node in model.graph if node is last or node in before]
    for number, use in enumerate(tuple(last.outputs[0].uses())[1:]):
        value: ir.Value | None = None
        for node in layer:
            inputs = list(node.inputs) if value is None else [value, *node.inputs[1:]]
            copy = ir.node(node.op_type, inputs)
            value = copy.outputs[0]
            value.name, value.type, value.shape = f"copy_{node.op_type}_{number}", last.outputs[0].type, None
            model.graph.insert_before(use.node, copy)
        use.node.replace_input_with(use.idx, value)
    return model


@pytest.mark.parametrize("bias", [False, True])
def test_a_layer_that_is_called_for_each_term_is_one_product(bias: bool) -> None:
    module = Spelled(bias).eval()
    model = apart(fx.export(module, INPUTS))
    assert [node.op_type for node in model.graph].count("MatMul") == 4
    fused, report = fx.fuse(model, target="portable")
    assert [(site.kind, site.activation) for site in report.sites] == [("feed_forward", "gelu_tanh")]
    assert [node.op_type for node in fused.graph].count("MatMul") == 2
    assert fx.verify(fused, module, inputs=INPUTS, runtimes=["ort-cpu"], fast=True).passed


class Shared(nn.Module):
    """Two feed-forwards with one first layer."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.one, self.other = nn.Linear(20, 33), nn.Linear(33, 20), nn.Linear(33, 20)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.one(nn.functional.gelu(self.up(x))) + self.other(torch.relu(self.up(x)))
        return out


def test_feed_forwards_with_one_first_layer_keep_a_product_each() -> None:
    """A node computes each of them: merged, the product would belong to neither."""
    model = apart(fx.export(Shared().eval(), INPUTS))
    fused, report = fx.fuse(model, target="ort-native")
    assert [node.op_type for node in fused.graph] == ["FeedForward_2", "FeedForward"]
    assert {site.activation for site in report.sites} == {"gelu", "relu"}


def test_the_terms_of_each_formula_are_merged_with_each_other() -> None:
    class Two(Shared):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            up = self.up
            out: torch.Tensor = self.one(up(x) * torch.sigmoid(up(x))) + self.other(up(x) * torch.tanh(up(x)))
            return out

    fused, _ = fx.fuse(apart(fx.export(Two().eval(), INPUTS)), target="portable")
    assert [node.op_type for node in fused.graph].count("MatMul") == 4


def products(*weights: str, output: int | None = None, **second: float) -> ir.Model:
    """Return a graph of a Gemm for each weight, whose sum is the output."""
    x = ir.val("x", ir.DataType.FLOAT, [2, 2])
    known = {name: ir.val(name, const_value=ir.tensor([[1.0, 2.0], [3.0, 4.0]], name=name)) for name in {*weights}}
    nodes = [ir.node("Gemm", [x, known[name]], second if i else {}) for i, name in enumerate(weights)]
    total = ir.node("Sub", [node.outputs[0] for node in nodes])
    for i, node in enumerate((*nodes, total)):
        node.outputs[0].name = f"y{i}"
    outputs = [total.outputs[0], *([] if output is None else nodes[output].outputs)]
    graph = ir.Graph(
        [x], outputs, nodes=[*nodes, total], initializers=[*known.values()], opset_imports={"": 20}, name="g"
    )
    return ir.Model(graph, ir_version=10)


@pytest.mark.parametrize(
    ("model", "left"),
    [
        (products("w", "w"), 1),
        (products("w", "v"), 2),
        (products("w", "w", alpha=0.5), 2),
        (products("w", "w", output=0), 2),
        (products("w", "w", output=1), 2),
    ],
)
def test_only_the_same_product_is_merged(model: ir.Model, left: int) -> None:
    repeated.merge(model)
    assert [node.op_type for node in model.graph] == ["Gemm"] * left + ["Sub"]
