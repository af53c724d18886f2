"""Each node of the contract, with its norm, residual, splits, masks and heads, against its body on the CPU provider."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.native.nodes import Arrays, model
from tests.native.provider import NAME, needs_kernel, needs_provider, relative_l2, session_with

pytestmark = needs_provider
BOUNDS = {"f32": 1e-6, "bf16": 1.5e-2, "int8": 6e-2}
NORMS = ["", "pre_layer", "pre_rms", "post_layer", "post_rms"]


def drawn(*shape: int, scale: float = 1.0) -> Any:
    values = np.random.default_rng(sum(shape) + len(shape)).standard_normal(shape, dtype=np.float32)
    return values * np.float32(scale)


def norm_of(name: str, before: int, behind: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the constants and attributes of a norm."""
    if not name:
        return {}, {}
    width = before if name.startswith("pre") else behind
    constants = {"norm_scale": 1 + drawn(width, scale=0.1)}
    if name.endswith("layer"):
        constants["norm_bias"] = drawn(width, scale=0.1)
    return constants, {"norm": name, "epsilon": 1e-5}


def outputs(session: onnxruntime.InferenceSession, feeds: Arrays) -> list[Any]:
    found: list[Any] = session.run(None, dict(feeds))
    return found


def claimed(session: onnxruntime.InferenceSession) -> int:
    parts = session.get_provider_graph_assignment_info()
    return sum(len(part.get_nodes()) for part in parts if part.ep_name == NAME)


def compare(data: bytes, feeds: Arrays, precision: str = "f32", threads: int = 1) -> None:
    """Check that the node is claimed, and that it computes what its body computes."""
    needs_kernel(precision)
    session = session_with(data, precision, threads=threads)
    assert claimed(session) == 1
    wanted = outputs(onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]), feeds)
    for got, body in zip(outputs(session, feeds), wanted, strict=True):
        assert got.shape == body.shape
        assert np.array_equal(np.isnan(got), np.isnan(body))
        finite = np.isfinite(body)
        assert not finite.any() or relative_l2(got[finite], body[finite]) < BOUNDS[precision]


@pytest.mark.parametrize("precision", BOUNDS)
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("norm", NORMS)
def test_feed_forward(norm: str, residual: bool, precision: str) -> None:
    d, hidden, out = 24, 40, 24 if residual else 18
    constants, attributes = norm_of(norm, d, out)
    fed = {"x": drawn(2, 5, d)} | ({"residual": drawn(2, 5, out)} if residual else {})
    weights = {"w1": drawn(d, hidden, scale=0.2), "b1": drawn(hidden, scale=0.1), "w2": drawn(hidden, out, scale=0.2)}
    data = model("FeedForward", fed, weights | constants, activation="gelu", **attributes)
    compare(data, fed, precision)


def test_feed_forward_of_transposed_gated_weights() -> None:
    weights = {"w1": drawn(40, 24), "w2": drawn(24, 40), "w3": drawn(40, 24), "b3": drawn(40)}
    constants, attributes = norm_of("pre_rms", 24, 24)
    fed = {"x": drawn(1, 9, 24), "residual": drawn(1, 9, 24)}
    compare(
        model("FeedForward", fed, weights | constants, activation="silu", alpha=1.0, transposed=1, **attributes), fed
    )


@pytest.mark.parametrize("precision", BOUNDS)
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("norm", NORMS)
def test_linear(norm: str, residual: bool, precision: str) -> None:
    constants, attributes = norm_of(norm, 20, 33)
    fed = {"x": drawn(3, 7, 20)} | ({"residual": drawn(3, 7, 33)} if residual else {})
    weights = {"w": drawn(20, 33, scale=0.2), "b": drawn(33, scale=0.1)}
    compare(model("Linear", fed, weights | constants, **attributes), fed, precision)


@pytest.mark.parametrize("tokens", [1, 5, 140])
@pytest.mark.parametrize("splits", [[32, 32, 32], [48, 8, 8], [1, 2, 30, 17], [9]])
def test_linear_with_splits(splits: list[int], tokens: int) -> None:
    constants, attributes = norm_of("pre_layer", 20, 0)
    fed, weights = {"x": drawn(1, tokens, 20)}, {"w": drawn(sum(splits), 20), "b": drawn(sum(splits))}
    data = model("Linear", fed, weights | constants, splits=splits, transposed=1, **attributes)
    compare(data, fed, threads=2)


def test_a_residual_may_be_constant() -> None:
    fed, constants = {"x": drawn(2, 3, 8)}, {"w": drawn(8, 8), "residual": drawn(2, 3, 8)}
    compare(model("Linear", fed, constants), fed)


@pytest.mark.parametrize("norm", ["", "pre_layer", "post_rms"])
@pytest.mark.parametrize(
    ("x", "residual"),
    [((2, 3, 8), (1, 3, 8)), ((2, 3, 8), (2, 3, 1)), ((2, 1, 8), (1, 3, 8)), ((3, 8), (2, 3, 8)), ((2, 3, 8), (8,))],
)
def test_a_residual_is_broadcast_as_in_the_body(x: tuple[int, ...], residual: tuple[int, ...], norm: str) -> None:
    constants, attributes = norm_of(norm, 8, 8)
    fed = {"x": drawn(*x), "residual": drawn(*residual)}
    compare(model("Linear", fed, {"w": drawn(8, 8)} | constants, **attributes), fed)
    weights = {"w1": drawn(8, 12), "b1": drawn(12), "w2": drawn(12, 8)}
    compare(model("FeedForward", fed, weights | constants, activation="relu", **attributes), fed)


def computed(data: bytes, fed: Arrays) -> bytes:
    """Compute each input from one that is fed: ONNX Runtime gives what it computes no memory where it is empty."""
    written = onnx.load_from_string(data)
    (node,) = written.graph.node
    for name in fed:
        node.input[list(node.input).index(name)] = f"{name}_computed"
        written.graph.node.insert(0, onnx.helper.make_node("Neg", [name], [f"{name}_computed"]))
    serialised: bytes = written.SerializeToString()
    return serialised


@pytest.mark.parametrize(
    ("x", "residual"), [((1, 3, 8), (0, 3, 8)), ((0, 3, 8), (1, 3, 8)), ((2, 1, 8), (2, 0, 8)), ((2, 0, 8), (8,))]
)
def test_a_residual_of_no_elements_is_broadcast_too(x: tuple[int, ...], residual: tuple[int, ...]) -> None:
    fed = {"x": drawn(*x), "residual": drawn(*residual)}
    data = model("Linear", fed, {"w": drawn(8, 8)})
    compare(data, fed)
    compare(computed(data, fed), fed)


def attention(
    batch: int,
    heads: int,
    groups: int,
    queries: int,
    keys: int,
    size: int,
    *,
    packed: bool = False,
    bias: Any = None,
    causal: int = 0,
) -> tuple[bytes, dict[str, Any]]:
    if packed:
        fed = {"query": drawn(batch, queries, (heads + 2 * groups) * size)}
    else:
        fed = {"query": drawn(batch, queries, heads * size), "key": drawn(batch, keys, groups * size)}
        fed["value"] = fed["key"][..., ::-1].copy()
    if bias is not None:
        fed["bias"] = bias
    attributes = {"num_heads": heads, "kv_num_heads": groups, "scale": size**-0.5, "causal": causal}
    return model("Attention", fed, {}, size, **attributes), fed


@pytest.mark.parametrize("precision", BOUNDS)
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("heads", "groups", "size"), [(2, 2, 16), (6, 2, 20), (3, 1, 33), (1, 1, 1)])
def test_attention(heads: int, groups: int, size: int, packed: bool, causal: int, precision: str) -> None:
    compare(*attention(2, heads, groups, 21, 21, size, packed=packed, causal=causal), precision)


def test_attention_to_other_keys() -> None:
    compare(*attention(2, 4, 2, 5, 37, 8))


@pytest.mark.parametrize(
    "shape", [(1, 1, 1, 19), (2, 1, 1, 19), (1, 4, 19, 19), (2, 4, 19, 19), (2, 1, 19, 1), (1,) * 4]
)
def test_a_bias_is_broadcast(shape: tuple[int, ...]) -> None:
    compare(*attention(2, 4, 2, 19, 19, 8, packed=True, bias=drawn(*shape)))


@pytest.mark.parametrize("batches", [(1, 3, 3, 3), (3, 1, 1, 1), (3, 3, 1, 3), (1, 1, 1, 3), (1, 3, 1, 1)])
def test_batches_are_broadcast_as_in_the_body(batches: tuple[int, ...]) -> None:
    data, fed = attention(3, 4, 2, 5, 7, 8, bias=drawn(3, 1, 1, 7))
    compare(data, {name: value[:batch] for (name, value), batch in zip(fed.items(), batches, strict=True)})


def test_a_bias_of_several_batches_repeats_packed_values() -> None:
    data, fed = attention(1, 4, 2, 5, 5, 8, packed=True, bias=drawn(3, 1, 1, 5))
    compare(data, fed)


@pytest.mark.parametrize("length", [600, 1100])
@pytest.mark.parametrize("causal", [0, 1])
def test_attention_at_long_lengths(causal: int, length: int) -> None:
    bias = np.zeros((1, 1, 1, length), np.float32)
    bias[..., length - 60 :] = -np.inf
    compare(*attention(1, 2, 1, length, length, 8, packed=True, bias=bias, causal=causal), threads=2)


def test_rows_without_a_key_are_no_numbers() -> None:
    bias = np.zeros((1, 1, 9, 9), np.float32)
    bias[0, 0, 4] = -np.inf
    data, fed = attention(2, 2, 2, 9, 9, 8, bias=bias)
    compare(data, fed)
    assert np.isnan(outputs(session_with(data, "f32"), fed)[0][:, 4]).all()


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 20, 45, 63])
def test_what_is_no_number_spreads_as_in_the_body(place: int, bad: float, causal: int) -> None:
    data, fed = attention(1, 2, 1, 70, 70, 16, packed=True, causal=causal)
    fed["query"][0, 30, place] = bad
    compare(data, fed)


@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
def test_attention_without_rows(shape: tuple[int, int]) -> None:
    data, fed = attention(1, 2, 2, 4, 4, 8, packed=True)
    (y,) = outputs(session_with(data, "f32"), {"query": fed["query"][: shape[0], : shape[1]].repeat(shape[0] or 1, 0)})
    assert y.size == 0


def test_shapes_that_do_not_fit_are_refused_in_one_line() -> None:
    data, fed = attention(1, 2, 2, 4, 4, 8)
    with pytest.raises(Exception, match="must have the same shape"):
        outputs(session_with(data, "f32"), {**fed, "value": fed["value"][:, :3]})
    linear = model("Linear", {"x": drawn(2, 3, 8), "residual": drawn(2, 3, 8)}, {"w": drawn(8, 8)})
    with pytest.raises(Exception, match="does not broadcast to the result"):
        outputs(session_with(linear, "f32"), {"x": drawn(2, 3, 8), "residual": drawn(2, 4, 8)})


def test_weights_that_are_fed_and_splits_that_do_not_fit_run_by_their_bodies() -> None:
    fed = {"x": drawn(2, 3, 8), "w": drawn(8, 6)}
    compared = session_with(model("Linear", fed, {"b": drawn(6)}), "f32")
    assert claimed(compared) == 0
    assert relative_l2(outputs(compared, fed)[0], fed["x"] @ fed["w"] + drawn(6)) < 1e-6

    written = onnx.load_from_string(model("Linear", {"x": fed["x"]}, {"w": fed["w"]}, splits=[2, 4]))
    (splits,) = (each for each in written.graph.node[0].attribute if each.name == "splits")
    splits.ints[:] = [3, 4]
    assert claimed(session_with(written.SerializeToString(), "f32")) == 0


@pytest.mark.parametrize(
    ("session", "own", "computed"), [("int8", "bf16", "bf16"), ("int8", "f32", "f32"), ("f32", "bf16", "f32")]
)
def test_a_node_takes_the_more_precise_of_its_precision_and_the_sessions(session: str, own: str, computed: str) -> None:
    needs_kernel(session)
    needs_kernel(computed)
    fed, weights = {"x": drawn(3, 64)}, {"w": drawn(64, 24, scale=0.2)}
    got = outputs(session_with(model("Linear", fed, weights, precision=own), session), fed)
    wanted = outputs(session_with(model("Linear", fed, weights), computed), fed)
    assert np.array_equal(got[0], wanted[0])


def test_a_precision_that_is_none_is_left_to_the_body() -> None:
    fed, weights = {"x": drawn(3, 64)}, {"w": drawn(64, 24, scale=0.2)}
    assert claimed(session_with(model("Linear", fed, weights, precision="f16"), "f32")) == 0
