"""Rewrite the feed-forwards of a fused model by rows, in the chosen forms."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial

import numpy as np
import onnx_ir as ir

from ffn_export.core.node_graphs import graphs_of
from ffn_export.core.one_line import first_line
from ffn_export.core.strict import expose
from ffn_export.fusion import sites
from ffn_export.fusion.builder import Builder, Names
from ffn_export.fusion.by_rows import loop, split_hidden
from ffn_export.fusion.by_rows.row_function import read
from ffn_export.fusion.by_rows.write import biased_products, write
from ffn_export.fusion.engine import Log, scoped_name
from ffn_export.fusion.forms import Forms
from ffn_export.fusion.outline_site import Reading
from ffn_export.fusion.provenance import note, rules_of
from ffn_export.fusion.shapes import last_size
from ffn_export.fusion.views import rank

GEMM_RULE, PIECES_RULE, CHUNK_RULE = BY_ROWS = "gemm-by-rows", "hidden-in-pieces", "chunks-of-rows"
_SHARES = "it shares nodes with another"


def by_rows(model: ir.Model, log: Log, forms: Forms, excluded: Collection[str] = ()) -> dict[str, str]:
    """Write feed-forwards by rows, in place.

    Args:
        model: A fused model whose values have types.
        log: Record of the applied rules.
        forms: Open forms in use: products and biases as one ``Gemm``, split hidden layers, row chunks.
        excluded: Names of values whose computation must not change.

    Returns:
        Name of a feed-forward that is left -> reason.
    """
    names = Names(model)
    places = {node: place for place, node in enumerate(model.graph.all_nodes())}
    left: dict[str, str] = {}
    taken: set[ir.Node] = set()
    # The result of one feed-forward may be the input of the next.
    written: dict[ir.Value, ir.Value] = {}
    for site in sites.find(model):
        if site.kind != "feed_forward" or not _is_asked(site, forms):
            continue
        name = scoped_name(site.nodes[-1])
        # Checked before reading: replaced nodes are in no graph.
        if not taken.isdisjoint(site.nodes):
            left[name] = _SHARES
            continue
        try:
            reading = read(model, site, places)
            found = reading if isinstance(reading, str) else _computed(site, reading, forms)
        except Exception as error:  # noqa: BLE001 - a site that cannot be read stays as it is
            expose(error)
            reading = found = f"reading it raised {first_line(error)}"
        if isinstance(reading, str) or isinstance(found, str) or not taken.isdisjoint(reading.nodes):
            left[name] = reading if isinstance(reading, str) else _SHARES
            continue
        compute, rules, why_whole = found
        if why_whole is not None:
            left[name] = why_whole
        if reading.end.name in excluded or not rules:
            continue
        taken.update(reading.nodes)
        x = reading.inputs["x"]
        op = Builder()
        result = _write(op, reading, written.get(x, x), forms, compute)
        log.applied.update(rules)
        log.values.append(str(reading.end.name))
        written[reading.end] = _put(op, reading, result, rules, names)
    return left


def _is_asked(site: sites.FoundSite, forms: Forms) -> bool:
    """Whether any of the forms applies to this feed-forward; a hidden layer that is split is not split again."""
    return (_in_pieces(site, forms) and site.parts == 1) or GEMM_RULE in forms.rules or forms.chunk is not None


def _in_pieces(site: sites.FoundSite, forms: Forms) -> bool:
    in_float32 = site.nodes[-1].outputs[0].dtype == ir.DataType.FLOAT
    return forms.in_pieces(site.activation, site.d_ff or 0, in_float32=in_float32)


def _computed(site: sites.FoundSite, reading: Reading, forms: Forms) -> tuple[loop.Compute, Sequence[str], str | None]:
    """Return the function that writes the feed-forward, its rules, and why its hidden layer could not be split."""
    in_chunks = [CHUNK_RULE] if forms.chunk else []
    why_whole = None
    if _in_pieces(site, forms):
        found = split_hidden.read(site, reading)
        if isinstance(found, split_hidden.Pieces):
            return partial(split_hidden.write, reading=reading, pieces=found), [PIECES_RULE, *in_chunks], None
        why_whole = found
    gemm = GEMM_RULE in forms.rules and bool(biased_products(reading))
    return partial(write, reading=reading, gemm=gemm), [*([GEMM_RULE] if gemm else []), *in_chunks], why_whole


def _write(op: Builder, reading: Reading, x: ir.Value, forms: Forms, compute: loop.Compute) -> ir.Value:
    d_in, d_out = last_size(reading.inputs["x"]), last_size(reading.end)
    assert d_in is not None
    assert d_out is not None
    is_matrix = rank(reading.inputs["x"]) == 2
    rows = x if is_matrix else op.Reshape(x, op.constant(np.asarray([-1, d_in], np.int64)))
    if forms.chunk is None:
        y = compute(op, rows)
    else:
        write_loop = loop.write_for_long if forms.long_only else loop.write
        y = write_loop(op, rows, (d_in, d_out), forms.chunk, compute)
    if not is_matrix:
        shape = op.Concat(op.Shape(x, end=-1), op.constant(np.asarray([d_out], np.int64)), axis=0)
        # allowzero: an empty batch is a size of 0 and not "as before".
        y = op.Reshape(y, shape, allowzero=1)
    y.type, y.shape = reading.end.type, reading.end.shape
    return y


def _put(op: Builder, reading: Reading, result: ir.Value, rules: Sequence[str], names: Names) -> ir.Value:
    """Replace the nodes by the written ones, under names that are new in the whole model."""
    last, end = reading.nodes[-1], reading.end
    graph = last.graph
    assert isinstance(graph, ir.Graph)
    for value in op.constants:
        value.name = names.value(f"{end.name}_constant")
        graph.register_initializer(value)
    result.metadata_props.update(end.metadata_props)
    result.doc_string = end.doc_string
    nodes = list(_with_bodies(op.nodes))
    for node in nodes:
        made_by = rules_of(node)
        node.metadata_props.update({k: v for k, v in last.metadata_props.items() if k not in node.metadata_props})
        note(node, [*made_by, *rules])
        node.name = names.node(f"{last.name or 'rows'}_{node.op_type}")
        for value in node.outputs:
            if value is not result:
                value.name = names.value(f"{end.name}_{node.op_type}")
    for body in (body for node in nodes for body in graphs_of(node)):
        for value in body.inputs:
            value.name = names.value(f"{end.name}_{value.name}")
    ir.convenience.replace_nodes_and_values(graph, last, list(reading.replaced), op.nodes, [end], [result])
    return result


def _with_bodies(nodes: Iterable[ir.Node]) -> Iterator[ir.Node]:
    for node in nodes:
        for body in graphs_of(node):
            yield from _with_bodies(body)
        yield node
