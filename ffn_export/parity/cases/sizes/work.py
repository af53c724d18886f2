"""Estimate the work of a case. It is counted, not timed, so that a command runs the same cases on every machine."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import onnx_ir as ir

from ffn_export.core.tensor_spec import TensorSpec, token_inputs

# Fixed cost of a case of any size, in products.
_OVERHEAD = 40_000_000
_MIXES = frozenset({"Softmax", "Attention", "MultiHeadAttention", "GroupQueryAttention"})


@dataclass(frozen=True)
class Work:
    """Counts the multiplications of a run.

    Attributes:
        parameters: Number of elements of all weights, each multiplied once for every token.
        width: Products of one token with one other; 0 if the model has no attention.
    """

    parameters: int
    width: int

    @classmethod
    def of(cls, model: ir.Model) -> Work:
        """Return the work of a model, from its number of parameters and whether it has attention."""
        parameters = sum(value.const_value.size for value in model.graph.initializers.values() if value.const_value)
        nodes = [*model.graph.all_nodes(), *(n for f in model.functions.values() for n in f.all_nodes())]
        attends = any(node.op_type in _MIXES for node in nodes)
        return cls(parameters, 2 * math.isqrt(parameters) if attends else 0)

    def of_sizes(self, specs: Sequence[TensorSpec]) -> Callable[[Mapping[str, Any]], Any]:
        """Return a function of sizes that gives the work, of integers or of arrays of thousands of them."""
        axes = [[dim.name for dim in spec.symbolic.values()] for spec in token_inputs(specs)]

        def work(sizes: Mapping[str, Any]) -> Any:
            tokens = _largest([math.prod([sizes[name] for name in names]) for names in axes])
            longest = _largest([*sizes.values()])
            return _OVERHEAD + tokens * (self.parameters + longest * self.width)

        return work

    def of_case(self, specs: Sequence[TensorSpec], sizes: Mapping[str, int]) -> int:
        """Return the work at these sizes."""
        work: int = self.of_sizes(specs)(sizes)
        return work


def _largest(numbers: Sequence[Any]) -> Any:
    """Return the largest integer, in arrays at each place; 1 of none."""
    if any(isinstance(each, np.ndarray) for each in numbers):
        return reduce(np.maximum, numbers)
    return max(numbers, default=1)
