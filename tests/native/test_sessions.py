"""Sessions with and without the execution provider: the same numbers, and its nodes where they are claimed."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

import ffn_export as fx
from ffn_export.core import activations
from ffn_export.modules import FeedForward, GatedFeedForward
from tests.native.provider import NAME, needs_kernel, needs_provider, relative_l2, session_with

pytestmark = needs_provider
BOUNDS = {"f32": 1e-6, "bf16": 1e-2, "int8": 5e-2}
LEVELS = ["ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL"]


def outlined(module: nn.Module, width: int, **options: Any) -> bytes:
    exported = fx.export(module.eval(), {"x": f"float32[batch,seq,{width}]"})
    fused, report = fx.fuse(exported, target="ort-native", **options)
    assert report.sites
    data: bytes = ir.to_proto(fused).SerializeToString()
    return data


def without(model: bytes, feeds: Mapping[str, Any]) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, dict(feeds))[0]


def drawn(*shape: int) -> dict[str, Any]:
    return {"x": np.random.default_rng(shape[-1]).standard_normal(shape, dtype=np.float32)}


def placed(session: onnxruntime.InferenceSession) -> list[str]:
    parts = session.get_provider_graph_assignment_info()
    return [node.op_type for part in parts if part.ep_name == NAME for node in part.get_nodes()]


@cache
def small() -> bytes:
    """Return the smallest model that most tests use."""
    return outlined(FeedForward(16, 32, "gelu", dropout=0.0), 16)


class Each(nn.Module):
    """The sum of feed-forwards, one for each activation."""

    def __init__(self, make: type[FeedForward | GatedFeedForward]) -> None:
        super().__init__()
        names = [name for name, each in activations.TABLE.items() if each.torch is not None]
        self.layers = nn.ModuleList(make(24, 72, name, dropout=0.0) for name in names)

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([layer(x) for layer in self.layers]).sum(0)


@cache
def each_activation(gated: bool) -> bytes:
    return outlined(Each(GatedFeedForward if gated else FeedForward), 24)


@pytest.mark.parametrize("precision", BOUNDS)
@pytest.mark.parametrize("gated", [False, True], ids=["plain", "gated"])
def test_claimed_nodes_compute_what_their_bodies_compute(gated: bool, precision: str) -> None:
    needs_kernel(precision)
    model = each_activation(gated)
    session, feeds = session_with(model, precision), drawn(3, 5, 24)
    assert len(placed(session)) == sum(each.torch is not None for each in activations.TABLE.values())
    assert relative_l2(session.run(None, feeds)[0], without(model, feeds)) < BOUNDS[precision]


@pytest.mark.parametrize("level", LEVELS)
def test_it_claims_at_every_level(level: str) -> None:
    model = small()
    session, feeds = session_with(model, "f32", level=level), drawn(2, 3, 16)
    assert placed(session) == ["FeedForward"]
    assert relative_l2(session.run(None, feeds)[0], without(model, feeds)) < 1e-6


@pytest.mark.parametrize("shape", [(0, 3, 16), (2, 0, 16), (1, 1, 16), (1, 7, 16), (2, 300, 16)])
def test_it_takes_any_number_of_tokens(shape: tuple[int, ...]) -> None:
    model = small()
    y = session_with(model, "f32").run(None, drawn(*shape))[0]
    assert y.shape == shape
    assert shape[0] * shape[1] == 0 or relative_l2(y, without(model, drawn(*shape))) < 1e-6


@pytest.mark.parametrize(("preset", "width"), [("d2l-ffn", 4), ("d2l-ffn-addnorm", 4), ("apx-ffn-residual", 512)])
def test_presets(preset: str, width: int) -> None:
    model = outlined(fx.create(preset), width)
    session, feeds = session_with(model, "f32"), drawn(2, 3, width)
    assert len(placed(session)) == 1
    assert relative_l2(session.run(None, feeds)[0], without(model, feeds)) < 1e-6


def test_a_node_that_is_not_claimed_runs_by_its_body() -> None:
    model = onnx.load_from_string(small())
    (node,) = (node for node in model.graph.node if node.op_type.startswith("FeedForward"))
    (attribute,) = (each for each in node.attribute if each.name == "activation")
    attribute.s = b"an activation that nobody knows"
    session, feeds = session_with(model.SerializeToString(), "f32"), drawn(2, 3, 16)
    assert not placed(session)
    assert np.array_equal(session.run(None, feeds)[0], without(model.SerializeToString(), feeds))


def test_another_version_of_the_domain_runs_by_its_body() -> None:
    model = onnx.load_from_string(small())
    (own,) = (each for each in model.opset_import if each.domain == "ai.ffn_export")
    own.version = 3
    for function in model.functions:
        for each in function.opset_import:
            each.version = 3 if each.domain == "ai.ffn_export" else each.version
    data, feeds = model.SerializeToString(), drawn(2, 3, 16)
    session = session_with(data, "f32")
    assert placed(session) == []
    assert relative_l2(session.run(None, feeds)[0], without(data, feeds)) == 0


def test_one_node_that_cannot_be_read_leaves_the_others_claimed() -> None:
    model = onnx.load_from_string(each_activation(False))
    node = next(node for node in model.graph.node if node.op_type.startswith("FeedForward"))
    (attribute,) = (each for each in node.attribute if each.name == "activation")
    attribute.CopyFrom(onnx.helper.make_attribute("activation", 1))
    claimed = sum(node.op_type.startswith("FeedForward") for node in model.graph.node)
    session = session_with(model.SerializeToString(), "f32")
    assert len(placed(session)) == claimed - 1


def test_weights_that_are_inputs_are_not_claimed() -> None:
    model = onnx.load_from_string(small())
    (first,) = (each for each in model.graph.initializer if list(each.dims) == [16, 32])
    weight = onnx.numpy_helper.to_array(first)
    model.graph.input.append(onnx.helper.make_tensor_value_info(first.name, onnx.TensorProto.FLOAT, [16, 32]))
    model.graph.initializer.remove(first)
    feeds = {**drawn(2, 3, 16), first.name: weight}
    session = session_with(model.SerializeToString(), "f32")
    assert not placed(session)
    assert np.array_equal(session.run(None, feeds)[0], without(model.SerializeToString(), feeds))


def test_a_constant_input_is_kept() -> None:
    model = onnx.load_from_string(small())
    x = drawn(2, 3, 16)["x"]
    del model.graph.input[:]
    model.graph.initializer.append(onnx.numpy_helper.from_array(x, "x"))
    session = session_with(model.SerializeToString(), "f32", level="ORT_DISABLE_ALL")
    assert placed(session) == ["FeedForward"]
    assert relative_l2(session.run(None, {})[0], without(small(), {"x": x})) < 1e-6


def test_it_claims_in_a_branch() -> None:
    model = onnx.load_from_string(small())
    inner = onnx.helper.make_graph(list(model.graph.node), "then", [], list(model.graph.output))
    other = onnx.helper.make_graph(
        [onnx.helper.make_node("Identity", ["x"], ["z"])],
        "else",
        [],
        [onnx.helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, None)],
    )
    output = onnx.helper.make_tensor_value_info("out", onnx.TensorProto.FLOAT, None)
    del model.graph.node[:], model.graph.output[:]
    model.graph.node.append(onnx.helper.make_node("If", ["flag"], ["out"], then_branch=inner, else_branch=other))
    model.graph.input.append(onnx.helper.make_tensor_value_info("flag", onnx.TensorProto.BOOL, []))
    model.graph.output.append(output)
    feeds = {**drawn(2, 3, 16), "flag": np.array(True)}
    session = session_with(model.SerializeToString(), "f32")
    wanted = without(model.SerializeToString(), feeds)
    assert relative_l2(session.run(None, feeds)[0], wanted) < 1e-6
    unchanged = session.run(None, {**feeds, "flag": np.array(False)})[0]
    assert np.array_equal(unchanged, feeds["x"])


def test_sixteen_threads_share_a_session() -> None:
    model = outlined(GatedFeedForward(48, 96, "silu", dropout=0.0), 48)
    session, feeds = session_with(model, "f32", threads=2), drawn(2, 40, 48)
    wanted = session.run(None, feeds)[0]
    differing: list[int] = []

    def caller(number: int) -> None:
        same = all(np.array_equal(session.run(None, feeds)[0], wanted) for _ in range(20))
        if not same:
            differing.append(number)

    callers = [threading.Thread(target=caller, args=(number,)) for number in range(16)]
    for each in callers:
        each.start()
    for each in callers:
        each.join()
    assert not differing


def test_an_unknown_precision_is_refused_in_one_line() -> None:
    model = small()
    with pytest.raises(Exception, match="is f32, bf16 or int8, not 'fp4'"):
        session_with(model, "fp4")


def test_many_sessions_come_and_go() -> None:
    model = small()
    feeds = drawn(2, 3, 16)
    wanted = session_with(model, "f32").run(None, feeds)[0]
    for _ in range(50):
        assert np.array_equal(session_with(model, "f32").run(None, feeds)[0], wanted)
