"""Whether a graph has the inputs, outputs and symbolic axes that its reference promises."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ffn_export.exporter.drawing import numpy_dtype
from ffn_export.exporter.tensor_spec import Dim, TensorSpec


def differences(model: ir.Model, specs: Sequence[TensorSpec], outputs: Sequence[str] | None) -> tuple[str, ...]:
    """Return one line for each difference; a difference is a failed gate, not bad input."""
    found: list[str] = []
    values = {v.name: v for v in model.graph.inputs}
    for spec in specs:
        value = values.pop(spec.name, None)
        if value is None:
            found.append(f"the graph has no input {spec.name!r}")
            continue
        if value.dtype != ir.DataType.from_numpy(numpy_dtype(spec.dtype)):
            found.append(f"input {spec.name!r} is {_name(value.dtype)}, expected {spec.dtype}")
        found.extend(_axes(spec, value))
    required = [name for name in values if name not in model.graph.initializers]
    found.extend(f"the graph has an input {name!r} that the reference does not have" for name in required)
    have = [value.name for value in model.graph.outputs]
    if outputs is not None and have != list(outputs):
        found.append(f"the graph has outputs {', '.join(map(str, have))}, expected {', '.join(outputs)}")
    return tuple(found)


def _axes(spec: TensorSpec, value: ir.Value) -> list[str]:
    if value.shape is None:
        return []
    if len(value.shape) != len(spec.dims):
        return [f"input {spec.name!r} has rank {len(value.shape)}, expected {len(spec.dims)}"]
    return [
        f"axis {axis} of input {spec.name!r} is fixed to {have}, expected the symbolic axis {want.name!r}"
        if isinstance(want, Dim)
        else f"axis {axis} of input {spec.name!r} is {have}, expected {want}"
        for axis, (want, have) in enumerate(zip(spec.dims, value.shape, strict=True))
        if isinstance(have, int) and have != want
    ]


def _name(dtype: ir.DataType | None) -> str:
    return "of unknown dtype" if dtype is None else dtype.name.lower()
