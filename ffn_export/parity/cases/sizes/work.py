"""The work of a case, counted and not timed: the same command judges the same cases on every machine."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from ffn_export.core.tensor_spec import TensorSpec

# A case costs something however small it is: about this many products.
_OVERHEAD = 40_000_000
_MIXES = frozenset({"Softmax", "Attention", "MultiHeadAttention", "GroupQueryAttention"})


@dataclass(frozen=True)
class Work:
    """Counts multiplications of a run.

    Attributes:
        parameters: Elements of all weights, each of which meets every token once.
        width: Products of a token with each other one; 0 where tokens do not attend to each other.
    """

    parameters: int
    width: int

    @classmethod
    def of(cls, model: ir.Model) -> Work:
        """Read off a model how large it is and whether its tokens attend to each other."""
        parameters = sum(value.const_value.size for value in model.graph.initializers.values() if value.const_value)
        nodes = [*model.graph.all_nodes(), *(n for f in model.functions.values() for n in f.all_nodes())]
        attends = any(node.op_type in _MIXES for node in nodes)
        return cls(parameters, 2 * math.isqrt(parameters) if attends else 0)

    def of_case(self, specs: Sequence[TensorSpec], sizes: Mapping[str, int]) -> int:
        """Return the work at these sizes."""
        tokens = max((math.prod(sizes[dim.name] for dim in spec.symbolic.values()) for spec in specs), default=1)
        longest = max(sizes.values(), default=1)
        return _OVERHEAD + tokens * (self.parameters + longest * self.width)
