"""Graphs against graphs, where it is the reference that decides what can be compared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest

import ffn_export as fx
from ffn_export.core import onnx_file
from tests.fusion.graphs import model


def patches(weight: float) -> ir.Model:
    """Takes whole patches of 19 tokens, or none at all: no drawn size is a multiple of that."""
    return model(
        "r = Reshape(x, sizes) h = Mul(r, w) y = Reshape(h, back)",
        f"int64[4] sizes = {{0, -1, 19, 16}}, int64[3] back = {{0, -1, 16}}, float w = {{{weight}}}",
        inputs="float[batch,seq,16] x",
        outputs="float[batch,rows,16] y",
        opset=20,
    )


@pytest.mark.parametrize("weight", [2, 3])
def test_a_model_of_which_only_empty_inputs_were_taken_is_not_verified(weight: int, tmp_path: Path) -> None:
    for name, number in (("reference", 2), ("candidate", weight)):
        onnx_file.save(patches(number), tmp_path / f"{name}.onnx")
    files = [tmp_path / f"{name}.onnx" for name in ("candidate", "reference")]
    result = fx.verify(files[0], str(files[1]), runtimes=["ort-cpu"])
    assert result.judged == ("ort-cpu",)
    (failure,) = result.failures
    assert failure.startswith("no output had any finite element to compare, as batch=3,seq=5 normal: ")


def branches(factor: float) -> str:
    """A branch that holds a weight of its own."""
    return f"""
        <ir_version: 8, opset_import: ["" : 17]>
        graph (float[batch,seq,16] x, bool c) => (float[batch,seq,16] y) {{
            y = If (c) <
                then_branch = then () => (float[batch,seq,16] one) <float w = {{{factor}}}> {{ one = Mul(x, w) }},
                else_branch = other () => (float[batch,seq,16] two) {{ two = Neg(x) }}>
        }}"""


def repeated(factor: float) -> str:
    """A loop without a condition, which ONNX's reference evaluator ends before its first turn."""
    return f"""
        <ir_version: 8, opset_import: ["" : 17]>
        graph (float[batch,seq,16] x) => (float[batch,seq,16] y) <int64 turns = {{3}}, float w = {{{factor}}}> {{
            y = Loop (turns, "", x) <body = turn (int64 i, bool go, float[batch,seq,16] h)
                => (bool on, float[batch,seq,16] next) {{ on = Identity(go) next = Mul(h, w) }}>
        }}"""


@pytest.mark.parametrize("graph", [branches, repeated])
@pytest.mark.parametrize(("factor", "passes"), [(1.5, True), (1.6, False)])
def test_what_a_body_computes_with_is_judged(
    graph: Callable[[float], str], factor: float, passes: bool, tmp_path: Path
) -> None:
    for name, number in (("reference", 1.5), ("candidate", factor)):
        onnx.save(onnx.parser.parse_model(graph(number)), tmp_path / f"{name}.onnx")
    result = fx.verify(tmp_path / "candidate.onnx", str(tmp_path / "reference.onnx"), runtimes=["ort-cpu"])
    assert result.passed is passes
    assert not any(case.skipped for case in result.cases)
    own = max(output.baseline.ulps for case in result.cases for output in case.outputs)
    assert own < 8  # what is allowed beside it is no wider than of any other graph


# An RMS norm in pieces and a gate, in float16 between casts of float32: as converters write them.
HALF = """
    h = Cast<to = 10>(x) tiny = Cast<to = 10>(eps)
    square = Mul(h, h) mean = ReduceMean<keepdims = 1>(square, axes) shifted = Add(mean, tiny) root = Sqrt(shifted)
    normed = Div(h, root) gate = MatMul(normed, w) s = Sigmoid(gate) silu = Mul(gate, s) half = Mul(silu, normed)
"""


@pytest.mark.parametrize(("scale", "passes"), [(1.0, True), (1.02, False)])
def test_what_is_computed_in_float16_is_judged_in_units_of_float16(scale: float, passes: bool, tmp_path: Path) -> None:
    """ONNX Runtime leaves out the casts between nodes of one of these graphs, and not of the other."""
    weight = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float16)
    for name, factor in (("reference", 1.0), ("candidate", scale)):
        of = onnx.parser.parse_model(
            f"""<ir_version: 10, opset_import: ["" : 20]> g (float[batch,seq,16] x) => (float[batch,seq,16] y)
            <int64[1] axes = {{-1}}, float eps = {{0.00001}}> {{ {HALF} y = Cast<to = 1>(half) }}"""
        )
        of.graph.initializer.append(onnx.numpy_helper.from_array((weight * factor).astype(np.float16), "w"))
        onnx.save(of, tmp_path / f"{name}.onnx")
    fused, report = fx.fuse(onnx_file.load(tmp_path / "candidate.onnx"))
    assert [site.status for site in report.sites] == ["rewritten"]
    onnx_file.save(fused, tmp_path / "fused.onnx")
    result = fx.verify(tmp_path / "fused.onnx", str(tmp_path / "reference.onnx"), runtimes=["ort-cpu"])
    assert result.passed is passes


def labelled(first: str) -> str:
    """A classifier whose second output is the name of the class."""
    return f"""
        <ir_version: 8, opset_import: ["" : 17]>
        graph (float[batch,seq,2] x) => (float[batch,seq,2] y, string[batch,seq] label)
            <string[2] names = {{"{first}", "dog"}}> {{
            y = Neg(x)
            best = ArgMax <axis = -1, keepdims = 0> (y)
            label = Gather(names, best)
        }}"""


@pytest.mark.parametrize(("first", "passes"), [("cat", True), ("cow", False)])
def test_labels_are_judged(first: str, passes: bool, tmp_path: Path) -> None:
    for name, label in (("reference", "cat"), ("candidate", first)):
        onnx.save(onnx.parser.parse_model(labelled(label)), tmp_path / f"{name}.onnx")
    result = fx.verify(tmp_path / "candidate.onnx", str(tmp_path / "reference.onnx"), runtimes=["ort-cpu"])
    assert result.passed is passes
    assert passes or any("label: " in each for each in result.failures)
