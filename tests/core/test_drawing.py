from __future__ import annotations

import numpy as np
import pytest
import torch

from ffn_export.core.drawing import draw, draw_all, fit_sizes, numpy_dtype, trace_sizes
from ffn_export.core.tensor_spec import DTYPES, Dim, TensorSpec, parse_inputs
from ffn_export.exporter.torch_inputs import to_torch


def test_trace_sizes_are_distinct_and_neither_0_nor_1() -> None:
    sizes = trace_sizes(parse_inputs({"x": "float32[a,b,c,d<=100,e>=50]", "y": "float32[a,f>=50]"}))
    assert sorted(sizes) == ["a", "b", "c", "d", "e", "f"]
    assert len(set(sizes.values())) == 6
    assert min(sizes.values()) >= 2
    assert sizes["e"] >= 50 <= sizes["f"]


def test_trace_sizes_stay_within_bounds_even_where_that_makes_them_equal() -> None:
    assert trace_sizes(parse_inputs({"x": "float32[a<=1,b<=1]"})) == {"a": 1, "b": 1}
    assert trace_sizes(parse_inputs({"x": "float32[a>=5000,b>=5000]"})) == {"a": 5000, "b": 5001}


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_is_drawn_and_reaches_torch(dtype: str) -> None:
    array = draw(TensorSpec("x", dtype, (Dim("n"), 3)), {"n": 50}, np.random.default_rng(0))
    assert (array.shape, array.dtype) == ((50, 3), numpy_dtype(dtype))
    tensor = to_torch({"x": array})["x"]
    assert tensor.dtype is getattr(torch, dtype)
    assert len(torch.unique(tensor)) >= 2
    np.testing.assert_array_equal(tensor.double().numpy(), array.astype(np.float64))


def test_integers_fill_their_range() -> None:
    array = draw(TensorSpec.parse("i:int8[n]{-3..2}"), {"n": 500}, np.random.default_rng(0))
    assert np.unique(array).tolist() == [-3, -2, -1, 0, 1, 2]


@pytest.mark.parametrize("text", ["x:float32[n]{0..255}", "x:float16[n]{-65504..65504}", "x:float64[n]{-1e308..1e308}"])
def test_floats_fill_their_range(text: str) -> None:
    spec = TensorSpec.parse(text)
    assert spec.value_range is not None
    low, high = spec.value_range
    array = draw(spec, {"n": 500}, np.random.default_rng(0)).astype(np.float64)
    assert low <= array.min() < low + 0.05 * (high / 2 - low / 2)
    assert high - 0.05 * (high / 2 - low / 2) < array.max() <= high


def test_both_ends_of_a_large_table_are_among_them() -> None:
    spec = TensorSpec.parse("ids:int64[batch,seq]{0..29999}")
    for seed in range(20):
        array = draw(spec, {"batch": 3, "seq": 5}, np.random.default_rng(seed))
        assert (array.min(), array.max()) == (0, 29999)
        assert set(array.flat) >= {1, 2, 3}  # where tokenisers have padding, the start and the end
    assert draw(spec, {"batch": 1, "seq": 1}, np.random.default_rng(0)).shape == (1, 1)


def test_a_mask_is_padded_on_either_side_and_never_all_padding() -> None:
    mask = draw(TensorSpec.parse("mask:int64[batch,seq]{mask}"), {"batch": 300, "seq": 6}, np.random.default_rng(0))
    assert mask.dtype == np.int64
    assert np.unique(mask).tolist() == [0, 1]
    assert mask.sum(axis=1).min() == 1
    assert mask.sum(axis=1).max() == 6
    rows = {"".join(map(str, row)) for row in mask.tolist()}
    assert {"111100", "001111", "111111"} <= rows
    assert any("01" in row and "10" in row for row in rows)


@pytest.mark.parametrize("shape", [(), (0, 5), (3, 0), (1, 1), (2, 1, 3, 3)])
def test_a_mask_of_any_shape_can_be_drawn(shape: tuple[int, ...]) -> None:
    mask = draw(TensorSpec("mask", "bool", shape, is_mask=True), {}, np.random.default_rng(0))
    assert (mask.shape, mask.dtype) == (shape, np.dtype("bool"))
    assert not mask.size or mask.any(axis=-1).all()


def test_one_seed_draws_the_same_inputs() -> None:
    specs = parse_inputs({"x": "float32[n]", "i": "int64[n]{0..9}"})
    first, again, other = (draw_all(specs, {"n": 20}, seed) for seed in (0, 0, 1))
    assert all((first[name] == again[name]).all() for name in first)
    assert all((first[name] != other[name]).any() for name in first)


def test_a_tensor_does_not_share_memory_with_the_array() -> None:
    # A module may write to its input; the array is needed again for the runtime it is compared with.
    array = np.zeros(3, np.float32)
    to_torch({"x": array})["x"].add_(1)
    assert array.tolist() == [0, 0, 0]


def test_wanted_sizes_are_moved_into_bounds() -> None:
    assert fit_sizes([Dim("a", 2), Dim("b", 0, 4)], {"a": 1, "b": 9}) == {"a": 2, "b": 4}
