"""Add a model-local function with a body in standard operators for each ``com.microsoft`` operator of a graph.

ONNX Runtime has kernels of these names and ignores the bodies; other programs run the bodies. One function serves every
node of its name, because ONNX's reference evaluator identifies functions by domain and name, without the overload.
Nodes that lack an input that others have get zeros for it. A node that still does not fit is written out in standard
operators.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ffn_export.fusion.builder import BodyBuilder, Names, free_name
from ffn_export.fusion.functions import bodies
from ffn_export.fusion.functions.bodies import Body, Setting
from ffn_export.fusion.linear import is_turned
from ffn_export.fusion.shapes import last_size

_MARK = "Body by ffn_export, in standard operators."
_LOWEST_IR_WITH_FUNCTIONS = 8


def add(model: ir.Model) -> ir.Model:
    """Return a copy of the model with a function for each operator of ``com.microsoft`` that has a body here.

    An existing function of that name stays, and defines its operator.
    """
    model = model.clone()
    uses: dict[str, list[ir.Node]] = defaultdict(list)
    for node in model.graph.all_nodes():
        if bodies.of(node) is not None and node.op_identifier() not in model.functions:
            uses[node.op_type].append(node)
    names = Names(model)
    for operator, nodes in uses.items():
        _Uses(model, operator, nodes, names).give_body()
    if uses:
        model.ir_version = max(model.ir_version, _LOWEST_IR_WITH_FUNCTIONS)
    return model


def remove(model: ir.Model) -> None:
    """Remove the functions that :func:`add` wrote, in place. The operators that they define stay."""
    for key in [key for key, function in model.functions.items() if is_own(function)]:
        del model.functions[key]


def are_in(model: ir.Model) -> bool:
    """Whether the model has functions that :func:`add` wrote."""
    return any(map(is_own, model.functions.values()))


def is_own(function: ir.Function) -> bool:
    """Whether a function was written by :func:`add`."""
    return function.domain == bodies.DOMAIN and function.doc_string == _MARK


def write_out(model: ir.Model, node: ir.Node, names: Names) -> None:
    """Replace a node that has a body by the nodes of the body, in place."""
    assert node.graph is not None
    op = BodyBuilder()
    attributes = bodies.attributes_of(node, bodies.BODIES[node.op_type])
    written = bodies.write(op, node.op_type, node.inputs, _setting(model, [node]), attributes)
    for new in op.nodes:
        new.name = names.node(f"{node.name or node.op_type}_{new.op_type}")
        new.metadata_props.update(node.metadata_props)
        for value in new.outputs:
            value.name = names.value(f"{node.outputs[0].name}_{new.op_type}")
    old = [value for value in node.outputs if value.uses() or value.is_graph_output()]
    new_values = [written[value.index() or 0] for value in old]
    ir.convenience.replace_nodes_and_values(node.graph, node, [node], op.nodes, old, new_values)


def _setting(model: ir.Model, nodes: Sequence[ir.Node]) -> Setting:
    dtypes = {bodies.dtype_of(node) for node in nodes}
    return Setting(model.opset_imports.get("", 0), dtypes.pop() if len(dtypes) == 1 else None)


@dataclass
class _Uses:
    """The nodes of one operator."""

    model: ir.Model
    operator: str
    nodes: list[ir.Node]
    names: Names

    @property
    def body(self) -> Body:
        return bodies.BODIES[self.operator]

    def give_body(self) -> None:
        setting = _setting(self.model, self.nodes)
        if not setting.is_possible:
            return
        # A body cannot branch on a string, so the function has the most common activation only.
        counts = Counter(node.attributes.get_string("activation", "") for node in self.nodes)
        ((activation, _),) = counts.most_common(1)
        arity = max(len(_trimmed(node.inputs)) for node in self.nodes)
        present = {i for node in self.nodes for i, value in enumerate(node.inputs) if value is not None}
        fitting = []
        for node in self.nodes:
            fits = node.attributes.get_string("activation", "") == activation
            if fits and all(self._is_given(node, index) for index in present):
                node.resize_inputs(arity)
                fitting.append(node)
            else:
                write_out(self.model, node, self.names)
        if not fitting:
            return
        given = {name for node in fitting for name in node.attributes}
        for node in fitting:
            for name, value in bodies.attributes_of(node, self.body).items():
                if name in given:
                    node.attributes[name] = ir.convenience.convert_attribute(name, value)
        function = self._function(arity, present, setting, fitting)
        self.model.functions[function.identifier()] = function

    def _is_given(self, node: ir.Node, index: int) -> bool:
        """Whether a node has an input that others have. A missing input is set to zeros if possible."""
        if index < len(node.inputs) and node.inputs[index] is not None:
            return True
        width = self._width(node)
        dtype = bodies.dtype_of(node)
        if width is None or dtype is None:
            return False
        node.resize_inputs(max(len(node.inputs), index + 1))
        node.replace_input_with(index, self._zeros(width, dtype))
        return True

    def _width(self, node: ir.Node) -> int | None:
        """Return the number of zeros of a missing input, or None if it is not known."""
        if self.operator == "MultiHeadAttention":
            return None  # its bias has the sizes of this run
        if self.operator != "FusedGemm":
            return last_size(node.inputs[0])
        weight = node.inputs[1]
        if weight is None or weight.shape is None or len(weight.shape) != 2:
            return None
        size = weight.shape[0 if is_turned(node) else 1]
        return size if isinstance(size, int) else None

    def _zeros(self, width: int, dtype: ir.DataType) -> ir.Value:
        name = f"ffn_export_zeros_{dtype.name.lower()}_{width}"
        known = self.model.graph.initializers.get(name)
        if known is not None:
            return known
        tensor = ir.tensor(np.zeros(width, dtype.numpy()), dtype=dtype, name=name)
        value = ir.val(name, const_value=tensor)
        self.model.graph.register_initializer(value)
        return value

    def _function(self, arity: int, present: set[int], setting: Setting, nodes: Sequence[ir.Node]) -> ir.Function:
        op = BodyBuilder()
        type_ = None if setting.dtype is None else ir.TensorType(setting.dtype)
        inputs = [ir.Value(name=name, type=type_) for name in self.body.inputs[:arity]]
        given = [value if index in present else None for index, value in enumerate(inputs)]
        values = bodies.attributes_of(nodes[0], self.body)
        # An attribute that no node has is written into the body, with its default.
        types = {name: nodes[0].attributes[name].type for name in values if name in nodes[0].attributes}
        attributes = values | {
            name: ir.RefAttr(name, name, kind) for name, kind in types.items() if kind != ir.AttributeType.STRING
        }
        outputs = bodies.write(op, self.operator, given, setting, attributes)
        outputs = outputs[: max(len(node.outputs) for node in nodes)]
        nodes_of_body = named(op.nodes, dict(zip(outputs, self.body.outputs, strict=False)), self.body.inputs)
        graph = ir.Graph(inputs, outputs, nodes=nodes_of_body, opset_imports={"": setting.opset}, name=self.operator)
        declared = [ir.Attr(name, kind, None) for name, kind in types.items()]
        function = ir.Function(bodies.DOMAIN, self.operator, graph=graph, attributes=declared)
        function.doc_string = _MARK
        return function


def _trimmed(inputs: Sequence[ir.Value | None]) -> list[ir.Value | None]:
    """Return inputs without those left out at the end."""
    trimmed = list(inputs)
    while trimmed and trimmed[-1] is None:
        trimmed.pop()
    return trimmed


def named(nodes: Sequence[ir.Node], outputs: dict[ir.Value, str], taken: Sequence[str]) -> list[ir.Node]:
    """Return the nodes of a body that its outputs need, with values named by their operators.

    Equal bodies are then equal byte for byte.
    """
    needed: list[ir.Node] = []
    for node in reversed(nodes):
        if any(value in outputs or any(user in needed for user in value.consumers()) for value in node.outputs):
            needed.insert(0, node)
    used = {*taken, *outputs.values()}
    for index, node in enumerate(needed):
        node.name = f"{node.op_type}_{index}"
        for value in node.outputs:
            name = outputs.get(value)
            value.name = name or free_name(node.op_type.lower(), used)
    return needed
