"""Run every function body of a model in ONNX's reference evaluator, and judge it.

ONNX Runtime has kernels for operators such as ``com.microsoft::SkipLayerNormalization`` and ignores their function
bodies in a file. A runtime without these kernels runs the bodies. The body of an operator of a vendor or of the
standard is therefore compared with the operator, once for every call with distinct attributes or inputs, on the
constants of the call and on drawn values of several magnitudes for its computed inputs.

A body of another domain has no operator beside it, and ONNX Runtime writes it into the graph, where the outputs judge
it. Another runtime must read the same from it: the evaluator gets the inputs of each call in a case that ran, and its
outputs must be those of ONNX Runtime. A body that is never called is noted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from ffn_export.core.constant_tensors import constant_tensor
from ffn_export.core.drawing import float_info
from ffn_export.core.fills import scales
from ffn_export.core.one_line import first_line
from ffn_export.core.strict import expose_own
from ffn_export.core.tapped_graphs import observed
from ffn_export.core.types import Array
from ffn_export.fusion.functions import inline
from ffn_export.fusion_check.limits import OutOfTimeError
from ffn_export.fusion_check.running import ORT, RefusedError, runtimes
from ffn_export.parity.checks.checked_run import CheckedRun
from ffn_export.parity.checks.computed_nodes import given_by_calls
from ffn_export.parity.judging.check_result import CheckResult
from ffn_export.runtimes import contrib_operators
from ffn_export.runtimes.half_precision import widened

# Magnitudes of drawn values. The squares reach from 1e-12 to 900, around the epsilons in use (1e-12 to 1e-5).
_MAGNITUDES = (1.0, 30.0, 1e-3, 1e-6)
_BATCH = (2, 3)
_WIDTH = 8
# Allowed roundings, since body and operator compute with the same numbers and a few roundings each.
_ROUNDINGS = 16
# Allowed relative difference of a body in two runtimes, which sum in another order. What is larger is another function.
_READ_ALIKE = 1e-2
_TRIAL = "ffn_export.body_on_trial"


def check(run: CheckedRun) -> CheckResult | None:
    """Compare the bodies of operators with the operators, and other bodies with what ONNX Runtime makes of them."""
    if not run.model.functions:
        return None
    ran = [result for result in run.results if result.outputs and 0 not in result.sizes.values()]
    case = run.first(sorted(ran, key=lambda result: math.prod(result.sizes.values()))[:1])
    return judge(run.model, None if case is None else case.feeds(run.reference.inputs))


def judge(model: ir.Model, feeds: Mapping[str, Array] | None = None) -> CheckResult:
    """Judge the bodies of a model; those that are never called or could not be judged are noted.

    Args:
        model: The model.
        feeds: Inputs of the model for the bodies that stand for no operator; without them, these are not judged.
    """
    failures: list[str] = []
    notes = list(given_by_calls(model))
    others: list[ir.Node] = []
    judged = 0
    for key, function in model.functions.items():
        name = f"{function.domain}::{function.name}"
        calls = list(_calls(model, key))
        if not calls:
            notes.append(f"function {name} is called by nothing: its body was not judged")
        elif not _is_operator(function):
            others += calls
        else:
            try:
                wrong = _wrong(model, function, calls)
            except NotImplementedError as error:
                notes.append(f"the body of function {name} was not judged: {error}")
                continue
            judged += 1
            failures += [f"the body of function {name} is not that operator: {wrong}"] if wrong else []
    if others:
        wrongly_read, unread, read = _read_otherwise(model, others, feeds)
        failures += wrongly_read
        notes += unread
        judged += read
    if not judged and not failures:
        return CheckResult("function bodies", "not checked", "none could be judged", notes=tuple(notes))
    return CheckResult.of("function bodies", "they compute their operators", tuple(failures), tuple(notes))


def _is_operator(function: ir.Function) -> bool:
    """Whether a runtime may have a kernel by the name of a function, and ignore its body."""
    known = function.domain == contrib_operators.DOMAIN or onnx.defs.has(function.name, function.domain)
    return known or (function.domain == "ai.onnx" and onnx.defs.has(function.name))


def _read_otherwise(
    model: ir.Model, calls: Sequence[ir.Node], feeds: Mapping[str, Array] | None
) -> tuple[list[str], list[str], int]:
    """Compare the outputs of calls in ONNX Runtime with those of the evaluator, which runs the bodies.

    Calls within functions and branches run with the calls of the main graph around them.

    Returns:
        Lines on bodies that differ, and on those that could not be judged; the number of judged calls.
    """
    if feeds is None:
        return [], ["bodies of functions that stand for no operator were not judged: no case ran"], 0
    outer = {(node.op_identifier(), _signature(node)): node for node in calls if node.graph is model.graph}.values()
    read = (value for node in outer for value in (*node.inputs, *node.outputs))
    names = {str(value.name) for value in read if value is not None and value.producer() is not None}
    try:
        with runtimes(1) as running, running.loaded(observed(model, names), ORT) as run:
            values = {**feeds, **run(feeds)}
    except (RefusedError, OutOfTimeError) as error:
        return [], [f"bodies of functions that stand for no operator were not judged: {first_line(error)}"], 0
    failures, notes = [], []
    for node in outer:
        function = model.functions[node.op_identifier()]
        given = {i: _value(v, values) for i, v in enumerate(node.inputs) if v is not None}
        call = _alone(model, node, given, function)
        name = f"function {node.domain}::{node.op_type}"
        try:
            apart = _differs(_run(call, given), node, values)
            plain = apart and _differs(_run(_plain(call), given), node, values)
        except Exception as error:  # noqa: BLE001 - the evaluator may raise anything
            expose_own(error)
            notes.append(f"the body of {name} was not judged: {first_line(error)}")
            continue
        if apart and plain:  # the evaluator computes one of the operators otherwise
            notes.append(f"the body of {name} was not judged: its nodes {apart} in ONNX's reference evaluator")
        elif apart:
            failures.append(f"the body of {name} is not what ONNX Runtime computes: {apart}")
    return failures, notes, len(outer) - len(notes)


def _value(value: ir.Value, values: Mapping[str, Array]) -> Array:
    constant = _constant(value)
    return values[str(value.name)] if constant is None else constant


def _differs(found: Sequence[Array], node: ir.Node, values: Mapping[str, Array]) -> str | None:
    """Return how the outputs of a call differ from the recorded ones, by more than rounding explains."""
    for index, (have, output) in enumerate(zip(found, node.outputs, strict=False)):
        want = values.get(str(output.name))
        apart = None if want is None else _apart(have, want, _READ_ALIKE)
        if apart is not None:
            return f"output {index} {apart}"
    return None


def _plain(call: Any) -> Any:
    """Return a call with the nodes of its body in its place."""
    return ir.serde.serialize_model(inline.all_inlined(ir.serde.deserialize_model(call)))


def _calls(model: ir.Model, key: ir.OperatorIdentifier) -> Iterator[ir.Node]:
    for graph in (model.graph, *(function.graph for function in model.functions.values())):
        yield from (node for node in graph.all_nodes() if node.op_identifier() == key)


def _wrong(model: ir.Model, function: ir.Function, calls: list[ir.Node]) -> str | None:
    """Return how a body differs from its operator at one of its calls, or None.

    Raises:
        NotImplementedError: If the formula of the operator or the shapes of its inputs are unknown.
    """
    if function.domain == contrib_operators.DOMAIN and function.name not in contrib_operators.OPERATORS:
        raise NotImplementedError("what the operator computes is not known here")
    for node in {_signature(call): call for call in calls}.values():
        for magnitude in _MAGNITUDES:
            feeds = _drawn(node, magnitude)
            try:
                wanted = _run(_alone(model, node, feeds, None), feeds)
            except Exception as error:  # drawn inputs may not fit the call
                raise NotImplementedError(f"drawn inputs do not fit: {first_line(error)}") from error
            try:
                found = _run(_alone(model, node, feeds, function), feeds)
            except Exception as error:  # noqa: BLE001 - the evaluator may raise anything
                expose_own(error)
                return f"it raises {first_line(error)}"
            for index, (have, want) in enumerate(zip(found, wanted, strict=True)):
                apart = _apart(have, want)
                if apart is not None:
                    return f"output {index} {apart}, for inputs of about {magnitude:g}"
    return None


def _signature(node: ir.Node) -> tuple[Any, ...]:
    given = tuple(None if value is None else (value.dtype, str(value.shape)) for value in node.inputs)
    return (given, len(node.outputs), *sorted((name, str(each.value)) for name, each in node.attributes.items()))


def _drawn(node: ir.Node, magnitude: float) -> dict[int, Array]:
    """Return the inputs of a call by position: its constants, and drawn numbers for computed inputs."""
    constants = {i: _constant(value) for i, value in enumerate(node.inputs) if value is not None}
    rows = [array for array in constants.values() if array is not None and array.ndim == 1]
    width = len(rows[0]) if rows else _WIDTH
    if node.op_type.startswith("Fused"):
        weight = constants.get(1)
        if weight is None or weight.ndim != 2:
            raise NotImplementedError("its second input is no constant matrix")
        width = weight.shape[1 if node.attributes.get_int("transB", 0) else 0]
    random = np.random.default_rng(0)
    feeds = {}
    for place, array in constants.items():
        value = node.inputs[place]
        assert value is not None
        if array is None:
            dtype = next((v.dtype for v in node.inputs if v is not None and v.dtype is not None), ir.DataType.FLOAT)
            shape: tuple[int, ...] = (*_BATCH, width)
            if node.op_type == "FusedGemm":
                shape = (width, _BATCH[0]) if node.attributes.get_int("transA", 0) else (_BATCH[0], width)
            feeds[place] = (magnitude * random.standard_normal(shape)).astype(dtype.numpy())
        else:  # a bias of the usual magnitude would hide the effect of epsilon on small inputs
            feeds[place] = (min(magnitude, 1.0) * array).astype(array.dtype)
    return feeds


def _constant(value: ir.Value) -> Array | None:
    tensor = constant_tensor(value)
    return None if tensor is None else tensor.numpy()


def _alone(model: ir.Model, node: ir.Node, feeds: Mapping[int, Array], body: ir.Function | None) -> onnx.ModelProto:
    """Return a model of one node, computed by a body if given, or else by the operator."""
    inputs = {
        place: ir.Value(name=f"x{place}", type=ir.TensorType(ir.DataType.from_numpy(array.dtype)))
        for place, array in feeds.items()
    }
    domain = node.domain if body is None else _TRIAL
    given = [inputs.get(place) for place in range(len(node.inputs))]
    copy = ir.Node(domain, node.op_type, given, list(node.attributes.values()), num_outputs=len(node.outputs))
    for index, output in enumerate(copy.outputs):
        output.name = f"y{index}"
    opsets = {**model.opset_imports, domain: 1}
    graph = ir.Graph(list(inputs.values()), copy.outputs, nodes=[copy], opset_imports=opsets, name="call")
    functions = []
    if body is not None:
        on_trial = body.clone()
        on_trial.domain = _TRIAL
        others = [each for key, each in model.functions.items() if key != body.identifier()]
        functions = [on_trial, *(each.clone() for each in others)]
    return ir.serde.serialize_model(ir.Model(graph, ir_version=model.ir_version, functions=functions))


def _run(proto: Any, feeds: Mapping[int, Array]) -> list[Array]:
    from ffn_export.runtimes.evaluator import Evaluator

    evaluator = Evaluator(proto)
    with np.errstate(all="ignore"):
        results: Any = evaluator.run(None, {f"x{place}": array for place, array in feeds.items()})
    return list(results)


def _apart(have: Array, want: Array, most: float | None = None) -> str | None:
    """Return how an output differs beyond roundings, or None."""
    if have.shape != want.shape or have.dtype != want.dtype:
        return f"is {have.dtype.name}{list(have.shape)} and should be {want.dtype.name}{list(want.shape)}"
    one, other = (widened(each).astype(np.float64) for each in (have, want))
    if want.dtype.kind in "iub":
        differing = int(np.count_nonzero(have != want))
        return f"has {differing} other integers" if differing else None
    finite = np.isfinite(other)
    if not np.array_equal(one[~finite], other[~finite], equal_nan=True):
        return "is another number where it should be NaN or infinite"
    if not np.isfinite(one[finite]).all():
        return "is NaN or infinite where it should be a number"
    allowed = max(_ROUNDINGS * float(float_info(want.dtype).eps), most or 0.0)
    for at, scale in scales(other):
        worst = float(np.abs(one[at] - other[at]).max(initial=0.0))
        if worst > allowed * scale:
            return f"is off by up to {worst / (scale or 1.0):.2g} of its largest"
    return None
