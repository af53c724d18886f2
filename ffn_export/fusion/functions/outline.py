"""Make each feed-forward of a graph one node that calls a model-local function, ``ai.ffn_export::FeedForward``.

``docs/functions.md`` describes its inputs and attributes. The body holds the original nodes, with vendor operators
written as standard ones. Weights are inputs, so that layers of one structure share one function. If a model has several
structures, the most common one is ``FeedForward`` and the others are ``FeedForward_2`` and so on. They are no overloads
of one name, because ONNX's reference evaluator takes overloads for the same function.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from ffn_export.core.constant_tensors import constant_tensor
from ffn_export.fusion import inference, opset, sites
from ffn_export.fusion.builder import Names, free_name
from ffn_export.fusion.engine import scoped_name
from ffn_export.fusion.functions import bodies
from ffn_export.fusion.functions.bodies import Setting
from ffn_export.fusion.functions.body_builder import BodyBuilder
from ffn_export.fusion.functions.inline import DOMAIN
from ffn_export.fusion.functions.portable import named
from ffn_export.fusion.functions.site_reading import INPUTS, Reading, is_baked, read
from ffn_export.fusion.views import is_read

NAME, NAME_OF_OTHERS = "FeedForward", "CustomFeedForward"
_LOWEST_IR_WITH_FUNCTIONS = 8
# The body of each of these is one operator from this opset on, and several before.
_GELUS, _GELU_SINCE = ("BiasGelu", "FastGelu", "Gelu"), 20
_SCOPES = ("pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy")


@dataclass(frozen=True)
class Outlined:
    """Result of outlining.

    Attributes:
        model: Model with one node for each feed-forward.
        left: Name of a feed-forward that is not outlined -> reason.
    """

    model: ir.Model
    left: dict[str, str]


def outline(model: ir.Model) -> ir.Model:
    """Return the model with each feed-forward as one node.

    Args:
        model: Any model, fused or not. It is not modified; the result shares its weights.
    """
    return outlined(model).model


def is_outlined(model: ir.Model) -> bool:
    """Whether a feed-forward of the model is one node of our domain."""
    return any(function.domain == DOMAIN for function in model.functions.values())


def outlined(model: ir.Model) -> Outlined:
    """Make each feed-forward one node, in a copy, and return the reasons for those that stay."""
    model = model.clone()
    stated = inference.prove_shapes(model)
    left: dict[str, str] = {}
    readings: list[Reading] = []
    in_functions = {node for function in model.functions.values() for node in function.all_nodes()}
    taken: set[ir.Node] = set()
    places = {node: place for place, node in enumerate(model.graph.all_nodes())}
    for site in sites.find(model):
        if site.kind != "feed_forward" or site.nodes[-1] in in_functions:
            continue
        reading = read(model, site, places)
        if isinstance(reading, Reading) and taken.isdisjoint(reading.nodes):
            taken.update(reading.nodes)
            readings.append(reading)
        else:
            left[scoped_name(site.nodes[-1])] = reading if isinstance(reading, str) else "it shares nodes with another"
    if readings:
        _write(model, readings)
    stated.restore(model)
    return Outlined(model, left)


def _write(model: ir.Model, readings: Sequence[Reading]) -> None:
    holds_gelu = any(n.domain == bodies.DOMAIN and n.op_type in _GELUS for r in readings for n in r.nodes)
    if holds_gelu and opset.ceiling(model) >= _GELU_SINCE:
        opset.raise_to(model, _GELU_SINCE)
    functions = [_function(model, reading) for reading in readings]
    keys = [_key(function, reading) for function, reading in zip(functions, readings, strict=True)]
    used = {name for domain, name, _ in model.functions if domain == DOMAIN}
    named_by_key: dict[tuple[object, ...], ir.Function] = {}
    for key, _ in Counter(keys).most_common():
        index = keys.index(key)
        name = _name(NAME if readings[index].is_known else NAME_OF_OTHERS, used)
        named_by_key[key] = functions[index]
        functions[index].name = name
        model.functions[functions[index].identifier()] = functions[index]
    names = Names(model)
    # The result of one feed-forward may be the input of the next.
    written: dict[ir.Value, ir.Value] = {}
    for key, reading in zip(keys, readings, strict=True):
        written[reading.end] = _replace(reading, named_by_key[key], names, written)
    model.opset_imports.setdefault(DOMAIN, 2)
    model.ir_version = max(model.ir_version, _LOWEST_IR_WITH_FUNCTIONS)


def _name(name: str, used: set[str]) -> str:
    count = 1
    while (name if count == 1 else f"{name}_{count}") in used:
        count += 1
    return free_name(name if count == 1 else f"{name}_{count}", used)


def _key(function: ir.Function, reading: Reading) -> tuple[object, ...]:
    """Return the key of a structure: the body and the attributes of the node."""
    return ir.to_proto(function).SerializeToString(deterministic=True), *sorted(reading.attributes.items())


def _function(model: ir.Model, reading: Reading) -> ir.Function:
    version = model.opset_imports.get("", 0)
    op = BodyBuilder()
    arity = 1 + max(INPUTS.index(name) for name in reading.inputs)
    formal = {name: ir.Value(name=name, type=_type(reading, name)) for name in INPUTS[:arity]}
    values: dict[ir.Value, ir.Value] = {}
    # If two biases are one value, it is passed twice and read once.
    for name, value in reading.inputs.items():
        values.setdefault(value, formal[name])
    for node in reading.nodes:
        inputs = [None if value is None else _inside(op, values, value) for value in node.inputs]
        values.update(zip(node.outputs, _copied(op, node, inputs, version), strict=False))
    end = values[reading.end]
    nodes = named(op.nodes, {end: "y"}, INPUTS)
    imports = {"": version} | {n.domain: model.opset_imports[n.domain] for n in nodes if n.domain}
    graph = ir.Graph(list(formal.values()), [end], nodes=nodes, opset_imports=imports, name=NAME)
    attributes = [
        ir.Attr(name, ir.convenience.convert_attribute(name, value).type, None)
        for name, value in reading.attributes.items()
    ]
    function = ir.Function(DOMAIN, NAME, graph=graph, attributes=attributes)
    function.doc_string = "A feed-forward; docs/functions.md of ffn_export describes its inputs and attributes."
    return function


def _type(reading: Reading, name: str) -> ir.TensorType | None:
    """Return the dtype of an input, without its shape, because layers of other shapes share the function."""
    value = reading.inputs.get(name)
    return None if value is None or value.dtype is None else ir.TensorType(value.dtype)


def _inside(op: BodyBuilder, values: dict[ir.Value, ir.Value], value: ir.Value) -> ir.Value:
    """Return the value inside the body that corresponds to a value of the graph."""
    if value not in values:
        tensor = constant_tensor(value)
        assert tensor is not None, f"{value.name} is neither an input nor a constant"
        values[value] = op.tensor(tensor)
    return values[value]


def _copied(op: BodyBuilder, node: ir.Node, inputs: Sequence[ir.Value | None], version: int) -> Sequence[ir.Value]:
    body = bodies.of(node)
    known = [value.dtype for value in inputs if value is not None and value.dtype is not None]
    setting = Setting(version, known[0] if known else None)
    if body is not None and setting.is_possible:
        return bodies.write(op, node.op_type, inputs, setting, bodies.attributes_of(node, body))
    return op.copy(node, inputs)


def _replace(reading: Reading, function: ir.Function, names: Names, written: Mapping[ir.Value, ir.Value]) -> ir.Value:
    """Replace the nodes of a feed-forward by one node, and return its output."""
    last = reading.nodes[-1]
    graph = last.graph
    assert graph is not None
    given = {name: written.get(value, value) for name, value in reading.inputs.items()}
    inputs = [given.get(value.name or "") for value in function.inputs]
    attributes = [ir.convenience.convert_attribute(name, value) for name, value in reading.attributes.items()]
    node = ir.Node(DOMAIN, function.name, inputs, attributes)
    node.name = names.node(f"{last.name or 'node'}_FeedForward")
    node.metadata_props.update(_scope(reading, node.name))
    node.outputs[0].metadata_props.update(reading.end.metadata_props)
    node.outputs[0].doc_string = reading.end.doc_string
    baked = [value for each in reading.replaced for value in each.inputs if value is not None and is_baked(value)]
    ir.convenience.replace_nodes_and_values(
        graph, last, list(reading.replaced), [node], [reading.end], [node.outputs[0]]
    )
    for value in baked:
        _remove_unread(value)
    return node.outputs[0]


def _remove_unread(value: ir.Value) -> None:
    """Remove a constant that was copied into a body and that nothing else reads."""
    node = value.producer()
    if is_read(value) or value.graph is None:
        return
    if node is not None and node.graph is not None:
        node.graph.remove(node, safe=True)
    elif node is None:
        value.graph.initializers.pop(str(value.name), None)


def _scope(reading: Reading, name: str) -> dict[str, str]:
    """Return the metadata of the PyTorch module of all the nodes, if the exporter noted it."""
    found: dict[str, str] = {}
    for key, own in zip(_SCOPES, (name, f"{DOMAIN}.{NAME}"), strict=True):
        scopes = [_parsed(node.metadata_props[key]) for node in reading.replaced if key in node.metadata_props]
        common = [each[0] for each in zip(*scopes, strict=False) if len(set(each)) == 1]
        if scopes:
            found[key] = str([*common, own])
    return found


def _parsed(text: str) -> list[str]:
    try:
        parsed = ast.literal_eval(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the latter two of deep nesting
        return []
    return [str(each) for each in parsed] if isinstance(parsed, list) else []
