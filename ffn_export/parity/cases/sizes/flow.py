"""Follow sizes through a graph, to shapes or to nodes where they become numbers or conditions.

Sizes originate in ``Shape``, ``Size``, ``NonZero`` and ``Range``, and in operators that count elements, such as a sum
over ones. They are harmless as shapes: in ``Reshape``, ``Expand`` or the bounds of a ``Slice``. A node is recorded with
its expression if anything computed from sizes meets data in another way, or decides which branch runs.

The flow is conservative: an unknown operator passes on the kind of its inputs. A graph that is too large is not
followed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce

import numpy as np
import onnx_ir as ir

from ffn_export.core.node_graphs import graphs_of
from ffn_export.core.tensor_spec import Axis, Dim, TensorSpec
from ffn_export.core.words import words
from ffn_export.parity.cases.sizes.expressions import Expression, Expressions
from ffn_export.parity.cases.sizes.facts import DATA, MOST_ITEMS, Fact, Kind, Operation, mapped
from ffn_export.parity.cases.sizes.operators import infer

_MOST_NODES = 200_000
_LARGEST_READ = 4096  # elements of a constant

# Operator -> the inputs that are shapes, or the bounds of one.
_SHAPES: Mapping[str, frozenset[int]] = {
    "Reshape": frozenset({1}),
    "Expand": frozenset({1}),
    "Slice": frozenset({1, 2, 3, 4}),
    "Tile": frozenset({1}),
    "Pad": frozenset({1, 3}),
    "ConstantOfShape": frozenset({0}),
    "Resize": frozenset({2, 3}),
    "Split": frozenset({1}),
    "Squeeze": frozenset({1}),
    "Unsqueeze": frozenset({1}),
    "OneHot": frozenset({1}),
    "CenterCropPad": frozenset({1}),
    "Shape": frozenset({0}),
    "Size": frozenset({0}),
}
_SOURCES = frozenset({"Shape", "Size"})
# Operators whose output elements depend on input elements at the same place, or are input elements.
_IN_PLACE = words(
    "Abs Add And Cast CastLike Ceil Clip Concat Cos Div Equal Erf Exp Expand Flatten Floor Greater GreaterOrEqual "
    "Identity Less LessOrEqual Log Max Min Mod Mul Neg Not Or Pow Reciprocal Relu Reshape Round Sigmoid Sign Sin Sqrt "
    "Squeeze Sub Sum Tanh Tile Transpose Unsqueeze Where Xor"
)
# Results that do not depend on the data: of an operator on two equal operands, and with a number as one operand.
_OF_ITSELF: Mapping[str, int] = {
    "Sub": 0,
    "Div": 1,
    "Equal": 1,
    "LessOrEqual": 1,
    "GreaterOrEqual": 1,
    "Less": 0,
    "Greater": 0,
    "Xor": 0,
}
_WITH_NUMBER: Mapping[tuple[str, float], int] = {("Mul", 0): 0, ("And", 0): 0, ("Or", 1): 1, ("Pow", 0): 1}


@dataclass(frozen=True)
class Use:
    """A node that uses sizes.

    Attributes:
        node: The node.
        expressions: Expressions of sizes that the node reads.
        shapes_only: Whether the expressions are only shapes, which matter only if they contain conditions.
    """

    node: ir.Node
    expressions: tuple[Expression, ...]
    shapes_only: bool = False


class TooLargeError(Exception):
    """A graph with more nodes than are followed."""


@dataclass
class Flow:
    """The walk over one model.

    Attributes:
        model: The model.
        make: Factory of expressions.
        uses: Nodes that use sizes.
    """

    model: ir.Model
    make: Expressions = field(default_factory=Expressions)
    uses: list[Use] = field(default_factory=list)
    _left: int = _MOST_NODES
    _facts: dict[ir.Value, Fact] = field(default_factory=dict)

    def follow(self, specs: Sequence[TensorSpec]) -> None:
        """Walk over the model's graph, its subgraphs and the functions that it calls.

        Raises:
            TooLargeError: If the model has too many nodes.
        """
        named = {spec.name: spec for spec in specs}
        for value in self.model.graph.inputs:
            spec = named.get(str(value.name))
            shape = None if spec is None else tuple(map(self._size_of, spec.dims))
            self._facts[value] = DATA if spec is None else Fact(Kind.DATA, shape, is_float=spec.is_floating)
        self._walk(self.model.graph)
        for value in self.model.graph.outputs:
            fact, node = self._fact(value), value.producer()
            if fact is not None and fact.kind is Kind.SIZE and node is not None:
                self._note(node, [fact])

    def _size_of(self, axis: Axis) -> Expression:
        if isinstance(axis, int):
            return self.make.number(axis)
        names = (axis.name,) if isinstance(axis, Dim) else axis.terms
        return reduce(partial(self.make.of, "+"), map(self.make.size, names))

    def _fact(self, value: ir.Value | None) -> Fact | None:
        if value is None:
            return None
        if value not in self._facts:
            tensor = value.const_value  # None for a reference to an attribute, and a value that a caller may give
            self._facts[value] = DATA if tensor is None else self._constant(tensor)
        return self._facts[value]

    def _constant(self, tensor: ir.TensorProtocol) -> Fact:
        shape = self.make.shape([int(size) for size in tensor.shape.numpy()])
        is_float = tensor.dtype.is_floating_point()
        is_number = is_float or tensor.dtype.is_integer() or tensor.dtype == ir.DataType.BOOL
        if not is_number or tensor.size > _LARGEST_READ:
            return Fact(Kind.CONSTANT, shape, is_float=is_float)
        array = tensor.numpy().astype(float) if is_float else tensor.numpy()
        few = array.size <= MOST_ITEMS or (array.ndim == 1 and not is_float)
        items = mapped(self.make.number, array) if few else None
        return Fact(Kind.CONSTANT, shape, items, is_float=is_float)

    def _walk(self, graph: ir.Graph | ir.Function) -> None:
        for node in graph:
            self._left -= 1
            if self._left < 0:
                raise TooLargeError(f"it has more than {_MOST_NODES:,} nodes with all bodies written out")
            inputs = [self._fact(value) for value in node.inputs]
            function = self.model.functions.get(node.op_identifier())
            if function is not None:
                self._call(function, node, inputs)
            elif any(graphs_of(node)):
                self._branch(node, inputs)
            elif node.op_type == "Constant":
                self._set(node, self._stated(node))
            else:
                self._set(node, self._of(node, inputs))

    def _stated(self, node: ir.Node) -> Fact:
        """Read a ``Constant``, whose value is a tensor or numbers."""
        value = node.attributes.get("value")
        if value is not None and not value.is_ref() and value.type == ir.AttributeType.TENSOR:
            return self._constant(value.as_tensor())
        for name in ("value_int", "value_ints", "value_float", "value_floats"):
            attribute = node.attributes.get(name)
            if attribute is not None and not attribute.is_ref():
                return self._constant(ir.tensor(np.array(attribute.value)))
        return Fact(Kind.CONSTANT)

    def _set(self, node: ir.Node, fact: Fact) -> None:
        for index, output in enumerate(node.outputs):
            self._facts[output] = self._named(output, fact if index == 0 else Fact(fact.kind))

    def _named(self, value: ir.Value, fact: Fact) -> Fact:
        """Use the shape that the graph states if none was inferred."""
        if fact.shape is not None or value.shape is None:
            return fact
        shape = tuple(
            self.make.number(dim) if isinstance(dim, int) else self.make.unknown(f"a size of {value.name}")
            for dim in value.shape
        )
        return replace(fact, shape=shape)

    def _of(self, node: ir.Node, inputs: Sequence[Fact | None]) -> Fact:
        shapes = _SHAPES.get(node.op_type, frozenset()) if node.domain == "" else frozenset()
        as_shapes = [each for place, each in enumerate(inputs) if each is not None and place in shapes]
        others = [each for place, each in enumerate(inputs) if each is not None and place not in shapes]
        kind = self._kind(node, inputs, others, as_shapes)
        result = infer(Operation(node, inputs, kind, self.make))
        same = self._whatever_the_data(node, inputs)
        if same is not None:
            return Fact(Kind.SPREAD, result.shape, None, same, result.is_float, is_same=True)
        if kind is Kind.DATA and any(each.kind is Kind.SIZE for each in others):
            self._note(node, [each for each in others if each.kind is Kind.SIZE])
        if node.op_type not in _SOURCES:
            ends = result.shape if node.op_type in ("Slice", "Pad", "Split") and result.shape is not None else ()
            if as_shapes or ends:
                read = (each for fact in as_shapes for each in fact.expressions)
                self.uses.append(Use(node, (*read, *ends), shapes_only=True))
        return result

    def _kind(
        self, node: ir.Node, inputs: Sequence[Fact | None], others: Sequence[Fact], as_shapes: Sequence[Fact]
    ) -> Kind:
        if node.op_type in _SOURCES and node.domain == "":
            shape = None if inputs[0] is None else inputs[0].shape
            return Kind.CONSTANT if shape is not None and all(size.number is not None for size in shape) else Kind.SIZE
        kind = max((each.kind for each in others), default=Kind.CONSTANT)
        by_size = any(each.kind >= Kind.SIZE for each in as_shapes)
        if kind is Kind.CONSTANT and by_size:
            # A slice of a table holds other numbers at other sizes; one repeated number does not.
            return Kind.SIZE if node.op_type == "Slice" else Kind.SPREAD
        if kind is Kind.SPREAD and (node.op_type not in _IN_PLACE or node.domain != ""):
            return Kind.SIZE
        return kind

    def _whatever_the_data(self, node: ir.Node, inputs: Sequence[Fact | None]) -> Expression | None:
        """Return the number that a node computes from any data, such as 0 for ``x - x``, or None."""
        reads_data = any(each is not None and each.kind is Kind.DATA for each in inputs)
        if node.domain != "" or len(inputs) != 2 or not reads_data:
            return None
        if node.inputs[0] is node.inputs[1] and node.op_type in _OF_ITSELF:
            return self.make.number(_OF_ITSELF[node.op_type])
        for each in inputs:
            number = None if each is None or each.kind is Kind.DATA or each.sample is None else each.sample.number
            if number is not None and (node.op_type, float(number)) in _WITH_NUMBER:
                assert each is not None
                if each.is_same or (each.items is not None and each.items.size == 1):
                    return self.make.number(_WITH_NUMBER[node.op_type, float(number)])
        return None

    def _note(self, node: ir.Node, facts: Sequence[Fact]) -> None:
        found = [e for fact in facts for e in fact.expressions]
        if any(not fact.expressions for fact in facts):
            found.append(self.make.unknown(f"a number of sizes at {node.name or node.op_type}"))
        self.uses.append(Use(node, tuple(dict.fromkeys(found))))

    def _call(self, function: ir.Function, node: ir.Node, inputs: Sequence[Fact | None]) -> None:
        for place, value in enumerate(function.inputs):
            given = inputs[place] if place < len(inputs) else None
            self._facts[value] = given or Fact(Kind.CONSTANT)
        self._walk(function)
        for output, value in zip(node.outputs, function.outputs, strict=False):
            self._facts[output] = self._fact(value) or DATA

    def _branch(self, node: ir.Node, inputs: Sequence[Fact | None]) -> None:
        """Follow the bodies of an If, Loop or Scan, and record a size that decides which body runs or how often."""
        deciding = [each for each in inputs[: {"If": 1, "Loop": 2}.get(node.op_type, 0)] if each is not None]
        by_size = [each for each in deciding if each.kind is Kind.SIZE]
        bodies = list(graphs_of(node))
        if node.op_type == "If":
            for body in bodies:
                self._walk(body)
            places = range(len(node.outputs))
            results = [[self._fact(body.outputs[place]) or DATA for body in bodies] for place in places]
        else:
            results = [[fact] for fact in self._repeated(node, inputs, bodies[0], counted=bool(by_size))]
        if by_size:
            self._note(node, by_size)
        for output, facts in zip(node.outputs, results, strict=False):
            kind = max(each.kind for each in facts)
            kind = max(kind, Kind.SIZE) if by_size else kind
            is_one = all(each is facts[0] for each in facts)
            self._facts[output] = self._named(output, replace(facts[0], kind=kind) if is_one else Fact(kind))

    def _repeated(self, node: ir.Node, inputs: Sequence[Fact | None], body: ir.Graph, *, counted: bool) -> list[Fact]:
        """Walk over a loop body until the kinds of the carried values no longer change."""
        skipped = 2 if node.op_type == "Loop" else 0
        carried = [each or DATA for each in inputs[skipped:]]
        states = len(body.outputs) - 1 if skipped else len(body.outputs)
        scanned = node.attributes.get_int("num_scan_inputs", 0)
        states = len(carried) - scanned if scanned else min(len(carried), states)
        for _ in range(len(Kind)):
            before = len(self.uses)
            if skipped:
                kind = Kind.SIZE if counted else Kind.SPREAD
                self._facts[body.inputs[0]] = Fact(kind, last=self.make.unknown("the round"))
                self._facts[body.inputs[1]] = Fact(Kind.CONSTANT)
            for place, (value, fact) in enumerate(zip(body.inputs[skipped:], carried, strict=False)):
                # Values passed into the body stay the same. Of a carried state only the kind is known after a round.
                self._facts[value] = fact if place >= states and fact.kind < Kind.DATA else Fact(fact.kind)
            self._walk(body)
            outputs = body.outputs[1 if skipped else 0 :]
            after = [self._fact(value) or DATA for value in outputs]
            states_after = zip(carried[:states], after, body.inputs[skipped:], outputs, strict=False)
            joined = [
                Fact(max(old.kind, new.kind, old.kind if output is value else Kind.SIZE))
                for old, new, value, output in states_after
            ]
            if [each.kind for each in joined] == [each.kind for each in carried[:states]]:
                break
            carried[:states] = joined
            del self.uses[before:]
        return [*(Fact(each.kind) for each in carried[:states]), *(Fact(each.kind) for each in after[states:])]
