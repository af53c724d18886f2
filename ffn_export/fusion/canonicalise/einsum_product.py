"""``Einsum`` of rows with a matrix -> ``MatMul``: ``bsd,df->bsf`` and its like.

Covers: any number of leading axes, named or as an ellipsis; any letters; the matrix as first or second operand,
transposed or not. Not covered: an equation without ``->``; a contraction over another axis than the last; leading axes
in another order; a matrix that is computed or has more than two axes (attention heads).

The sizes of the contracted axes must be known, because an axis of size 1 broadcasts in an ``Einsum`` and not in a
``MatMul``.
"""

from __future__ import annotations

import onnx_ir as ir

from ffn_export.fusion import constants
from ffn_export.fusion.builder import Builder
from ffn_export.fusion.rule import Found, Rule, replacing, standard
from ffn_export.fusion.safety import FUSABLE_DTYPES
from ffn_export.fusion.views import inputs_of, string_of

_ELLIPSIS = "..."


class EinsumProduct(Rule):
    """A product of rows with a matrix, spelled as a sum over named axes."""

    site = "feed_forward"
    writes = "MatMul"
    ends = standard("Einsum")

    def match(self, node: ir.Node) -> Found:
        """Recognise the equation, and which operand is the matrix."""
        operands, arrow, result = (string_of(node, "equation", "") or "").replace(" ", "").partition("->")
        terms, inputs = operands.split(","), inputs_of(node)
        if not arrow or len(terms) != 2 or len(inputs) != 2 or node.outputs[0].dtype not in FUSABLE_DTYPES:
            return None
        for (x, matrix), (of_rows, of_matrix) in zip((inputs, inputs[::-1]), (terms, terms[::-1]), strict=True):
            is_turned = _is_turned(of_rows, of_matrix, result)
            if is_turned is not None and constants.is_constant(matrix) and _same_size(x, matrix, is_turned):
                return replacing([node], node.outputs[0], self.write, x, matrix, is_turned)
        return None

    def write(self, op: Builder, x: ir.Value, matrix: ir.Value, is_turned: bool) -> ir.Value:
        """Write the standard operator; a matrix that nothing else reads is stored transposed if needed."""
        if is_turned and len(matrix.uses()) == 1:
            matrix = _turned(op, matrix)
        elif is_turned:
            matrix = op.Transpose(matrix, perm=[1, 0])
        return op.MatMul(x, matrix)


def _is_turned(of_rows: str, of_matrix: str, result: str) -> bool | None:
    """Whether the matrix has to be transposed; None if the equation is no product of rows with a matrix."""
    leading, summed, made = of_rows[:-1], of_rows[-1:], result[-1:]
    letters = leading.replace(_ELLIPSIS, "", 1) + summed + made
    if leading + made != result or not letters.isalpha() or len(set(letters)) != len(letters) or not summed:
        return None
    return {summed + made: False, made + summed: True}.get(of_matrix)


def _same_size(x: ir.Value, matrix: ir.Value, is_turned: bool) -> bool:
    if not x.shape or matrix.shape is None or len(matrix.shape) != 2:  # in a branch that never runs
        return False
    summed = x.shape[-1]
    return isinstance(summed, int) and summed == matrix.shape[1 if is_turned else 0]


def _turned(op: Builder, matrix: ir.Value) -> ir.Value:
    tensor = constants.tensor_of(matrix)
    assert tensor is not None
    rows, columns = tensor.shape.numpy()
    return op.computed(lambda: tensor.numpy().T, tensor.dtype, (columns, rows))
