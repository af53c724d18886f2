"""Epsilons that no output shows."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest
import torch
from torch import nn

from ffn_export.exporter.export import export_source
from ffn_export.exporter.source import Source, from_module
from ffn_export.fusion.pipeline import fuse
from ffn_export.fusion.targets import TARGETS
from ffn_export.parity.cases.case import sweep
from ffn_export.parity.checks.bodies import judge
from ffn_export.parity.checks.epsilons import differences
from ffn_export.parity.reference.module_trace import Watched, watch


class OwnNorm(nn.Module):
    """A norm in pieces, whose epsilon is a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("epsilon", torch.tensor(1e-6))

    epsilon: torch.Tensor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normal: torch.Tensor = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon)
        return normal.clamp(min=0.0)  # a 0 that is no epsilon


class NoEpsilon(nn.Module):
    """A norm that has none."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True))


class OneOfEach(nn.Module):
    """A norm that has none, before one that has one."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.Sequential(NoEpsilon(), nn.LayerNorm(8, eps=1e-6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normal: torch.Tensor = self.norms(x)
        return normal


MODULES: dict[str, Callable[[], nn.Module]] = {
    "layer": lambda: nn.LayerNorm(8, eps=1e-12),
    "rms": lambda: nn.RMSNorm(8, eps=1e-6),
    "rms of the dtype": lambda: nn.RMSNorm(8),
    "own": OwnNorm,
    "none": NoEpsilon,
    "one of each": OneOfEach,
    "layer of 0": lambda: nn.Sequential(nn.LayerNorm(8, eps=0.0), nn.LayerNorm(8, eps=1e-6)),
    "encoder": lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, layer_norm_eps=1e-6),
}


def exported(name: str) -> tuple[Source, ir.Model]:
    source = from_module(MODULES[name]().eval(), {"x": "float32[1<=batch,1<=seq,8]"})
    return source, export_source(source)


def found(model: ir.Model, source: Source) -> tuple[str, ...]:
    return differences(model, watch(source, sweep(source.inputs)[0].feeds(source.inputs)))


@pytest.mark.slow
@pytest.mark.parametrize("name", MODULES)
def test_the_module_s_own_epsilons_are_right_in_every_form(name: str) -> None:
    source, model = exported(name)
    assert found(model, source) == ()
    for target in TARGETS:
        assert found(fuse(model, target)[0], source) == ()


@pytest.mark.slow
@pytest.mark.parametrize("factor", [10, 0.1, 1.001])
def test_another_epsilon_is_named(factor: float) -> None:
    source, model = exported("layer")
    node = next(node for node in model.graph if node.op_type == "LayerNormalization")
    node.attributes["epsilon"] = ir.AttrFloat32("epsilon", 1e-12 * factor)
    (line,) = found(model, source)
    assert f"has epsilon {1e-12 * factor:.6g}, which PyTorch computes with nowhere (it has 1e-12)" in line


def test_the_infinity_of_a_mask_is_no_epsilon() -> None:
    _, model = exported("layer")
    (line,) = differences(model, Watched(terms={1e-6, -math.inf}))
    assert "has epsilon 1e-12, which PyTorch computes with nowhere (it has 1e-06)" in line


def test_an_absent_epsilon_is_that_of_the_schema() -> None:
    source, model = exported("layer")
    node = next(node for node in model.graph if node.op_type == "LayerNormalization")
    del node.attributes["epsilon"]
    assert "has epsilon 1e-05" in found(model, source)[0]


def test_the_epsilon_of_a_decomposed_norm() -> None:
    source, model = exported("rms")
    tensors = ((value, value.const_value) for value in model.graph.initializers.values())
    constant, tensor = next((v, t) for v, t in tensors if t is not None and t.size == 1 and 0 < t.numpy().item() < 1e-5)
    constant.const_value = ir.tensor(tensor.numpy() * 10, name=constant.name)
    assert "(Add) has epsilon 1e-05" in found(model, source)[0]


@pytest.mark.parametrize(
    "norm", [nn.BatchNorm1d(4), nn.InstanceNorm1d(4), nn.GroupNorm(2, 4)], ids=lambda norm: type(norm).__name__
)
def test_the_epsilon_of_a_norm_over_other_axes(norm: nn.Module) -> None:
    source = from_module(norm.eval(), {"input": "float32[1<=batch,4,2<=length]"})
    model = export_source(source)
    assert found(model, source) == ()
    node = next(node for node in model.graph if node.op_type.endswith("Normalization"))
    node.attributes["epsilon"] = ir.AttrFloat32("epsilon", 1.2e-5)
    (line,) = found(model, source)
    assert "has epsilon 1.2e-05" in line


@pytest.fixture
def outlined() -> tuple[Source, ir.Model]:
    """A norm in the node of a linear layer that native kernels compute, and in the body of the node."""
    source = from_module(nn.Sequential(nn.LayerNorm(8, eps=1e-12), nn.Linear(8, 4)), {"input": "float32[batch,8]"})
    return source, fuse(export_source(source), "ort-native")[0]


def test_the_epsilon_that_native_kernels_compute_with(outlined: tuple[Source, ir.Model]) -> None:
    source, model = outlined
    assert found(model, source) == ()
    (node,) = model.graph
    node.attributes["epsilon"] = ir.AttrFloat32("epsilon", 1e-11)
    (line,) = found(model, source)
    assert "(Linear) has epsilon 1e-11" in line


def test_the_epsilon_within_a_function(outlined: tuple[Source, ir.Model]) -> None:
    source, model = outlined
    (function,) = model.functions.values()
    norm = next(node for node in function if node.op_type == "LayerNormalization")
    norm.attributes["epsilon"] = ir.AttrFloat32("epsilon", 1e-11)
    (line,) = found(model, source)
    assert "(LayerNormalization) has epsilon 1e-11" in line


@pytest.fixture
def kept_apart(outlined: tuple[Source, ir.Model]) -> tuple[Source, ir.Model]:
    """The same, in a function of a file's own that cannot be written into the graph, as it imports another opset."""
    source, model = outlined
    (function,) = model.functions.values()
    body = function.graph
    body.opset_imports[""] = model.opset_imports[""] - 1
    model.graph[0].domain = "mine"
    model.opset_imports["mine"] = 1
    own = ir.Function("mine", function.name, graph=body, attributes=list(function.attributes.values()))
    return source, ir.Model(model.graph, ir_version=model.ir_version, functions=[own])


def test_the_epsilon_within_a_function_that_stays_a_function(kept_apart: tuple[Source, ir.Model]) -> None:
    source, model = kept_apart
    (function,) = model.functions.values()
    norm = next(node for node in function if node.op_type == "LayerNormalization")
    assert found(model, source) == ()
    norm.attributes["epsilon"] = ir.AttrFloat32("epsilon", 1e-11)
    (line,) = found(model, source)
    assert "(LayerNormalization) has epsilon 1e-11" in line


def test_an_epsilon_that_a_call_gives_is_said_to_be_unread(kept_apart: tuple[Source, ir.Model]) -> None:
    source, model = kept_apart
    (function,) = model.functions.values()
    norm = next(node for node in function if node.op_type == "LayerNormalization")
    function.attributes["e"] = ir.AttrFloat32("e", 1e-12)
    norm.attributes["epsilon"] = ir.RefAttr("epsilon", "e", ir.AttributeType.FLOAT)
    assert found(model, source) == ()
    line, *_ = judge(model).notes
    assert "function mine::Linear cannot be written into the graph" in line


class Guarded(nn.Module):
    """Divides by what an operator keeps from 0, or takes a logarithm of it."""

    def __init__(self, compute: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.compute = compute

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.compute(x)


GUARDS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "normalize": lambda x: nn.functional.normalize(x, dim=-1, eps=1e-7),
    "normalize by default": lambda x: nn.functional.normalize(x, dim=-1),
    "cosine similarity": lambda x: nn.functional.cosine_similarity(x, x.flip(-1), dim=-1),
    "distance": lambda x: nn.functional.pairwise_distance(x, x.flip(-1), eps=1e-7),
    "added to a divisor": lambda x: x / (x.abs().sum(-1, keepdim=True) + 1e-7),
    "subtracted from a divisor": lambda x: x / (x.abs().sum(-1, keepdim=True) - 1e-7),
    "least divisor": lambda x: x / x.abs().sum(-1, keepdim=True).clamp(min=1e-7),
    "maximum": lambda x: x / torch.maximum(x.abs().sum(-1, keepdim=True), torch.tensor(1e-7, dtype=x.dtype)),
    "scale of a quantiser": lambda x: x / (x.abs().amax(-1, keepdim=True).clamp(min=1e-7) / 127),
    "logarithm": lambda x: torch.log(x.softmax(-1) + 1e-7),
}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", GUARDS)
def test_the_epsilon_that_guards_a_divisor_or_a_logarithm(name: str, dtype: str) -> None:
    source = from_module(Guarded(GUARDS[name]).eval(), {"x": f"{dtype}[1<=batch,1<=seq,8]"})
    model = export_source(source)
    assert found(model, source) == ()
    assert found(fuse(model, "ort-cpu")[0], source) == ()
    for value in model.graph.initializers.values():
        number = value.const_value and value.const_value.size == 1 and value.const_value.numpy()
        if isinstance(number, np.ndarray) and number.dtype.kind == "f" and 0 < number < 1e-2:
            value.const_value = ir.tensor((number * 3).astype(number.dtype), name=value.name)
    if dtype == "float16" and name in ("normalize by default", "cosine similarity"):
        assert not found(model, source)  # 1e-12 rounds to 0, and so does three times that
    else:
        assert "PyTorch computes with nowhere" in found(model, source)[0]


@pytest.mark.parametrize("operator", ["Add", "Sub"])
@pytest.mark.parametrize("is_subtracted", [False, True])
def test_an_epsilon_of_the_other_sign(is_subtracted: bool, operator: str) -> None:
    """Written with the other operator, or as the negative number of the same one."""

    def guarded(x: torch.Tensor) -> torch.Tensor:
        length = x.abs().sum(-1, keepdim=True)
        return x / (length - 1e-7 if is_subtracted else length + 1e-7)

    source = from_module(Guarded(guarded).eval(), {"x": "float32[1<=batch,1<=seq,8]"})
    model = export_source(source)
    node = next(node for node in model.graph if node.op_type in ("Add", "Sub"))
    assert not found(model, source)
    if node.op_type == operator:  # the same operator of the negative number
        value = node.inputs[1]
        assert value is not None
        assert value.const_value is not None
        value.const_value = ir.tensor(-value.const_value.numpy(), name=value.name)
    node.op_type = operator
    (line,) = found(model, source)
    sign = "" if is_subtracted else "-"
    assert f"({operator}) has epsilon {sign}1e-07, which PyTorch computes with nowhere" in line


@pytest.mark.parametrize("name", ["rms", "own"])
def test_an_epsilon_that_is_left_out_is_named(name: str) -> None:
    source, model = exported(name)
    total = next(node for node in model.graph if node.op_type == "Add")
    mean = next(value for value in total.inputs if value is not None and not value.is_initializer())
    ir.convenience.replace_all_uses_with(total.outputs[0], mean)
    model.graph.remove(total, safe=True)
    (line,) = found(model, source)
    assert "(Sqrt) has epsilon 0, which PyTorch computes with nowhere (it has 1e-06)" in line


class Rooted(Guarded):
    """A norm by the root that a function takes, before one with an epsilon."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.layer_norm(x / self.compute(x), (8,))


def mean_square(x: torch.Tensor) -> torch.Tensor:
    return x.square().mean(-1, keepdim=True)


ROOTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "in place": lambda x: mean_square(x).pow_(0.5),
    "power of a tensor": lambda x: mean_square(x) ** torch.tensor(0.5, dtype=x.dtype),
    "of a sum of two": lambda x: (mean_square(x) + -(x.mean(-1, keepdim=True) ** 2)).sqrt(),
    "plus a number that rounds to 0": lambda x: (mean_square(x) + 1e-8).sqrt(),
}


@pytest.mark.parametrize("name", ROOTS)
def test_a_root_that_the_module_takes_without_an_epsilon_is_right(name: str) -> None:
    source = from_module(Rooted(ROOTS[name]).eval(), {"x": "float16[1<=batch,1<=seq,8]"})
    model = export_source(source)
    assert found(model, source) == ()
    assert found(fuse(model, "ort-cpu")[0], source) == ()
    for node in model.graph:
        node.outputs[0].type = None  # as in a file of torch's older exporter
    assert found(model, source) == ()


def test_epsilons_of_roots_that_are_taken_later_count() -> None:
    def normed(x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        one, other = (mean_square(each) + 1e-6 for each in (wide, wide.flip(-1)))
        y: torch.Tensor = x / one.sqrt().to(x.dtype) + x / other.to(x.dtype).sqrt()
        return y

    source = from_module(Guarded(normed).eval(), {"x": "float16[1<=batch,1<=seq,8]"})
    assert not watch(source, sweep(source.inputs)[0].feeds(source.inputs)).takes_bare_roots
