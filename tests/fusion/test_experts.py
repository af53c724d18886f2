"""Feed-forwards of experts are found and reported, with the reason why they are left."""

from __future__ import annotations

import pytest

from ffn_export import fuse
from ffn_export.fusion import unfused
from ffn_export.fusion.sites import Unfused
from tests.fusion.graphs import model

STACKS = ", ".join(
    f"float[{shape}] {name} = {{{','.join(['0.1'] * size)}}}"
    for name, shape, size in [
        ("up", "4,8,16", 512),
        ("down", "4,16,8", 512),
        ("packed", "4,8,32", 1024),
        ("turned", "4,16,8", 512),
        ("other", "3,16,8", 384),
        ("w", "16,8", 128),
        ("b", "4,16", 64),
    ]
)
INPUTS = "float[batch,4,seq,8] x, int64[seq,1] chosen, int64[1] minus_one"
TAKEN = "u = GatherND(up, chosen) d = GatherND(down, chosen)"


def found(body: str) -> list[Unfused]:
    return list(unfused.find(model(body, STACKS, inputs=INPUTS, outputs="float[] y")))


@pytest.mark.parametrize(
    ("body", "activation", "gated"),
    [
        ("h = MatMul(x, up) a = Relu(h) y = MatMul(a, down)", "relu", False),
        ("h = MatMul(x, up) c = Add(h, b) a = Gelu(c) y = MatMul(a, down)", "gelu", False),
        (
            'h = Einsum<equation="besd,edf->besf">(x, up) a = Relu(h) y = Einsum<equation="besf,efd->besd">(a, down)',
            "relu",
            False,
        ),
        (f"{TAKEN} h = MatMul(x, u) c = GatherND(b, chosen) g = Add(h, c) a = Relu(g) y = MatMul(a, d)", "relu", False),
        (
            "u = Gather(up, chosen) d = Gather(down, chosen) h = MatMul(x, u) a = Relu(h) y = MatMul(a, d)",
            "relu",
            False,
        ),
        ("g = MatMul(x, up) u = MatMul(x, up) a = Swish(g) p = Mul(a, u) y = MatMul(p, down)", "silu", True),
        (
            "h = MatMul(x, packed) g, u = Split<axis = -1, num_outputs = 2>(h) a = Swish(g) p = Mul(a, u)"
            " y = MatMul(p, down)",
            "silu",
            True,
        ),
        ("t = Transpose<perm = [0, 2, 1]>(turned) h = MatMul(x, t) a = Relu(h) y = MatMul(a, down)", "relu", False),
        # rows as columns, as transformers writes them
        (
            f"{TAKEN} k = Transpose<perm = [0, 2, 1]>(u) r = Unsqueeze(x, minus_one) h = MatMul(k, r) a = Relu(h)"
            " l = Transpose<perm = [0, 2, 1]>(d) y = MatMul(l, a)",
            "relu",
            False,
        ),
    ],
)
def test_experts(body: str, activation: str, gated: bool) -> None:
    (site,) = found(body)
    assert (site.activation, site.gated) == (activation, gated)
    assert "its 4 experts" in site.reason
    assert site.nodes[-1].outputs[0].name == "y"


@pytest.mark.parametrize(
    "body",
    [
        "h = MatMul(x, up) y = MatMul(h, down)",  # nothing between
        "h = MatMul(x, up) s = Softmax(h) y = MatMul(s, down)",  # over a whole row
        "h = MatMul(x, up) a = Relu(h) y = MatMul(a, w)",  # one matrix for all
        "h = MatMul(x, up) a = Relu(h) y = MatMul(a, other)",  # of other experts
        "t = Add(up, x) h = MatMul(x, t) a = Relu(h) y = MatMul(a, down)",  # that are computed
        "m = MatMul(up, down) a = Relu(m) y = MatMul(a, x)",
        "h = MatMul(w, up) a = Relu(h) y = MatMul(a, down)",  # of constants, as positions are
        'a = Relu(x) y = Einsum<equation = "besf,edf->besd">(a, down)',
    ],
)
def test_what_is_none(body: str) -> None:
    assert found(body) == []


def test_they_are_kept_with_the_reason() -> None:
    of = model(
        "g = MatMul(x, up) s = Sigmoid(g) a = Mul(g, s) y = MatMul(a, down)",
        STACKS,
        inputs="float[batch,4,seq,8] x",
        outputs="float[batch,4,seq,8] y",
        opset=24,
    )
    fused, report = fuse(of, "portable")
    assert [node.op_type for node in fused.graph] == ["MatMul", "Swish", "MatMul"]
    (site,) = report.sites
    assert (site.kind, site.status, site.activation, site.gated) == ("feed_forward", "kept", "silu", False)
    assert site.reason == "the weights of its 4 experts are a stack: no operator multiplies rows by one matrix each"
    assert site.form == "MatMul Swish MatMul"
    assert "4 experts" in report.explain()
