"""Whether a graph has the inputs, outputs and symbolic axes that its reference promises."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, permutations

import onnx_ir as ir

from ffn_export.exporter.drawing import numpy_dtype
from ffn_export.exporter.tensor_spec import Dim, TensorSpec


def differences(model: ir.Model, specs: Sequence[TensorSpec], outputs: Sequence[str] | None) -> tuple[str, ...]:
    """Return one line for each difference; a difference is a failed gate, not bad input."""
    found: list[str] = _tied_axes(model, specs)
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


def _tied_axes(model: ir.Model, specs: Sequence[TensorSpec]) -> list[str]:
    """Compare what the axes are called: the graph may name them as it likes, but not two by one name or crosswise."""
    shapes = {value.name: value.shape for value in model.graph.inputs if value.shape is not None}
    called: dict[str, set[str]] = {}
    for spec in specs:
        shape = shapes.get(spec.name, ir.Shape([]))
        if len(shape) == len(spec.dims):
            for axis, dim in spec.symbolic.items():
                called.setdefault(dim.name, set()).update(_symbols(shape[axis]))
    crosswise = [
        f"the graph calls axis {one!r} {other!r}, which is the name of another"
        for one, other in permutations(called, 2)
        if other in called[one]
    ]
    return crosswise or [
        f"the graph has one symbol, {symbol!r}, for the axes {one!r} and {other!r}"
        for one, other in combinations(called, 2)
        for symbol in sorted(called[one] & called[other])
    ]


def _symbols(dim: int | ir.SymbolicDim) -> set[str]:
    """Return the name of an axis, if it has one: a size has none, nor has an axis of which nothing is known."""
    return set() if isinstance(dim, int) or dim.value is None else {str(dim.value)}


def _name(dtype: ir.DataType | None) -> str:
    return "of unknown dtype" if dtype is None else dtype.name.lower()
