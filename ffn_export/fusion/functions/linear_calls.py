"""Read products with constant weights as calls of ``Linear``.

Covers: ``MatMul``; ``Gemm`` with its addend; a bias that is added; a norm before, or a residual and a norm behind;
consecutive products of one input, such as Q, K and V, as one call with several results; a ``Split`` of the result along
its last axis. Not covered: weights that are computed or fed, other dtypes than float32, a scaled ``Gemm``, and fewer
than 8 inputs: those are outer products, such as the angles of rotary embeddings, which need all their digits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ffn_export.core.types import Array
from ffn_export.fusion import constants, rows, safety
from ffn_export.fusion.builder import Builder
from ffn_export.fusion.functions import surroundings
from ffn_export.fusion.functions.contract import ATTENTION, DOMAIN, LINEAR, Attribute, Call
from ffn_export.fusion.linear import is_plain_product, is_turned
from ffn_export.fusion.shapes import is_along_last, last_size
from ffn_export.fusion.views import input_at, inputs_of, ints_of, is_standard, only_reader, producer, rank

NARROWEST = 8
_FLOAT = ir.DataType.FLOAT


@dataclass(frozen=True)
class Product:
    """A product with a constant matrix, and its bias.

    Attributes:
        weight: ``[d_in, d_out]``, or ``[d_out, d_in]`` if it is transposed.
        bias: Constant that has one number for each column, in any shape that broadcasts; None without one.
        nodes: The product, and the sum with the bias.
        width: ``d_out``.
    """

    x: ir.Value
    weight: ir.Value
    bias: ir.Value | None
    is_transposed: bool
    nodes: tuple[ir.Node, ...]
    width: int

    @property
    def end(self) -> ir.Value:
        """Result."""
        return self.nodes[-1].outputs[0]


def consecutive(graph: ir.Graph) -> Iterator[list[Product]]:
    """Yield runs of products of one input, with no other product in between. A run may be replaced before the next."""
    run: list[Product] = []
    for node in list(graph):
        if not is_standard(node, "MatMul", "Gemm"):
            continue
        product = read(node)
        if run and (product is None or product.x is not run[0].x or product.is_transposed != run[0].is_transposed):
            yield run
            run, product = [], read(node)  # anew: its input may have been the result of the run, which is replaced now
        if product is not None:
            run.append(product)
    if run:
        yield run


def read(node: ir.Node) -> Product | None:
    """Read a node as a product with a constant matrix."""
    x, weight = input_at(node, 0), input_at(node, 1)
    if x is None or weight is None or x.dtype != _FLOAT or constants.is_fixed(x):
        return None
    if not is_plain_product(node):
        return None
    turned = is_turned(node)
    before = producer(weight, "Transpose")
    if before is not None and ints_of(before, "perm") in ((1, 0), ()):
        weight, turned = before.inputs[0], not turned
    tensor = constants.tensor_of(weight)
    if weight is None or tensor is None or tensor.dtype != _FLOAT or len(tensor.shape) != 2:
        return None
    d_in, d_out = tensor.shape.numpy()[::-1] if turned else tensor.shape.numpy()
    if d_in < NARROWEST or not d_out or last_size(x) != d_in or last_size(node.outputs[0]) != d_out:
        return None
    addend = input_at(node, 2)
    if addend is not None:
        return Product(x, weight, addend, turned, (node,), d_out) if _is_bias(addend, node, d_out) else None
    add = only_reader(node.outputs[0])
    if add is not None and is_standard(add, "Add"):
        bias = next((value for value in inputs_of(add) if value is not node.outputs[0]), None)
        if bias is not None and _is_bias(bias, node, d_out):
            return Product(x, weight, bias, turned, (node, add), d_out)
    return Product(x, weight, None, turned, (node,), d_out)


def _is_bias(value: ir.Value, product: ir.Node, width: int) -> bool:
    is_float = constants.is_constant(value) and value.dtype == _FLOAT
    return is_float and rows.fits(value, rank(product.outputs[0]), [width])


class LinearCalls:
    """Makes the calls of a model."""

    def __init__(self, model: ir.Model) -> None:
        self._model = model
        # Layers that share their weights share what is made of them.
        self._made: dict[tuple[object, ...], ir.Value] = {}

    def of(self, run: Sequence[Product], op: Builder) -> Iterator[Call]:
        """Yield the calls of consecutive products of one input: one for all, one for each with anything behind it."""
        alone = [product for product in run if surroundings.around(product.x, product.end, product.nodes).behind]
        together = [product for product in run if product not in alone]
        for group in (*([product] for product in alone), _in_order(together)):
            call = self._call(group, op) if group else None
            if call is not None:
                yield call

    def _call(self, run: Sequence[Product], op: Builder) -> Call | None:
        nodes = [node for product in run for node in product.nodes]
        attributes: dict[str, Attribute] = {"transposed": 1} if run[0].is_transposed else {}
        outputs = [product.end for product in run]
        split = _split(run[0]) if len(run) == 1 else None
        if split is not None:
            nodes, outputs = [*nodes, split], list(split.outputs)
        is_one = len(outputs) == 1
        find = surroundings.around if is_one else surroundings.before
        found = find(run[0].x, outputs[0], nodes)
        if is_one:
            outputs = [found.end]
        else:
            attributes["splits"] = tuple(last_size(value) or 0 for value in outputs)
        replaced = (*found.before, *nodes, *found.behind)
        if safety.refusal(self._model, replaced, outputs, None, 0) is not None:
            return None
        inputs = {"x": found.x, **found.inputs, **self._weights(run, op)}
        return Call(LINEAR, inputs, {**attributes, **found.attributes}, tuple(outputs), replaced)

    def _weights(self, run: Sequence[Product], op: Builder) -> dict[str, ir.Value]:
        """Return weight and bias; those of several products side by side."""
        biases = [product.bias for product in run]
        if len(run) == 1:
            found = {"w": run[0].weight}
            return found if biases[0] is None else {**found, "b": rows.of(op, biases[0], [run[0].width])}
        graph, width = run[0].nodes[0].graph, sum(product.width for product in run)
        key = (graph, run[0].is_transposed, *(product.weight for product in run))
        if key not in self._made:
            self._made[key] = _side_by_side(run, width, op)
        found = {"w": self._made[key]}
        if any(bias is not None for bias in biases):
            if (*key, *biases) not in self._made:
                parts = [_row(product) for product in run]
                self._made[*key, *biases] = op.computed(lambda: np.concatenate(parts), _FLOAT, [width])
            found["b"] = self._made[*key, *biases]
        return found


def _side_by_side(run: Sequence[Product], width: int, op: Builder) -> ir.Value:
    tensors = [constants.tensor_of(product.weight) for product in run]
    d_in, axis = last_size(run[0].x) or 0, 0 if run[0].is_transposed else 1
    shape = [width, d_in] if run[0].is_transposed else [d_in, width]
    return op.computed(lambda: np.concatenate([t.numpy() for t in tensors if t is not None], axis), _FLOAT, shape)


def _row(product: Product) -> Array:
    """Return a bias as one row; zeros for none."""
    tensor = constants.tensor_of(product.bias)
    numbers = np.zeros(1, np.float32) if tensor is None else tensor.numpy().reshape(-1)
    return np.broadcast_to(numbers, (product.width,))


def _in_order(run: Iterable[Product]) -> list[Product]:
    """Return products in the order in which one attention reads them as query, key and value."""

    def place(product: Product) -> int:
        uses = [(user, index) for user, index in product.end.uses() if user.domain == DOMAIN]
        return next((index for user, index in uses if user.op_type == ATTENTION.name), 0)

    return sorted(run, key=place)


def _split(product: Product) -> ir.Node | None:
    """Return the node that cuts the result along its last axis, if nothing else reads the result."""
    split = only_reader(product.end)
    if split is None or not is_standard(split, "Split") or not is_along_last(split, product.end, 0):
        return None
    sizes = [last_size(value) for value in split.outputs]
    return split if sum(size or 0 for size in sizes) == product.width and all(sizes) else None
