"""The tensor of a ``Constant``, and of one that onnx-ir raises for."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper

from ffn_export.core.constant_tensors import constant_tensor

VALUE = numpy_helper.from_array(np.array([1.5, 2.5], np.float32), "value")


def constant(**attributes: Any) -> ir.Value:
    proto: onnx.NodeProto = helper.make_node("Constant", [], ["y"], **attributes)
    return ir.serde.deserialize_node(proto).outputs[0]


@pytest.mark.parametrize("attributes", [{"value": VALUE}, {"value_floats": [1.5, 2.5]}])
def test_constant(attributes: dict[str, Any]) -> None:
    tensor = constant_tensor(constant(**attributes))
    assert tensor is not None
    assert tensor.numpy().tolist() == [1.5, 2.5]


WITHOUT_A_TENSOR: dict[str, dict[str, Any]] = {
    "no value": {},
    "two values": {"value": VALUE, "value_int": 1},
    "another attribute": {"axis": 1},
    "a number for a tensor": {"value": 1},
}


@pytest.mark.parametrize("attributes", WITHOUT_A_TENSOR.values(), ids=WITHOUT_A_TENSOR)
def test_constant_without_a_tensor(attributes: dict[str, Any]) -> None:
    assert constant_tensor(constant(**attributes)) is None
