"""Small graphs in ONNX's text form, and both sides of a fusion run node by node."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator

from ffn_export.fusion.forms import Forms
from ffn_export.fusion.forms.by_rows.split_hidden import SPLIT_HIDDEN_LAYERS
from ffn_export.fusion.forms.choice import default_forms
from ffn_export.fusion.pipeline import fuse
from ffn_export.fusion.report import FusionReport
from ffn_export.fusion.targets import get_target
from ffn_export.runtimes.session_options import NO_OPTIMIZER

Array = NDArray[Any]

X = "float[batch,seq,8] x"
Y = "float[batch,seq,8] y"

# Both sides compute in the dtype of the graph, in another order of operations.
TOLERANCE = {"float32": 1e-6, "float16": 4e-3, "float64": 1e-12}


def model(
    body: str,
    constants: str = "",
    *,
    inputs: str = X,
    outputs: str = Y,
    opset: int = 24,
    domains: Sequence[str] = (),
    functions: str = "",
) -> ir.Model:
    """Parse a model; ``constants`` are initializers: ``float half = {0.5}``."""
    imports = ", ".join([f'"" : {opset}', *(f'"{domain}" : 1' for domain in domains)])
    text = f"<ir_version: 10, opset_import: [{imports}]> g ({inputs}) => ({outputs}) <{constants}> {{ {body} }}"
    return ir.from_proto(onnx.parser.parse_model(text + functions))


def cast(of: ir.Model, dtype: ir.DataType) -> ir.Model:
    """Make a float32 model one of another dtype, its initializers rounded to it."""
    for value in (*of.graph.inputs, *of.graph.outputs, *of.graph.initializers.values()):
        if value.dtype != ir.DataType.FLOAT:
            continue
        value.dtype = dtype
        if value.const_value is not None:
            value.const_value = ir.tensor(value.const_value.numpy().astype(dtype.numpy()), name=value.name)
    return of


def whole(target: str) -> Forms:
    """Return the default forms without split hidden layers, which are a default on some processors."""
    return default_forms(get_target(target)) - {SPLIT_HIDDEN_LAYERS.name}


class Writer:
    """Writes nodes in text; bit k of ``order`` swaps the operands of the k-th commutative node."""

    _names = count()

    def __init__(self, order: int = 0) -> None:
        self.lines: list[str] = []
        self.order = order

    def __call__(self, operator: str, *inputs: str, to: str | None = None, attributes: str = "") -> str:
        """Add a node and return the name of its output."""
        if operator in ("Add", "Mul"):
            inputs = inputs[::-1] if self.order & 1 else inputs
            self.order >>= 1
        name = to or f"v{next(self._names)}"
        self.lines.append(f"{name} = {operator}{attributes}({', '.join(inputs)})")
        return name


def body(*writers: Writer) -> str:
    """Join what writers wrote."""
    return "\n".join(line for writer in writers for line in writer.lines)


def operators(fused: ir.Model) -> list[str]:
    """Return the node list of the main graph, constants left out."""
    return [node.op_type for node in fused.graph if node.op_type != "Constant"]


def feeds(of: ir.Model) -> dict[str, Array]:
    """Draw an input for each graph input that has no default; symbolic sizes become 2, 3, 4 ..."""
    draw = np.random.default_rng(11)
    sizes: dict[str, int] = {}
    drawn: dict[str, Array] = {}
    for value in of.graph.inputs:
        if value.is_initializer():
            continue
        assert value.dtype is not None
        dims = [
            d if isinstance(d, int) else sizes.setdefault(str(d.value), len(sizes) + 2) for d in value.shape or (2, 8)
        ]
        if value.dtype == ir.DataType.BOOL:
            drawn[str(value.name)] = np.array(True)
        else:
            drawn[str(value.name)] = (3 * draw.standard_normal(dims)).astype(value.dtype.numpy())
    return drawn


def run(of: ir.Model, inputs: Mapping[str, Array]) -> list[Array]:
    """Run a model as it is written: onnxruntime with its optimiser off, else the reference evaluator."""
    proto = ir.to_proto(of)
    if of.opset_imports.get("", 0) > 26:
        return [np.asarray(each) for each in ReferenceEvaluator(proto).run(None, dict(inputs))]
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), NO_OPTIMIZER.session_options(1), providers=["CPUExecutionProvider"]
    )
    return [np.asarray(each) for each in session.run(None, dict(inputs))]


def assert_same_function(
    one: ir.Model, other: ir.Model, inputs: Mapping[str, Array] | None = None, results: Sequence[Array] = ()
) -> None:
    """Compare the outputs of two models: same shapes and dtypes, equal up to rounding.

    ``results`` are those of the first, if they are known.
    """
    inputs = inputs or feeds(one)
    for expected, actual in zip(results or run(one, inputs), run(other, inputs), strict=True):
        assert actual.dtype == expected.dtype
        assert actual.shape == expected.shape
        assert np.isfinite(expected).all()
        error = np.abs(actual.astype(np.float64) - expected.astype(np.float64)).max(initial=0)
        assert error <= TOLERANCE[expected.dtype.name] * np.abs(expected.astype(np.float64)).max(initial=0)


def assert_fuses(
    of: ir.Model, expected: Sequence[str], target: str = "portable", *, forms: Collection[str] | None = None
) -> tuple[ir.Model, FusionReport]:
    """Fuse, and compare the node list and the numbers; nothing may be refused. None takes the target's usual forms."""
    fused, report = fuse(of, target, forms=forms)
    assert operators(fused) == list(expected)
    assert [site for site in report.sites if site.status == "refused"] == []
    assert_interface_kept(of, fused)
    assert_same_function(of, fused)
    return fused, report


def assert_refuses(of: ir.Model, reason: str | None, target: str = "portable", *, runs: bool = True) -> FusionReport:
    """Fuse, and see every node still there; ``reason`` is a part of the one refusal, None for no report of it."""
    fused, report = fuse(of, target)
    assert operators(fused) == operators(of)
    assert report.rules == {}
    assert_interface_kept(of, fused)
    assert fused.opset_imports == of.opset_imports
    refusals = [site.reason or "" for site in report.sites if site.status == "refused"]
    if reason is None:
        assert refusals == []
    else:
        assert len(refusals) == 1, refusals
        assert reason in refusals[0]
    if runs:
        assert_same_function(of, fused)
    return report


def assert_same_results(before: ir.Model, after: ir.Model, inputs: Mapping[str, Array]) -> None:
    """Compare shapes and numbers of all outputs; NaN is equal to NaN."""
    for wanted, got in zip(run(before, inputs), run(after, inputs), strict=True):
        assert got.shape == wanted.shape
        assert np.allclose(got, wanted, rtol=1e-5, atol=1e-6, equal_nan=True)


def assert_interface_kept(of: ir.Model, fused: ir.Model) -> None:
    """Compare names, dtypes, axes and metadata of inputs and outputs, and the metadata of the model."""

    def interface(values: Sequence[ir.Value]) -> list[Any]:
        return [(v.name, v.dtype, str(v.shape), dict(v.metadata_props), v.doc_string) for v in values]

    assert interface(fused.graph.inputs) == interface(of.graph.inputs)
    assert interface(fused.graph.outputs) == interface(of.graph.outputs)
    assert (fused.graph.name, fused.graph.doc_string) == (of.graph.name, of.graph.doc_string)
    assert fused.metadata_props == of.metadata_props
    assert fused.graph.metadata_props == of.graph.metadata_props
    assert (fused.producer_name, fused.ir_version, fused.doc_string) == (of.producer_name, of.ir_version, of.doc_string)
    assert _is_valid(fused) or not _is_valid(of)


def _is_valid(of: ir.Model) -> bool:
    try:
        onnx.checker.check_model(ir.to_proto(of))
    except onnx.checker.ValidationError:
        return False
    return True
