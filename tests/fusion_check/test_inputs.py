"""Inputs that are drawn for a graph of unknown origin."""

from __future__ import annotations

import itertools

import numpy as np
import onnx_ir as ir
import pytest

from ffn_export.fusion_check.indices import value_range
from ffn_export.fusion_check.inputs import base_sizes, draw, further_sizes, inputs_of, size_of
from tests.fusion.graphs import model

TABLE = "float[5,2] table = {0,0,0,0,0,0,0,0,0,0}, float[3,2] small = {0,0,0,0,0,0}"


@pytest.mark.parametrize(
    ("body", "inputs", "expected"),
    [
        ("y = Gather(table, i)", "int64[n] i", (0, 4)),
        ("y = Gather(table, i) z = Gather(small, i)", "int64[n] i", (0, 2)),
        ("j = Cast<to = 7>(i) k = Unsqueeze(j, axis) l = Reshape(k, axis) y = Gather(table, l)", "int32[n] i", (0, 4)),
        ("j = Add(i, two) y = Gather(table, j)", "int64[n] i", (0, 2)),
        ("j = Add(two, i) y = Gather(table, j)", "int64[n] i", (0, 2)),
        ("n = Less(i, zero) j = Add(i, five) k = Where(n, j, i) y = Gather(table, k)", "int64[n] i", (0, 4)),
        ("y = Gather<axis = 1>(table, i)", "int64[n] i", (0, 1)),
        ("y = Gather(x, i)", "int64[n] i, float[n,2] x", (0, 0)),
        ("c = Equal(i, zero) y = Where(c, table, table)", "int64[n] i", (0, 1)),
        ("c = Cast<to = 9>(i) y = Where(c, table, table)", "int64[n] i", (0, 1)),
        ("y = Where(i, table, table)", "bool[n] i", (0, 1)),
        ("y = Neg(i)", "int64[n] i", (0, 1)),
        ("y = Expand(small, i)", "int64[n] i", (1, 2)),
        ("y = Neg(i)", "float[n] i", (0, 1)),
    ],
)
def test_range_of_integers(body: str, inputs: str, expected: tuple[int, int]) -> None:
    constants = TABLE + ", int64[1] axis = {0}, int64 two = {2}, int64 zero = {0}, int64 five = {5}"
    of = model(body, constants, inputs=inputs, outputs="float[a,b] y")
    assert value_range(of.graph.inputs[0]) == expected


def test_masks_by_their_name() -> None:
    of = model("y = Gather(table, attention_mask)", TABLE, inputs="int64[n] attention_mask", outputs="float[n,2] y")
    assert value_range(of.graph.inputs[0]) == (0, 1)


def test_axes_of_one_name_share_a_size() -> None:
    of = model("y = Neg(x)", inputs="float[batch,seq,8] x, int64[batch,seq] i, float[?,batch] z")
    inputs = inputs_of(of)
    first = next(base_sizes(inputs))
    assert first == {"batch": 2, "seq": 3, "unnamed_0": 5}
    drawn = draw(inputs, first)
    assert [array.shape for array in drawn.values()] == [(2, 3, 8), (2, 3), (5, 2)]
    assert [array.dtype for array in drawn.values()] == [np.float32, np.int64, np.float32]
    assert {tuple(sizes.values()) for sizes in itertools.islice(base_sizes(inputs), 1, 3)} == {(8, 8, 8), (1, 1, 1)}


def test_further_sizes_have_a_one() -> None:
    inputs = inputs_of(model("y = Neg(x)"))
    base = {"batch": 2, "seq": 3}
    first, *more = further_sizes(inputs, base)
    assert first == {"batch": 1, "seq": 1}
    assert more[:2] == [{"batch": 1, "seq": 3}, {"batch": 6, "seq": 7}]
    assert {sizes["batch"] for sizes in more if sizes["seq"] == 3} == {1, 3, 4, 5, 17}  # the base has 2
    assert {sizes["seq"] for sizes in more if sizes["batch"] == 2} == {1, 2, 4, 5, 17}
    assert list(further_sizes(inputs_of(model("y = Neg(x)", inputs="float[2,8] x")), {})) == []


def test_scales() -> None:
    inputs = inputs_of(model("y = Neg(x)"))
    sizes = {"batch": 2, "seq": 3}
    normal, small, large = (draw(inputs, sizes, scale)["x"] for scale in ("normal", "small", "large"))
    np.testing.assert_allclose(small, normal * 1e-3, rtol=1e-6)
    np.testing.assert_allclose(large, normal * 30, rtol=1e-6)


@pytest.mark.parametrize(
    ("dim", "expected"),
    [
        ("past", 4),
        ("past + seq", 7),
        ("2*seq", 6),
        ("seq-1", 2),
        ("(past + seq) * 2", 14),
        ("past/2", 2),
        ("seq//2", 1),
    ],
)
def test_expressions_of_axes(dim: str, expected: int) -> None:
    assert size_of(dim, {"past": 4, "seq": 3}) == expected


@pytest.mark.parametrize("dim", ["1 - seq", "seq ** 2", "f(seq)", "a.b"])
def test_what_is_no_expression(dim: str) -> None:
    with pytest.raises(ValueError, match="size"):
        size_of(dim, {"seq": 3})


def test_axes_that_follow_from_others() -> None:
    of = model("y = Neg(x)", inputs="float[batch,past] x, float[batch,total] z, float[seq] w")
    of.graph.inputs[1].shape = ir.Shape(["batch", "past + seq"])
    inputs = inputs_of(of)
    sizes = next(base_sizes(inputs))
    assert sizes == {"batch": 2, "past": 3, "seq": 5}
    assert draw(inputs, sizes)["z"].shape == (2, 8)


@pytest.mark.parametrize("name", ["a.b", "past seq", "f(x)", "1/0"])
def test_names_that_are_no_expressions_are_axes(name: str) -> None:
    of = model("y = Neg(x)", inputs="float[batch,past] x")
    of.graph.inputs[0].shape = ir.Shape(["batch", name])
    inputs = inputs_of(of)
    sizes = next(base_sizes(inputs))
    assert sizes == {"batch": 2, name: 3}
    assert draw(inputs, sizes)["x"].shape == (2, 3)


def test_huge_inputs_are_not_drawn() -> None:
    inputs = inputs_of(model("y = Neg(x)", inputs="float[100000,100000] x"))
    with pytest.raises(ValueError, match="would have the shape"):
        draw(inputs, {})
