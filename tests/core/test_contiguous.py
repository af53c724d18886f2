"""A copy in tiles holds the numbers of the view, whatever its shape and dtype."""

from __future__ import annotations

import io

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from ffn_export.core import onnx_file
from ffn_export.core.contiguous import contiguous
from ffn_export.core.types import Array
from ffn_export.exporter import weight_layout


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.int4, np.int64, np.bool_])
@pytest.mark.parametrize("shape", [(256, 64), (257, 65), (3, 1000), (1000, 3), (2, 3, 300, 70), (1, 1), (0, 5), (5, 0)])
def test_a_transposed_view_is_copied_as_numpy_copies_it(shape: tuple[int, ...], dtype: type) -> None:
    view: Array = (np.arange(np.prod(shape)) % 7).astype(dtype).reshape(shape).swapaxes(-1, -2)
    copied = contiguous(view)
    assert copied.flags.c_contiguous
    assert (copied.shape, copied.dtype) == (view.shape, view.dtype)
    assert copied.tobytes() == np.ascontiguousarray(view).tobytes()


def test_what_lies_in_rows_is_not_copied() -> None:
    array = np.ones((4, 3), np.float32)
    assert contiguous(array) is array


@pytest.mark.parametrize(
    "view",
    [
        np.arange(24.0)[::2],
        np.arange(24.0).reshape(2, 3, 4).transpose(2, 1, 0),
        np.arange(700.0 * 90).reshape(700, 90).T[5:80],  # some rows of a transposed matrix, and some columns
        np.arange(700.0 * 90).reshape(700, 90).T[:, 5:680],
        np.arange(700.0 * 90).reshape(700, 90).T[::-1, ::3],
    ],
)
def test_other_views_have_the_same_numbers(view: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> None:
    copied = contiguous(view)
    assert copied.flags.c_contiguous
    np.testing.assert_array_equal(copied, view)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, ml_dtypes.int4])
def test_a_turned_weight_is_written_as_it_is_read(dtype: type, tmp_path: object) -> None:
    weight: Array = (np.arange(300 * 70) % 7).astype(dtype).reshape(300, 70)
    source = ir.Value(name="w", const_value=ir.tensor(weight, name="w"))
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([2, 300]))
    turned = ir.node("Transpose", [source], attributes={"perm": [1, 0]})
    cast = ir.node("CastLike", [turned.outputs[0], x])
    cast.outputs[0].name = "y"
    graph = ir.Graph([x], cast.outputs, nodes=[turned, cast], initializers=[source], opset_imports={"": 21})
    model = ir.Model(graph, ir_version=10)
    assert weight_layout.fold(model) == 1
    (value,) = model.graph.initializers.values()
    assert isinstance(value.const_value, ir.Tensor)
    straight = ir.tensor(np.ascontiguousarray(weight.T))
    stream = io.BytesIO()
    value.const_value.tofile(stream)
    assert stream.getvalue() == value.const_value.tobytes() == straight.tobytes()
    path = f"{tmp_path}/model.onnx"
    onnx_file.save(model, path, external_above=0)
    (read,) = onnx_file.load(path).graph.initializers.values()
    assert read.const_value is not None
    np.testing.assert_array_equal(read.const_value.numpy(), weight.T)
