"""``x * r + (bias - mean(x) * r)`` with ``r = scale / sqrt(variance + epsilon)`` -> ``LayerNormalization``.

TensorFlow and Keras compute a layer norm as a batch norm, with the product expanded. Covers: the terms in any order
and association; with and without scale and bias. Not covered: as for ``layer-norm``.

Source: the function ``batch_normalization`` of TensorFlow's ``tf.nn``, applied to the moments of the last axes.
"""

from __future__ import annotations

import onnx_ir as ir

from ffn_export.fusion import algebra, rows
from ffn_export.fusion.algebra import ONE, Product
from ffn_export.fusion.canonicalise.decomposed_norm import NormParts, refusal
from ffn_export.fusion.rule import Found, Match, Refused, Rule, standard
from ffn_export.fusion.statistics import are_same, centred, mean, mean_square
from ffn_export.fusion.views import rank

_TERMS = 3  # the input and its mean, both times one factor, and a bias


class LayerNormExpanded(Rule):
    """Layer normalisation with its product expanded."""

    site = "norm"
    writes = "LayerNormalization"
    ends = standard("Add", "Sub")

    def match(self, node: ir.Node) -> Found:
        """Recognise the sum."""
        found = _find(node)
        if found is None:
            return None
        parts, bias = found
        sizes, reason = parts.sizes, refusal(parts)
        if reason is None and bias is not None and not rows.covers(bias, sizes or []):
            reason = f"bias of shape {bias.shape} does not cover the normalised axes {sizes}"
        if reason is not None:
            return Refused(reason, parts.nodes)
        y = node.outputs[0]
        return Match(parts.nodes, (y,), lambda op: parts.write(op, self.writes, y.dtype, bias=bias))


def _find(node: ir.Node) -> tuple[NormParts, ir.Value | None] | None:
    graph, y = node.graph, node.outputs[0]
    addends, _ = algebra.terms(y, graph, most=_TERMS)
    for value in dict.fromkeys(f for term in addends for f, power in term.factors.items() if power == -0.5):
        statistic = mean_square(value, graph)
        centre = None if statistic is None else centred(statistic.root, graph)
        if statistic is None or centre is None or centre.widened is not None:
            continue
        addends, nodes = algebra.terms(y, graph, {value, centre.x}, most=_TERMS)
        positive = [t for t in addends if t.factors.get(value) == -0.5 and t.factors.get(centre.x) == 1]
        rest = [t for t in addends if t not in positive]
        negative = [t for t in rest if t.factors.get(value) == -0.5]
        biases = [t for t in rest if t not in negative]
        if len(positive) != 1 or len(negative) != 1 or len(biases) > 1:
            continue
        scale = {row: power for row, power in positive[0].factors.items() if row is not centre.x and row is not value}
        means = [factor for factor in negative[0].factors if factor is not value and factor not in scale]
        own = mean(Product(ONE, {means[0]: 1.0}), graph) if len(means) == 1 else None
        if own is None or own.problem is not None or own.squared:
            continue
        same = own.axes == centre.axes and are_same(own.source, centre.x)
        expected = {value: -0.5, **dict.fromkeys((*scale, *means), 1.0)}
        opposite = negative[0].coefficient.equals(-positive[0].coefficient.number)
        width = rank(centre.x)
        if not same or not opposite or dict(negative[0].factors) != expected:
            continue
        if not all(rows.is_row(row, width) and power == 1 for row, power in scale.items()):
            continue
        bias = _bias(biases, width)
        if biases and bias is None:
            continue
        every = (*nodes, *(n for t in addends for n in t.nodes), *statistic.nodes, *centre.nodes, *own.nodes)
        parts = NormParts(
            centre.x, statistic, centre, tuple(dict.fromkeys(every)), positive[0].coefficient, tuple(scale)
        )
        return parts, bias
    return None


def _bias(terms: list[Product], width: int | None) -> ir.Value | None:
    """Return the row that is added; None if there is not one remaining term, or it is no row."""
    if len(terms) != 1 or len(terms[0].factors) != 1 or terms[0].coefficient != ONE:
        return None
    ((row, power),) = terms[0].factors.items()
    return row if power == 1 and rows.is_row(row, width) else None
