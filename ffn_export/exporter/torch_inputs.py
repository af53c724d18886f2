"""Convert arrays to tensors; separate from drawing inputs, which needs no torch."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from ffn_export.core.types import Array


def to_torch(arrays: Mapping[str, Array]) -> dict[str, torch.Tensor]:
    """Copy arrays to tensors of the same dtype, also bfloat16, which torch cannot read from NumPy.

    The arrays are copied because a module may write to its inputs.
    """
    return {
        name: torch.tensor(array.astype("float32")).bfloat16()
        if array.dtype.name == "bfloat16"
        else torch.tensor(array)
        for name, array in arrays.items()
    }
