"""An edge graph, and what a fused form of it must hold to, whatever became of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
from numpy.typing import NDArray
from onnx import numpy_helper

from ffn_export.core import onnx_file
from ffn_export.fusion.pipeline import fuse
from ffn_export.fusion.targets import TARGETS
from ffn_export.runtimes.session_options import NO_OPTIMIZER
from tests.fusion.graphs import X, Y, cast

Array = NDArray[Any]

# Sizes of the symbolic axes, in order of appearance; the first stands for the example, zeros are for those that
# the original takes.
SIZES = ((2, 3, 4, 5), (5, 7, 2, 3), (1, 1, 1, 1), (0, 3, 2, 1))
# Relative to the largest value: both sides compute in the dtype of the graph, in another order.
TOLERANCE = {"float32": 1e-5, "float16": 8e-3, "bfloat16": 5e-2, "float64": 1e-12}


@dataclass(frozen=True)
class Edge:
    """A graph at an edge of what a rule takes.

    Attributes:
        name: Its name in the tests.
        proto: The graph.
        fused: Operators that target ``ort`` must end up with; None where refusing is right too.
        scale: What drawn inputs are multiplied by.
        runs_empty: Whether an empty batch is tried: onnxruntime keeps the axes of an empty mean that drops them.
    """

    name: str
    proto: onnx.ModelProto
    fused: tuple[str, ...] | None = None
    scale: float = 1.0
    runs_empty: bool = True

    def __repr__(self) -> str:
        return f"{self.name}: {onnx.printer.to_text(self.proto)}"


def edge(name: str, body: str, constants: str = "", *, fused: str | None = None, **options: Any) -> Edge:
    """Write an edge in ONNX's text form.

    ``fused`` names operators, apart by blanks; ``dtype`` is what float32 becomes, and ``dtypes`` that of single
    initializers.
    """
    scale = options.pop("scale", 1.0)
    dtype, dtypes = options.pop("dtype", None), options.pop("dtypes", {})
    proto = _parsed(body, constants, **options)
    for initializer in proto.graph.initializer:
        if initializer.name in dtypes:
            array = numpy_helper.to_array(initializer).astype(dtypes[initializer.name].numpy())
            initializer.CopyFrom(numpy_helper.from_array(array, initializer.name))
    if dtype is not None:
        proto = ir.to_proto(cast(ir.from_proto(proto), dtype))
    return Edge(name, proto, None if fused is None else tuple(fused.split()), scale)


def _parsed(
    body: str,
    constants: str,
    *,
    inputs: str = X,
    outputs: str = Y,
    opset: int = 24,
    domains: Sequence[str] = (),
    functions: str = "",
) -> onnx.ModelProto:
    """Parse without onnx-ir, which does not take everything that onnxruntime takes."""
    imports = ", ".join([f'"" : {opset}', *(f'"{domain}" : 1' for domain in domains)])
    text = f"<ir_version: 10, opset_import: [{imports}]> g ({inputs}) => ({outputs}) <{constants}> {{ {body} }}"
    return onnx.parser.parse_model(text + functions)


def operators(proto: onnx.ModelProto) -> list[str]:
    """Return all operators of a model, subgraphs included and constants left out."""
    return [node.op_type for node in ir.from_proto(proto).graph.all_nodes() if node.op_type != "Constant"]


def faults(of: Edge, target: str) -> Iterator[str]:
    """Fuse an edge and yield what is wrong with the result."""
    try:
        copied = onnx.ModelProto()
        copied.CopyFrom(of.proto)
        model = onnx_file.from_proto(copied)
        ir.to_proto(model)
    except Exception as error:  # noqa: BLE001 - onnx-ir does not take it, with or without us
        if not isinstance(_loaded(of.proto), str):
            yield f"cannot be read, though onnxruntime loads it: {error}"
        return
    try:
        fused, report = fuse(model, target)
        proto = ir.to_proto(fused)
        proto = onnx.ModelProto.FromString(proto.SerializeToString())
        report.explain()
    except Exception as error:  # noqa: BLE001 - any exception is a fault
        yield f"raises {type(error).__name__}: {error}"
        return
    for value, own in zip(of.proto.graph.output, proto.graph.output, strict=False):
        if not value.HasField("type"):
            own.ClearField("type")
    if _interface(of.proto) != _interface(proto):
        yield "the interface changed"
    for full in (False, True):
        problem = _checker_problem(proto, full)
        if problem is not None and _checker_problem(of.proto, full) is None:
            yield f"the checker (full={full}) says: {problem}"
            return
    yield from _differences(of, proto)
    if of.fused is not None and target == "ort" and not set(of.fused) <= set(operators(proto)):
        yield f"not fused: {' '.join(operators(proto))}; {report.explain()}"


def all_faults(of: Edge) -> list[str]:
    """Return the faults of an edge for every target."""
    return [f"{target}: {fault}" for target in TARGETS for fault in faults(of, target)]


def _interface(proto: onnx.ModelProto) -> list[Any]:
    given = {initializer.name for initializer in proto.graph.initializer}
    given |= {initializer.values.name for initializer in proto.graph.sparse_initializer}
    return [
        [value.SerializeToString() for value in proto.graph.input],
        [value.SerializeToString() for value in proto.graph.output],
        [value.name for value in proto.graph.input if value.name in given],
        sorted((entry.key, entry.value) for entry in proto.metadata_props),
        proto.graph.name,
    ]


def _checker_problem(proto: onnx.ModelProto, full: bool) -> str | None:
    try:
        onnx.checker.check_model(proto, full_check=full)
    except Exception as error:  # noqa: BLE001 - a model that it cannot read is one that it does not pass
        return str(error).strip().split("\n")[0]
    return None


Run = Callable[[Mapping[str, Array]], Sequence[Any]]


def _loaded(proto: onnx.ModelProto) -> Run | str:
    """Load a model as it is written, or return why it does not load."""
    options = NO_OPTIMIZER.session_options(1)
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001 - onnxruntime raises what it likes
        return str(error).split("\n")[0]
    return lambda feeds: list(session.run(None, feeds))


def _differences(of: Edge, fused: onnx.ModelProto) -> Iterator[str]:
    original, result = _loaded(of.proto), _loaded(fused)
    if isinstance(original, str):
        return  # onnxruntime does not take it: nothing to compare
    if isinstance(result, str):
        yield f"does not load: {result}"
        return
    for sizes in SIZES if of.runs_empty else [sizes for sizes in SIZES if 0 not in sizes]:
        feeds = _feeds(of, sizes)
        try:
            expected = original(feeds)
        except Exception:  # noqa: BLE001 - a size that the original does not take
            continue
        try:
            actual = result(feeds)
        except Exception as error:  # noqa: BLE001 - any exception is a fault
            yield f"does not run at {sizes}: {str(error).splitlines()[0]}"
            return
        yield from (f"at {sizes}: {difference}" for difference in _compared(expected, actual))


def _compared(expected: Sequence[Any], actual: Sequence[Any]) -> Iterator[str]:
    for index, (one, other) in enumerate(zip(expected, actual, strict=True)):
        if isinstance(one, list) or one is None:
            continue
        if one.shape != other.shape or one.dtype != other.dtype:
            yield f"output {index} is {other.dtype}{other.shape} and was {one.dtype}{one.shape}"
            return
        a, b = np.asarray(one, np.float64), np.asarray(other, np.float64)
        known = np.isfinite(a)
        if not np.isfinite(b[known]).all():
            yield f"output {index} is not finite any more"
            return
        # Half precision may overflow in pieces and not in one operator; in float32 nothing drawn does.
        if not known.all() and one.dtype == np.float32 and not np.array_equal(np.isnan(a), np.isnan(b)):
            yield f"output {index} has other NaN"
        error = np.abs(a[known] - b[known]).max(initial=0)
        bound = TOLERANCE.get(one.dtype.name, 0) * max(np.abs(a[known]).max(initial=0), 1e-3)
        if error > bound:
            yield f"output {index} is off by {error:.3g}, allowed {bound:.3g}"


def _feeds(of: Edge, sizes: Sequence[int]) -> Mapping[str, Array]:
    draw = np.random.default_rng(11)
    axes: dict[str, int] = {}
    given = {initializer.name for initializer in of.proto.graph.initializer}
    feeds = {}
    for value in of.proto.graph.input:
        if value.name in given or not value.type.HasField("tensor_type"):
            continue
        kind = value.type.tensor_type
        dims = (
            [
                d.dim_value
                if d.HasField("dim_value")
                else axes.setdefault(d.dim_param or f"?{len(axes)}", sizes[len(axes) % 4])
                for d in kind.shape.dim
            ]
            if kind.HasField("shape")
            else [*sizes[:2], 8]
        )
        dtype = ir.DataType(kind.elem_type).numpy()
        if dtype == np.bool_:
            feeds[value.name] = np.ones(dims, np.bool_)
        elif np.issubdtype(dtype, np.integer):
            feeds[value.name] = draw.integers(1, 3, dims).astype(dtype)
        else:
            feeds[value.name] = (of.scale * 2 * draw.standard_normal(dims)).astype(dtype)
    return feeds
