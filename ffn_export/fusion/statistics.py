"""Recognise means, mean squares and centred values over trailing axes, in any spelling."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import prod

import onnx_ir as ir

from ffn_export.fusion import algebra, constants
from ffn_export.fusion.algebra import ONE, Product
from ffn_export.fusion.memory import remembered
from ffn_export.fusion.shapes import are_same_axes
from ffn_export.fusion.views import input_at, inputs_of, int_of, ints_of, is_standard, orders, producer, rank


@dataclass(frozen=True)
class Mean:
    """The mean of a value, or of its square.

    Attributes:
        source: Value that is averaged.
        squared: Whether the operator squares its input (``ReduceSumSquare``).
        axes: Number of trailing axes.
        nodes: Nodes that compute it.
        problem: Reason why a norm cannot use this mean; None if it can.
    """

    source: ir.Value
    squared: bool
    axes: int
    nodes: tuple[ir.Node, ...]
    problem: str | None = None


@dataclass(frozen=True)
class MeanSquare:
    """``mean(root^2) + epsilon``: the variance, or the square of the root mean square.

    Attributes:
        root: Value that is squared.
        axes: Number of trailing axes of the mean.
        epsilon: Constant that is added.
        nodes: Nodes that compute it.
        problem: Reason why a norm cannot use this mean square; None if it can.
        less_mean: Whether ``mean(root)^2`` is subtracted, which makes it the variance of ``root``.
    """

    root: ir.Value
    axes: int
    epsilon: float
    nodes: tuple[ir.Node, ...]
    problem: str | None = None
    less_mean: bool = False


@dataclass(frozen=True)
class Centred:
    """``x - mean(x)``.

    Attributes:
        x: Value that is centred.
        axes: Number of trailing axes of the mean.
        nodes: Nodes that compute it.
        mean: Mean that is subtracted.
        widened: Dtype that the difference is cast to, if the mean was taken in half precision.
    """

    x: ir.Value
    axes: int
    nodes: tuple[ir.Node, ...]
    mean: ir.Value
    widened: ir.DataType | None = None


_HALVES = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
# Operators that restore the axes of a mean. torch's exporter reshapes a variance, and expands it to its own shape.
_PUTTING_BACK = ("Unsqueeze", "Reshape", "Expand")
# The mean, the square of another and an epsilon are three; a norm with more terms is reported with its problem.
_MOST_TERMS = 5
_MEANS = ("ReduceMean", "ReduceSum", "ReduceSumSquare")


def mean(term: Product, graph: object) -> Mean | None:
    """Recognise a mean in one term: ``ReduceMean``, or a sum divided by its number of elements."""
    if len(term.factors) != 1:
        return None
    ((value, exponent),) = term.factors.items()
    nodes: list[ir.Node] = []
    node = producer(value)
    while node is not None and is_standard(node, *_PUTTING_BACK):  # restores axes that the mean dropped
        nodes.append(node)
        node = producer(input_at(node, 0))
    if nodes and node is not None and is_standard(node, "Mul", "Div"):  # scaled before that
        inner = algebra.product(node.outputs[0], graph)
        coefficient = inner.coefficient.times(term.coefficient)
        if coefficient is not None and list(inner.factors.values()) == [1]:
            term = Product(coefficient, inner.factors, (*term.nodes, *inner.nodes))
            node = producer(next(iter(inner.factors)))
    if exponent != 1 or node is None or not is_standard(node, *_MEANS) or not node.inputs or node.inputs[0] is None:
        return None
    if any(each.graph is not graph for each in (*nodes, node)):
        return None
    source = node.inputs[0]
    axes = _trailing_axes(node, source)
    problem = _problem(node, nodes, axes, value)
    if problem is None:
        assert axes is not None
        size = 1 if node.op_type == "ReduceMean" else _count(source, axes)
        if size is None or not term.coefficient.number > 0:
            return None
        if not term.coefficient.equals(1 / size):
            problem = f"what should be a mean is {term.coefficient.number * size:.6g} times the mean"
        if term.coefficient.rank > (rank(source) or 0):
            problem = "a constant of the mean has more axes than the input"
    squared = node.op_type == "ReduceSumSquare"
    own = (*term.nodes, *nodes)
    return Mean(source, squared, axes or 0, (*own, *_of_sizes(nodes, (*own, node)), node), problem)


def _problem(node: ir.Node, unsqueezed: list[ir.Node], axes: int | None, mean: ir.Value) -> str | None:
    if axes is None:
        return "the mean is not taken over constant trailing axes"
    if len(unsqueezed) > 1 or any(not is_standard(each, "Unsqueeze") for each in unsqueezed):
        # These nodes keep the numbers in order, so it is enough that the shape is that of keepdims=1.
        is_kept = _is_kept(mean.shape, node.inputs[0], axes)
        return None if is_kept else "the mean is not known to get its axes back where they were"
    keeps = int_of(node, "keepdims", 1) == 1
    if not keeps and not unsqueezed:
        return "the mean drops its axes (keepdims=0)"
    if keeps and unsqueezed:
        return "the mean gets an axis more than the input has"
    if unsqueezed:
        width = rank(node.inputs[0])
        if width is None:
            return "the rank of the input is not known"
        back = constants.integers(input_at(unsqueezed[0], 1)) or ints_of(unsqueezed[0], "axes")
        if sorted(axis % width for axis in back) != list(range(width - axes, width)):
            return "the mean gets its axes back in another place"
    return None


def _is_kept(shape: ir.Shape | None, source: ir.Value | None, axes: int) -> bool:
    """Whether a shape is that of a value with its last axes reduced to 1, symbol by symbol."""
    if shape is None or source is None or source.shape is None or len(shape) != len(source.shape):
        return False
    *rows, end = (*source.shape[: len(shape) - axes], [1] * axes)
    return list(shape[len(shape) - axes :]) == end and are_same_axes(shape[: len(shape) - axes], rows)


def is_private(node: ir.Node, own: Collection[ir.Node]) -> bool:
    """Whether only nodes of ``own`` read a node's results."""
    return all(
        not value.is_graph_output() and all(reader in own for reader in value.consumers()) for value in node.outputs
    )


def _of_sizes(nodes: Sequence[ir.Node], own: Collection[ir.Node]) -> list[ir.Node]:
    """Return further nodes that compute the shape to which a mean is restored, and that nothing else reads."""
    found: list[ir.Node] = []
    waiting = [input_at(node, 1) for node in nodes]
    while waiting:
        node = producer(waiting.pop(), within=nodes[0].graph)
        if node is not None and node not in found and is_private(node, (*own, *found)):
            found.append(node)
            waiting += node.inputs
    return [node for node in found if node not in own]


@remembered
def mean_square(value: ir.Value, graph: object) -> MeanSquare | None:
    """Recognise ``mean(root^2) + epsilon``, with or without the epsilon."""
    addends, nodes = algebra.terms(value, graph, most=_MOST_TERMS)
    means = [(term, found) for term in addends if term.factors and (found := mean(term, graph)) is not None]
    if len(means) != 1:
        return None
    term, found = means[0]
    root = _square_root(found, graph)
    if root is None:
        return None
    squaring = root[1]
    rest = [each for each in addends if each is not term]
    taken_off = [(each, own) for each in rest if (own := _square_of_mean(each, root[0], found.axes, graph)) is not None]
    if len(taken_off) == 1:
        ((square, own),) = taken_off
        rest.remove(square)
        squaring = (*squaring, *own.nodes)
    problem = found.problem
    if any(each.factors for each in rest):
        names = ", ".join(repr(factor.name) for each in rest for factor in each.factors)
        problem = problem or f"epsilon is no constant scalar but {names}"
    elif not all(each.coefficient.is_known for each in rest):
        problem = problem or "epsilon is no constant scalar: the caller may change it"
    elif any(each.coefficient.rank > (rank(found.source) or 0) for each in rest):
        problem = problem or "epsilon is no constant scalar: it has more axes than the input"
    elif any(each.coefficient.number < 0 for each in rest):
        return None
    epsilon = sum((each.coefficient.number for each in rest), 0.0)
    every = tuple(dict.fromkeys((*nodes, *found.nodes, *squaring)))
    return MeanSquare(root[0], found.axes, epsilon, every, problem, less_mean=len(taken_off) == 1)


def _square_of_mean(term: Product, root: ir.Value, axes: int, graph: object) -> Mean | None:
    """Return the mean in ``-mean(root)^2`` over the same axes; None for any other term."""
    if list(term.factors.values()) != [2.0] or term.coefficient.number != -1.0:
        return None
    found = mean(replace(term, coefficient=ONE, factors=dict.fromkeys(term.factors, 1.0)), graph)
    if found is None or found.squared or found.problem is not None or found.axes != axes:
        return None
    return found if are_same(found.source, root) else None


def _square_root(found: Mean, graph: object) -> tuple[ir.Value, tuple[ir.Node, ...]] | None:
    """Return the value that is squared under a mean, and the nodes that square it."""
    if found.squared:
        return found.source, ()
    node = producer(found.source, "Pow", "Mul", within=graph)
    inputs = inputs_of(node)
    if node is None or len(inputs) != 2:
        return None
    is_square = algebra.exponent_of(node) == 2 if node.op_type == "Pow" else are_same(*inputs)
    return (inputs[0], (node,)) if is_square else None


def centred(value: ir.Value, graph: object, *, is_usable: bool = True) -> Centred | None:
    """Recognise ``x - mean(x)``, also if a half-precision difference is cast to float32 before it is squared.

    Args:
        value: The value that may be centred.
        graph: The graph that its nodes are in.
        is_usable: Whether the mean has to be one that a norm can use.
    """
    cast = producer(value, "Cast", within=graph)
    if cast is not None and value.dtype == ir.DataType.FLOAT:
        narrow = input_at(cast, 0)
        inner = None
        if narrow is not None and narrow.dtype in _HALVES:
            inner = centred(narrow, graph, is_usable=is_usable)
        return None if inner is None else replace(inner, nodes=(cast, *inner.nodes), widened=value.dtype)
    node = producer(value, "Sub", "Add", within=graph)
    if node is None:
        return None
    is_difference = node.op_type == "Sub"
    sign = 1.0 if is_difference else -1.0
    for x, other in orders(node)[: 1 if is_difference else 2]:
        found = mean(algebra.product(other, graph).scaled(sign), graph)
        if found is None or found.squared or (is_usable and found.problem is not None):
            continue
        if are_same(found.source, x):
            return Centred(x, found.axes, (node, *found.nodes), other)
    return None


def are_same(a: ir.Value | None, b: ir.Value | None, depth: int = 4) -> bool:
    """Whether two values are the same, or computed in the same way from the same values."""
    if a is b:
        return a is not None
    first, second = producer(a), producer(b)
    if first is None or second is None or depth == 0:
        return constants.number(a) is not None and constants.number(a) == constants.number(b)
    if first.op_identifier() != second.op_identifier() or first.domain != "" or len(first.outputs) != 1:
        return False
    if first.op_type not in ("Cast", "Identity", "Sub", "ReduceMean", "Unsqueeze", "Pow", "Mul", "Add"):
        return False
    one, other = ({k: v.value for k, v in n.attributes.items()} for n in (first, second))
    return (
        one == other
        and len(first.inputs) == len(second.inputs)
        and all(are_same(x, y, depth - 1) for x, y in zip(first.inputs, second.inputs, strict=True))
    )


def widths(x: ir.Value, axes: int) -> list[int] | None:
    """Return the sizes of the last axes of a value, or None if one is not known."""
    if x.shape is None or len(x.shape) < axes:
        return None
    sizes = [dim for dim in x.shape[len(x.shape) - axes :] if isinstance(dim, int)]
    return sizes if len(sizes) == axes else None


def _count(source: ir.Value, axes: int) -> int | None:
    sizes = widths(source, axes)
    return prod(sizes) if sizes and prod(sizes) else None


def _trailing_axes(reduce: ir.Node, source: ir.Value) -> int | None:
    """Return the number of trailing axes that a node reduces; None if it reduces others, or they are not known."""
    given = input_at(reduce, 1)
    axes = constants.integers(given) if given is not None else ints_of(reduce, "axes")
    if not axes:
        return None
    if axes == (-1,):
        return 1
    width = rank(source)
    if width is None or not all(-width <= axis < width for axis in axes):
        return None
    positive = sorted({axis % width for axis in axes})
    return len(positive) if positive == list(range(width - len(positive), width)) else None
