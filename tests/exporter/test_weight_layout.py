from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from ffn_export.exporter import shared_weights, weight_layout
from tests.exporter.helpers import ops, run


def graph(body: str, outputs: str = "float[n,3] y") -> ir.Model:
    """A model with weight ``w`` [3,4], ``k`` [3,4,1], and axes for Squeeze."""
    text = f"""<ir_version: 10, opset_import: ["" : 20]>
        g (float[n,4] x) => ({outputs}) <float[3,4] w, float[3,4,1] k, int64[1] last = {{2}}> {{ {body} }}"""
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    return with_weights(ir.from_proto(onnx.parser.parse_model(text)), {"w": values, "k": values[..., None]})


def with_weights(model: ir.Model, arrays: Mapping[str, NDArray[Any]]) -> ir.Model:
    """Give the values of these names, where a node uses them, weights."""
    for value in dict.fromkeys(value for node in model.graph for value in node.inputs if value is not None):
        if (name := str(value.name)) in arrays:
            tensor = ir.Tensor(arrays[name], name=name)
            value.const_value, value.shape, value.type = tensor, tensor.shape, ir.TensorType(tensor.dtype)
            if not value.is_initializer():
                model.graph.register_initializer(value)
    return model


FEED = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
EXPECTED = FEED @ np.arange(12, dtype=np.float32).reshape(3, 4).T


@pytest.mark.parametrize(
    ("body", "folded"),
    [
        ("t = Transpose<perm = [1, 0]>(w) y = MatMul(x, t)", 1),
        ("t = Transpose(w) y = MatMul(x, t)", 1),
        ("t = Transpose(w) i = Identity(t) y = MatMul(x, i)", 2),
        ("s = Squeeze(k, last) t = Transpose(s) y = MatMul(x, t)", 2),
        ("s = Squeeze(k) t = Transpose(s) y = MatMul(x, t)", 2),
        ("p = Transpose<perm = [2, 1, 0]>(k) t = Squeeze(p) y = MatMul(x, t)", 2),
        # One weight, turned the same way twice.
        ("t = Transpose(w) y1 = MatMul(x, t) u = Transpose(w) z = MatMul(x, u) s = Sub(z, z) y = Add(y1, s)", 2),
    ],
)
def test_a_weight_that_is_only_turned_around_is_stored_turned_around(body: str, folded: int) -> None:
    model = graph(body)
    assert weight_layout.fold(model) == folded
    assert not set(ops(model)) & {"Transpose", "Squeeze", "Identity"}
    used = [name for name, value in model.graph.initializers.items() if value.uses()]
    assert len(used) == 1
    np.testing.assert_allclose(run(model, {"x": FEED})[0], EXPECTED, rtol=1e-6)


@pytest.mark.parametrize(
    ("body", "outputs"),
    [
        # Used as it is too: folded, the file would hold it twice.
        ("t = Transpose(w) m = MatMul(x, t) y = MatMul(m, w)", "float[n,4] y"),
        ("t = Transpose(w) m = MatMul(x, t) s = Squeeze(w) y = MatMul(m, s)", "float[n,4] y"),
        # The output of the graph, or of an input.
        ("t = Transpose(w)", "float[4,3] t"),
        ("y = Transpose(x)", "float[4,n] y"),
        # Not valid, so not ours to judge.
        ("t = Transpose<perm = [0]>(w) y = MatMul(x, t)", "float[n,3] y"),
        ("s = Squeeze(w, last) t = Transpose(s) y = MatMul(x, t)", "float[n,3] y"),
    ],
)
def test_what_stays(body: str, outputs: str) -> None:
    model = graph(body, outputs)
    before = ops(model)
    assert weight_layout.fold(model) == 0
    assert ops(model) == before


def test_no_number_is_copied() -> None:
    model = graph("t = Transpose(w) y = MatMul(x, t)")
    original = model.graph.initializers["w"].const_value
    weight_layout.fold(model)
    folded = model.graph.initializers["t"].const_value
    assert original is not None
    assert folded is not None
    assert np.shares_memory(original.numpy(), folded.numpy())


@pytest.mark.parametrize("dtype", [np.float16, np.float64, ml_dtypes.bfloat16, np.int8])
def test_every_dtype_keeps_its_bits(dtype: type) -> None:
    model = graph("t = Transpose(w) y = MatMul(x, t)")
    array: NDArray[np.generic] = np.arange(12).reshape(3, 4).astype(dtype)
    with_weights(model, {"w": array})
    weight_layout.fold(model)
    folded = model.graph.initializers["t"].const_value
    assert folded is not None
    assert folded.dtype == model.graph.initializers["t"].dtype == ir.DataType.from_numpy(np.dtype(dtype))
    assert folded.tobytes() == np.ascontiguousarray(array.T).tobytes()


# --- one copy of a weight that was folded once per use ------------------------------------------------


def with_folded(*arrays: NDArray[np.float32]) -> ir.Model:
    names = [f"val_{i}" for i in range(len(arrays))]
    body = " ".join(f"y{i} = MatMul(x, {name})" for i, name in enumerate(names))
    outputs = ", ".join(f"float[n,m] y{i}" for i in range(len(arrays)))
    declared = ", ".join(f"float[{','.join(map(str, a.shape))}] {n}" for n, a in zip(names, arrays, strict=True))
    text = f'<ir_version: 10, opset_import: ["" : 20]> g (float[n,4] x) => ({outputs}) <{declared}> {{ {body} }}'
    return with_weights(ir.from_proto(onnx.parser.parse_model(text)), dict(zip(names, arrays, strict=True)))


def test_equal_folded_weights_become_one() -> None:
    first = np.random.default_rng(0).standard_normal((4, 300)).astype(np.float32)
    turned = np.ascontiguousarray(first.T).T  # the same numbers in another order in memory
    other = first.copy()
    other[3, 299] += 1  # in an element that no sample looks at
    model = with_folded(first, turned, other, first.copy(), first[:, :299])
    assert shared_weights.merge(model) == 2
    assert list(model.graph.initializers) == ["val_0", "val_2", "val_4"]
    results = run(model, {"x": FEED})
    for result, weight in zip(results, (first, first, other, first, first[:, :299]), strict=True):
        np.testing.assert_allclose(result, FEED @ weight, rtol=1e-5, atol=1e-6)


def test_the_sign_of_zero_and_nan_count() -> None:
    zero, minus, nan = (np.full((4, 2), value, np.float32) for value in (0.0, -0.0, np.nan))
    model = with_folded(zero, minus, nan, nan.copy())
    assert shared_weights.merge(model) == 1
    assert list(model.graph.initializers) == ["val_0", "val_1", "val_2"]


def test_squeeze_before_opset_13_says_its_axes_in_an_attribute() -> None:
    text = """<ir_version: 8, opset_import: ["" : 11]>
        g (float[n,8] x) => (float[1,n,8] y) <float[1,1,8] k = {1,2,3,4,5,6,7,8}>
        { s = Squeeze<axes = [0]>(k) y = Add(x, s) }"""
    model = ir.from_proto(onnx.parser.parse_model(text))
    assert weight_layout.fold(model) == 1
    (weight,) = (v for v in model.graph.initializers.values() if v.uses())
    assert weight.shape == ir.Shape([1, 8])


@pytest.mark.parametrize(
    "body",
    ["s = Squeeze(k, axes) t = Transpose(s) y = MatMul(x, t)", "i = Identity() y = MatMul(x, w)"],
    ids=["axes that a caller may override", "a node without inputs"],
)
def test_what_is_not_fixed_or_not_valid_stays(body: str) -> None:
    text = f"""<ir_version: 10, opset_import: ["" : 20]>
        g (float[n,4] x, int64[1] axes) => (float[n,3] y)
        <float[4,3] w, float[3,4,1] k, int64[1] axes = {{2}}> {{ {body} }}"""
    values = np.arange(12, dtype=np.float32)
    model = ir.from_proto(onnx.parser.parse_model(text))
    model = with_weights(model, {"w": values.reshape(4, 3), "k": values.reshape(3, 4, 1)})
    assert weight_layout.fold(model) == 0
