"""The scorer on graphs small enough to count by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from corpus.scorer import Score, expected_sites, score

GELU = "h = Gelu(b)"
GELU_IN_PIECES = """
    d = Div(b, root)
    e = Erf(d)
    p = Add(e, one)
    q = Mul(b, p)
    h = Mul(q, half)"""
LAYER_NORM = "y = LayerNormalization<axis = -1>(s, scale)"
LAYER_NORM_IN_PIECES = """
    m = ReduceMean(s, last)
    c = Sub(s, m)
    v = Pow(c, two)
    w = ReduceMean(v, last)
    g = Add(w, epsilon)
    r = Sqrt(g)
    n = Div(c, r)
    y = Mul(n, scale)"""
RMS_NORM_IN_PIECES = """
    v = Mul(s, s)
    w = ReduceMean(v, last)
    g = Add(w, epsilon)
    r = Sqrt(g)
    i = Reciprocal(r)
    n = Mul(i, s)
    y = Mul(scale, n)"""

_random = np.random.default_rng(0)
CONSTANTS = {
    "up": _random.standard_normal((4, 6)),
    "gate": _random.standard_normal((4, 6)),
    "packed": _random.standard_normal((4, 12)),
    "down": _random.standard_normal((6, 4)),
    "bias": _random.standard_normal(6),
    "scale": _random.standard_normal(4),
    "root": np.sqrt(2.0),
    "one": 1.0,
    "half": 0.5,
    "two": 2.0,
    "epsilon": 1e-5,
}


def write(path: Path, body: str, **replaced: object) -> Path:
    """Write a graph from x and z to y with the constants above."""
    text = f"""<ir_version: 10, opset_import: ["" : 20, "com.microsoft" : 1]>
        g (float[b, t, 4] x, float[b, t, 4] z) => (float[b, t, 4] y) {{ {body} }}"""
    model = onnx.parser.parse_model(text)
    for name, array in {**CONSTANTS, **replaced}.items():
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(array, np.float32), name))
    model.graph.initializer.append(numpy_helper.from_array(np.array([-1]), "last"))
    onnx.save(model, path)
    return path


def feed_forward(activation: str) -> str:
    return f"""
        a = MatMul(x, up)
        b = Add(a, bias)
        {activation}
        y = MatMul(h, down)"""


def scored(tmp_path: Path, before: str, after: str, **replaced: object) -> Score:
    expected = expected_sites(write(tmp_path / "before.onnx", before))
    return score(expected, write(tmp_path / "after.onnx", after, **replaced))


def test_bias_and_activation_apart_are_one_node_too_many(tmp_path: Path) -> None:
    found = scored(tmp_path, feed_forward(GELU_IN_PIECES), feed_forward(GELU))
    assert found.found == {"feed_forward": 1, "norm": 0, "residual_norm": 0}
    assert found.complete["feed_forward"] == 0
    assert found.left == {"feed_forward": {"Add Gelu": 1}}


def test_bias_and_activation_in_one_node_are_complete(tmp_path: Path) -> None:
    after = "a = MatMul(x, up)\n h = com.microsoft.BiasGelu(a, bias)\n y = MatMul(h, down)"
    assert scored(tmp_path, feed_forward(GELU_IN_PIECES), after).is_complete


def test_a_transposed_weight_is_the_same(tmp_path: Path) -> None:
    after = "a = MatMul(x, up)\n h = com.microsoft.BiasGelu(a, bias)\n d = Transpose(down)\n y = MatMul(h, d)"
    assert scored(tmp_path, feed_forward(GELU), after, down=CONSTANTS["down"].T).is_complete


def test_a_gated_one_may_have_two_nodes(tmp_path: Path) -> None:
    before = """
        a = MatMul(x, gate)
        b = MatMul(x, up)
        c = Sigmoid(a)
        d = Mul(a, c)
        h = Mul(d, b)
        y = MatMul(h, down)"""
    after = """
        p = MatMul(x, packed)
        a, b = Split<axis = -1, num_outputs = 2>(p)
        d = com.microsoft.QuickGelu<alpha = 1.0>(a)
        h = Mul(d, b)
        y = MatMul(h, down)"""
    found = scored(tmp_path, before, before)
    assert found.left == {"feed_forward": {"Sigmoid Mul Mul": 1}}
    assert scored(tmp_path, before, after).is_complete


@pytest.mark.parametrize(
    "body",
    [
        "a = MatMul(x, up)\n h = Add(a, bias)\n y = MatMul(h, down)",  # nothing bends
        "a = MatMul(x, up)\n h = Softmax(a)\n y = MatMul(h, down)",  # not element by element
        "a = MatMul(x, up)\n b = MatMul(z, gate)\n h = Mul(a, b)\n y = MatMul(h, down)",  # two sources
    ],
)
def test_what_is_no_feed_forward(tmp_path: Path, body: str) -> None:
    assert expected_sites(write(tmp_path / "g.onnx", body)).feed_forwards == ()


@pytest.mark.parametrize("norm", [LAYER_NORM, LAYER_NORM_IN_PIECES, RMS_NORM_IN_PIECES])
def test_norms_and_their_sums_are_found_in_any_spelling(tmp_path: Path, norm: str) -> None:
    expected = expected_sites(write(tmp_path / "g.onnx", f"s = Add(x, z)\n {norm}"))
    assert (len(expected.norms), len(expected.pairs)) == (1, 1)


def test_a_norm_is_complete_as_one_node_and_the_pair_with_its_sum(tmp_path: Path) -> None:
    before = f"s = Add(x, z)\n {LAYER_NORM_IN_PIECES}"
    norm_only = scored(tmp_path, before, f"s = Add(x, z)\n {LAYER_NORM}")
    assert norm_only.complete == {"feed_forward": 0, "norm": 1, "residual_norm": 0}
    assert norm_only.left == {"residual_norm": {"Add, LayerNormalization": 1}}
    assert scored(tmp_path, before, "y = com.microsoft.SkipLayerNormalization(x, z, scale)").is_complete


def test_an_rms_norm_of_centred_values_is_no_complete_layer_norm(tmp_path: Path) -> None:
    after = """
        s = Add(x, z)
        m = ReduceMean(s, last)
        c = Sub(s, m)
        y = SimplifiedLayerNormalization(c, scale)"""
    assert scored(tmp_path, f"s = Add(x, z)\n {LAYER_NORM_IN_PIECES}", after).complete["norm"] == 0


def test_a_bias_after_the_norm_is_a_node_too_many(tmp_path: Path) -> None:
    apart = f"s = Identity(x)\n {LAYER_NORM.replace('y =', 'k =')}\n y = Add(k, scale)"
    found = scored(tmp_path, apart, apart)
    assert found.left == {"norm": {"LayerNormalization Add": 1}}
    assert scored(tmp_path, apart, "y = LayerNormalization(x, scale, scale)").is_complete


def test_a_sum_read_by_two_norms_is_one_pair(tmp_path: Path) -> None:
    body = """
        s = Add(x, z)
        m = LayerNormalization(s, scale)
        n = LayerNormalization(s, down)
        y = Add(m, n)"""
    expected = expected_sites(write(tmp_path / "g.onnx", body, down=CONSTANTS["scale"] + 1))
    assert (len(expected.norms), len(expected.pairs)) == (2, 1)


def test_a_norm_over_two_axes_is_none(tmp_path: Path) -> None:
    body = "y = LayerNormalization<axis = 1>(x, scale)"
    assert expected_sites(write(tmp_path / "g.onnx", body)).norms == ()
