"""One set of inputs on which graphs are compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ffn_export.core.types import Array
from ffn_export.fusion_check.inputs import Sizes


@dataclass(frozen=True)
class Case:
    """Inputs, and the model's results for them."""

    sizes: Sizes
    feeds: Mapping[str, Array] = field(repr=False)
    expected: Mapping[str, Array] = field(repr=False)
