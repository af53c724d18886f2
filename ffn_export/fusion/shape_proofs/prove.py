"""Prove shapes in one walk over a graph, in topological order.

A fact is used only if it holds for **every** size of the symbolic axes with which the graph runs at all:

- Input: the declared shape, which is the caller's promise. Axes of one name have one size.
- Weight: its shape.
- Output of a node: the result of its operator's rule (``elementwise``, ``products``, ``moving``, ``contents``), or else
  the sizes that are numbers by ONNX's inference of the node.
- Output of an operator that is not standard and has no rule: the shape that the model states, the only source.
- ``If``: the sizes on which both branches agree. State of a ``Loop`` or ``Scan``: a shape that the body keeps.

Other shapes that a model states are not used: a tool may have guessed them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import onnx_ir as ir

from ffn_export.core.constant_tensors import constant_tensor
from ffn_export.core.node_graphs import graphs_of
from ffn_export.fusion.shape_proofs import standard
from ffn_export.fusion.shape_proofs.contents import contents_of
from ffn_export.fusion.shape_proofs.elementwise import ELEMENTWISE
from ffn_export.fusion.shape_proofs.facts import Facts, Shape, View, contents_of_constant
from ffn_export.fusion.shape_proofs.moving import MOVING
from ffn_export.fusion.shape_proofs.products import PRODUCTS
from ffn_export.fusion.shape_proofs.size import Size
from ffn_export.fusion.views import ints_of

_RULES = {**ELEMENTWISE, **PRODUCTS, **MOVING}
_VISITS = 8


class Proof:
    """The facts of a model's values.

    Args:
        model: The model. Missing types of values are set; nothing else is changed.
        stated: Shapes that the model states, for operators without a rule.
    """

    def __init__(self, model: ir.Model, stated: Mapping[ir.Value, ir.Shape | None]) -> None:
        self.facts = Facts()
        self._stated = stated
        self._opset = model.opset_imports.get("", 1)
        # Bodies of loops are walked twice, bodies inside them four times, and so on: the budget bounds that.
        self._visits = _VISITS * (sum(1 for _ in model.graph.all_nodes()) + 100)
        values = (*model.graph.inputs, *(value for node in model.graph.all_nodes() for value in node.outputs))
        for value in values:
            shape = stated.get(value, value.shape)
            self.facts.taken.update(d.value for d in shape or () if isinstance(d, ir.SymbolicDim) and d.value)
        for value in model.graph.inputs:
            self._declare(value)
        self._graph(model.graph)

    def _declare(self, value: ir.Value) -> None:
        shape = self._shape_of(self._stated.get(value, value.shape))
        if shape is not None:
            self.facts.shapes[value] = shape

    def _shape_of(self, shape: ir.Shape | None) -> Shape | None:
        if shape is None:
            return None
        return tuple(
            Size.of(dim) if isinstance(dim, int) else self.facts.unknown() if not dim.value else Size.of(dim.value)
            for dim in shape
        )

    def _graph(self, graph: ir.Graph) -> None:
        for value in graph.initializers.values():
            if value.const_value is not None and not value.is_graph_input():
                self.facts.shapes[value] = tuple(map(Size.of, value.const_value.shape.numpy()))
                self._note_constant(value)
        for node in graph:
            self._visits -= 1
            self._node(node)

    def _body(self, body: ir.Graph) -> None:
        with self.facts.within_body():
            self._graph(body)

    def _note_constant(self, value: ir.Value) -> None:
        contents = contents_of_constant(value)
        if contents is not None:
            self.facts.contents[value] = contents

    def _node(self, node: ir.Node) -> None:
        view = self.facts.of(node, self._opset)
        for value in node.outputs:  # a body is walked more than once
            self.facts.shapes.pop(value, None)
            self.facts.contents.pop(value, None)
        shapes = self._shapes(view)
        for place, (value, shape) in enumerate(zip(node.outputs, shapes, strict=False)):
            if shape is not None:
                self.facts.shapes[value] = shape
                for size in shape:
                    self.facts.note_bound(size, 0)
            if not node.domain:
                self._note_contents(view, place, value)

    def _note_contents(self, view: View, place: int, value: ir.Value) -> None:
        if view.node.op_type == "Constant":
            self._note_constant(value)
            return
        try:
            contents = contents_of(view, place)
        except (ValueError, IndexError, ZeroDivisionError):  # an unknown input, an invalid node, or too large a size
            return
        shape = self.facts.shapes.get(value)
        if contents is not None and shape is not None and len(shape) <= 1:
            self.facts.contents[value] = contents

    def _shapes(self, view: View) -> Sequence[Shape | None]:
        node = view.node
        if node.domain == "" and node.op_type in ("If", "Loop", "Scan"):
            return self._of_bodies(view)
        if node.domain == "" and node.op_type == "Constant":
            tensor = constant_tensor(node.outputs[0])
            self._set_types(node, [None if tensor is None else ir.TensorType(tensor.dtype)])
            return [None if tensor is None else tuple(map(Size.of, tensor.shape.numpy()))]
        rule = _RULES.get((node.domain, node.op_type))
        by_standard: Sequence[Shape | None] = ()
        if rule is None or any(value.type is None for value in node.outputs):
            types, by_standard = standard.inferred(view)
            self._set_types(node, types)
        if rule is None:
            stated = (self._shape_of(self._stated.get(value, value.shape)) for value in node.outputs)
            return by_standard if node.domain == "" else list(stated)
        try:
            found = rule(view)
        except (ValueError, IndexError):  # an unknown input, an invalid node, or too large a size
            return ()
        return found if isinstance(found, list) else [found]

    def _set_types(self, node: ir.Node, types: Iterable[ir.TypeProtocol | None]) -> None:
        for value, found in zip(node.outputs, types, strict=False):
            if value.type is None:
                value.type = found

    def _of_bodies(self, view: View) -> Sequence[Shape | None]:
        bodies = list(graphs_of(view.node))
        if view.node.op_type == "If":
            for body in bodies:
                self._body(body)
            results = [body.outputs for body in bodies]
            rows = zip(*results, strict=False)
            shapes = [self._agreed([self.facts.shapes.get(value) for value in values]) for values in rows]
        else:
            shapes = [shape for body in bodies for shape in self._of_loop(view, body)]
            results = [body.outputs[1 if view.node.op_type == "Loop" else 0 :] for body in bodies]
        self._set_types(view.node, [values[0].type for values in zip(*results, strict=False)])
        return shapes

    def _agreed(self, shapes: Sequence[Shape | None]) -> Shape | None:
        first = shapes[0]
        if first is None or any(shape is None or len(shape) != len(first) for shape in shapes):
            return None
        # A symbol of a single branch may be another size in each run.
        sizes = zip(*(shape for shape in shapes if shape is not None), strict=True)
        return tuple(each[0] if len(set(each)) == 1 and len(each) > 1 else self.facts.unknown() for each in sizes)

    def _of_loop(self, view: View, body: ir.Graph) -> list[Shape | None]:
        """Return the shapes of the final states. Outputs that stack iterations have none: the loop may not run."""
        is_loop = view.node.op_type == "Loop"
        given = list(view.node.inputs[2:] if is_loop else view.node.inputs)
        sequences = 0 if is_loop else view.integer("num_scan_inputs", 0)
        states = given[: len(given) - sequences]
        inner = body.inputs[2 if is_loop else 0 :][: len(states)]
        after = body.outputs[1 if is_loop else 0 :][: len(states)]
        for value in body.inputs:
            self.facts.shapes.pop(value, None)
            self.facts.contents.pop(value, None)
        if is_loop and body.inputs:
            self.facts.shapes[body.inputs[0]] = ()
        self._give_types(view, body, states, inner, sequences)
        kept = [None if value is None else self.facts.shapes.get(value) for value in states]
        while True:
            # A state has a shape only if the body keeps it.
            first = kept
            for value, shape in zip(inner, first, strict=False):
                self.facts.shapes.pop(value, None)
                if shape is not None:
                    self.facts.shapes[value] = shape
            self._body(body)
            kept = [
                shape if self.facts.shapes.get(v) == shape else None for v, shape in zip(after, first, strict=False)
            ]
            if kept == first[: len(kept)]:
                return [*kept, *[None] * (len(view.node.outputs) - len(kept))]
            if self._visits < 0:
                self._forget(body)
                return [None] * len(kept)

    def _give_types(
        self, view: View, body: ir.Graph, states: Sequence[ir.Value | None], inner: Sequence[ir.Value], sequences: int
    ) -> None:
        for value, outer in zip(inner, states, strict=False):
            if value.type is None and outer is not None:
                value.type = outer.type
        if sequences:
            for value, outer in zip(body.inputs[-sequences:], view.node.inputs[-sequences:], strict=False):
                self._give_slice(view, value, outer)

    def _give_slice(self, view: View, value: ir.Value, outer: ir.Value | None) -> None:
        """Give a body's input the shape of one element of a Scan's sequence."""
        shape = None if outer is None else self.facts.shapes.get(outer)
        if outer is not None and value.type is None:
            value.type = outer.type
        if shape and view.opset >= 9 and not any(ints_of(view.node, "scan_input_axes")):
            self.facts.shapes[value] = shape[1:]

    def _forget(self, body: ir.Graph) -> None:
        for value in (*body.inputs, *(value for node in body.all_nodes() for value in node.outputs)):
            self.facts.shapes.pop(value, None)
            self.facts.contents.pop(value, None)
