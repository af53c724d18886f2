"""Test properties of the reference on a runtime, to find faults that bounds on errors at some sizes miss.

A position-wise network, such as a feed-forward or a norm over the last axis, computes each token independently. A whole
transformer does so for the elements of a batch. The float64 oracle decides which axes are independent, not the graph
under test, so a fault cannot hide itself. The runtime is then compared only with itself:

- Permuting along the axis permutes the results.
- Values at other positions, drawn anew and 1,000 times as large, change nothing at the kept positions. A leak that
  would be lost in rounding shows.
- Padding at the end changes nothing before it. A position alone has the same result as among others.
- The same inputs give the same bits again after other inputs.

Per-tensor dynamic quantisation breaks the second and the third property, because the largest number of the tensor
decides the rounding of every position. :func:`expected_breaks` reports this for a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import onnx_ir as ir

from ffn_export.core.drawing import draw_all
from ffn_export.core.fills import scales
from ffn_export.core.one_line import first_line
from ffn_export.core.strict import expose_own
from ffn_export.core.tensor_spec import Dim, TensorSpec, merge_dims
from ffn_export.core.types import Array
from ffn_export.parity.cases.case import Case
from ffn_export.parity.judging.measures import OutputMetrics, PropertyMetrics
from ffn_export.parity.judging.metrics import compare
from ffn_export.parity.reference.references import Reference
from ffn_export.runtimes.base import Runner

_PER_TENSOR = frozenset({"DynamicQuantizeLinear", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM"})

Feeds = Mapping[str, Array]
Along = Callable[[Array, int], Array]

SAME_BITS = "the same inputs give the same bits"

# Rounding of the float64 oracle. A real dependence is many orders of magnitude larger.
_EQUAL = 1e-9
_LOUDER = 1000


@dataclass(frozen=True)
class Setting:
    """Changed inputs, and the parts of the results that should agree.

    Attributes:
        name: The property, in words.
        feeds: Changed inputs.
        before: Function that takes the part to compare from a result on the original inputs, along an axis.
        after: Function that takes the same part from a result on the changed inputs.
        axes: Output -> axis of the results, for the outputs of which the reference has the property.
    """

    name: str
    feeds: Feeds
    before: Along
    after: Along
    axes: Mapping[str, int] = field(default_factory=dict)


def expected_breaks(model: ir.Model) -> tuple[str, ...]:
    """Return a line for each operator type in a graph that makes positions depend on each other by design."""
    present = sorted({node.op_type for node in model.graph.all_nodes()} & _PER_TENSOR)
    return tuple(
        f"{operator} rounds by the largest number of its whole input, so a result depends on the other tokens and on "
        "the batch"
        for operator in present
    )


def questions(reference: Reference, case: Case) -> tuple[Setting, ...]:
    """Return the settings whose property the reference's oracle has; none without an oracle.

    Args:
        reference: Reference of the model.
        case: Case with the original inputs. Only symbolic axes with a size of at least 2 that no other has are tested.
    """
    feeds = case.feeds(reference.inputs)
    original = _asked(reference, feeds)
    if original is None:
        return ()
    found = []
    # An axis that another is the sum of cannot be lengthened or permuted alone.
    added = {term for spec in reference.inputs for total in spec.derived.values() for term in total.terms}
    for dim in merge_dims(reference.inputs).values():
        if dim.name in added:
            continue
        size = case.sizes[dim.name]
        axes = {name: axis for name, array in original.items() if (axis := _axis_of(array, size)) is not None}
        unique = list(case.sizes.values()).count(size) == 1 and size > 1
        if not unique or not axes:
            continue
        for setting in _settings(reference.inputs, dim, feeds, case):
            other = _asked(reference, setting.feeds) or {}
            both = ((name, axis) for name, axis in axes.items() if name in other)
            agreeing = {name: axis for name, axis in both if _agree(setting, original[name], other[name], axis)}
            if agreeing:
                found.append(replace(setting, axes=agreeing))
    return tuple(found)


def ask(
    name: str, runner: Runner, feeds: Feeds, asked: Sequence[Setting], own: Mapping[str, OutputMetrics]
) -> list[PropertyMetrics]:
    """Test every property on a runtime, and last whether the original inputs give the same bits again.

    Args:
        name: Name of the runtime.
        runner: The loaded model.
        feeds: Original inputs.
        asked: Settings whose property the reference has.
        own: Output -> metrics on the original inputs, which include PyTorch's own error.
    """
    try:
        original = runner.run(feeds)
    except Exception as error:  # noqa: BLE001 - the case itself reports it
        expose_own(error)
        return []
    found = []
    again = Setting(SAME_BITS, feeds, _whole, _whole, dict.fromkeys(original, 0))
    for setting in (*asked, again):
        try:
            other = runner.run(setting.feeds)
        except Exception as error:  # noqa: BLE001 - onnxruntime's own exceptions derive from Exception alone
            expose_own(error)
            found.append(PropertyMetrics(name, setting.name, problem=f"the runtime failed: {first_line(error)}"))
            continue
        for output, axis in setting.axes.items():
            if output in original and output in other:
                question = PropertyMetrics(name, setting.name, output, exact=setting is again)
                pair = setting.before(original[output], axis), setting.after(other[output], axis)
                found.append(_compared(question, *pair, None if question.exact else own.get(output)))
    return found


def _settings(specs: Sequence[TensorSpec], dim: Dim, feeds: Feeds, case: Case) -> Iterator[Setting]:
    """Yield the settings along one symbolic axis."""
    size, name = case.sizes[dim.name], dim.name
    order = np.random.default_rng(case.seed).permutation(size)
    order = order if (order != np.arange(size)).any() else order[::-1]
    kept = size // 2
    yield Setting(
        f"permuting along {name!r} permutes the results",
        _along(specs, dim, feeds, lambda array, axis, _: array.take(order, axis)),
        lambda array, axis: array.take(order, axis),
        _whole,
    )
    loud = {n: a * a.dtype.type(_LOUDER) if a.dtype.kind not in "iub" else a for n, a in _drawn(specs, case, 1).items()}
    first = lambda array, axis: array.take(range(kept), axis)  # noqa: E731 - the same both times
    yield Setting(
        f"results along {name!r} do not depend on each other",
        _along(specs, dim, feeds, lambda array, axis, other: _joined(array, loud[other], axis, kept)),
        first,
        first,
    )
    if dim.clamp(size + 3) == size + 3:
        longer = _drawn(specs, replace(case, sizes={**case.sizes, name: size + 3}), 2)
        padding = {each: np.zeros_like(array) for each, array in longer.items()}
        yield Setting(
            f"padding along {name!r} changes nothing before it",
            _along(specs, dim, feeds, lambda array, axis, other: _joined(array, padding[other], axis, size)),
            _whole,
            lambda array, axis: array.take(range(size), axis),
        )
    if dim.clamp(1) == 1:
        yield Setting(
            f"a place along {name!r} has the same result alone",
            _along(specs, dim, feeds, lambda array, axis, _: array.take([size - 1], axis)),
            lambda array, axis: array.take([size - 1], axis),
            _whole,
        )


def _whole(array: Array, axis: int) -> Array:
    del axis
    return array


def _along(specs: Sequence[TensorSpec], dim: Dim, feeds: Feeds, change: Callable[[Array, int, str], Array]) -> Feeds:
    """Change every input along each axis of this symbolic dimension."""
    changed = dict(feeds)
    for spec in specs:
        for axis, each in spec.symbolic.items():
            if each.name == dim.name:
                changed[spec.name] = change(changed[spec.name], axis, spec.name)
    return changed


def _joined(kept: Array, other: Array, axis: int, size: int) -> Array:
    """Join the first ``size`` positions of one array with the later ones of the other."""
    # Where two axes have one symbol, the other array is longer along both.
    other = other[tuple(slice(None if at == axis else length) for at, length in enumerate(kept.shape))]
    return np.concatenate([kept.take(range(size), axis), other.take(range(size, other.shape[axis]), axis)], axis)


def _drawn(specs: Sequence[TensorSpec], case: Case, further: int) -> dict[str, Array]:
    return draw_all(specs, case.sizes, case.seed + further)


def _asked(reference: Reference, feeds: Feeds) -> dict[str, Array] | None:
    try:
        answers = reference.oracle(feeds)
    except Exception as error:  # noqa: BLE001 - a user's module may raise anything on inputs that it refuses
        expose_own(error)
        return None
    # Strings, such as labels, have no size to compare at.
    return (
        None if answers is None else {name: array for name, array in answers.items() if array.dtype.kind not in "OUS"}
    )


def _axis_of(array: Array, size: int) -> int | None:
    """Return the axis of this size if exactly one has it, or None."""
    axes = [axis for axis, length in enumerate(array.shape) if length == size]
    return axes[0] if len(axes) == 1 else None


def _agree(setting: Setting, original: Array, other: Array, axis: int) -> bool:
    before, after = setting.before(original, axis), setting.after(other, axis)
    if before.shape != after.shape:
        return False
    if before.dtype.kind != "f":
        return np.array_equal(after, before)
    finite = np.isfinite(before)
    if not np.array_equal(after[~finite], before[~finite], equal_nan=True):
        return False
    # At the scale of -1e9 for forbidden tokens, all other numbers would agree.
    return all(
        np.allclose(after[at], before[at], rtol=0.0, atol=_EQUAL * (scale or 1.0)) for at, scale in scales(before)
    )


def _compared(question: PropertyMetrics, before: Array, after: Array, own: OutputMetrics | None) -> PropertyMetrics:
    """Compare two results of one runtime, using the first as the truth."""
    found = compare(question.output, after, before, before)
    if found.problem is not None:
        return replace(question, problem=found.problem)
    # `dropped` elements are not finite in the first result only, as it serves as oracle and baseline.
    if found.unexpected or found.dropped:
        return replace(
            question, problem=f"{found.unexpected + found.dropped} elements are NaN or infinite in one setting alone"
        )
    return replace(
        question,
        ulps=found.actual.ulps,
        relative_l2=found.actual.relative_l2,
        baseline_ulps=0.0 if own is None else own.baseline.ulps,
        inner_units=1.0 if own is None else own.inner_units,
        worst_index=found.actual.worst_index,
    )
