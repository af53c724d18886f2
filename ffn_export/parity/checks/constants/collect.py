"""Collect every constant of a model: of its graph, its subgraphs and its functions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ffn_export.core.types import Array

_Kind = ir.AttributeType
# Largest number of integers in a shape, a list of axes, or pads, which have two for each axis.
_MOST_SETTINGS = 16


@dataclass(frozen=True, eq=False)
class Constant:
    """A tensor in the file.

    Attributes:
        name: Name of the value, or of the node and attribute, prefixed by the name of the function if it is in one.
        tensor: The tensor.
        value: Value that holds the tensor; None for an attribute of a node other than ``Constant``.
    """

    name: str
    tensor: ir.TensorProtocol
    value: ir.Value | None = None

    @property
    def array(self) -> Array:
        """The numbers, without a copy if the file is memory-mapped."""
        return self.tensor.numpy()


def constants(model: ir.Model) -> Iterator[Constant]:
    """Yield initializers, ``Constant`` nodes of every kind, and tensors in attributes of other nodes."""
    for owner, graph in _graphs(model):
        for value in graph.initializers.values():
            if value.const_value is not None:
                yield Constant(f"{owner}{value.name}", value.const_value, value)
        for node in graph:
            for attribute in node.attributes.values():
                yield from _of_attribute(owner, node, attribute)


def is_setting(array: Array) -> bool:
    """Whether a few numbers describe an array, so that it need not come from a parameter.

    This holds for up to two numbers, for elements that are equal or evenly spaced (zeros, ones, positions), and for up
    to 16 integers (shapes, axes, pads).
    """
    if array.size <= 2 or array.dtype.kind not in "fiubV":
        return True
    if array.dtype.kind in "iu" and array.size <= _MOST_SETTINGS:
        return True
    flat = array.reshape(-1)
    if array.dtype.kind == "b":
        return bool((flat == flat[0]).all())
    # Integers stay integers, as float64 does not tell 2**62 from 2**62 + 1.
    wide = {"i": np.int64, "u": np.uint64}.get(array.dtype.kind, np.float64)
    with np.errstate(all="ignore"):
        steps = np.diff(flat[: 2 * _MOST_SETTINGS].astype(wide))
        if not (steps == steps[0]).all():  # for most arrays the first elements decide
            return False
        steps = np.diff(flat.astype(wide))
        return bool((steps == steps[0]).all())


def _graphs(model: ir.Model) -> Iterator[tuple[str, ir.Graph]]:
    yield from (("", graph) for graph in (model.graph, *model.graph.subgraphs()))
    for function in model.functions.values():
        owner = f"function {function.name}: "
        yield from ((owner, graph) for graph in (function.graph, *function.subgraphs()))


def _of_attribute(owner: str, node: ir.Node, attribute: ir.Attr) -> Iterator[Constant]:
    if attribute.is_ref() or attribute.value is None:
        return
    is_constant = node.op_type == "Constant" and node.domain == ""
    value = node.outputs[0] if is_constant else None
    name = f"{owner}{value.name}" if value is not None else f"{owner}{node.name or node.op_type}.{attribute.name}"
    if attribute.type == _Kind.TENSOR:
        yield Constant(name, attribute.value, value)
    elif attribute.type == _Kind.TENSORS:
        yield from (Constant(f"{name}[{index}]", tensor) for index, tensor in enumerate(attribute.value))
    elif attribute.type == _Kind.FLOATS or (is_constant and attribute.type in (_Kind.FLOAT, _Kind.INT, _Kind.INTS)):
        dtype = np.float32 if attribute.type in (_Kind.FLOAT, _Kind.FLOATS) else np.int64
        yield Constant(name, ir.Tensor(np.asarray(attribute.value, dtype), name=name), value)
