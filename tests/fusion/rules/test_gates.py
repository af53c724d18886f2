"""Gate and up, packed and apart."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from ffn_export.errors import UsageError
from ffn_export.fusion.forms import Forms
from ffn_export.fusion.pipeline import fuse
from tests.fusion.feed_forwards import GATED, PACKED, PLAIN, feed_forward
from tests.fusion.graphs import assert_interface_kept, assert_same_function, operators

APART, TOGETHER = Forms(frozenset({"gate-apart"})), Forms(frozenset({"gate-packed"}))
BIASED = PACKED.replace("p = MatMul(x, w13)", "q = MatMul(x, w13) p = Add(q, b13)")


@pytest.mark.parametrize(
    ("written", "forms", "expected"),
    [
        (PACKED, APART, ["MatMul", "MatMul", "Relu", "Mul", "MatMul"]),
        (BIASED, APART, ["MatMul", "Add", "MatMul", "Add", "Relu", "Mul", "MatMul"]),
        (GATED, TOGETHER, ["MatMul", "Split", "Relu", "Mul", "MatMul"]),
    ],
)
def test_one_becomes_the_other(written: str, forms: Forms, expected: list[str]) -> None:
    of = feed_forward(written)
    fused, report = fuse(of, "ort-cpu", forms=forms)
    assert operators(fused) == expected
    assert [(site.kind, site.gated, site.rule) for site in report.sites] == [("feed_forward", True, *forms.rules)]
    assert_interface_kept(of, fused)
    assert_same_function(of, fused)


def test_a_half_that_nobody_reads_is_not_computed() -> None:
    written = "p = MatMul(x, w13) h, u = Split<axis = 2>(p, sizes) g = Relu(h) y = MatMul(g, w2)"
    of = feed_forward(f"sizes = Constant<value_ints = [16, 16]>() {written}")
    fused, _ = fuse(of, "ort-cpu", forms=APART)
    assert operators(fused) == ["MatMul", "Relu", "MatMul"]
    assert_same_function(of, fused)


def test_weights_of_both_are_side_by_side() -> None:
    of = feed_forward(GATED)
    fused, _ = fuse(of, "ort-cpu", forms=TOGETHER)
    packed = fused.graph[0].inputs[1]
    assert packed is not None
    assert packed.const_value is not None
    halves = np.hsplit(packed.const_value.numpy(), 2)
    tensors = [of.graph.initializers[name].const_value for name in ("w1", "w3")]
    given = [tensor.numpy() for tensor in tensors if tensor is not None]
    assert sorted(half.tobytes() for half in halves) == sorted(np.ascontiguousarray(each).tobytes() for each in given)
    assert not {"w1", "w3"} & set(fused.graph.initializers)


@pytest.mark.parametrize(
    ("written", "forms", "outputs"),
    [
        (PLAIN, TOGETHER, "float[batch,seq,8] y"),
        (PACKED.replace("axis = -1", "axis = 1"), APART, "float[batch,half,8] y"),
        (f"{PACKED} z = Neg(p)", APART, "float[batch,seq,8] y, float[batch,seq,32] z"),
        ("h = MatMul(x, w1) u = MatMul(x, w3) g = Relu(h) y = MatMul(g, w2) z = Neg(u)", TOGETHER,
         "float[batch,seq,8] y, float[batch,seq,16] z"),
    ],
    ids=["not gated", "another axis", "read elsewhere", "not of one gate"],
)  # fmt: skip
def test_what_is_no_gate_stays(written: str, forms: Forms, outputs: str) -> None:
    of = feed_forward(written, inputs="float[batch,4,8] x" if "axis = 1" in written else "float[batch,seq,8] x",
                      outputs=outputs)  # fmt: skip
    fused, report = fuse(of, "ort-cpu", forms=forms)
    assert operators(fused) == operators(of)
    assert report.rules == {}


def test_nobody_asked() -> None:
    assert operators(fuse(feed_forward(PACKED), "ort-cpu")[0]) == operators(feed_forward(PACKED))


def test_both_at_once_would_never_end() -> None:
    with pytest.raises(UsageError, match="undo each other"):
        fuse(feed_forward(PACKED), "ort-cpu", forms=Forms(APART.rules | TOGETHER.rules))


def test_no_copy_of_a_weight_is_held() -> None:
    fused, _ = fuse(feed_forward(PACKED), "ort-cpu", forms=APART)
    weights = [node.inputs[1] for node in fused.graph if node.op_type == "MatMul"]
    assert [isinstance(w.const_value, ir.LazyTensor) for w in weights if w is not None] == [True, True, False]
