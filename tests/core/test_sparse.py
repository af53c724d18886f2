"""Sparse constants become dense, wherever a model keeps them."""

from __future__ import annotations

import onnx
import pytest
from onnx.helper import make_attribute, make_graph, make_model, make_node, make_opsetid, make_tensor_value_info

from ffn_export.core.onnx_file import from_proto

ONE = onnx.helper.make_sparse_tensor(
    onnx.helper.make_tensor("v", onnx.TensorProto.FLOAT, [1], [2.0]),
    onnx.helper.make_tensor("i", onnx.TensorProto.INT64, [1], [1]),
    [3],
)


def branch(name: str) -> onnx.GraphProto:
    node = make_node("Constant", [], [name])
    node.attribute.append(make_attribute("sparse_value", ONE))
    return make_graph([node], name, [], [make_tensor_value_info(name, onnx.TensorProto.FLOAT, [3])])


@pytest.mark.parametrize("in_function", [False, True])
def test_in_the_branches_of_an_if(in_function: bool) -> None:
    node = make_node("If", ["c"], ["y"], then_branch=branch("t"), else_branch=branch("e"))
    opsets = [make_opsetid("", 20), make_opsetid("own", 1)]
    functions = [onnx.helper.make_function("own", "F", ["c"], ["y"], [node], opsets[:1])] if in_function else []
    call = make_node("F", ["c"], ["y"], domain="own") if in_function else node
    inputs = [make_tensor_value_info("c", onnx.TensorProto.BOOL, [])]
    outputs = [make_tensor_value_info("y", onnx.TensorProto.FLOAT, [3])]
    graph = make_graph([call], "g", inputs, outputs)
    model = from_proto(make_model(graph, opset_imports=opsets, functions=functions))
    owner = next(iter(model.functions.values())) if in_function else model.graph
    constants = [node for node in owner.all_nodes() if node.op_type == "Constant"]
    assert [node.attributes["value"].as_tensor().numpy().tolist() for node in constants] == [[0.0, 2.0, 0.0]] * 2
