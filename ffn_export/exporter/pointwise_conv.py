"""Kernel-1 ``Conv1d`` as a matrix product.

The two are the same function. As a ``Conv`` node it fails in ONNX Runtime on an empty sequence, and
nothing that fuses feed-forwards recognises it; as a matrix product it is an ordinary linear layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

_CONV1D = torch.ops.aten.conv1d.default


def as_matrix_products(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return the program with each kernel-1, stride-1, ungrouped ``conv1d`` as a linear layer."""
    if not any(_is_pointwise(node) for node in program.graph.nodes):
        return program
    # backed_size_oblivious: as in the trace, a layout that differs at size 1 is not taken as a guard.
    with torch.fx.experimental._config.patch(backed_size_oblivious=True):  # type: ignore[attr-defined]
        decomposed: torch.export.ExportedProgram = program.run_decompositions({_CONV1D: _decompose})
    return decomposed


def _is_pointwise(node: torch.fx.Node) -> bool:
    if node.target is not _CONV1D:
        return False
    args: list[Any] = list(node.args)
    return _fits(args[1].meta["val"], *args[3:])


def _fits(
    weight: Tensor,
    stride: Sequence[int] = (1,),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    groups: int = 1,
) -> bool:
    del dilation  # has no meaning for a kernel of size 1
    return weight.shape[-1] == 1 and list(stride) == [1] and list(padding) == [0] and groups == 1


def _decompose(x: Tensor, weight: Tensor, bias: Tensor | None = None, *geometry: Any) -> Tensor:
    """``conv1d``: x [batch, in, length], weight [out, in, 1] -> [batch, out, length]."""
    if not _fits(weight, *geometry):
        result: Tensor = NotImplemented
        return result
    return torch.nn.functional.linear(x.transpose(-1, -2), weight.squeeze(-1), bias).transpose(-1, -2)
