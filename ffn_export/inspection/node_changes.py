"""Say which nodes of two graphs differ, and in which attribute, input or operator."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

import numpy as np
import onnx
import onnx_ir as ir

from ffn_export.inspection import facts
from ffn_export.inspection.difference import Change, NodeChange
from ffn_export.inspection.node_pairs import NodePairs
from ffn_export.inspection.wiring import Wiring, attribute_key, captured

_ABSENT = "none"
_MOST_NUMBERS = 8
_TENSOR = frozenset({ir.AttributeType.TENSOR})
_GRAPH = frozenset({ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS})


def between(a: ir.Model, wiring_a: Wiring, b: ir.Model, wiring_b: Wiring) -> tuple[NodeChange, ...]:
    """Return the nodes of two models that differ, in the order of A, and then those only in A and only in B."""
    pairs = NodePairs(a, wiring_a, b, wiring_b)
    changed = []
    for node in pairs.left:
        other = pairs.of.get(node)
        if other is None:
            continue
        found = [*_operator(node, other), *_attributes(node, other, a, b), *_inputs(node, other, pairs)]
        if not found and wiring_a.body(node) != wiring_b.body(other):
            found = [Change("function body", "", "")]
        if found:
            changed.append(NodeChange("changed", facts.operator_name(node), _name(node), _name(other), tuple(found)))
    only_a, only_b = pairs.without_counterpart()
    return (
        *changed,
        *_outputs(a, b, pairs),
        *(NodeChange("only in A", facts.operator_name(node), a=_name(node)) for node in only_a),
        *(NodeChange("only in B", facts.operator_name(node), b=_name(node)) for node in only_b),
    )


def _name(node: ir.Node) -> str:
    return node.name or next((str(value.name) for value in node.outputs if value.name), "")


def _operator(a: ir.Node, b: ir.Node) -> Iterator[Change]:
    left, right = (facts.operator_name(n) + (f":{n.overload}" if n.overload else "") for n in (a, b))
    if left != right:
        yield Change("operator", left, right)


def _attributes(a: ir.Node, b: ir.Node, model_a: ir.Model, model_b: ir.Model) -> Iterator[Change]:
    same_operator = a.op_identifier() == b.op_identifier()
    for name in sorted({*a.attributes, *b.attributes}):
        left, right = a.attributes.get(name), b.attributes.get(name)
        if left is None or right is None:
            if same_operator:  # the attributes of another operator are others anyway
                yield Change(name, _shown(left, a, name, model_a), _shown(right, b, name, model_b))
        elif attribute_key(left) != attribute_key(right):
            yield Change(name, *_both(left, right))


def _shown(attribute: ir.Attr | None, node: ir.Node, name: str, model: ir.Model) -> str:
    """Return the value of an attribute; of an absent one, the operator's default."""
    if attribute is not None:
        return _value(attribute)
    version = model.opset_imports.get(node.domain)
    try:
        schema = onnx.defs.get_schema(node.op_type, version or 1, node.domain)
        default = schema.attributes[name].default_value
    except (onnx.defs.SchemaError, KeyError):
        return _ABSENT
    return _ABSENT if not default.name else f"{_value(ir.serde.deserialize_attribute(default))} (default)"


def _value(attribute: ir.Attr) -> str:
    if attribute.ref_attr_name:
        return f"@{attribute.ref_attr_name}"
    if attribute.type in _TENSOR:
        return _tensor(attribute.as_tensor())
    if attribute.type in _GRAPH:
        return f"a graph of {sum(1 for graph in _graphs(attribute) for _ in graph)} nodes"
    value = attribute.value
    return f"{value:g}" if isinstance(value, float) else str(list(value) if isinstance(value, tuple) else value)


def _graphs(attribute: ir.Attr) -> list[ir.Graph]:
    return [attribute.as_graph()] if attribute.type == ir.AttributeType.GRAPH else list(attribute.as_graphs())


def _tensor(tensor: ir.TensorProtocol) -> str:
    if tensor.size <= _MOST_NUMBERS:
        numbers = tensor.numpy().tolist()
        return f"{numbers:g}" if isinstance(numbers, float) else str(numbers)
    return facts.type_words(tensor)


def _both(a: ir.Attr, b: ir.Attr) -> tuple[str, str]:
    """Return two values; where they look the same, with more digits or with their largest difference."""
    left, right = _value(a), _value(b)
    if left != right:
        return left, right
    if a.type == b.type == ir.AttributeType.FLOAT:
        return repr(a.value), repr(b.value)
    if a.type in _TENSOR and a.as_tensor().dtype != ir.DataType.STRING:
        x, y = (np.asarray(each.as_tensor().numpy(), np.float64) for each in (a, b))
        return left, f"{right}, largest difference {np.abs(x - y).max():.3g}"
    return left, f"{right}, which differ inside"


def _inputs(a: ir.Node, b: ir.Node, pairs: NodePairs) -> Iterator[Change]:
    for place, (left, right) in enumerate(zip_longest(a.inputs, b.inputs)):
        if not pairs.same(left, right):
            yield Change(f"input {place}", *_values(left, right))
    for left, right in zip_longest(captured(a), captured(b)):
        if not pairs.same(left, right):
            yield Change("value read in a subgraph", *_values(left, right))


def _values(a: ir.Value | None, b: ir.Value | None) -> tuple[str, str]:
    """Return the names of two values, with their operators where the names are equal."""
    left, right = (_ABSENT if value is None else str(value.name) for value in (a, b))
    return (left, right) if left != right else (_made(a), _made(b))


def _made(value: ir.Value | None) -> str:
    node = None if value is None else value.producer()
    name = _ABSENT if value is None else str(value.name)
    return name if node is None else f"{name} of {facts.operator_name(node)}"


def _outputs(a: ir.Model, b: ir.Model, pairs: NodePairs) -> Iterator[NodeChange]:
    """Yield the outputs of the graph that other nodes compute."""
    for place, (left, right) in enumerate(zip_longest(a.graph.outputs, b.graph.outputs)):
        if not pairs.same(left, right):
            name = str((left if left is not None else right).name)
            yield NodeChange("changed", "graph", name, name, (Change(f"output {place}", *_values(left, right)),))
