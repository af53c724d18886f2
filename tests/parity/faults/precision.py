"""Numbers in fewer bits than anybody was told."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from tests.parity.faults.edit import Editor, array_of, behind, input_of, matrices, node_of, nodes_of, stored
from tests.parity.faults.fault import Fault, bound, check, non_finite, weights
from tests.parity.faults.weights import PRESETS

HALF, BFLOAT, SINGLE = ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.FLOAT


def _through(dtype: ir.DataType) -> Callable[[Editor, ir.Value], ir.Value]:
    """Round to a dtype and back."""
    return lambda edit, x: edit.Cast(edit.Cast(x, to=dtype), to=SINGLE)


def _stored_as(dtype: ir.DataType) -> Callable[[ir.Model], None]:
    """Store every matrix in another dtype, with a Cast behind it."""

    def plant(model: ir.Model) -> None:
        for weight in matrices(model):
            array = array_of(weight)
            uses = weight.uses()
            edit = Editor(model)
            rounded = edit.Cast(edit.weight(array.astype(dtype.numpy())), to=SINGLE)
            for node, index in uses:
                node.replace_input_with(index, rounded)
            del model.graph.initializers[str(weight.name)]
        model.graph.sort()

    return plant


def _int8(model: ir.Model) -> None:
    """Store every matrix in 8 bits with one scale."""
    for weight in matrices(model):
        array = array_of(weight)
        scale = float(np.abs(array).max() / 127)
        uses = weight.uses()
        edit = Editor(model)
        stored_in_8_bits = edit.weight(np.round(array / scale).astype(np.int8))
        whole = edit.DequantizeLinear(stored_in_8_bits, edit.number(scale))
        for node, index in uses:
            node.replace_input_with(index, whole)
        del model.graph.initializers[str(weight.name)]
    model.graph.sort()


def _dynamic_int8(model: ir.Model) -> None:
    """Round what the second matrix reads to 8 bits, with a scale drawn from all tokens."""
    hidden = nodes_of(model, "MatMul")[-1].inputs[0]
    assert hidden is not None

    def rounded(edit: Editor, x: ir.Value) -> ir.Value:
        quantised = edit.node("DynamicQuantizeLinear", x, outputs=3).outputs
        return edit.DequantizeLinear(*quantised)

    behind(model, hidden, rounded)


def _ten_bits(model: ir.Model) -> None:
    """Cut the mantissas of matrices to ten bits, as TF32 does."""
    for weight in matrices(model):
        bits = array_of(weight).view(np.uint32) & np.uint32(0xFFFFE000)
        stored(weight, bits.view(np.float32))


def _hidden(change: Callable[[Editor, ir.Value], ir.Value]) -> Callable[[ir.Model], None]:
    return lambda model: behind(model, node_of(model, "Gelu", "Relu", "QuickGelu").outputs[0], change)


def _overflowing(edit: Editor, x: ir.Value) -> ir.Value:
    """Go through float16 in a unit that is 1,000 times as small, and come back where that was finite."""
    half = edit.Cast(edit.Cast(edit.Mul(x, edit.number(1000)), to=HALF), to=SINGLE)
    overflow = edit.IsInf(half)
    return edit.Where(overflow, half, x)


def _input(change: Callable[[Editor, ir.Value], ir.Value]) -> Callable[[ir.Model], None]:
    return lambda model: behind(model, input_of(model), change)


def _flushed(edit: Editor, x: ir.Value) -> ir.Value:
    """Make numbers below the smallest normal one zero."""
    return edit.Where(edit.Less(edit.Abs(x), edit.number(float(np.finfo(np.float32).tiny))), edit.number(0), x)


def _half_products(model: ir.Model) -> None:
    """Multiply the first matrix in float16."""
    product = nodes_of(model, "MatMul")[0]
    x, weight = product.inputs
    assert x is not None
    assert weight is not None

    def in_half(edit: Editor, _: ir.Value) -> ir.Value:
        half = edit.MatMul(edit.Cast(x, to=HALF), edit.Cast(weight, to=HALF))
        return edit.Cast(half, to=SINGLE)

    behind(model, product.outputs[0], in_half)


def _computed_in_half(*operators: str) -> Callable[[ir.Model], None]:
    """Compute the first of these operators in float32 in float16. ONNX Runtime removes most of such casts."""

    def plant(model: ir.Model) -> None:
        node = next(each for each in nodes_of(model, *operators) if each.outputs[0].dtype == SINGLE)
        for place, value in enumerate(node.inputs):
            if value is not None and value.dtype == SINGLE:
                node.replace_input_with(place, Editor(model).Cast(value, to=HALF))
        node.outputs[0].type = ir.TensorType(HALF)  # a new one: copies of a model share theirs
        behind(model, node.outputs[0], lambda edit, x: edit.Cast(x, to=SINGLE))

    return plant


def _table(model: ir.Model) -> None:
    table = model.graph.initializers["tokens.weight"]
    stored(table, array_of(table).astype(np.float16).astype(np.float32))


FAULTS = (
    Fault(
        "weights-float16",
        "matrices stored in float16, undeclared",
        ("post_norm", "decoder", PRESETS[0]),
        (bound(),),
        _stored_as(HALF),
    ),
    Fault("weights-bfloat16", "matrices stored in bfloat16, undeclared", ("swiglu",), (bound(),), _stored_as(BFLOAT)),
    Fault(
        "weights-int8",
        "matrices stored in 8 bits, undeclared",
        ("post_norm", "swiglu", "decoder", PRESETS[0]),
        (bound(),),
        _int8,
    ),
    Fault("weights-tf32", "matrices cut to ten bits of mantissa", ("post_norm",), (weights(), bound()), _ten_bits),
    Fault(
        "activations-int8",
        "hidden values rounded to 8 bits with one scale for all tokens",
        ("relu",),
        (bound(),),
        _dynamic_int8,
    ),
    Fault("product-float16", "one product computed in float16", ("post_norm",), (bound(),), _half_products),
    Fault(
        "hidden-float16", "hidden values rounded to float16", ("swiglu", "encoder"), (bound(),), _hidden(_through(HALF))
    ),
    Fault(
        "hidden-bfloat16", "hidden values rounded to bfloat16", ("post_norm",), (bound(),), _hidden(_through(BFLOAT))
    ),
    Fault("input-float16", "inputs rounded to float16", ("pre_norm",), (bound(),), _input(_through(HALF))),
    Fault(
        "overflow-float16",
        "large values that overflow float16",
        ("relu",),
        (non_finite("large"),),
        _hidden(_overflowing),
    ),
    Fault("denormals-flushed", "denormal inputs taken for zero", ("square",), (bound("denormal"),), _input(_flushed)),
    Fault(
        "softmax-float16",
        "a softmax in float16, whose casts ONNX Runtime removes",
        ("encoder",),
        (check("precisions"),),
        _computed_in_half("Softmax"),
    ),
    *(
        Fault(
            f"half-{name}",
            f"{what} in float16, which a module in float16 computes in float32",
            bases,
            (check("precisions"),),
            _computed_in_half(operator),
            shown=shown,
        )
        for name, what, operator, bases, shown in (
            ("softmax", "a softmax", "Softmax", ("half_llama", "half_gpt2"), True),
            ("layer-norm", "the mean of a norm", "ReduceMean", ("half_gpt2",), True),
            ("mean", "the mean of a norm's squares", "ReduceMean", ("half_llama", "half_gemma"), False),
            ("squares", "the squares of a norm", "Pow", ("half_gemma", "half_llama"), False),
            ("root", "the root of a norm", "Sqrt", ("half_llava", "half_llama", "half_gemma"), False),
            ("product", "one product of several", "MatMul", ("half_gpt2", "half_llama"), False),
            ("sum", "a sum of many", "ReduceSum", ("half_sums",), False),
            ("cumulative-sum", "a cumulative sum", "CumSum", ("half_sums",), False),
            ("exponentials", "the sum of exponentials of a loss", "ReduceLogSumExp", ("half_sums",), False),
        )
    ),
    Fault("table-float16", "a table of tokens stored in float16", ("decoder",), (bound(),), _table),
)
