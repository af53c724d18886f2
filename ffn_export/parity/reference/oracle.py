"""The oracle: a module evaluated in float64, even if it names other dtypes inside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._pytree import tree_leaves, tree_map

from ffn_export.core.types import Array
from ffn_export.exporter import experts
from ffn_export.exporter.dispatch import OperatorMode
from ffn_export.exporter.module_state import copied
from ffn_export.exporter.outputs import tensors_of
from ffn_export.exporter.source import Source
from ffn_export.exporter.torch_inputs import to_torch
from ffn_export.parity.reference.dtype_limits import limits_of, working_dtype

# Larger parameters are not moved, since each float64 copy takes twice as many bytes as float32.
_LARGEST_COPY = 2**28

_WORKING = frozenset({torch.float32, torch.float16, torch.bfloat16})


class _InFloat64(OperatorMode):  # type: ignore[no-untyped-call]  # torch leaves its base untyped
    """Replaces float32, float16 and bfloat16 by float64 in every operator, including the default dtype.

    A module may cast inside ``forward`` (norms often do, to float32), create tensors there (``torch.ones(n, n)``), or
    keep tensors that are no buffers. ``module.double()`` does not reach these, so the oracle would carry float32
    rounding errors, or fail on mixed dtypes.
    """

    def run(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run an operator in float64."""
        kwargs = dict(kwargs)
        if func is torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default:
            return _attention(*args, **kwargs)
        if kwargs.get("dtype") in _WORKING:
            kwargs["dtype"] = torch.float64
        # In a branch of ``torch.cond`` the dtype may be a positional argument.
        wide = [torch.float64 if isinstance(each, torch.dtype) and each in _WORKING else each for each in args]
        if func is torch.ops.aten.lift_fresh.default or not any(map(_is_tensor, tree_leaves((wide, kwargs)))):
            return _widened(func(*wide, **kwargs))  # a new tensor, which may be written to later
        if isinstance(func, OpOverload) and not func._schema.is_mutable:
            wide, kwargs = tree_map(_widened, (wide, kwargs))
        if func in (torch.ops.aten.nan_to_num.default, torch.ops.aten.nan_to_num_.default):
            wide, kwargs = _with_limits(*wide, **kwargs), {}
        return func(*wide, **kwargs)


def _is_tensor(leaf: object) -> bool:
    return isinstance(leaf, torch.Tensor)


def _widened(leaf: Any) -> Any:
    return leaf.double() if isinstance(leaf, torch.Tensor) and leaf.dtype in _WORKING else leaf


def _with_limits(x: Any, nan: Any = None, posinf: Any = None, neginf: Any = None) -> list[Any]:
    """Return the arguments of ``nan_to_num``, whose numbers for infinities are by default the limits of the dtype."""
    if not x.is_floating_point():
        return [x, nan, posinf, neginf]
    limits = torch.finfo(x.dtype)  # those of the working dtype (dtype_limits)
    return [x, nan, limits.max if posinf is None else posinf, limits.min if neginf is None else neginf]


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout: float = 0.0,
    causal: bool = False,
    **options: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute attention by its formula, since the fused kernel drops NaN at some positions of a batch."""
    mask, scale = options.get("attn_mask"), options.get("scale")
    is_grouped = query.size(1) != key.size(1)
    result, _ = torch.ops.aten._scaled_dot_product_attention_math(
        query, key, value, mask, dropout, causal, scale=scale, enable_gqa=is_grouped
    )
    # The fused kernel's result has the memory layout of the query, and a module may take a view of it.
    return torch.empty_like(query).copy_(result), query.new_empty(0)  # the sums serve only the backward pass


class TorchOracle:
    """A float64 copy of a source's module."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.working_dtype = working_dtype(source.module)
        self.module = copied(source.module).double()
        for each in self.module.modules():  # eval() raises for an exported program
            each.training = False

    def run(self, feeds: Mapping[str, Array], rounding_seed: int | None = None) -> list[Array]:
        """Return the outputs in order, floating-point ones in float64.

        Args:
            feeds: Input name -> array.
            rounding_seed: Seed of directions in which every parameter is first moved by half an ULP of its dtype; None
                moves none.
        """
        tensors = {
            name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in to_torch(feeds).items()
        }
        args, kwargs = self.source.call.arguments(tensors)
        # The operator for groups of tokens in ``transformers`` does not support float64.
        with torch.no_grad(), experts.as_products(self.module), limits_of(self.working_dtype):
            moved = {} if rounding_seed is None else self._rounded_parameters(rounding_seed)
            result = _InFloat64().watch(lambda: torch.func.functional_call(self.module, moved, args, kwargs))
        return [tensor.detach().cpu().numpy() for tensor in tensors_of(result)]

    def _rounded_parameters(self, seed: int) -> dict[str, torch.Tensor]:
        """Return the parameters with each element moved by one rounding; empty if they are too large to copy."""
        working = dict(self.source.module.named_parameters())
        if sum(parameter.nbytes for parameter in working.values()) > _LARGEST_COPY:
            return {}
        draw = torch.Generator().manual_seed(seed)
        return {
            name: _rounded(exact, torch.finfo(working[name].dtype).eps, draw)
            for name, exact in self.module.named_parameters()
            if name in working and working[name].is_floating_point()
        }


def _rounded(exact: torch.Tensor, eps: float, draw: torch.Generator) -> torch.Tensor:
    """Multiply each element by ``1 + eps / 2`` or ``1 - eps / 2``, in one new tensor: parameters are large."""
    up = torch.randint(0, 2, exact.shape, dtype=torch.int8, generator=draw)
    return up.to(exact.dtype).mul_(eps).add_(1 - eps / 2).mul_(exact)
