"""``(x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) * scale`` -> ``LayerNormalization``.

``x / sqrt(mean(x^2) + epsilon) * scale`` -> ``RMSNormalization``.

Covers: the square as ``Pow``, ``Mul`` or ``ReduceSumSquare``; the mean as ``ReduceMean`` or as a sum divided by the
number of its elements, with its axes kept or put back (by ``Unsqueeze``, or by ``Reshape`` and ``Expand`` as
torch's exporter writes ``var`` and ``var_mean``), and the same mean computed twice in two ways; the variance of a value
that is centred already; a variance as ``mean(x^2) - mean(x)^2``, which is the standard's own definition; axes
computed from a rank; reciprocal, quotient or power, in any order and association; axes as attribute or input, positive
or negative, one or several, as long as they are the last; constant rows multiplied in, which become the scale; the
mean and the inverse deviation read by others too, which become outputs of the ``LayerNormalization``. ``norm-scale``
and ``norm-bias`` take in a scale or bias that follows.
Not covered, and reported with the reason: axes that are not the last (a convolution's channels), an epsilon added to
the root or below it as a floor, a variance of ``n - 1``, a sum of squares in place of their mean.

Source: Ba, Kiros and Hinton 2016, "Layer Normalization", equation 4; Zhang and Sennrich 2019, "Root Mean Square Layer
Normalization", equation 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from ffn_export.fusion import algebra, constants, rows
from ffn_export.fusion.algebra import Coefficient
from ffn_export.fusion.builder import Builder
from ffn_export.fusion.canonicalise import near_norm
from ffn_export.fusion.memory import remembered
from ffn_export.fusion.rule import Found, Match, Refused, Rule, standard
from ffn_export.fusion.statistics import Centred, MeanSquare, are_same, centred, is_private, mean_square, widths
from ffn_export.fusion.views import is_standard, producer, rank


@dataclass(frozen=True)
class NormParts:
    """A decomposed norm, without the nodes after it."""

    x: ir.Value
    statistic: MeanSquare
    centre: Centred | None
    nodes: tuple[ir.Node, ...]
    scale: Coefficient
    rows: tuple[ir.Value, ...]

    @property
    def sizes(self) -> list[int] | None:
        """Sizes of the normalised axes, or None if one is not known."""
        return widths(self.x, self.statistic.axes)

    def write(
        self, op: Builder, operator: str, dtype: ir.DataType | None, outputs: int = 1, bias: ir.Value | None = None
    ) -> Sequence[ir.Value]:
        """Write the standard operator; statistics in float32, as in PyTorch's kernels."""
        sizes, wide = self.sizes, None if self.centre is None else self.centre.widened
        assert sizes is not None
        x = self.x if wide is None else op.Cast(self.x, to=wide)
        scale = rows.product(op, self.rows, self.scale.number, sizes, dtype)
        shift = [] if bias is None else [rows.of(op, bias, sizes)]
        attributes = {"axis": -len(sizes), "epsilon": self.statistic.epsilon, "stash_type": 1}
        return op.several(operator, outputs, x, scale, *shift, **attributes)


class DecomposedNorm(Rule):
    """Base of the two norms."""

    site = "norm"
    writes: ClassVar[str]
    ends = standard("Mul", "Div")
    is_centred: ClassVar[bool]

    def match(self, node: ir.Node) -> Found:
        """Recognise the quotient."""
        parts = find(node)
        if parts is None:
            near = near_norm.find(node)
            is_own = near is not None and near.is_centred is self.is_centred
            return Refused(near.problem, near.nodes) if near is not None and is_own else None
        if (parts.centre is not None) is not self.is_centred:
            return None
        reason = refusal(parts)
        if reason is not None:
            return Refused(reason, parts.nodes, parts.statistic.nodes[-1])
        y = node.outputs[0]
        statistics, nodes = _statistics(parts, y)
        outputs = (y, *statistics)
        every = tuple(dict.fromkeys((*parts.nodes, *nodes)))
        return Match(every, outputs, lambda op: self.write(op, parts, y, len(outputs)))

    def write(self, op: Builder, parts: NormParts, y: ir.Value, outputs: int) -> Sequence[ir.Value]:
        """Write the standard operator."""
        return parts.write(op, self.writes, y.dtype, outputs)


class LayerNorm(DecomposedNorm):
    """Decomposed layer normalisation, with or without a scale."""

    writes = "LayerNormalization"
    is_centred = True


class RmsNorm(DecomposedNorm):
    """Decomposed root mean square normalisation, with or without a scale."""

    writes = "RMSNormalization"
    is_centred = False


def _statistics(parts: NormParts, y: ir.Value) -> tuple[tuple[ir.Value, ...], tuple[ir.Node, ...]]:
    """Return mean and inverse deviation if other nodes read them too, and the nodes to replace in addition.

    They become outputs of the ``LayerNormalization``.
    """
    centre = parts.centre
    # The operator computes them in float32.
    if centre is None or centre.widened is not None or y.dtype != ir.DataType.FLOAT:
        return (), ()
    deviations = [node.outputs[0] for node in parts.nodes if is_standard(node, "Sqrt")]
    users = [user for value in deviations for user in value.consumers() if user not in parts.nodes]
    inverses = tuple(user for user in users if is_standard(user, "Reciprocal") and user.graph is parts.nodes[0].graph)
    own = {*parts.nodes, *inverses}
    is_mean_read = centre.mean.is_graph_output() or not own.issuperset(centre.mean.consumers())
    if len(inverses) > 1 or not (inverses or is_mean_read):
        return (), ()
    kept = (centre.mean, *(node.outputs[0] for node in inverses))
    others = [user for value in kept for user in value.consumers() if user not in own]
    are_reshaped = all(is_standard(user, "Reshape") for user in others)
    # For an empty input, ONNX Runtime's reductions give another shape than the standard, which a reader would see.
    if _may_be_empty(y) and (any(value.is_graph_output() for value in kept) or not are_reshaped):
        return (), ()
    return kept, inverses


def _may_be_empty(value: ir.Value) -> bool:
    return value.shape is None or not all(isinstance(size, int) and size > 0 for size in value.shape)


@remembered
def find(node: ir.Node) -> NormParts | None:
    """Read the value that a node computes as a norm."""
    graph, y = node.graph, node.outputs[0]
    for value, exponent in algebra.product(y, graph).factors.items():
        statistic = mean_square(value, graph) if exponent == -0.5 else None
        if statistic is None:
            continue
        whole = algebra.product(y, graph, {value, statistic.root})
        factors = dict(whole.factors)
        if factors.pop(value, None) != -0.5:
            continue
        singles = [factor for factor, power in factors.items() if power == 1]
        centre = _centre(statistic, singles, graph)
        if statistic.less_mean and centre is None:
            continue
        numerator = next((f for f in singles if _is(f, statistic, centre)), None)
        if numerator is None:
            centre = _centred_twice(statistic, graph)
            numerator = None if centre is None else next((f for f in singles if _is(f, statistic, centre)), None)
        if numerator is None:
            continue
        del factors[numerator]
        if any(power != 1 or not rows.is_row(f, rank(statistic.root)) for f, power in factors.items()):
            continue
        own = () if centre is None else centre.nodes
        nodes = tuple(dict.fromkeys((*whole.nodes, *statistic.nodes, *own)))
        nodes = (*nodes, *_copies(numerator, statistic.root, centre, nodes))
        x = statistic.root if centre is None else centre.x
        return NormParts(x, statistic, centre, nodes, whole.coefficient, tuple(factors))
    return None


def _centre(statistic: MeanSquare, factors: Sequence[ir.Value], graph: object) -> Centred | None:
    """Return the centred value of a variance; None if the statistic is of the value itself."""
    if not statistic.less_mean:
        return centred(statistic.root, graph)
    found = (centred(factor, graph) for factor in factors)
    return next((c for c in found if c is not None and c.axes == statistic.axes and c.x is statistic.root), None)


def _centred_twice(statistic: MeanSquare, graph: object) -> Centred | None:
    """Return the centred value whose variance centres it again, over the same axes; None for any other statistic."""
    is_usable = statistic.problem is None
    again = centred(statistic.root, graph, is_usable=is_usable)
    once = None if again is None else centred(again.x, graph, is_usable=is_usable)
    if again is None or once is None or (again.axes, again.widened) != (once.axes, once.widened):
        return None
    return replace(once, nodes=(*again.nodes, *once.nodes))


def _is(value: ir.Value, statistic: MeanSquare, centre: Centred | None) -> bool:
    """Whether a value is the one that the statistic squares, also if it is computed a second time."""
    is_root = not statistic.less_mean and are_same(value, statistic.root)
    return is_root or (centre is not None and _centred_as(centre, value) is not None)


def _centred_as(centre: Centred, value: ir.Value) -> Centred | None:
    """Read a value as the same centred value with its mean computed another way, such as ``sum / n``."""
    again = centred(value, centre.nodes[0].graph, is_usable=centre.axes > 0)  # without trailing axes, none is usable
    same = again is not None and (again.x, again.axes, again.widened) == (centre.x, centre.axes, centre.widened)
    return again if same else None


def _copies(value: ir.Value, original: ir.Value, centre: Centred | None, nodes: tuple[ir.Node, ...]) -> list[ir.Node]:
    """Return the nodes that compute a value of the norm a second time and that only the norm reads."""
    found: list[ir.Node] = []
    if centre is not None and not are_same(value, original):
        again = _centred_as(centre, value)
        for own in () if again is None else again.nodes:  # from the difference backwards
            if is_private(own, (*nodes, *found)):
                found.append(own)
        return [own for own in found if own not in nodes]
    waiting = [(value, original)]
    while waiting:
        copy, first = waiting.pop()
        node, other = producer(copy), producer(first)
        if copy is first or node is None or other is None or copy.is_graph_output():
            continue
        if node.graph is nodes[0].graph and all(reader in nodes or reader in found for reader in copy.consumers()):
            found.append(node)
            pairs = zip(node.inputs, other.inputs, strict=False)
            waiting += [(x, y) for x, y in pairs if x is not None and y is not None]
    return [node for node in found if node not in nodes]


def refusal(parts: NormParts) -> str | None:
    """Return why the operator does not compute the norm, or None if it does."""
    statistic, centre = parts.statistic, parts.centre
    if statistic.problem is not None:
        return statistic.problem
    if rank(parts.x) is None:
        return "the rank of the input or of the scale is not known"
    if centre is not None and centre.axes != statistic.axes:
        return "the mean and the variance are taken over different axes"
    if not parts.sizes or not np.prod(parts.sizes):
        return "the size of a normalised axis is not known"
    return _scale_refusal(parts, parts.sizes)


def _scale_refusal(parts: NormParts, sizes: list[int]) -> str | None:
    if not parts.scale.is_known:
        return "a number that the norm is multiplied by is one that the caller may change"
    if parts.scale.rank > (rank(parts.x) or 0):
        return "a number that the norm is multiplied by has more axes than the input"
    is_one_row = len(parts.rows) <= 1 and parts.scale.number == 1
    if not is_one_row and any(constants.evaluate(row) is None for row in parts.rows):
        return "the norm has several scales, and one of them is not constant"
    wide = [row for row in parts.rows if not rows.covers(row, sizes)]
    if wide:
        return f"scale of shape {wide[0].shape} does not cover the normalised axes {sizes}"
    return None
