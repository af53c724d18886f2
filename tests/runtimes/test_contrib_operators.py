"""Each body against its formula in float64, ONNX Runtime's own kernel, and the same operator in NumPy.

The runtime runs the bodies of ``fusion.functions.bodies`` where an operator has one, and the NumPy formulas elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator
from scipy.special import erf

from ffn_export.core.types import Array
from ffn_export.fusion.catalogue import EVERY
from ffn_export.fusion.functions.bodies import BODIES
from ffn_export.runtimes.contrib_operators import ACTIVATIONS, OPERATORS, QUANTIZED
from ffn_export.runtimes.ort_cpu import OrtCpu
from ffn_export.runtimes.reference import OnnxEvaluator
from tests.runtimes.graphs import write

ROWS, WIDTH = 5, 8
DTYPES = {"float": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
TOLERANCE = {"float": 2e-6, "float16": 4e-3, "bfloat16": 2e-2}
SHAPES = {
    "x": (3, ROWS, WIDTH),
    "skip": (3, ROWS, WIDTH),
    "gamma": (WIDTH,),
    "beta": (WIDTH,),
    "bias": (WIDTH,),
    "a": (ROWS, WIDTH),
    "at": (WIDTH, ROWS),
    "b": (WIDTH, 4),
    "bt": (4, WIDTH),
    "c": (4,),
    "p": (2, 3, ROWS, WIDTH),
    "q": (2, 3, WIDTH, 4),
    "p_first": (ROWS, 2, 3, WIDTH),
    "q_last": (2, 3, 4, WIDTH),
}

Feeds = Mapping[str, Array]
Formula = Callable[[Feeds], tuple[Array, ...]]


def gelu(x: Array) -> Array:
    result: Array = x * (1 + erf(x / np.sqrt(2))) / 2
    return result


def fast_gelu(x: Array) -> Array:
    result: Array = x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2
    return result


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def layer_norm(f: Feeds, epsilon: float = 1e-12) -> tuple[Array, ...]:
    total = f["x"] + f["skip"] + f.get("bias", 0.0)
    norm = (total - total.mean(-1, keepdims=True)) / np.sqrt(total.var(-1, keepdims=True) + epsilon)
    return norm * f["gamma"] + f.get("beta", 0.0), total


def rms_norm(f: Feeds, epsilon: float = 1e-12) -> tuple[Array, ...]:
    total = f["x"] + f["skip"] + f.get("bias", 0.0)
    return total / np.sqrt((total**2).mean(-1, keepdims=True) + epsilon) * f["gamma"], total


ACTIVATED: Mapping[str, Callable[[Array], Array]] = {
    "Relu": lambda x: np.maximum(x, 0),
    "LeakyRelu": lambda x: np.where(x < 0, 0.25 * x, x),
    "Tanh": np.tanh,
    "Elu": lambda x: np.where(x < 0, 0.25 * (np.exp(x) - 1), x),
    "Sigmoid": sigmoid,
}


@dataclass(frozen=True)
class Spelling:
    """One way to write an operator: its inputs in order, its attributes, and what it computes."""

    operator: str
    inputs: tuple[str, ...]
    formula: Formula
    attributes: str = ""
    outputs: tuple[str, ...] = ("y",)
    without_kernel: frozenset[str] = field(default=frozenset({"bfloat16"}))

    @property
    def name(self) -> str:
        return "-".join([self.operator, *(name or "none" for name in self.inputs), self.attributes, *self.outputs])


def fused_gemm(activation: str) -> Spelling:
    return Spelling(
        "FusedGemm",
        ("a", "b", "c"),
        lambda f: (ACTIVATED[activation](f["a"] @ f["b"] + f["c"]),),
        f'<activation: string = "{activation}", activation_alpha: float = 0.25>',
    )


def norms(operator: str, formula: Callable[..., tuple[Array, ...]], optional: tuple[str, ...]) -> list[Spelling]:
    """The norm with each set of its optional inputs, with and without its sum."""
    spellings = []
    for present, summed in product(product((True, False), repeat=len(optional)), (True, False)):
        inputs = ["x", "skip", "gamma", *(name if there else "" for name, there in zip(optional, present, strict=True))]
        while not inputs[-1]:
            inputs.pop()
        outputs = ("y", "", "", "total") if summed else ("y",)
        spellings.append(Spelling(operator, tuple(inputs), formula, outputs=outputs, without_kernel=frozenset()))
    epsilon = "<epsilon: float = 0.5>"
    spellings.append(Spelling(operator, ("x", "skip", "gamma"), lambda f: formula(f, 0.5), epsilon))
    return spellings


SPELLINGS = [
    Spelling("Gelu", ("x",), lambda f: (gelu(f["x"]),)),
    Spelling("BiasGelu", ("x", "bias"), lambda f: (gelu(f["x"] + f["bias"]),)),
    Spelling("FastGelu", ("x",), lambda f: (fast_gelu(f["x"]),)),
    Spelling("FastGelu", ("x", "bias"), lambda f: (fast_gelu(f["x"] + f["bias"]),)),
    Spelling("QuickGelu", ("x",), lambda f: (f["x"] * sigmoid(1.702 * f["x"]),)),
    Spelling("QuickGelu", ("x",), lambda f: (f["x"] * sigmoid(f["x"]),), "<alpha: float = 1.0>"),
    *map(fused_gemm, ACTIVATED),
    Spelling("FusedGemm", ("a", "b"), lambda f: (np.tanh(f["a"] @ f["b"]),), '<activation: string = "Tanh">'),
    Spelling(
        "FusedGemm",
        ("at", "bt", "c"),
        lambda f: (np.maximum(0.5 * f["at"].T @ f["bt"].T + 2 * f["c"], 0),),
        '<activation: string = "Relu", transA: int = 1, transB: int = 1, alpha: float = 0.5, beta: float = 2.0>',
    ),
    Spelling("FusedMatMul", ("p", "q"), lambda f: (f["p"] @ f["q"],)),
    Spelling(
        "FusedMatMul",
        ("p", "q_last"),
        lambda f: (0.5 * f["p"] @ np.swapaxes(f["q_last"], -1, -2),),
        "<transB: int = 1, alpha: float = 0.5>",
    ),
    Spelling(
        "FusedMatMul",
        ("p_first", "q"),
        lambda f: (np.moveaxis(f["p_first"], 0, 2) @ f["q"],),
        "<transBatchA: int = 1>",
    ),
    *norms("SkipLayerNormalization", layer_norm, ("beta", "bias")),
    *norms("SkipSimplifiedLayerNormalization", rms_norm, ("bias",)),
]


def text(spelling: Spelling, dtype: str) -> tuple[str, str]:
    """Return a graph's signature and body."""
    shapes = {name: ",".join(map(str, SHAPES[name])) for name in spelling.inputs if name}
    inputs = ", ".join(f"{dtype}[{shape}] {name}" for name, shape in shapes.items())
    outputs = ", ".join(f"{dtype} {name}" for name in spelling.outputs if name)
    call = f"com.microsoft.{spelling.operator} {spelling.attributes} ({', '.join(n or '' for n in spelling.inputs)})"
    return f"({inputs}) => ({outputs})", f"{', '.join(spelling.outputs)} = {call}"


def drawn(spelling: Spelling, dtype: str) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal(SHAPES[name]).astype(DTYPES[dtype]) for name in spelling.inputs if name}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("spelling", SPELLINGS, ids=lambda s: s.name)
def test_body_is_the_formula_and_the_kernel(spelling: Spelling, dtype: str, tmp_path: Path) -> None:
    artifact = write(tmp_path, *text(spelling, dtype))
    feeds = drawn(spelling, dtype)
    ours = OnnxEvaluator().load(artifact, 1).run(feeds)
    truth = spelling.formula({name: array.astype(np.float64) for name, array in feeds.items()})
    for (name, array), expected in zip(ours.items(), truth, strict=False):
        assert array.dtype == DTYPES[dtype], name
        np.testing.assert_allclose(array.astype(np.float64), expected, TOLERANCE[dtype], TOLERANCE[dtype])
    if dtype in spelling.without_kernel:
        return
    kernel = OrtCpu().load(artifact, 1).run(feeds)
    assert list(kernel) == list(ours)
    for name, array in kernel.items():
        actual, expected = ours[name].astype(np.float64), array.astype(np.float64)
        np.testing.assert_allclose(actual, expected, TOLERANCE[dtype], TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("spelling", SPELLINGS, ids=lambda s: s.name)
def test_body_is_the_formula_in_numpy(spelling: Spelling, dtype: str, tmp_path: Path) -> None:
    artifact = write(tmp_path, *text(spelling, dtype))
    feeds = drawn(spelling, dtype)
    ours = OnnxEvaluator().load(artifact, 1).run(feeds)
    assert artifact.model_path is not None
    evaluator = ReferenceEvaluator(str(artifact.model_path), new_ops=list(OPERATORS.values()))
    for actual, expected in zip(ours.values(), map(np.asarray, evaluator.run(None, feeds)), strict=True):
        assert actual.dtype == expected.dtype
        wide = expected.astype(np.float64)
        np.testing.assert_allclose(actual.astype(np.float64), wide, TOLERANCE[dtype], TOLERANCE[dtype])


def test_what_rules_write_has_a_body() -> None:
    written = {str(rule.writes).removeprefix("com.microsoft::") for rule in EVERY if "::" in str(rule.writes)}
    lacking = (written | {"Gelu", "FastGelu"}) - set(BODIES)
    assert not lacking, f"write them in standard operators, in ffn_export/fusion/functions/bodies.py: {lacking}"


def test_every_operator_and_activation_is_tested() -> None:
    assert {spelling.operator for spelling in SPELLINGS} == set(OPERATORS) - QUANTIZED  # test_quantized_products.py
    assert set(ACTIVATED) == set(ACTIVATIONS)


def test_float64_stays_float64(tmp_path: Path) -> None:
    spelling = next(s for s in SPELLINGS if s.operator == "QuickGelu")
    feeds = {"x": np.random.default_rng(0).standard_normal(SHAPES["x"])}
    (y,) = OnnxEvaluator().load(write(tmp_path, *text(spelling, "double")), 1).run(feeds).values()
    assert y.dtype == np.float64
    assert np.abs(y - spelling.formula(feeds)[0]).max() < 1e-15


def test_statistics_are_those_of_the_sum_in_float32(tmp_path: Path) -> None:
    signature = "(float16[2,4] x, float16[4] gamma) => (float16[2,4] y, float[2,1] mean, float[2,1] inverse)"
    artifact = write(tmp_path, signature, "y, mean, inverse = com.microsoft.SkipLayerNormalization(x, x, gamma)")
    x = np.array([[40_000, 40_000, 40_001, 40_000], [1, 2, 3, 4]], np.float16)  # the sum is beyond float16
    ours = OnnxEvaluator().load(artifact, 1).run({"x": x, "gamma": np.ones(4, np.float16)})
    total = 2 * x.astype(np.float64)
    assert ours["mean"].dtype == ours["inverse"].dtype == np.float32
    np.testing.assert_allclose(ours["mean"][:, 0], total.mean(1), 1e-6)
    np.testing.assert_allclose(ours["inverse"][1], 1 / total[1].std(), 1e-6)
    assert np.isfinite(ours["y"]).all()
