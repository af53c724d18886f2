"""Matrix products that can be quantised, and the reasons why others cannot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import onnx_ir as ir

from ffn_export.core.constant_tensors import constant_tensor
from ffn_export.exporter import computed_weights
from ffn_export.fusion import sites, unfused
from ffn_export.fusion.views import float_of, input_at, int_of, ints_of, is_one_of, is_standard
from ffn_export.quantization.matrices import LAYOUT, close, weight_tensor
from ffn_export.quantization.options import INTEGERS, QuantizationOptions

# Weight dtypes that the CPU kernel supports.
_DTYPES = (ir.DataType.FLOAT, ir.DataType.FLOAT16)
_HALVES = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
# Products that are left as they are, and why.
_LEFT = {
    "Conv": "of kernel 1 is no MatMul: write it as nn.Linear, with the features in the last axis",
    "FusedGemm": "holds its activation: fuse for ort-cpu or portable",
    "Einsum": "is no MatMul: `ffn-export fuse` makes one of it if it multiplies rows by a matrix",
    "FusedMatMul": "is written by ONNX Runtime's optimizer: quantize the model from before it",
}
# Largest magnitude of a number of a matrix, and of an input of which statistics are taken: scales and errors are
# computed in float32, in which products of larger ones may not be finite.
LARGEST = 2.0**40


@dataclass(frozen=True)
class Product:
    """A product that can be quantised.

    Attributes:
        node: The ``MatMul`` or ``Gemm``.
        weight: The initializer or ``Constant``, ``[d_in, d_out]``, or ``[d_out, d_in]`` if ``turned``.
        turned: Whether the product reads the weight transposed.
        bias: The row that a ``Gemm`` adds; None without one.
        adds: Whether the third input of a ``Gemm`` is not a bias row, such as a sum of other products.
    """

    node: ir.Node
    weight: ir.Value
    turned: bool = False
    bias: ir.Value | None = None
    adds: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """Width of the rows that are multiplied by the weight, and of the result."""
        first, second = weight_tensor(self.weight).shape.numpy()
        return (second, first) if self.turned else (first, second)

    @property
    def reads(self) -> str:
        """Name of the value that is multiplied by the weight."""
        value = self.node.inputs[0]
        return "" if value is None else str(value.name)


def asked_for(model: ir.Model, *, all_products: bool) -> Iterator[ir.Node]:
    """Yield the products to quantise, each once: those of feed-forwards, or all that have constant weights.

    A feed-forward that fusing only reports has its products quantised, too.
    """
    if all_products:
        graphs = (model.graph, *model.graph.subgraphs())
        yield from (node for graph in graphs for node in graph if _has_weights(node))
        return
    fused = (node for site in sites.find(model) if site.kind == "feed_forward" for node in site.nodes)
    others = (node for site in unfused.find(model) for node in site.nodes)
    yield from dict.fromkeys((*filter(is_product, fused), *filter(_has_weights, others)))


def read(node: ir.Node, options: QuantizationOptions) -> Product | str:
    """Return a product that can be quantised with these options, or the reason why it cannot."""
    if not is_standard(node, "MatMul", "Gemm"):
        return f"{node.op_type} {_LEFT.get(node.op_type, 'is of another domain')}"
    found = _matrix(node)
    if isinstance(found, str):
        return found
    weight, turned = found
    if weight_tensor(weight).size == 0:
        return "its matrix has no numbers"
    if weight.is_graph_input():
        return "a caller may override its matrix, which is an input too"
    operator, dtypes = ("MatMulIntegerToFloat", (ir.DataType.FLOAT,)) if options.int8 else ("MatMulNBits", _DTYPES)
    dtype = weight_tensor(weight).dtype
    if dtype not in dtypes:
        advice = ": quantize the model in float32" if dtype in _HALVES else ""
        return f"{operator} takes no matrix in {dtype.name.lower()}{advice}"
    if not _is_usual(weight_tensor(weight)):
        return "its matrix has NaN, infinity or numbers above 1e12"
    if dtype == ir.DataType.FLOAT16 and options.accuracy_level == INTEGERS:
        # onnxruntime 1.31 on CPU returns the bias alone, as if the product were 0.
        return (
            f"MatMulNBits computes wrong numbers in float16 at accuracy level {INTEGERS}: quantize the model in "
            "float32, or take accuracy level 0"
        )
    return Product(node, weight, turned) if is_standard(node, "MatMul") else _gemm(node, weight, turned=turned)


def _gemm(node: ir.Node, weight: ir.Value, *, turned: bool) -> Product | str:
    if float_of(node, "alpha", 1.0) != 1 or float_of(node, "beta", 1.0) != 1 or int_of(node, "transA", 0):
        return "the Gemm scales its product or turns its input"
    product = Product(node, weight, turned != bool(int_of(node, "transB", 0)))
    bias = input_at(node, 2)
    if bias is not None and (bias.shape is None or list(bias.shape) != [product.shape[1]]):
        return replace(product, adds=True)
    return replace(product, bias=bias)


def by_matrix(products: Iterable[Product]) -> list[list[Product]]:
    """Return products in lists of those that read one matrix in the same way."""
    found: dict[tuple[ir.Value, bool], list[Product]] = {}
    for each in products:
        found.setdefault((each.weight, each.turned), []).append(each)
    return list(found.values())


def is_product(node: ir.Node) -> bool:
    """Whether a node is a product of matrices, constant or not."""
    return node.op_type in sites.PRODUCTS and node.domain in ("", "com.microsoft")


def _has_weights(node: ir.Node) -> bool:
    """Whether a node is a product with a weight, or one that is left with a weight among others."""
    if is_product(node):
        return _is_weight(input_at(node, 1)) or _is_on_the_left(node)
    if is_standard(node, "Conv"):
        return unfused.sizes_across(node) is not None
    return is_one_of(node, *_LEFT) and len({_is_weight(value) for value in node.inputs}) == 2


def _is_on_the_left(node: ir.Node) -> bool:
    """Whether a product's first operand is a matrix of weights and its second is computed."""
    first = input_at(node, 0)
    sizes = None if first is None or first.shape is None else first.shape.dims
    is_matrix = sizes is not None and len(sizes) == 2 and 1 not in sizes
    return is_matrix and _is_weight(first) and not _is_weight(input_at(node, 1))


def _is_weight(value: ir.Value | None) -> bool:
    """Whether a value is an initializer, or computed from constants alone."""
    return value is not None and (value.is_initializer() or computed_weights.is_of_constants(value))


def _is_usual(tensor: ir.TensorProtocol) -> bool:
    """Whether all numbers of a matrix are finite and far from the largest of float32."""
    array = tensor.numpy()
    # The least and the largest are NaN if any number is, and take no memory, which a mask of all numbers would.
    usual = float(array.min()) >= -LARGEST and float(array.max()) <= LARGEST
    del array  # a view of a mapped file cannot be closed while it exists
    close(tensor)
    return usual


def _matrix(node: ir.Node) -> tuple[ir.Value, bool] | str:
    """Return the matrix of a product, and whether it is read transposed; or why the product has no constant matrix."""
    value, turned = input_at(node, 1), False
    while value is not None and (writer := value.producer()) is not None and is_standard(writer, *LAYOUT):
        turned ^= writer.op_type == "Transpose" and ints_of(writer, "perm") != (0, 1)
        value = input_at(writer, 0)
    tensor = None if value is None else constant_tensor(value)
    if value is None or tensor is None:
        if _is_on_the_left(node):
            return "its matrix is the first operand, which no kernel takes in few bits: multiply rows by it"
        if value is None or not computed_weights.is_of_constants(value):
            return "its matrix is no constant"
        writer = value.producer()
        assert writer is not None
        return f"its matrix is computed by {writer.op_type}: fold the constants of the model first"
    if len(tensor.shape) != 2:
        return f"its matrix has {len(tensor.shape)} axes"
    return value, turned
