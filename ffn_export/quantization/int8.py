"""Rewrite matrix products in 8-bit integers.

The rows of activations have a scale each, or one that all share, which is measured when the model runs, or one scale
that is calibrated on samples. Products that read one input share its 8-bit numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import onnx_ir as ir

from ffn_export.core.types import Array
from ffn_export.fusion.builder import Builder, Names
from ffn_export.quantization import safe_integers, smoothing
from ffn_export.quantization.engines import Engine
from ffn_export.quantization.fixed_scales import Calibrate, FixedRange, FixedRows
from ffn_export.quantization.groups import Group, groups, operator, read_shapes
from ffn_export.quantization.matrices import add_initializer, drop, read_matrix
from ffn_export.quantization.products import Product, by_matrix
from ffn_export.quantization.ranges_by_error import are_worth_time, choose, follows_norm
from ffn_export.quantization.result import QuantizedWeight
from ffn_export.quantization.row_scales import FLOORED, QuantizedRows, Range
from ffn_export.quantization.smoothing import Channels
from ffn_export.quantization.whole_input import WHOLE, FiniteRows, QuantizedInput, bias_after
from ffn_export.quantization.whole_rows import takes_floats

_SHARED = "not smoothed: other products read its matrix"
_UNSEEN = "not smoothed: no input has finite numbers here"
_NO_GAIN = "not smoothed: no lower error that is worth a Mul"
# A Mul is written for smoothing alone if it makes the error of the products this many times smaller.
_WORTH_MUL = 1.25
# A fixed range cuts what is beyond it. Extremes of a few rows, made alike, are exceeded in every channel by others: the
# channels are then made alike in their mean squares, and only if that makes the error this many times smaller.
_WORTH_FEW = 1.5


@dataclass
class Known:
    """Statistics of values on samples.

    Attributes:
        channels: Name of a value -> its channels.
        calibrate: Function that returns the ranges of values, for fixed scales.
    """

    channels: Mapping[str, Channels] = field(default_factory=dict)
    calibrate: Calibrate | None = None


def rewrite(
    model: ir.Model, products: Sequence[Product], known: Known, names: Names, engine: Engine | None = None
) -> tuple[QuantizedWeight, ...]:
    """Rewrite products of a model in place, and return the result for each matrix.

    For an engine, activations have fixed scales; without one, each row has a scale.
    """
    statistics = known.channels
    order = {node: index for index, node in enumerate(model.graph.all_nodes())}
    grouped = groups(sorted(products, key=lambda each: order[each.node]), model.opset_imports.get("", 18))
    if engine is None:
        read_shapes(model, grouped)
    of_matrix = by_matrix(products)
    alone = {found[0].node for found in of_matrix if len(found) == 1}
    divider = smoothing.Divider(alone)
    is_guarded = takes_floats(model)
    for group in grouped:
        # A value of a body may have the name of one of the main graph, which alone is measured.
        channels = group.channels = statistics.get(str(group.x.name)) if group.x.graph is model.graph else None
        if statistics and channels is None:
            group.smoothing = _UNSEEN
        if channels is not None:
            _fit(group, _ranges(group, channels, engine), channels, divider, alone, names)
            if engine is None and follows_norm(group.x):
                _share_scale(group, channels, divider, is_guarded=is_guarded)
    outputs = {} if engine is None else _calibrate(grouped, known, divider, engine, model.graph)
    group_of = {each.node: group for group in grouped for each in group.products}
    rows: dict[int, _Rows] = {}
    for group in grouped:
        rows[id(group)] = _quantized_rows(group, [rows[id(each)] for each in group.carries], names)
    form = _Form(group_of, rows, outputs, engine is not None and engine.per_tensor)
    return tuple(_quantize(found, form, divider.columns.get(found[0].node), names) for found in of_matrix)


_Rows = QuantizedRows | FixedRows | QuantizedInput


@dataclass(frozen=True)
class _Form:
    """What the products are written with.

    Attributes:
        group_of: Product -> its group.
        rows: Identity of a group -> the numbers of its input.
        outputs: Product -> range of its output, which is in 8 bits, too.
        per_tensor: Whether a matrix has one scale.
    """

    group_of: Mapping[ir.Node, Group]
    rows: Mapping[int, _Rows]
    outputs: Mapping[ir.Node, FixedRange]
    per_tensor: bool


def _ranges(group: Group, channels: Channels, engine: Engine | None) -> list[Range] | list[FixedRange]:
    """Return the ranges that an input can have, the fastest last."""
    if engine is not None:
        return [FixedRange.of(channels, engine)]
    assert isinstance(group.held, Range)
    floored = FLOORED.get(operator(group.x))
    return [group.held, *([floored] if floored is not None and follows_norm(group.x) else [])]


def _calibrate(
    grouped: Sequence[Group], known: Known, divider: smoothing.Divider, engine: Engine, main: ir.Graph
) -> dict[ir.Node, FixedRange]:
    """Give all groups their ranges on the samples, and return those of the outputs that are in 8 bits."""
    assert known.calibrate is not None
    found = known.calibrate({str(group.x.name): group.factors for group in grouped})
    for group in grouped:
        group.held = FixedRange(*found[str(group.x.name)], engine.symmetric)
    if not engine.outputs:
        return {}
    nodes = [each.node for group in grouped for each in group.products if each.node.graph is main]
    # Asked for apart: an output may be the input of another product, which is smoothed.
    found = known.calibrate({str(node.outputs[0].name): divider.columns.get(node) for node in nodes})
    named = {node: str(node.outputs[0].name) for node in nodes}
    # Not found: those that are never finite.
    return {node: FixedRange(*found[name], engine.symmetric) for node, name in named.items() if name in found}


def _fit(
    group: Group,
    ranges: Sequence[Range] | Sequence[FixedRange],
    channels: Channels,
    divider: smoothing.Divider,
    alone: set[ir.Node],
    names: Names,
) -> None:
    """Choose the range of a group's input, and smooth it if its matrices are its own, as is best on samples."""
    nodes = [each.node for each in group.products]
    matrices = [_matrix(each, None, divider.columns.get(each.node)) for each in group.products]
    unsmoothed: Range | FixedRange
    unsmoothed, error = choose(channels.rows, matrices, ranges)
    group.held = unsmoothed
    if not alone.issuperset(nodes):
        group.smoothing = _SHARED
        return
    few = isinstance(unsmoothed, FixedRange) and channels.count < smoothing.MANY
    sizes = np.sqrt(channels.squares) if few else channels.largest
    least, factors = error / (_WORTH_FEW**2 if few else 1), None
    for alpha in smoothing.ALPHAS:
        tried = smoothing.factors(sizes, matrices, alpha)
        held = unsmoothed.smoothed(channels, tried)
        _, smoothed = choose(channels.rows / tried, [matrix * tried[:, None] for matrix in matrices], [held])
        if smoothed < least:
            least, factors = smoothed, tried
    group.smoothing = _NO_GAIN
    if factors is None:
        return
    op = Builder()
    divided = divider.divide(op, group.x, factors, nodes, alone_is_worth=error >= _WORTH_MUL**2 * least)
    if divided is not None:
        group.source, group.smoothing = divided
        group.factors, group.held = factors, unsmoothed.smoothed(channels, factors)
        insert(op, nodes[0], names)


def _share_scale(group: Group, channels: Channels, divider: smoothing.Divider, *, is_guarded: bool) -> None:
    """Give all rows one scale if theirs lower the error too little for the time that they take.

    If a row may be anything but finite, the group is guarded, and a product behind must tell so.
    """
    if is_guarded and (group.carrier is None or group.carries):
        return
    assert isinstance(group.held, Range)
    shared = FiniteRows(group.held) if is_guarded else WHOLE
    rows = channels.rows if group.factors is None else channels.rows / group.factors
    matrices = [_matrix(each, group.factors, divider.columns.get(each.node)) for each in group.products]
    if are_worth_time(rows, matrices, group.held, shared):
        return
    group.held = shared
    if is_guarded and group.carrier is not None:
        group.carrier.carries.append(group)


def _quantized_rows(group: Group, carried: Sequence[_Rows], names: Names) -> _Rows:
    """Write the 8-bit numbers of a group's input before its first product.

    A row that is not finite in one of the carried inputs makes that of the result NaN.
    """
    op = Builder()
    found = group.held.quantize(op, group.source, group.traits)
    for each in carried:
        assert isinstance(found, QuantizedRows)
        assert isinstance(each, QuantizedInput)
        assert each.rows is not None
        found = replace(found, rows=op.Add(found.rows, op.Mul(each.rows, op.constant(np.float32(0)))))
    insert(op, group.products[0].node, names)
    return found


def _matrix(product: Product, factors: Array | None, columns: Array | None) -> Array:
    """Return the matrix of a product after smoothing of its input, and of a value that it writes."""
    matrix = read_matrix(product.weight, turned=product.turned)
    if factors is not None:
        matrix = matrix * factors[:, None]
    return matrix if columns is None else matrix / columns


def _quantize(products: list[Product], form: _Form, columns: Array | None, names: Names) -> QuantizedWeight:
    """Quantise one matrix and rewrite the products that read it."""
    first = products[0]
    weight, graph, group = first.weight, first.weight.graph, form.group_of[first.node]
    assert isinstance(graph, ir.Graph)
    matrix = _matrix(first, group.factors, columns)
    channels = group.channels if len(products) == 1 else None
    by = 1 if group.factors is None else group.factors
    importance, means = (None, None) if channels is None else (channels.squares / np.square(by), channels.means / by)
    if form.per_tensor:
        weights = None if importance is None else np.repeat(importance, matrix.shape[1])
        scales = safe_integers.scales(matrix.reshape(-1, 1), weights)[0]
    else:
        scales = safe_integers.scales(matrix, importance, means)
    numbers = safe_integers.rounded(matrix, scales)
    stored = [
        add_initializer(graph, names.value(f"{weight.name}_{part}"), array)
        for part, array in (("int8", numbers), ("scales", scales))
    ]
    change = float(np.linalg.norm(numbers * scales - matrix)) / (float(np.linalg.norm(matrix)) or 1.0)
    shape = (len(matrix), matrix.shape[1])
    del matrix
    for each in products:
        _become(each, form, stored, names)
    return QuantizedWeight(
        name=str(weight.name),
        shape=shape,
        bytes_before=drop(weight),
        bytes_after=numbers.nbytes + scales.nbytes,
        relative_l2=change,
        nodes=tuple(str(each.node.name) for each in products),
        smoothing=group.smoothing,
    )


def _become(each: Product, form: _Form, stored: Sequence[ir.Value], names: Names) -> None:
    """Replace a product by its 8-bit form; the last node of the form takes over its output's name."""
    op = Builder()
    node, replaced = each.node, [each.node]
    rows = form.rows[id(form.group_of[node])]
    added = node.inputs[2] if len(node.inputs) > 2 else None
    if isinstance(rows, QuantizedInput):
        bias, after = (added, None) if each.bias is not None else bias_after(node, stored[1])
        result = rows.product(op, stored[0], stored[1], bias)
        added = None if each.bias is not None else added
        replaced = [node] if after is None else [after, node]
    else:
        result = rows.product(op, *stored)
    if node in form.outputs:
        result = form.outputs[node].quantize(op, result).value
    if added is not None:
        result = op.Add(result, added)
    insert(op, node, names)
    before = replaced[0].outputs[0]
    result.type, result.shape, result.doc_string = before.type, before.shape, before.doc_string
    result.metadata_props.update(before.metadata_props)
    last = result.producer()
    assert last is not None
    last.metadata_props.update(node.metadata_props)
    ir.convenience.replace_all_uses_with(before, result, replace_graph_outputs=True)
    graph = node.graph
    assert graph is not None
    graph.remove(replaced, safe=True)
    result.name = before.name


def insert(op: Builder, before: ir.Node, names: Names) -> None:
    """Put what was built before a node, with free names."""
    graph = before.graph
    assert isinstance(graph, ir.Graph)
    stem = before.name or before.outputs[0].name
    for constant in op.constants:
        constant.name = names.value(f"{stem}_constant")
        graph.register_initializer(constant)
    for node in op.nodes:
        node.name = names.node(f"{stem}_{node.op_type}")
        for output in node.outputs:
            output.name = names.value(f"{node.name}_y")
    graph.insert_before(before, op.nodes)
