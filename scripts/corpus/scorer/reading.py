"""A graph as the scorer reads it: functions inlined, shapes inferred, constants folded when asked for."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator
from onnx_ir.passes.common import InlinePass

LAYOUT = frozenset(
    {
        "Reshape",
        "Transpose",
        "Squeeze",
        "Unsqueeze",
        "Cast",
        "Identity",
        "Slice",
        "Split",
        "Shape",
        "Gather",
        "Concat",
        "Expand",
        "Flatten",
    }
)
# Where a value may pass between a sum and its norm.
SAME_ROWS = frozenset({"Reshape", "Squeeze", "Unsqueeze", "Identity", "Cast"})

_NOT_FOLDED = frozenset({"If", "Loop", "Scan", "RandomNormal", "RandomUniform"})


class Graph:
    """The nodes of a model, with the questions that the scorer asks of values."""

    def __init__(self, path: Path) -> None:
        proto = onnx.load(path)
        try:
            proto = onnx.shape_inference.infer_shapes(proto)
        except Exception:  # noqa: BLE001 - a graph that shapes cannot be inferred for is read without
            proto = onnx.load(path)
        self.model = ir.from_proto(proto)
        if self.model.functions:
            InlinePass()(self.model)
        self.nodes = [node for node in self.model.graph.all_nodes() if node.op_type != "Constant"]
        self._opset = self.model.opset_imports.get("", 20)
        self._is_constant: dict[ir.Value, bool] = {}
        self._arrays: dict[ir.Value, NDArray[Any] | None] = {}

    def is_constant(self, value: ir.Value | None) -> bool:
        """Say whether a value is the same for every input."""
        if value is None:
            return False
        if value not in self._is_constant:
            self._is_constant[value] = self._find_whether_constant(value)
        return self._is_constant[value]

    def _find_whether_constant(self, value: ir.Value) -> bool:
        node = value.producer()
        if node is None:
            return value.const_value is not None and not value.is_graph_input()
        if node.op_type == "Constant":
            return True
        given = [i for i in node.inputs if i is not None]
        return bool(given) and node.op_type not in _NOT_FOLDED and all(map(self.is_constant, given))

    def array(self, value: ir.Value | None) -> NDArray[Any] | None:
        """Return the numbers of a constant."""
        if value is None or not self.is_constant(value):
            return None
        if value not in self._arrays:
            self._arrays[value] = self._compute(value)
        return self._arrays[value]

    def _compute(self, value: ir.Value) -> NDArray[Any] | None:
        node = value.producer()
        if node is None:
            return None if value.const_value is None else value.const_value.numpy()
        if node.op_type == "Constant":
            found = ir.convenience.get_const_tensor(value)
            return None if found is None else found.numpy()
        feeds = {i.name: self.array(i) for i in node.inputs if i is not None and i.name}
        if any(array is None for array in feeds.values()):
            return None
        try:
            evaluator = ReferenceEvaluator(ir.to_proto(node), opsets={"": self._opset})
            results: Any = evaluator.run(None, feeds)
            return np.asarray(results[node.outputs.index(value)])
        except Exception:  # noqa: BLE001 - an operator that the evaluator lacks: a constant of unknown numbers
            return None

    def scalar(self, value: ir.Value | None) -> float | None:
        """Return the number of a constant that has one element."""
        array = self.array(value)
        return float(array.reshape(())) if array is not None and array.size == 1 else None

    def through(self, value: ir.Value | None, operators: frozenset[str] = SAME_ROWS) -> ir.Value | None:
        """Return where a value comes from, before nodes that only change how it is laid out."""
        while value is not None:
            node = value.producer()
            if node is None or node.op_type not in operators or node.domain != "":
                return value
            value = node.inputs[0]
        return None

    def readers(self, value: ir.Value, operators: frozenset[str] = SAME_ROWS) -> list[tuple[ir.Node, ir.Value]]:
        """Return the nodes that read a value and under which name, after nodes that only change its layout."""
        found: list[tuple[ir.Node, ir.Value]] = []
        for user, _ in value.uses():
            if user.op_type in operators and user.domain == "":
                found.extend(self.readers(user.outputs[0], operators))
            else:
                found.append((user, value))
        return found


def fingerprint(array: NDArray[Any]) -> str:
    """Name the numbers of an array, whatever their order."""
    flat = np.sort(array.astype(np.float64), axis=None)
    if flat.size and bool(np.all(flat == 1.0)):
        return "ones"
    return hashlib.sha256(flat.tobytes()).hexdigest()[:12]


def last_axis_only(node: ir.Node, axes: list[int] | None, source: ir.Value | None) -> bool:
    """Say whether axes are the last one alone."""
    if axes is None or len(axes) != 1:
        return False
    rank = len(source.shape) if source is not None and source.shape is not None else None
    return axes[0] == -1 or (rank is not None and axes[0] == rank - 1)
