"""Every preset goes through torch.export with its named axes still dynamic."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn
from torch.export import Dim

from ffn_export.modules import PRESETS, create

Shape = tuple[str, ...]


def axes(spec: str) -> Shape:
    inside = re.fullmatch(r"float32\[(.*)\]", spec)
    assert inside is not None
    return tuple(inside[1].split(","))


def tensors(shapes: list[Shape], sizes: dict[str, int]) -> tuple[torch.Tensor, ...]:
    draw = torch.Generator().manual_seed(0)
    sized = [[sizes[axis] if axis in sizes else int(axis) for axis in shape] for shape in shapes]
    return tuple(torch.randn(shape, generator=draw) for shape in sized)


def exported(module: nn.Module, shapes: list[Shape], strict: bool = False) -> torch.export.ExportedProgram:
    named = {axis: Dim(axis) for shape in shapes for axis in shape if not axis.isdigit()}
    dynamic = tuple({i: named[axis] for i, axis in enumerate(shape) if axis in named} for shape in shapes)
    example = tensors(shapes, {"batch": 2, "seq": 5})
    return torch.export.export(module, example, dynamic_shapes=dynamic, strict=strict)


def dynamic_axes(program: torch.export.ExportedProgram, kind: str) -> list[list[int]]:
    nodes = [node for node in program.graph.nodes if node.op == kind]
    if kind == "output":
        nodes = list(nodes[0].args[0])
    else:
        names = program.graph_signature.user_inputs
        nodes = [node for node in nodes if node.name in names]
    return [[i for i, size in enumerate(node.meta["val"].shape) if isinstance(size, torch.SymInt)] for node in nodes]


@pytest.mark.parametrize("name", PRESETS)
def test_named_axes_stay_dynamic(name: str) -> None:
    module, shapes = create(name), [axes(spec) for spec in PRESETS[name].inputs.values()]
    program = exported(module, shapes)
    named = [i for i, axis in enumerate(shapes[0]) if not axis.isdigit()]
    assert dynamic_axes(program, "placeholder") == [named] * len(shapes)
    assert dynamic_axes(program, "output") == [named]

    # Another size, one of them 1, through the exported program is the module itself.
    inputs = tensors(shapes, {"batch": 1, "seq": 7})
    torch.testing.assert_close(program.module()(*inputs), module(*inputs), rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["d2l-addnorm", "d2l-ffn-addnorm"])
def test_the_checks_in_forward_do_not_stop_a_strict_export(name: str) -> None:
    shapes = [axes(spec) for spec in PRESETS[name].inputs.values()]
    program = exported(create(name), shapes, strict=True)
    assert dynamic_axes(program, "output") == [[i for i, axis in enumerate(shapes[0]) if not axis.isdigit()]]
