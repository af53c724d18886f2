"""Rewrite matrix products as ``MatMulNBits``, with the numbers of onnxruntime's quantiser.

The quantiser's own graph pass is not used. It would store a matrix that two products share twice, and needs the whole
model in memory.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import onnx_ir as ir

from ffn_export.core.types import Array
from ffn_export.errors import UsageError
from ffn_export.exporter import computed_weights
from ffn_export.fusion import ir_version_3, opset, sites
from ffn_export.fusion.builder import Names
from ffn_export.fusion.forms.choice import undo
from ffn_export.fusion.functions.outline import is_outlined
from ffn_export.fusion.pipeline import sorted_copy
from ffn_export.fusion.sites import INTEGER_PRODUCTS, QUANTIZED
from ffn_export.quantization.blocks import Blocks
from ffn_export.quantization.blocks import quantized as in_blocks
from ffn_export.quantization.engines import ENGINES
from ffn_export.quantization.fixed_scales import LEAST_OPSET
from ffn_export.quantization.int8 import Known
from ffn_export.quantization.int8 import rewrite as rewrite_int8
from ffn_export.quantization.matrices import add_initializer, drop, read_matrix
from ffn_export.quantization.options import QuantizationOptions
from ffn_export.quantization.products import Product, asked_for, by_matrix, is_product, read
from ffn_export.quantization.result import QuantizationReport, QuantizedWeight
from ffn_export.quantization.row_scales import BLOCK_OPSET, DOMAIN, ROWS_OPSET

_UNSEEN = "no sample has numbers at its input that are finite and below 1e12"
_IN_BODY = "its input is computed in the body of a Loop, a Scan or an If, where samples are not measured"
_NO_PRODUCT = "there is no product with constant weights"
_NOT_WORTH = "left in float32: over the budget, and others save more time for their error"


def quantize(
    model: ir.Model,
    options: QuantizationOptions | None = None,
    known: Known | None = None,
    only: Collection[str] | None = None,
) -> tuple[ir.Model, QuantizationReport]:
    """Quantise the products of feed-forwards, or all products with a constant matrix.

    Args:
        model: A model; it is not modified.
        options: Quantisation options; None means 8 bits in blocks of 32, computed in 8-bit integers.
        known: Statistics on samples, which ``int8`` smooths activations by, and which fixed scales need.
        only: Names of the outputs of the products to quantise; None means all that can be.

    Returns:
        The quantised model, and the result for each product.

    Raises:
        UsageError: If the nodes have no topological order, or 8-bit activations are asked for in an opset that
            lacks them, or fixed scales without samples.
    """
    options, known = options or QuantizationOptions(), known or Known()
    engine = None if options.static is None else ENGINES[options.static]
    if engine is not None and model.opset_imports.get("", LEAST_OPSET) < LEAST_OPSET:
        raise UsageError(f"the model has opset {model.opset_imports['']}, fixed scales need {LEAST_OPSET}")
    quantized = sorted_copy(model)
    if quantized is None:
        raise UsageError("the nodes of the model have no order in which they could run")
    undo(quantized, for_few_bits=True)
    found: list[Product] = []
    kept: dict[str, str] = {}
    for node in asked_for(quantized, all_products=options.all_products):
        product = _NOT_WORTH if only is not None and node.outputs[0].name not in only else read(node, options)
        if not isinstance(product, str) and engine is not None:
            product = _why_unseen(product, quantized, known) or product
        if isinstance(product, str):
            kept[str(node.name or node.outputs[0].name)] = product
        else:
            found.append(product)
    if options.int8 and engine is None and found and opset.ceiling(quantized) >= BLOCK_OPSET:
        opset.raise_to(quantized, BLOCK_OPSET)
    current = quantized.opset_imports.get("", ROWS_OPSET)
    if options.int8 and found and current < ROWS_OPSET:
        raise UsageError(f"the model has opset {current}, 8-bit activations need {ROWS_OPSET}")
    names = Names(quantized)
    if options.int8:
        weights = rewrite_int8(quantized, found, known, names, engine)
    else:
        weights = tuple(_rewrite(products, options, names) for products in by_matrix(found))
    if weights:
        quantized.opset_imports.setdefault(DOMAIN, 1)
    ir_version_3.raise_version(quantized)
    return quantized, QuantizationReport(
        options.bits,
        options.block,
        options.accuracy_level,
        weights,
        kept,
        options.warnings(),
        options.int8,
        options.static,
    )


def _why_unseen(product: Product, model: ir.Model, known: Known) -> str | None:
    """Return why no scale is known of the input of a product, or None."""
    value = product.node.inputs[0]
    if value is not None and value.graph is not model.graph:  # its name may be that of a value of the main graph
        return _IN_BODY
    return None if product.reads in known.channels else _UNSEEN


def prepared(model: ir.Model) -> ir.Model:
    """Return a copy in which matrices that are computed from constants are initializers, and no caller overrides any.

    Weight norm and a low-rank update compute a matrix. A file of IR version 3 lists its constants as inputs.
    """
    copied = sorted_copy(model)
    if copied is None:
        return model
    ir_version_3.free_constants(copied)
    computed_weights.fold(copied)
    return copied


def quantize_some(
    model: ir.Model, options: QuantizationOptions, known: Known | None = None
) -> tuple[ir.Model, QuantizationReport]:
    """Quantise as :func:`quantize` does, and refuse a model in which nothing can be quantised.

    Raises:
        UsageError: If no product can be quantised; the message has the reasons.
    """
    quantized, report = quantize(model, options, known)
    if not report.weights:
        why = _why_not(model) or (_NO_PRODUCT if options.all_products and not report.kept else report.why_nothing)
        raise UsageError(f"nothing to quantize: {why}")
    return quantized, report


def groups_of(model: ir.Model, options: QuantizationOptions) -> dict[str, list[Product]]:
    """Return the products that can be quantised, by the names of the inputs that they read."""
    by_input: dict[str, list[Product]] = {}
    for node in asked_for(model, all_products=options.all_products):
        product = read(node, options)
        if not isinstance(product, str):
            by_input.setdefault(product.reads, []).append(product)
    return by_input


def _why_not(model: ir.Model) -> str | None:
    """Return the reason why a model as a whole has no product to quantise, or None."""
    if any(node.op_type == QUANTIZED for node in model.graph.all_nodes()):
        return "its products are in few bits already"
    if any(node.op_type in INTEGER_PRODUCTS or _has_integers(node) for node in model.graph.all_nodes()):
        return "its products are in 8-bit integers already"
    if is_outlined(model):
        return "its products are nodes of native kernels: quantize it for another target than ort-native"
    bodies = (node for function in model.functions.values() for node in function.all_nodes())
    if not any(map(is_product, model.graph.all_nodes())) and any(map(is_product, bodies)):
        return "its products are in functions of the model: `ffn-export fuse` puts their nodes in their place"
    return None


def _has_integers(node: ir.Node) -> bool:
    """Whether a product reads a matrix with fixed scales."""
    return node.op_type in sites.PRODUCTS and any(
        value is not None and (writer := value.producer()) is not None and writer.op_type == "DequantizeLinear"
        for value in node.inputs[1:2]
    )


def _rewrite(products: list[Product], options: QuantizationOptions, names: Names) -> QuantizedWeight:
    """Rewrite the products that share one matrix, and remove the matrix if nothing else reads it."""
    weight, graph = products[0].weight, products[0].weight.graph
    assert isinstance(graph, ir.Graph)
    matrix = read_matrix(weight, turned=products[0].turned)
    blocks = in_blocks(matrix, options)
    stored = [
        add_initializer(graph, names.value(f"{weight.name}_{part}"), array)
        for part, array in ((f"Q{options.bits}", blocks.packed), ("scales", blocks.scales))
    ]
    d_in, d_out = matrix.shape
    attributes = {"K": d_in, "N": d_out, "bits": options.bits, "block_size": options.block}
    if options.accuracy_level:
        attributes["accuracy_level"] = options.accuracy_level
    for product in products:
        # Read the input only now: it may be the output of an earlier product, which an `Add` has replaced meanwhile.
        added = product.node.inputs[2] if product.adds else None
        _become(product, stored, attributes)
        if added is not None:
            _add(product.node, added, names)
    change = _relative_change(blocks, matrix)
    del matrix  # it may be a view of the mapped file, which cannot be closed while a view exists
    return QuantizedWeight(
        name=str(weight.name),
        shape=(d_in, d_out),
        bytes_before=drop(weight),
        bytes_after=blocks.nbytes,
        relative_l2=change,
        nodes=tuple(str(product.node.name) for product in products),
    )


def _become(product: Product, stored: list[ir.Value], attributes: Mapping[str, int]) -> None:
    """Turn a node into the quantised product, keeping its name, output and metadata."""
    node = product.node
    # A, B, scales, zero_points, g_idx, bias
    inputs = [node.inputs[0], *stored, *([] if product.bias is None else [None, None, product.bias])]
    node.op_type, node.domain = QUANTIZED, DOMAIN
    node.resize_inputs(len(inputs))
    for place, value in enumerate(inputs):
        node.replace_input_with(place, value)
    node.attributes.clear()
    node.attributes.update({name: ir.AttrInt64(name, number) for name, number in attributes.items()})


def _add(node: ir.Node, added: ir.Value, names: Names) -> None:
    """Add the third input of a ``Gemm`` in an ``Add`` after the node; its output takes over the node's output name."""
    graph, product = node.graph, node.outputs[0]
    assert isinstance(graph, ir.Graph)
    add = ir.node("Add", [product, added], name=names.node(f"{node.name or 'product'}_Add"))
    total = add.outputs[0]
    total.type, total.shape, total.doc_string = product.type, product.shape, product.doc_string
    total.metadata_props.update(product.metadata_props)
    graph.insert_after(node, add)
    ir.convenience.replace_all_uses_with(product, total, replace_graph_outputs=True)
    add.replace_input_with(0, product)
    total.name, product.name = product.name, names.value(f"{product.name}_product")


def _relative_change(blocks: Blocks, matrix: Array) -> float:
    norm = float(np.linalg.norm(matrix.astype(np.float64)))
    change = blocks.matrix(len(matrix)).astype(np.float64) - matrix
    return float(np.linalg.norm(change)) / norm if norm else 0.0
