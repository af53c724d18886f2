"""ONNX's inference of single nodes."""

from __future__ import annotations

from typing import Any

import onnx
import pytest

from ffn_export.fusion.shape_proofs import standard
from ffn_export.fusion.shape_proofs.prove import Proof
from tests.fusion.graphs import model


def test_equal_nodes_are_inferred_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, infer = [], onnx.shape_inference.infer_node_outputs

    def counted(schema: onnx.defs.OpSchema, *rest: Any, **named: Any) -> Any:
        asked.append(schema.name)
        return infer(schema, *rest, **named)

    monkeypatch.setattr(onnx.shape_inference, "infer_node_outputs", counted)
    standard._outputs.cache_clear()
    layers = " ".join(f"h{i} = MatMul(h{i - 1}, w) k{i} = Relu(h{i})" for i in range(1, 20))
    of = model(f"h0 = Relu(x) {layers} y = Relu(h19)", "float[2,2] w = {1,2,3,4}", inputs="float[seq,2] x")
    for node in of.graph:
        for value in node.outputs:
            value.type = None
    Proof(of, {})
    assert sorted(asked) == ["MatMul", "Relu"]
    assert all(value.dtype is not None for node in of.graph for value in node.outputs)


def test_elements_and_attributes_tell_nodes_apart() -> None:
    text = "a = Cast<to = 7>(x) b = Cast<to = 1>(x) c = Cast<to = 7>(x) y = Add(b, b)"
    of = model(text, inputs="float[seq,2] x")
    for node in of.graph:
        node.outputs[0].type = None
    Proof(of, {})
    assert [str(node.outputs[0].dtype) for node in of.graph] == ["INT64", "FLOAT", "INT64", "FLOAT"]
