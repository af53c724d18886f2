"""Convert a module to another precision in PyTorch, so that the baseline runs the exported module.

``float16`` and ``bfloat16`` convert weights, inputs and outputs. ``mixed`` computes the matrix products in
float16 and everything else, biases and norms included, in float32. The statistics of norms stay in
float32 in all precisions, as in PyTorch's kernels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear
from torch.utils import _pytree as pytree

from ffn_export.core.drawing import numpy_dtype
from ffn_export.errors import UsageError, did_you_mean
from ffn_export.exporter.module_state import copied
from ffn_export.exporter.source import Source

HALVES: Mapping[str, torch.dtype] = {"float16": torch.float16, "bfloat16": torch.bfloat16}
PRECISIONS = ("float32", *HALVES, "mixed")


def own_dtype(source: Source) -> str:
    """Return the precision of a module as it was given: that of all its parameters, as after ``module.half()``."""
    if source.kind not in ("module", "factory"):
        return "float32"
    dtypes = {each.dtype for each in source.module.parameters() if each.is_floating_point()}
    return next((name for name, half in HALVES.items() if dtypes == {half}), "float32")


def convert(source: Source, dtype: str, *, keep_io: bool = False) -> Source:
    """Return the source in another precision, on a copy of its module.

    Args:
        source: A source in float32.
        dtype: A name in :data:`PRECISIONS`; ``float32`` returns the source unchanged.
        keep_io: Whether the graph's inputs and outputs stay in float32, with casts inside; always for ``mixed``.

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
    if dtype == "mixed":
        module = _HalfProducts().put_into(copied(source.module))
        return replace(source, module=module, dtype=dtype, keep_io=True)
    half = HALVES[dtype]
    module = _in_half(copied(source.module), half) if source.load is None else source.load(half)
    if keep_io:
        _cast_at_the_border(module, half)
        return replace(source, module=module, dtype=dtype, keep_io=True)
    inputs = tuple(replace(spec, dtype=dtype) if spec.dtype == "float32" else spec for spec in source.inputs)
    samples = source.samples and {s.name: source.samples[s.name].astype(numpy_dtype(s.dtype)) for s in inputs}
    return replace(source, module=module, inputs=inputs, samples=samples, dtype=dtype)


def _in_half(module: nn.Module, half: torch.dtype) -> nn.Module:
    """Convert as ``module.half()`` does: ``module.to`` keeps only the real part of a complex buffer.

    The frequencies of rotary positions stay in float32, as in the transformers library for any dtype of a model. In
    bfloat16, they would be off by a radian at position 1,000.
    """
    kept = {
        id(buffer)
        for owner in module.modules()
        if type(owner).__module__.startswith("transformers.")
        for name, buffer in owner._buffers.items()
        if name.endswith("inv_freq")
    }
    # torch leaves it untyped
    module._apply(lambda t: t.to(half) if t.is_floating_point() and id(t) not in kept else t)  # type: ignore[no-untyped-call]
    return module


def _cast_at_the_border(module: nn.Module, half: torch.dtype) -> None:
    """Cast float32 inputs to half and half outputs to float32, by hooks, which keep ``forward``'s signature."""

    def narrow(module: nn.Module, args: Any, kwargs: Any) -> Any:
        del module
        return _cast((args, kwargs), torch.float32, half)

    def widen(module: nn.Module, args: Any, result: Any) -> Any:
        del module, args
        return _cast(result, half, torch.float32)

    module.register_forward_pre_hook(narrow, with_kwargs=True)
    module.register_forward_hook(widen)


def _cast(tree: Any, old: torch.dtype, new: torch.dtype) -> Any:
    # The oracle runs in float64 throughout: its tensors do not have the old dtype, so they are not cast.
    return pytree.tree_map(lambda leaf: leaf.to(new) if isinstance(leaf, Tensor) and leaf.dtype is old else leaf, tree)


class HalfProduct(nn.Module):
    """A linear layer or convolution whose product is in float16 and whose bias is added in float32.

    Args:
        product: The layer; its bias is removed.
        weight: Weight of the layer in float16; None converts the parameters from which the layer computes its weight.
    """

    def __init__(self, product: nn.Linear | nn.Conv1d, weight: nn.Parameter | None) -> None:
        super().__init__()
        bias = product.bias
        shape = (-1, 1) if isinstance(product, nn.Conv1d) else (-1,)  # a convolution's channels come before its length
        product.bias = None
        if weight is None:
            product.to(torch.float16)
        else:  # not `to`, which would convert the parameter also for a tied embedding
            product.weight = weight
        self.product = product
        self.bias = None if bias is None else nn.Parameter(bias.detach().reshape(shape))
        # With a hook, PyTorch's encoder layer calls this module instead of computing with its weights directly.
        self.register_forward_pre_hook(lambda module, args: None)

    @property
    def weight(self) -> Tensor:
        """The weight in float16: some models read its dtype."""
        return self.product.weight

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the parameter's name in the replaced layer
        """Map float32 to float32."""
        # The dtype of a parameter: a weight that a hook computes is still that of the previous call.
        y: Tensor = self.product(input.to(next(self.product.parameters()).dtype)).to(input.dtype)
        return y if self.bias is None else y + self.bias


class _HalfProducts:
    """Replaces layers by products in float16; a layer or weight used in several places stays shared."""

    def __init__(self) -> None:
        self._layers: dict[nn.Module, HalfProduct] = {}
        self._weights: dict[nn.Parameter, nn.Parameter] = {}

    def put_into(self, module: nn.Module) -> nn.Module:
        """Replace the layers in a module, or the module if it is a layer; return the result."""
        if isinstance(module, HalfProduct):
            return module
        if module in self._layers:
            return self._layers[module]
        layer = _as_layer(module)
        if layer is not None:
            self._layers[module] = HalfProduct(layer, self._in_half(layer))
            return self._layers[module]
        for name, child in list(module._modules.items()):  # named_children() omits duplicates
            if child is not None:
                setattr(module, name, self.put_into(child))
        return module

    def _in_half(self, layer: nn.Linear | nn.Conv1d) -> nn.Parameter | None:
        weight = layer._parameters.get("weight")
        if weight is None:  # parametrised: computed from other parameters
            return None
        if weight not in self._weights:
            self._weights[weight] = nn.Parameter(weight.detach().to(torch.float16), requires_grad=False)
        return self._weights[weight]


def _as_layer(module: nn.Module) -> nn.Linear | nn.Conv1d | None:
    """Return a module that multiplies by its weight as a PyTorch layer, or None for any other module."""
    # Attention reads the weight of a NonDynamicallyQuantizableLinear directly, and never calls the layer.
    if isinstance(module, (nn.Linear, nn.Conv1d)):
        return None if isinstance(module, NonDynamicallyQuantizableLinear) else module
    kind = type(module)
    if (kind.__module__, kind.__name__) != ("transformers.pytorch_utils", "Conv1D"):  # GPT-2's transposed linear layer
        return None
    weight, bias = module.get_parameter("weight"), module.get_parameter("bias")
    linear = nn.Linear(weight.shape[0], weight.shape[1], device="meta")
    linear.weight, linear.bias = nn.Parameter(weight.detach().T), bias
    return linear
