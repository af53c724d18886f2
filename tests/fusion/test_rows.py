"""Rows hold one number for each feature, in whatever shape, and are written in the one that kernels take."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from ffn_export.fusion import rows
from ffn_export.fusion.builder import Builder
from tests.fusion.graphs import model


def constant(shape: tuple[int, ...]) -> ir.Value:
    array = np.arange(1, np.prod(shape, dtype=int) + 1, dtype=np.float32).reshape(shape)
    tensor = ir.tensor(array, name="r")
    return ir.Value(name="r", type=ir.TensorType(tensor.dtype), shape=ir.Shape(shape), const_value=tensor)


@pytest.mark.parametrize(
    ("shape", "width", "is_row", "covers"),
    [
        ((8,), 3, True, True),
        ((1, 8), 3, True, True),
        ((1, 1, 8), 3, True, True),
        ((1, 1, 1, 8), 3, False, True),  # it would widen the result
        ((), 3, True, True),
        ((1, 1), 3, True, True),
        ((3, 8), 3, True, False),
        ((4,), 3, True, False),
    ],
)
def test_constants(shape: tuple[int, ...], width: int, is_row: bool, covers: bool) -> None:
    assert rows.is_row(constant(shape), width) is is_row
    assert rows.covers(constant(shape), [8]) is covers


def test_computed_rows_have_the_kernels_shape_already() -> None:
    for shape, known in (([8], True), (["w"], False), ([1, 8], False)):
        value = ir.Value(name="r", shape=ir.Shape(shape))
        assert rows.is_row(value, 3) is known
    assert rows.covers(ir.Value(shape=ir.Shape([8])), [8])
    assert not rows.covers(ir.Value(shape=ir.Shape([1])), [8])
    assert not rows.is_row(ir.Value(name="r"), 3)


@pytest.mark.parametrize("shape", [(8,), (1, 8), (1, 1, 8), (), (1, 1)])
def test_written_in_the_shape_of_the_axes(shape: tuple[int, ...]) -> None:
    value = constant(shape)
    written = rows.of(Builder(), value, [8])
    assert (written is value) is (shape == (8,))
    assert value.const_value is not None
    assert written.const_value is not None
    np.testing.assert_array_equal(
        written.const_value.numpy(), np.broadcast_to(value.const_value.numpy().reshape(-1), 8)
    )


def test_expressions_of_constants_are_worked_out() -> None:
    of = model("r = Add(w, one) y = Mul(x, r)", "float[8] w = {0,1,2,3,4,5,6,7}, float one = {1}").graph
    written = rows.of(Builder(), of[0].outputs[0], [8])
    assert written.const_value is not None
    np.testing.assert_array_equal(written.const_value.numpy(), np.arange(1, 9, dtype=np.float32))


def test_products() -> None:
    op, value = Builder(), constant((1, 8))
    for values, factor, expected in (
        ([], 1.0, np.ones(8)),
        ([], 2.0, np.full(8, 2)),
        ([value], 0.5, np.arange(1, 9) / 2),
        ([value, constant(()), value], 1.0, np.arange(1, 9) ** 2),
    ):
        written = rows.product(op, values, factor, [8], ir.DataType.FLOAT)
        assert written.const_value is not None
        assert written.dtype == ir.DataType.FLOAT
        np.testing.assert_array_equal(written.const_value.numpy(), expected)
    own = constant((8,))
    assert rows.product(op, [own], 1.0, [8], None) is own


def test_ones() -> None:
    assert rows.is_ones(constant(()))
    assert not rows.is_ones(constant((8,)))
    assert not rows.is_ones(ir.Value(name="r", shape=ir.Shape([8])))
    assert not rows.is_ones(None)
