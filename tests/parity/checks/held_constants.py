"""Graphs that hold arrays as initializers, and what the check of weights takes these for."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
import torch
from numpy.typing import NDArray
from torch import nn

from ffn_export.parity.checks import weights
from ffn_export.parity.judging.measures import WeightMetrics

Array = NDArray[Any]


def compare_weights(model: ir.Model, module: nn.Module) -> tuple[WeightMetrics, ...]:
    """Return the constants that are traced to parameters."""
    return weights.compare_weights(model, module).traced


def graph(**arrays: Array) -> ir.Model:
    """Make a model without nodes, whose initializers are these arrays."""
    values = [ir.Value(name=name, const_value=ir.Tensor(array, name=name)) for name, array in arrays.items()]
    return ir.Model(ir.Graph([], [], nodes=[], initializers=values), ir_version=10)


def linear(*sizes: tuple[int, int]) -> nn.Module:
    """Make linear layers of these sizes, with weights that are always the same."""
    torch.manual_seed(0)
    return nn.ModuleList(nn.Linear(*each) for each in sizes)


def numbers(module: nn.Module, name: str) -> Array:
    """Return a copy of a parameter."""
    array: Array = module.get_parameter(name).detach().numpy().copy()
    return array


def found(module: nn.Module, stored: Array) -> tuple[str, str, int]:
    """Return the parameter that one constant is traced to, how it holds it, and the number of elements that differ."""
    (only,) = compare_weights(graph(stored=stored), module)
    return only.parameter, only.how, only.differing
