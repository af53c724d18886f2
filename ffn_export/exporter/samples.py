"""Arrays that a user gives: check them against a model's inputs, or derive the inputs from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, repeat
from typing import Any

import numpy as np

from ffn_export.core.drawing import numpy_dtype
from ffn_export.core.tensor_spec import Dim, TensorSpec
from ffn_export.core.types import Array
from ffn_export.errors import UsageError


def as_array(value: Any) -> Array:
    """Convert a user's value to an array; it may be a torch tensor on any device."""
    if hasattr(value, "detach"):  # not isinstance, because running a bundle does not import torch
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":
            value = value.float().numpy().astype(numpy_dtype("bfloat16"))
    return np.asarray(value)


def check_samples(specs: Sequence[TensorSpec], samples: Mapping[str, Array]) -> None:
    """Check the user's arrays against the inputs.

    Raises:
        UsageError: If an array is missing or surplus, has another dtype, rank or static size than its
            input, or a symbolic dimension has two sizes.
    """
    if set(samples) != {spec.name for spec in specs}:
        wanted = ", ".join(spec.name for spec in specs)
        raise UsageError(f"the arrays given are {', '.join(map(str, samples)) or 'none'}, the inputs are {wanted}")
    sizes: dict[str, int] = {}
    for spec in specs:
        for dim, size in zip(spec.dims, chain(samples[spec.name].shape, repeat(0)), strict=False):
            if isinstance(dim, Dim):
                sizes.setdefault(dim.name, dim.clamp(size))
    for spec in specs:
        array = samples[spec.name]
        if array.dtype != numpy_dtype(spec.dtype) or array.shape != spec.shape(sizes):
            shape = ",".join(map(str, array.shape))
            raise UsageError(f"the array of input {spec.name!r} is {array.dtype}[{shape}], expected {spec}")


def specs_of(samples: Mapping[str, Array]) -> tuple[TensorSpec, ...]:
    """Return static input specs that fit arrays, for a module without declared inputs."""
    return tuple(TensorSpec(name, array.dtype.name, array.shape) for name, array in samples.items())
