"""Arrays that a user gives: checked against a model's inputs, or what the inputs are where nothing else says it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ffn_export.core.drawing import numpy_dtype
from ffn_export.core.tensor_spec import Dim, TensorSpec
from ffn_export.core.types import Array
from ffn_export.errors import UsageError


def as_array(value: Any) -> Array:
    """Return what a user gives for an array, which may be a tensor of torch on any device."""
    if hasattr(value, "detach"):  # and not isinstance: who runs a bundle need not import torch
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":
            value = value.float().numpy().astype(numpy_dtype("bfloat16"))
    return np.asarray(value)


def check_samples(specs: Sequence[TensorSpec], samples: Mapping[str, Array]) -> None:
    """Check the user's arrays against the inputs.

    Raises:
        UsageError: If they are not one for each input, in its dtype, rank and static sizes, with one
            size for each symbolic dimension.
    """
    if set(samples) != {spec.name for spec in specs}:
        wanted = ", ".join(spec.name for spec in specs)
        raise UsageError(f"the arrays given are {', '.join(samples) or 'none'}, the inputs are {wanted}")
    sizes: dict[str, int] = {}
    for spec in specs:
        array = samples[spec.name]
        expected = tuple(
            sizes.setdefault(dim.name, dim.clamp(size)) if isinstance(dim, Dim) else dim
            for dim, size in zip(spec.dims, array.shape, strict=False)
        )
        if array.dtype != numpy_dtype(spec.dtype) or array.ndim != len(spec.dims) or array.shape != expected:
            shape = ",".join(map(str, array.shape))
            raise UsageError(f"the array of input {spec.name!r} is {array.dtype}[{shape}], expected {spec}")


def specs_of(samples: Mapping[str, Array]) -> tuple[TensorSpec, ...]:
    """Return static input specs that fit arrays, for when nothing else says what the inputs are."""
    return tuple(TensorSpec(name, array.dtype.name, array.shape) for name, array in samples.items())
