"""Write a graph in nodes of the domain ``ai.ffn_export``, which the kernels of ``native/`` compute.

In this order:

1. Attention, since its heads come off the products before it and go into the product behind it.
2. Feed-forwards, with the norm and residual around them.
3. All other products with constant weights, as ``Linear``; those of one input as one node.

Each node calls a model-local function with a body in standard operators (:mod:`.node_bodies`), so any runtime computes
it. Weights are inputs, so that layers of one structure share one function. If a model has several structures of a kind,
the most common one has the kind's name, and the others are ``FeedForward_2`` and so on. They are no overloads of one
name, because ONNX's reference evaluator takes overloads for the same function. What a node cannot describe exactly
stays as it is.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, count

import onnx_ir as ir

from ffn_export.fusion import inference
from ffn_export.fusion.builder import Builder, Names, free_name
from ffn_export.fusion.functions import attention_calls, feed_forward_calls, linear_calls
from ffn_export.fusion.functions.attention_writing import AttentionCalls
from ffn_export.fusion.functions.contract import ATTENTION, DOMAIN, KINDS, VERSION, Call
from ffn_export.fusion.functions.node_bodies import function_of
from ffn_export.fusion.unused import remove_unused

_Behind = Callable[[ir.Value, Builder], ir.Value]

_LOWEST_OPSET = 15  # Shape with a start, Trilu; Softmax over one axis and Split with an input are older
_LOWEST_IR_WITH_FUNCTIONS = 8
_SCOPES = ("pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy")


@dataclass(frozen=True)
class Outlined:
    """Result of outlining.

    Attributes:
        model: The model with these nodes.
        left: Name of a feed-forward that is not one node -> reason.
        nodes: Kind of node -> number of nodes.
    """

    model: ir.Model
    left: Mapping[str, str] = field(default_factory=dict)
    nodes: Mapping[str, int] = field(default_factory=dict)


def is_outlined(model: ir.Model) -> bool:
    """Whether the model has nodes of our domain."""
    return any(function.domain == DOMAIN for function in model.functions.values())


def outlined(model: ir.Model) -> Outlined:
    """Write the nodes of our domain in a copy of a model, and return the reasons for feed-forwards that stay.

    Args:
        model: Any model, fused or not. It is not modified; the result shares its weights.
    """
    try:
        model = model.clone()
    except (RuntimeError, ValueError):  # its nodes are in no order in which they could be run
        return Outlined(model)
    if model.opset_imports.get("", 0) < _LOWEST_OPSET:
        return Outlined(model)
    stated = inference.prove_shapes(model)
    outliner = _Outliner(model)
    outliner.attentions()
    outliner.feed_forwards()
    outliner.linears()
    outliner.define_functions()
    stated.restore(model)
    counts = Counter(call.kind.name for call in outliner.written.values())
    return Outlined(model, outliner.left, {name: counts[name] for name in KINDS if counts[name]})


class _Outliner:
    """Writes nodes, one kind after the other.

    Attributes:
        written: The nodes, with their calls.
        left: As for :class:`Outlined`.
    """

    def __init__(self, model: ir.Model) -> None:
        self.written: dict[ir.Node, Call] = {}
        self.left: dict[str, str] = {}
        self._model = model
        self._names = Names(model)
        self._places = {node: place for place, node in enumerate(model.graph.all_nodes())}

    def attentions(self) -> None:
        """Write each attention as one node."""
        calls = AttentionCalls(self._model)
        for graph in self._graphs():
            for found in attention_calls.find(self._model, graph):
                op = Builder()
                self._write(calls.of(found, op), op, partial(calls.behind, found))
            if self.written:
                graph.sort()  # a mask that was prepared for one attention may be read by one that stands before it
        remove_unused(self._model)

    def feed_forwards(self) -> None:
        """Write each feed-forward as one node."""
        for call in feed_forward_calls.calls(self._model, self._places):
            if isinstance(call, Call):
                self._write(call, Builder())
            else:
                self.left[call[0]] = call[1]
        remove_unused(self._model)

    def linears(self) -> None:
        """Write each other product with constant weights as one node, and those of one input together."""
        calls = linear_calls.LinearCalls(self._model)
        for graph in self._graphs():
            for run in linear_calls.consecutive(graph):
                op = Builder()
                for call in calls.of(run, op):
                    attention = self._attention_of(call.outputs)
                    if attention is None:
                        self._write(call, op)
                    else:
                        self._write_packed(call, op, attention)
        remove_unused(self._model)

    def define_functions(self) -> None:
        """Define the functions of all nodes, and name the nodes by them."""
        version = self._model.opset_imports[""]
        keys = {node: _key(call) for node, call in self.written.items()}
        used = {name for domain, name, _ in self._model.functions if domain == DOMAIN}
        named: dict[tuple[object, ...], ir.Function] = {}
        for key, _ in Counter(keys.values()).most_common():
            call = next(call for node, call in self.written.items() if keys[node] == key)
            function = function_of(call, version)
            function.name = _free(call.kind.name, used)
            self._model.functions[function.identifier()] = function
            named[key] = function
        for node, key in keys.items():
            node.op_type = named[key].name
        if named:
            self._model.opset_imports[DOMAIN] = VERSION
            self._model.ir_version = max(self._model.ir_version, _LOWEST_IR_WITH_FUNCTIONS)

    def _graphs(self) -> list[ir.Graph]:
        return list(self._model.graphs())

    def _write(self, call: Call, op: Builder, behind: _Behind | None = None) -> None:
        """Replace nodes by a call.

        The builder has the new constants and the nodes before the call, and ``behind`` writes those behind it.
        """
        node, after = self._node(call), Builder()
        results = list(node.outputs) if behind is None else [behind(node.outputs[0], after)]
        for end, result in zip(call.outputs, results, strict=True):
            result.metadata_props.update(end.metadata_props)
            result.doc_string = end.doc_string
            result.shape, result.type = end.shape, end.type
        self._insert(call, op, node, after, results)

    def _write_packed(self, call: Call, op: Builder, attention: ir.Node) -> None:
        """Replace products of one input by a call with one result, in which an attention finds them side by side."""
        attributes = {name: value for name, value in call.attributes.items() if name != "splits"}
        call = replace(call, attributes=attributes)
        node = self._node(call, results=1)
        reading = self.written[attention]
        inputs = {name: value for name, value in reading.inputs.items() if name == "bias"}
        self.written[attention] = replace(reading, inputs={"query": node.outputs[0], **inputs})
        for place, value in enumerate((node.outputs[0], None, None)):
            attention.replace_input_with(place, value)
        attention.resize_inputs(self.written[attention].arity)
        self._insert(replace(call, outputs=()), op, node, Builder(), [])

    def _insert(self, call: Call, op: Builder, node: ir.Node, after: Builder, results: Sequence[ir.Value]) -> None:
        old = sorted(call.replaced, key=self._places.__getitem__)
        # A node of several results stands before the readers of the first; its inputs stand before all of them.
        at = old[-1] if len(call.outputs) == 1 else old[0]
        graph = at.graph
        assert isinstance(graph, ir.Graph)
        new = [*op.nodes, node, *after.nodes]
        self._name(new, [*op.constants, *after.constants], graph, str(old[-1].outputs[0].name))
        self._places.update(dict.fromkeys(new, self._places[at]))
        ir.convenience.replace_nodes_and_values(graph, at, old, new, call.outputs, results)
        self.written[node] = call

    def _node(self, call: Call, results: int | None = None) -> ir.Node:
        last = max(call.replaced, key=self._places.__getitem__)
        inputs = [call.inputs.get(name) for name in call.kind.inputs[: call.arity]]
        attributes = [ir.convenience.convert_attribute(name, value) for name, value in call.attributes.items()]
        node = ir.Node(DOMAIN, call.kind.name, inputs, attributes, num_outputs=results or len(call.outputs))
        node.name = self._names.node(f"{last.name or 'node'}_{call.kind.name}")
        node.metadata_props.update(_scope(call.replaced, node.name, call.kind.name))
        return node

    def _name(self, nodes: Sequence[ir.Node], constants: Sequence[ir.Value], graph: ir.Graph, base: str) -> None:
        """Name new nodes and values, and register new constants as initializers."""
        for constant in constants:
            if constant.name is None:
                constant.name = self._names.value(f"{base}_constant")
                graph.register_initializer(constant)
        for node in nodes:
            node.name = node.name or self._names.node(f"{base}_{node.op_type}")
            for value in node.outputs:
                value.name = value.name or self._names.value(f"{base}_{node.op_type}")
                value.dtype = value.dtype or ir.DataType.FLOAT

    def _attention_of(self, values: Sequence[ir.Value]) -> ir.Node | None:
        """Return the attention that alone reads values as its queries, keys and values."""
        users = [value.consumers() for value in values]
        if len(values) != 3 or any(len(each) != 1 for each in users) or any(v.is_graph_output() for v in values):
            return None
        node = users[0][0]
        call = self.written.get(node)
        is_attention = call is not None and call.kind is ATTENTION
        return node if is_attention and list(node.inputs[:3]) == list(values) else None


def _key(call: Call) -> tuple[object, ...]:
    """Return the key of a structure: calls with one key have the same body."""
    return call.kind.name, tuple(sorted(call.inputs)), tuple(sorted(call.attributes.items())), call.head_size


def _free(name: str, used: set[str]) -> str:
    numbered = chain([name], (f"{name}_{number}" for number in count(2)))
    return free_name(next(each for each in numbered if each not in used), used)


def _scope(nodes: Sequence[ir.Node], name: str, kind: str) -> dict[str, str]:
    """Return the metadata of the PyTorch module of all the nodes, if the exporter noted it."""
    found: dict[str, str] = {}
    for key, own in zip(_SCOPES, (name, f"{DOMAIN}.{kind}"), strict=True):
        scopes = [_parsed(node.metadata_props[key]) for node in nodes if key in node.metadata_props]
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
