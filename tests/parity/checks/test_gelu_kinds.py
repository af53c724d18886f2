"""A GELU of the other kind is named, also where no output of its dtype shows it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import onnx_ir as ir
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ffn_export import export, fuse, verify
from ffn_export.exporter.source import from_module
from ffn_export.fusion.targets import TARGETS
from ffn_export.parity.cases.case import sweep
from ffn_export.parity.checks.gelu_kinds import differences
from ffn_export.parity.reference.module_trace import watch
from tests.exporter.helpers import module_of

INPUTS = {"x": "float32[1<=batch,8]"}


def tanh_in_pieces(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def found(model: ir.Model, module: nn.Module) -> tuple[str, ...]:
    source = from_module(module, INPUTS)
    return differences(model, watch(source, sweep(source.inputs)[0].feeds(source.inputs)))


def flipped(model: ir.Model) -> ir.Model:
    node = next(node for node in model.graph if node.op_type == "Gelu")
    is_tanh = node.attributes.get_string("approximate", "none") == "tanh"
    node.attributes["approximate"] = ir.AttrString("approximate", "none" if is_tanh else "tanh")
    return model


@pytest.mark.slow
@pytest.mark.parametrize(
    "forward",
    [
        lambda self, x: F.gelu(x),
        lambda self, x: F.gelu(x, approximate="tanh"),
        lambda self, x: F.gelu(x) + tanh_in_pieces(x),
        lambda self, x: F.gelu(x, approximate="tanh") + x * torch.erf(x),
        lambda self, x: F.gelu(x) + x * torch.sigmoid(x * (2 * math.sqrt(2 / math.pi)) * (1 + 0.044715 * x * x)),
        lambda self, x: F.gelu(x) + x * torch.sigmoid(1.59577 * x + 0.07135 * x**3),
        lambda self, x: tanh_in_pieces(x),
        lambda self, x: F.silu(x),
    ],
)
def test_the_module_s_own_are_right_in_every_form(forward: Callable[..., Any]) -> None:
    module = module_of(forward)
    model = export(module, INPUTS)
    assert found(model, module) == ()
    for target in TARGETS:
        assert found(fuse(model, target)[0], module) == ()


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "other"), [("none", "erf"), ("tanh", "tanh")])
def test_the_other_kind_is_named(kind: str, other: str) -> None:
    module = module_of(lambda self, x: F.gelu(x, approximate=kind))
    (line,) = found(flipped(export(module, INPUTS)), module)
    assert line.endswith(f"PyTorch computes it with {other}")


def test_the_kind_in_a_node_of_native_kernels_and_in_its_body() -> None:
    module = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8)).eval()
    model, _ = fuse(export(module, {"input": INPUTS["x"]}), "ort-native")
    (node,), (body,) = model.graph, model.functions.values()
    source = from_module(module, {"input": INPUTS["x"]})
    watched = watch(source, sweep(source.inputs)[0].feeds(source.inputs))
    assert differences(model, watched) == ()
    node.attributes["activation"] = ir.AttrString("activation", "gelu_tanh")
    (line,) = differences(model, watched)
    assert "(FeedForward) is a GELU with tanh" in line
    node.attributes["activation"] = ir.AttrString("activation", "gelu")
    gelu = next(each for each in body if each.op_type == "Gelu")
    gelu.attributes["approximate"] = ir.AttrString("approximate", "tanh")
    (line,) = differences(model, watched)
    assert "(Gelu) is a GELU with tanh" in line


@pytest.mark.parametrize(
    "beside",
    [
        torch.tanh,
        torch.sigmoid,
        F.silu,
        lambda x: F.gelu(x) * torch.sigmoid(1.702 * x),
        lambda x: torch.tanh(x * math.sqrt(512)),  # 1.2 % off the inverse of the cubic coefficient
    ],
)
def test_a_tanh_or_a_sigmoid_alone_is_no_gelu(beside: Callable[[Tensor], Tensor]) -> None:
    """A pooler or a gate beside a GELU hides no other kind."""
    module = module_of(lambda self, x: beside(F.gelu(x)))
    (line,) = found(flipped(export(module, INPUTS)), module)
    assert line.endswith("PyTorch computes it with erf")


@pytest.mark.slow
@pytest.mark.parametrize("target", ["ort-cpu", "ort-cuda"])
def test_it_fails_in_half_precision_too(target: str) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)).half().eval()
    inputs = {"input": "float16[1<=batch,16]"}
    model = export(module, inputs)
    assert verify(model, against=module, inputs=inputs, runtimes=["ort-cpu"]).passed
    wrong, _ = fuse(flipped(model), target, check=False)
    result = verify(wrong, against=module, inputs=inputs, runtimes=["ort-cpu"])
    assert not result.passed
    assert "is a GELU with tanh, PyTorch computes it with erf" in result.failures[0]


@pytest.mark.slow
def test_the_fast_path_of_an_encoder_layer() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", batch_first=True).eval()
    module = module_of(lambda self, x: F.gelu(self.layer(x[None])[0], approximate="tanh"), layer=layer)
    assert found(export(module, INPUTS), module) == ()
