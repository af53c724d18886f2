"""Sizes at which NaN and infinity stand in every feature, for graphs that tell them apart.

A graph may replace NaN in a few features only. The usual cases have too few tokens for each feature, and most graphs
hand on NaN from any. Where nodes look at features for NaN, or compare them, before the features are mixed, each feature
gets a token, in a sequence of its own so that no other token hides it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import onnx_ir as ir

from ffn_export.core.tensor_spec import TensorSpec, merge_dims
from ffn_export.core.words import words
from ffn_export.fusion.views import is_one_of

_LOOKING = ("Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual")
# Operators whose results have their features from one feature of an input each.
_KEEPING = words(
    "Abs Add Cast Clip Concat Div Expand Flatten Gather Identity Max Min Mul Neg Pow Reshape Slice Split Sqrt Squeeze "
    "Sub Transpose Unsqueeze Where"
)
_MOST = 2048  # tokens


def for_every_feature(model: ir.Model, specs: Sequence[TensorSpec]) -> Iterator[Mapping[str, int]]:
    """Yield sizes with two tokens for each feature of an input whose features are looked at one by one."""
    dims = merge_dims(specs)
    looked_at = _looked_at(model)
    for spec in specs:
        width = spec.dims[-1] if spec.dims else None
        if spec.name in looked_at and isinstance(width, int) and spec.symbolic:
            first = next(iter(spec.symbolic.values())).name
            tokens = min(2 * width, _MOST)
            yield {name: dim.clamp(tokens if name == first else 1) for name, dim in dims.items()}


def rounds(model: ir.Model) -> bool:
    """Whether a graph rounds floats to integers, so that numbers halfway between two of them matter."""
    return any(is_one_of(node, "Ceil", "Floor", "Round") for node in model.graph.all_nodes())


def _looked_at(model: ir.Model) -> set[str]:
    """Return the names of the floating-point inputs whose features reach a node that tells NaN apart, unmixed."""
    found = set()
    for value in model.graph.inputs:
        reached, waiting = {value}, [value] if value.dtype is not None and value.dtype.is_floating_point() else []
        while waiting:
            for node in dict.fromkeys(node for node, _ in waiting.pop().uses()):
                if is_one_of(node, *_LOOKING):
                    found.add(str(value.name))
                if node.domain == "" and node.op_type in _KEEPING:
                    new = [output for output in node.outputs if output not in reached]
                    reached.update(new)
                    waiting += new
    return found
