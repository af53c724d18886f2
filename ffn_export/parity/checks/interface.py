"""Check that a graph has the inputs, outputs and symbolic axes of its reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, permutations
from pathlib import Path

import onnx
import onnx_ir as ir

from ffn_export.core.drawing import numpy_dtype
from ffn_export.core.one_line import first_line
from ffn_export.core.strict import expose_own
from ffn_export.core.tensor_spec import TensorSpec
from ffn_export.core.types import Array
from ffn_export.parity.checks.checked_run import CheckedRun
from ffn_export.parity.judging.check_result import CheckResult
from ffn_export.runtimes.ort_cpu import OrtCpu


def check(run: CheckedRun) -> CheckResult:
    """Compare inputs, outputs and axes of the graph with those of the reference."""
    findings = (
        *differences(run.model, run.reference.inputs, _output_names(run)),
        *run.output_differences,
        *(rejected(run.path) if run.loaded and OrtCpu.name in run.unavailable else ()),
    )
    return CheckResult.of("interface", "as the spec says", findings)


def _output_names(run: CheckedRun) -> Sequence[str] | None:
    """Return the output names that the source fixes, or else those of the first result; None without results."""
    source = run.reference.source
    if source is not None and source.outputs is not None:
        return source.outputs
    return next(([output.output for output in result.outputs] for result in run.results if result.outputs), None)


def differences(model: ir.Model, specs: Sequence[TensorSpec], outputs: Sequence[str] | None) -> tuple[str, ...]:
    """Return one line for each difference. A difference fails the verification; it is no error of the user."""
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


def rejected(path: Path) -> tuple[str, ...]:
    """Return the error of ONNX's checker for a file, if any. Called for a model that ONNX Runtime does not load.

    An invalid model is a failure, not a missing capability of this machine: other runtimes of its users may reject it
    even if one accepts it.
    """
    try:
        onnx.checker.check_model(str(path))
    except Exception as error:  # noqa: BLE001 - the checker raises many types, parser errors among them
        expose_own(error)
        return (f"the ONNX checker rejects the model: {first_line(error)}",)
    return ()


def output_differences(
    model: ir.Model, feeds: Mapping[str, Array], truths: Mapping[str, Array]
) -> dict[tuple[str, int], str]:
    """Return ``(output, axis)`` -> line for each axis whose declared size differs from that of a run.

    Args:
        model: The graph.
        feeds: Inputs of the run.
        truths: Outputs of the reference. A wrong rank has the axis -1.
    """
    sizes: dict[str, int] = {}
    for value in model.graph.inputs:
        array = feeds.get(str(value.name))
        if array is not None and value.shape is not None and len(value.shape) == array.ndim:
            sizes |= {symbol: n for dim, n in zip(value.shape, array.shape, strict=True) for symbol in _symbols(dim)}
    found: dict[tuple[str, int], str] = {}
    for value in model.graph.outputs:
        truth = truths.get(str(value.name))
        if truth is None or value.shape is None:
            continue
        if len(value.shape) != truth.ndim:
            found[str(value.name), -1] = f"output {value.name!r} has rank {len(value.shape)}, expected {truth.ndim}"
            continue
        for axis, (dim, size) in enumerate(zip(value.shape, truth.shape, strict=True)):
            said = next((sizes.get(symbol) for symbol in _symbols(dim)), None) if not isinstance(dim, int) else dim
            if said is not None and said != size:
                name = (
                    f"is fixed to {dim}"
                    if isinstance(dim, int)
                    else f"is called {dim.value!r}, of which there are {said}"
                )
                found[str(value.name), axis] = f"axis {axis} of output {value.name!r} {name}, and has the size {size}"
    return found


def _axes(spec: TensorSpec, value: ir.Value) -> list[str]:
    if value.shape is None:
        return []
    if len(value.shape) != len(spec.dims):
        return [f"input {spec.name!r} has rank {len(value.shape)}, expected {len(spec.dims)}"]
    return [
        f"axis {axis} of input {spec.name!r} is fixed to {have}, expected the symbolic axis {want.name!r}"
        if not isinstance(want, int)
        else f"axis {axis} of input {spec.name!r} is {have}, expected {want}"
        for axis, (want, have) in enumerate(zip(spec.dims, value.shape, strict=True))
        if isinstance(have, int) and have != want
    ]


def _tied_axes(model: ir.Model, specs: Sequence[TensorSpec]) -> list[str]:
    """Compare the names of symbolic axes. The graph may rename them, but not swap names or use one for two axes."""
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
    """Return the name of an axis as a set, which is empty for a fixed or unknown size."""
    return set() if isinstance(dim, int) or dim.value is None else {str(dim.value)}


def _name(dtype: ir.DataType | None) -> str:
    return "of unknown dtype" if dtype is None else dtype.name.lower()
