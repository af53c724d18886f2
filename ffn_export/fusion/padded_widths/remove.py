"""Takes padded widths back, so that a graph can be fused, quantised or read as if it had never been padded."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import onnx_ir as ir

from ffn_export.fusion import constants
from ffn_export.fusion.builder import Builder, Names
from ffn_export.fusion.padded_widths.units import (
    RULE,
    SUFFIX,
    UNITS,
    Padding,
    forget,
    is_intact,
    paddings_of,
    plain,
    plain_shape,
)
from ffn_export.fusion.provenance import note, rules_of
from ffn_export.fusion.views import input_at, is_standard


def remove(model: ir.Model) -> bool:
    """Remove what was added to the feed-forwards of a model, in place; return whether there was something.

    Nothing is removed where a number of it was changed: what is left then would compute something else.
    """
    grown = [value for value in _initializers(model) if paddings_of(value)]
    pads = [node for node in model.graph.all_nodes() if is_standard(node, "Pad") and RULE in rules_of(node)]
    if not grown or not all(map(_is_intact, grown)) or not _have_their_inputs(grown, pads):
        return False
    names = Names(model)
    splits = [node for node in model.graph.all_nodes() if is_standard(node, "Split") and RULE in rules_of(node)]
    for node in splits:
        _cut_as_before(model, node, names)
    for node in pads:
        x, graph = node.inputs[0], node.graph
        sizes = node.inputs[1]
        assert x is not None
        assert sizes is not None
        assert isinstance(graph, ir.Graph)
        ir.convenience.replace_all_uses_with(node.outputs[0], x)
        graph.remove(node, safe=True)
        if not sizes.uses():
            del model.graph.initializers[str(sizes.name)]
    for value in grown:
        _shrink(value, names)
    for node in model.graph.all_nodes():
        for value in node.outputs:
            if paddings_of(value):
                value.shape = plain_shape(value)
                value.name = names.value(str(value.name).removesuffix(SUFFIX))
                forget(value)
        if RULE in rules_of(node):
            note(node, [rule for rule in rules_of(node) if rule != RULE])
    return True


def _is_intact(value: ir.Value) -> bool:
    tensor = value.const_value
    return tensor is not None and is_intact(tensor.numpy(), paddings_of(value))


def _have_their_inputs(grown: list[ir.Value], pads: list[ir.Node]) -> bool:
    """Whether every product with rows of zeros reads an input that was padded with zeros, and nobody else does."""
    with_zeros = {value for value in grown if any(each.fill == "zeros" for each in paddings_of(value))}
    fed = {user for value in with_zeros for user, _ in value.uses()}
    reading = {user for node in pads for user, _ in node.outputs[0].uses()}
    return fed == reading


def _cut_as_before(model: ir.Model, node: ir.Node, names: Names) -> None:
    sizes = constants.integers(input_at(node, 1))
    if sizes is not None:
        halves = Builder().constant(np.asarray([size - UNITS for size in sizes], np.int64))
        halves.name = names.value("halves")
        model.graph.register_initializer(halves)
        node.replace_input_with(1, halves)
    elif "split" in node.attributes:
        node.attributes["split"] = ir.AttrInt64s("split", [size - UNITS for size in node.attributes.get_ints("split")])


def _shrink(value: ir.Value, names: Names) -> None:
    tensor, paddings, sizes = value.const_value, paddings_of(value), plain_shape(value)
    assert tensor is not None
    made = ir.LazyTensor(partial(_plain, tensor, paddings), tensor.dtype, sizes)
    forget(value)
    value.shape, value.const_value = sizes, made
    value.name = names.value(str(value.name).removesuffix(SUFFIX))


def _plain(tensor: ir.TensorProtocol, paddings: tuple[Padding, ...]) -> ir.TensorProtocol:
    return ir.tensor(np.ascontiguousarray(plain(tensor.numpy(), paddings)), dtype=tensor.dtype)


def _initializers(model: ir.Model) -> Iterator[ir.Value]:
    for graph in (model.graph, *model.graph.subgraphs()):
        yield from graph.initializers.values()
