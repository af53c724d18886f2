"""Statistics of activations on samples."""

from __future__ import annotations

import numpy as np

from ffn_export.calibration.statistics import watched
from tests.fusion.graphs import model


def test_nodes_may_be_in_any_order() -> None:
    graph = model("a = Relu(x) y = Neg(a)")
    last = graph.graph[-1]
    graph.graph.remove(last)
    graph.graph.insert_before(graph.graph[0], last)  # onnxruntime sorts nodes, onnx-ir copies only sorted ones
    x = np.arange(-4, 4, dtype=np.float32).reshape(1, 1, 8)
    ((name, rows, parts),) = watched(graph, ["a"], {"x": x})
    assert (name, rows.tolist(), parts) == ("a", [[0, 0, 0, 0, 0, 1, 2, 3]], 1)
