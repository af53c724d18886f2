"""Weights that a graph computes from constants alone are stored, unless that stores more numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

import ffn_export as fx
from ffn_export.core.types import Array
from ffn_export.exporter import computed_weights
from ffn_export.fusion.pipeline import fuse
from tests.exporter.helpers import ops, run

DRAW = np.random.default_rng(0)
ARRAYS: dict[str, Array] = {
    "w": DRAW.standard_normal((4, 4), np.float32),
    "u": DRAW.standard_normal((4, 1), np.float32),
    "v": DRAW.standard_normal((1, 4), np.float32),
    "half": DRAW.standard_normal((4, 4)).astype(np.float16),
    "b": DRAW.standard_normal(4, np.float32),
    "pair": DRAW.standard_normal((2, 2, 4), np.float32),
    "large": np.full((4, 4), 200, np.float16),
    "few": np.arange(16, dtype=np.int32).reshape(4, 4),
    "nan": np.full((4, 4), np.nan, np.float32),
    "positive": np.abs(DRAW.standard_normal(4, np.float32)),
    "column": np.ones((1000, 1), np.float32),
    "row": np.ones((1, 1000), np.float32),
    "wide": np.array([4, -1]),
    "one": np.array([1]),
    "square": np.array([4, 4]),
}
X = DRAW.standard_normal((3, 4), np.float32)


def graph(body: str, *, overridable: bool = False, opset: int = 20) -> ir.Model:
    """A model of ``x`` [n,4] and ``y`` with those of the arrays that it reads."""
    more = ", float[4,4] w" if overridable else ""
    text = f'<ir_version: 10, opset_import: ["" : {opset}]> g (float[n,4] x{more}) => (float[n,4] y) {{ {body} }}'
    parsed = onnx.parser.parse_model(text)
    read = {name for node in parsed.graph.node for name in node.input}
    parsed.graph.initializer.extend(onnx.numpy_helper.from_array(ARRAYS[name], name) for name in ARRAYS if name in read)
    return ir.from_proto(parsed)


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("s = Constant<value_float = 0.02>() m = Mul(w, s) y = MatMul(x, m)", ["MatMul"]),
        ("n = ReduceL2(w, one) d = Div(u, n) m = Mul(w, d) t = Transpose(m) y = MatMul(x, t)", ["MatMul"]),
        ("p = MatMul(u, v) m = Add(w, p) y = Gemm<transB = 1>(x, m)", ["Gemm"]),
        ("m = Reshape(w, square) y = MatMul(x, m)", ["MatMul"]),
        ("o = Constant<value_float = 1.0>() m = Add(b, o) y = Mul(x, m)", ["Mul"]),
        ("m = Neg(w) h = MatMul(x, m) z = Identity(h) y = MatMul(z, m)", ["MatMul", "Identity", "MatMul"]),
    ],
)
def test_a_computed_weight_is_stored(body: str, left: list[str]) -> None:
    model = graph(body)
    expected = run(model, {"x": X})[0]
    assert computed_weights.fold(model) == 1
    assert [op for op in ops(model) if op != "Constant"] == left
    assert sum(value.const_value.nbytes for value in model.graph.initializers.values() if value.const_value) <= 64
    np.testing.assert_allclose(run(model, {"x": X})[0], expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("opset", "body"),
    [
        (11, "s = Softmax<axis = 1>(pair) m = Reshape(s, square) y = MatMul(x, m)"),  # a softmax of 8 numbers
        (9, "m = BatchNormalization(w, positive, b, b, positive) y = MatMul(x, m)"),
        (
            20,
            "h = ReduceL2(large, one) l = Div(large, h) m = Cast<to = 1>(l) y = MatMul(x, m)",
        ),  # squares beyond float16
        (20, "q = ReduceSumSquare<keepdims = 0>(few, one) p = Sub(few, q) m = Cast<to = 1>(p) y = MatMul(x, m)"),
        (20, "h = Constant<value_float = 0.5>() m = Clip(nan, , h) y = MatMul(x, m)"),
    ],
)
def test_the_numbers_are_those_of_the_opset_and_of_onnxruntime(opset: int, body: str) -> None:
    model = graph(body, opset=opset)
    expected = run(model, {"x": X})[0]
    computed_weights.fold(model)
    np.testing.assert_array_equal(run(model, {"x": X})[0], expected)


def test_a_result_keeps_its_dtype() -> None:
    model = graph("m = ReduceSumSquare<keepdims = 0>(few, one) h = Cast<to = 6>(x) p = Mul(h, m) y = Cast<to = 1>(p)")
    expected = run(model, {"x": X})[0]
    assert computed_weights.fold(model) == 1
    np.testing.assert_array_equal(run(model, {"x": X})[0], expected)


def test_a_weight_in_a_constant_node_is_stored_in_its_place() -> None:
    model = graph("c = Identity(w) t = Transpose(c) m = Neg(t) y = MatMul(x, m)")
    constant = ir.Node("", "Constant", [], [ir.AttrTensor("value", ir.tensor(ARRAYS["w"]))])
    model.graph.insert_before(model.graph[0], constant)
    ir.convenience.replace_all_uses_with(model.graph.initializers.pop("w"), constant.outputs[0])
    expected = run(model, {"x": X})[0]
    assert computed_weights.fold(model) == 1
    assert ops(model) == ["MatMul"]
    np.testing.assert_array_equal(run(model, {"x": X})[0], expected)


def test_what_takes_much_more_memory_than_the_weights_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    model = graph("a = Add(column, row) s = ReduceMean<keepdims = 0>(a, one) m = Reshape(s, wide) y = Gemm(x, m)")
    assert computed_weights.fold(model.clone()) == 0
    monkeypatch.setattr(computed_weights, "_ALWAYS_SMALL", 2**23)
    assert computed_weights.fold(model) == 1


def test_each_value_on_a_long_chain_is_computed_from_the_value_before(monkeypatch: pytest.MonkeyPatch) -> None:
    body = ["v0 = Neg(w) y0 = MatMul(x, v0)"]
    body += [f"v{n} = Neg(v{n - 1}) y{n} = MatMul(y{n - 1}, v{n})" for n in range(1, 40)]
    model = graph(" ".join([*body, "y = Identity(y39)"]))
    computed: list[int] = []
    evaluate = computed_weights._by_onnxruntime

    def counted(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> Array | None:
        computed.append(len(model.graph.node))
        return evaluate(model, feeds)

    monkeypatch.setattr(computed_weights, "_by_onnxruntime", counted)
    assert computed_weights.fold(model) == 1
    assert computed == [1]


def test_an_expression_longer_than_any_parametrisation_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    model = graph("p = Neg(w) q = Neg(p) r = Neg(q) y = MatMul(x, r)")
    monkeypatch.setattr(computed_weights, "_LONGEST", 2)
    assert computed_weights.fold(model) == 0
    monkeypatch.setattr(computed_weights, "_LONGEST", 3)
    assert computed_weights.fold(model) == 1


STEPS = {  # what else than inputs, and attributes, an operator needs to keep the size of a matrix
    **dict.fromkeys(("Add", "Div", "Mul", "Pow", "Sub", "Max", "Min"), "(a, u)"),
    **dict.fromkeys(("MatMul", "Gemm"), "(a, w)"),
    "BatchNormalization": "(a, b, b, b, a2)",
    "Cast": "<to = 1>(a)",
    "Concat": "<axis = 0>(a)",
    "Einsum": '<equation = "ij,jk->ik">(a, w)',
    "Flatten": "(a)",
    "Gather": "(a, rows)",
    "InstanceNormalization": "(cube, b, b)",
    "LayerNormalization": "(a, b)",
    "Reshape": "(a, square)",
    "Slice": "(a, zero, one)",
    "Squeeze": "(cube, zero)",
    "Unsqueeze": "(a, zero)",
    "Where": "(yes, a, u)",
    **{f"Reduce{kind}": "(a, one)" for kind in ("L1", "L2", "Max", "Mean", "Min", "Sum", "SumSquare")},
}


@pytest.mark.parametrize("operator", sorted(computed_weights._FOLDED))
def test_the_numbers_are_those_of_onnxruntime(operator: str) -> None:
    arrays = {
        "a": np.abs(ARRAYS["w"]),
        "a2": np.abs(ARRAYS["b"]),
        "cube": ARRAYS["w"][None],
        "rows": np.array([2, 0]),
        "yes": ARRAYS["w"] > 0,
        "zero": np.array([0]),
        **ARRAYS,
    }
    text = f'<ir_version: 10, opset_import: ["" : 20]> g (float[n] x) => (float[s] y) {{ m = {operator}'
    parsed = onnx.parser.parse_model(f"{text}{STEPS.get(operator, '(a)')} y = Mul(m, x) }}")
    read = {name for node in parsed.graph.node for name in node.input}
    parsed.graph.initializer.extend(onnx.numpy_helper.from_array(arrays[name], name) for name in arrays if name in read)
    model = ir.from_proto(parsed)
    feeds = {"x": np.ones(1, np.float32)}
    expected = run(model, feeds)[0]
    assert computed_weights.fold(model) == 1
    assert ops(model) == ["Mul"]
    np.testing.assert_allclose(run(model, feeds)[0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "body",
    [
        "m = Transpose(w) h = MatMul(x, m) y = MatMul(h, w)",  # tied: w is read as it is, too
        "p = MatMul(u, v) y = MatMul(x, p)",  # larger than its two factors
        "m = Cast<to = 1>(half) y = MatMul(x, m)",  # twice as large
        "m = Expand(v, square) y = MatMul(x, m)",
        "r = RandomNormalLike(w) m = Add(w, r) y = MatMul(x, m)",
        "o = Constant<value_float = 2.0>() q = Sqrt(o) y = Mul(x, q)",  # a number, which rules read
        "m = Add(w, x) y = MatMul(x, m)",
    ],
)
def test_what_would_store_more_or_other_numbers_is_left(body: str) -> None:
    model = graph(body)
    before = ops(model)
    assert computed_weights.fold(model) == 0
    assert ops(model) == before


def test_a_weight_that_a_caller_may_override_is_left() -> None:
    model = graph("m = Neg(w) y = MatMul(x, m)", overridable=True)
    assert computed_weights.fold(model) == 0


def test_a_weight_that_is_an_output_is_left() -> None:
    model = graph("m = Neg(w) t = Transpose(m) y = MatMul(x, t)")
    model.graph.outputs.append(model.graph[0].outputs[0])
    assert computed_weights.fold(model) == 0
    assert ops(model) == ["Neg", "Transpose", "MatMul"]


class LowRank(nn.Linear):
    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__(d_in, d_out)
        self.down, self.up = nn.Parameter(torch.randn(2, d_in)), nn.Parameter(torch.randn(d_out, 2))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight + 0.5 * (self.up @ self.down), self.bias)


class Equalised(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight * 0.125, self.bias * 0.5)


LINEAR: dict[str, Callable[[int, int], nn.Module]] = {
    "weight norm": lambda d_in, d_out: parametrizations.weight_norm(nn.Linear(d_in, d_out)),
    "spectral norm": lambda d_in, d_out: parametrizations.spectral_norm(nn.Linear(d_in, d_out)),
    "low rank": LowRank,
    "equalised": Equalised,
}


@pytest.mark.parametrize("kind", LINEAR)
def test_a_feed_forward_of_computed_weights_is_fused_and_its_weights_are_compared(kind: str) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(LINEAR[kind](32, 64), nn.GELU(), LINEAR[kind](64, 32)).eval()
    inputs = {"x": "float32[n,s,32]"}
    exported = fx.export(module, inputs)
    assert ops(exported) == ["MatMul", "Add", "Gelu", "MatMul", "Add"]
    _, report = fuse(exported, "ort-cpu")
    assert [site.kind for site in report.sites] == ["feed_forward"]
    result = fx.verify(exported, module, inputs=inputs, runtimes=["ort-cpu"], fast=True)
    assert result.passed
    assert (len(result.weights), result.untraced) == (4, ())
    matrix = next(value for value in exported.graph.initializers.values() if value.shape == (32, 64))
    assert matrix.const_value is not None
    wrong = matrix.const_value.numpy().copy()
    wrong[3, 5] *= 1.001
    matrix.const_value = ir.Tensor(wrong, name=matrix.name)
    assert not fx.verify(exported, module, inputs=inputs, runtimes=["ort-cpu"], fast=True).passed
