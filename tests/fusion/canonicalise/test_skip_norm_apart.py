"""Graphs that were fused for ONNX Runtime before are read for ``ort-native``."""

from __future__ import annotations

import pytest

from ffn_export.fusion.pipeline import fuse, rewrite
from tests.fusion.functions.nodes import graph
from tests.fusion.graphs import assert_same_function, operators

WEIGHTS = {"s": (8,), "t": (8,), "b": (8,)}
INPUTS = "float[batch,seq,8] x, float[batch,seq,8] z"
LAYER, RMS = "LayerNormalization<axis = -1>(a, s, t)", "RMSNormalization<axis = -1>(a, s)"


@pytest.mark.parametrize("norm", [LAYER, RMS])
@pytest.mark.parametrize("body", ["a = Add(x, z) y = {}", "c = Add(x, b) a = Add(c, z) y = {}"])
def test_sum_and_norm_are_two_nodes_again(body: str, norm: str) -> None:
    of = graph(body.format(norm), WEIGHTS, inputs=INPUTS)
    fused, _ = fuse(of, "ort")
    assert operators(fused)[-1].startswith("Skip")
    apart = rewrite(fused, "ort-native").model
    assert operators(apart) == [*(["Add"] * body.count("Add")), norm.partition("<")[0]]
    assert_same_function(of, apart)


@pytest.mark.parametrize("norm", [LAYER, RMS])
def test_a_sum_that_is_read_too(norm: str) -> None:
    of = graph(
        f"a = Add(x, z) y = {norm} r = Neg(a)",
        WEIGHTS,
        inputs=INPUTS,
        outputs="float[batch,seq,8] y, float[batch,seq,8] r",
    )
    apart = rewrite(fuse(of, "ort")[0], "ort-native").model
    assert sorted(operators(apart)) == sorted(["Add", norm.partition("<")[0], "Neg"])
    assert_same_function(of, apart)
