"""Merge the equal initializers of a weight that the exporter folded once per use.

torch's exporter transposes a weight for each layer call. If it folds the result, a layer that is called
twelve times leaves twelve equal weights.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ffn_export.core.types import Array

_SAMPLED = 64


def merge(model: ir.Model) -> int:
    """Merge equal folded weights of the main graph in place, and return the number of removed ones.

    Parameters are not merged: two that are equal by chance, such as biases of zeros, keep their names.
    """
    kept: dict[object, list[ir.Value]] = {}
    merged = 0
    for value in list(model.graph.initializers.values()):
        if type(value.const_value) is not ir.Tensor or value.is_graph_input() or value.is_graph_output():
            continue
        array = value.const_value.numpy()
        alike = kept.setdefault((array.dtype.name, array.shape, _sample(array)), [])
        twin = next((v for v in alike if v.const_value is not None and _is_equal(v.const_value.numpy(), array)), None)
        if twin is None:
            alike.append(value)
            continue
        ir.convenience.replace_all_uses_with(value, twin)
        del model.graph.initializers[str(value.name)]
        merged += 1
    return merged


def _sample(array: Array) -> bytes:
    """Return a few elements as bytes, so that a weight is compared in full only with a likely duplicate."""
    return array.flat[:: max(array.size // _SAMPLED, 1)].tobytes()


def _is_equal(one: Array, other: Array) -> bool:
    """Whether all bits are equal, compared row by row, since a transposed weight must be copied for it."""
    rows = zip(np.atleast_1d(one), np.atleast_1d(other), strict=True)
    return all(a.tobytes() == b.tobytes() for a, b in rows)
