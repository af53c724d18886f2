"""A module in another precision, converted in PyTorch: what is exported is what the baseline runs.

``float16`` and ``bfloat16`` convert weights, inputs and outputs; ``mixed`` computes the matrix products in
float16 and everything else, biases and norms included, in float32. The statistics of norms stay in
float32 in all of them, since PyTorch's kernels keep them so.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear
from torch.utils import _pytree as pytree

from ffn_export.errors import UsageError, did_you_mean
from ffn_export.exporter.drawing import numpy_dtype
from ffn_export.exporter.source import Source
from ffn_export.exporter.tensor_spec import TensorSpec

HALVES: Mapping[str, torch.dtype] = {"float16": torch.float16, "bfloat16": torch.bfloat16}
PRECISIONS = ("float32", *HALVES, "mixed")


def convert(source: Source, dtype: str, *, keep_io: bool = False) -> Source:
    """Return the source in another precision, on a copy of its module.

    Args:
        source: A source in float32.
        dtype: A name in :data:`PRECISIONS`; ``float32`` leaves the source as it is.
        keep_io: Keep the graph's inputs and outputs in float32, cast inside; ``mixed`` always does.

    Raises:
        UsageError: If the precision is unknown, or the source is an exported program, whose dtypes are fixed.
    """
    if dtype not in PRECISIONS:
        raise UsageError(
            f"unknown precision {dtype!r};{did_you_mean(dtype, PRECISIONS)} known are {', '.join(PRECISIONS)}"
        )
    if dtype == "float32":
        return source
    if source.program is not None:
        raise UsageError(f"{source.spec} is an exported program, its dtypes are fixed: export the module in {dtype}")
    module = copy.deepcopy(source.module)
    if dtype == "mixed":
        return replace(source, module=_with_half_products(module, {}), dtype=dtype, keep_io=True)
    half = HALVES[dtype]
    module = module.to(half)
    if keep_io:
        _cast_at_the_border(module, half)
        return replace(source, module=module, dtype=dtype, keep_io=True)
    inputs = tuple(_in_half(spec, dtype) for spec in source.inputs)
    samples = source.samples and {s.name: source.samples[s.name].astype(numpy_dtype(s.dtype)) for s in inputs}
    return replace(source, module=module, inputs=inputs, samples=samples, dtype=dtype)


def _in_half(spec: TensorSpec, dtype: str) -> TensorSpec:
    return replace(spec, dtype=dtype) if spec.dtype == "float32" else spec


def _cast_at_the_border(module: nn.Module, half: torch.dtype) -> None:
    """Cast float32 inputs to half and half outputs to float32; hooks leave ``forward``'s signature as it is."""

    def narrow(module: nn.Module, args: Any, kwargs: Any) -> Any:
        del module
        return _cast((args, kwargs), torch.float32, half)

    def widen(module: nn.Module, args: Any, result: Any) -> Any:
        del module, args
        return _cast(result, half, torch.float32)

    module.register_forward_pre_hook(narrow, with_kwargs=True)
    module.register_forward_hook(widen)


def _cast(tree: Any, old: torch.dtype, new: torch.dtype) -> Any:
    # The oracle runs in float64 all through: its tensors are not of the old dtype, and stay.
    return pytree.tree_map(lambda leaf: leaf.to(new) if isinstance(leaf, Tensor) and leaf.dtype is old else leaf, tree)


class HalfProduct(nn.Module):
    """A linear layer or convolution whose product is in float16 and whose bias is added in float32."""

    def __init__(self, product: nn.Linear | nn.Conv1d) -> None:
        super().__init__()
        bias = product.bias
        shape = (-1, 1) if isinstance(product, nn.Conv1d) else (-1,)  # a convolution's channels come before its length
        product.bias = None
        self.product = product.to(torch.float16)
        self.bias = None if bias is None else nn.Parameter(bias.detach().reshape(shape))

    def forward(self, x: Tensor) -> Tensor:
        """Map float32 to float32."""
        y: Tensor = self.product(x.to(self.product.weight.dtype)).to(x.dtype)
        return y if self.bias is None else y + self.bias


def _with_half_products(module: nn.Module, made: dict[nn.Module, HalfProduct]) -> nn.Module:
    """Replace products inside of a module, one that stands in several places by the same in all of them."""
    if isinstance(module, HalfProduct):
        return module
    # Attention reads the weight of this kind itself, and never calls it.
    if isinstance(module, (nn.Linear, nn.Conv1d)) and not isinstance(module, NonDynamicallyQuantizableLinear):
        if module not in made:
            made[module] = HalfProduct(module)
        return made[module]
    for name, child in list(module._modules.items()):  # named_children() leaves out what it has seen
        if child is not None:
            setattr(module, name, _with_half_products(child, made))
    return module
