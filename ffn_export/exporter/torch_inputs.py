"""Arrays as tensors; apart from drawing them, which needs no torch."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from ffn_export.core.types import Array


def to_torch(arrays: Mapping[str, Array]) -> dict[str, torch.Tensor]:
    """Copy arrays to tensors of the same dtype; torch cannot read NumPy's bfloat16 by itself.

    A copy, because a module may write to its inputs, and the arrays may be needed again.
    """
    return {
        name: torch.tensor(array.astype("float32")).bfloat16()
        if array.dtype.name == "bfloat16"
        else torch.tensor(array)
        for name, array in arrays.items()
    }
