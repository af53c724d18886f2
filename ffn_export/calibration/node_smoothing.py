"""Smooth what native kernels compute in 8-bit integers (Xiao et al. 2022, "SmoothQuant").

A kernel divides each channel of an operand by a factor before it rounds, and multiplies the weights that read the
channel by it. So channels of large numbers leave the others their digits, and nothing changes in exact arithmetic. The
factors are attributes, which bodies and other precisions ignore.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from ffn_export.calibration.statistics import statistics
from ffn_export.core.types import Array
from ffn_export.fusion.functions.contract import (
    FEED_FORWARD,
    HIDDEN_SMOOTHING,
    SMOOTHING,
    input_of,
    kind_of,
    nodes_with,
    state,
)
from ffn_export.quantization.matrices import read_matrix
from ffn_export.quantization.smoothing import FEWEST, Channels, factors

_ALPHA = 0.5  # share of the spread that moves into the weights
_WORTH = 0.95  # largest error, over that without factors, for which they are written
_LARGEST = 2.0**16  # that the contract allows
_GROUP = 256  # elements with a scale of their own


def smoothed(model: ir.Model, feeds: Mapping[str, Array], threads: int) -> ir.Model:
    """Return a copy of a model whose nodes state the factors of their operands, where these make them more precise.

    The channels are measured on the feeds.
    """
    copy, shown = model.clone(), model.clone()
    _show_inner_operands(shown)
    operands = {str(node.name): _operands(node) for node in nodes_with(shown, SMOOTHING)}
    names = {name for each in operands.values() for name in each.values()}
    measured = statistics(shown, names, feeds, threads)
    for node in nodes_with(copy, SMOOTHING):
        for attribute, name in operands[str(node.name)].items():
            by = _chosen(measured[name], _weights(node, attribute)) if name in measured else None
            if by is not None:
                state(copy, node, ir.AttrFloat32s(attribute, by.tolist()))
    return copy


def _show_inner_operands(model: ir.Model) -> None:
    """Make what the bodies multiply by weights, beside their inputs, further outputs of the nodes."""
    added: dict[ir.OperatorIdentifier, int] = {}
    for node in nodes_with(model, SMOOTHING):
        function = model.functions[node.op_identifier()]
        if node.op_identifier() not in added:
            products = [each.inputs[0] for each in function if each.op_type == "MatMul"]
            operands = dict.fromkeys(value for value in (products[0], products[-1]) if value is not None)
            inner = [value for value in operands if value not in function.inputs]
            function.outputs.extend(inner)
            added[node.op_identifier()] = len(inner)
        first = len(node.outputs)
        node.resize_outputs(first + added[node.op_identifier()])
        for place, output in enumerate(node.outputs[first:]):
            output.name = f"{node.name}/operand_{place}"


def _operands(node: ir.Node) -> dict[str, str]:
    """Return the attribute and the name of each operand of a node whose inner operands are shown, in their order."""
    shown = [str(output.name) for output in node.outputs if str(output.name).startswith(f"{node.name}/operand_")]
    attributes = [SMOOTHING, *([HIDDEN_SMOOTHING] if kind_of(node.op_type) is FEED_FORWARD else [])]
    if len(shown) < len(attributes):
        x = node.inputs[0]
        assert x is not None
        shown.insert(0, str(x.name))
    return dict(zip(attributes, shown, strict=True))


def _weights(node: ir.Node, attribute: str) -> list[Array]:
    """Return the ``[d_in, d_out]`` matrices that read an operand."""
    names = ("w2",) if attribute == HIDDEN_SMOOTHING else ("w", "w1", "w3")
    given = [value for name in names if (value := input_of(node, name)) is not None]
    turned = bool(node.attributes.get_int("transposed", 0))
    return [read_matrix(value, turned=turned) for value in given]


def _chosen(channels: Channels, matrices: list[Array]) -> Array | None:
    """Return the factors of an operand; None where they do not make the products of its rows more precise."""
    by = np.clip(factors(channels.largest, matrices, _ALPHA), 1 / _LARGEST, _LARGEST)
    matrix = np.concatenate(matrices, axis=1)
    exact = channels.rows @ matrix

    def error(by: Array) -> float:
        weights = _rounded((matrix * by[:, None]).T, symmetric=True).T
        return float(np.linalg.norm(_rounded(channels.rows / by) @ weights - exact))

    if len(channels.rows) < FEWEST:
        return None
    return by if error(by) <= _WORTH * error(np.ones_like(by)) else None


def _rounded(rows: Array, *, symmetric: bool = False) -> Array:
    """Return rows as 8-bit integers stand for them: tokens with a zero point, columns of weights symmetric."""
    rounded = np.empty_like(rows)
    for first in range(0, rows.shape[1], _GROUP):
        group = rows[:, first : first + _GROUP]
        low, high = np.minimum(group.min(axis=1), 0), np.maximum(group.max(axis=1), 0)
        step = np.maximum(-low, high) / 127 if symmetric else (high - low) / 255
        step = np.maximum(step, np.finfo(np.float32).tiny)[:, None]
        rounded[:, first : first + _GROUP] = np.rint(group / step) * step
    return rounded
