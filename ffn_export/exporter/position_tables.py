"""Find the bounds that tables of position embeddings put on an axis, which torch.export does not record.

Learned position embeddings are looked up at ``arange(seq)``. The lookup fails if the table is shorter
than the sequence, so the number of rows bounds the axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch

from ffn_export.core.tensor_spec import TensorSpec
from ffn_export.core.words import words
from ffn_export.exporter.traced import user_inputs

_ATEN = torch.ops.aten
# Operators that change the layout of positions and not their values.
_LAYOUT = words(
    "clone contiguous expand expand_as flatten repeat reshape select slice squeeze to _to_copy unsqueeze view view_as"
)


def position_limits(
    program: torch.export.ExportedProgram, specs: Sequence[TensorSpec]
) -> Iterator[tuple[str, Callable[[int], int], int]]:
    """Yield ``(axis, function from its size to the largest position, rows)`` for each position table."""
    names = {
        value.shape[axis].node.expr: dim.name  # type: ignore[attr-defined]
        for spec, value in zip(specs, user_inputs(program), strict=True)
        for axis, dim in spec.symbolic.items()
    }
    for node in program.graph.nodes:
        if node.target is not _ATEN.embedding.default:
            continue
        rows, largest = node.args[0].meta["val"].shape[0], _largest(node.args[1])
        if largest is None or len(largest.free_symbols) != 1:
            continue
        symbol = next(iter(largest.free_symbols))
        if symbol in names:
            yield names[symbol], lambda size, e=largest, s=symbol: int(e.subs(s, size)), int(rows)  # type: ignore[misc]


def _largest(node: Any) -> sympy.Expr | None:
    """Return the largest value of an index that is built from ``arange``, as an expression in sizes, or None."""
    if not isinstance(node, torch.fx.Node) or not isinstance(node.target, torch._ops.OpOverload):
        return None
    if node.target is _ATEN.arange.default:
        end = _size(node.args[0])
    elif node.target is _ATEN.arange.start:
        end = _size(node.args[1])
    elif node.target is _ATEN.add.Tensor and not node.kwargs:
        base, offset = _largest(node.args[0]), _size(node.args[1])
        return None if base is None or offset is None else base + offset
    elif node.target.overloadpacket.__name__ in _LAYOUT:
        return _largest(node.args[0])
    else:
        return None
    return None if end is None else end - 1


def _size(argument: Any) -> sympy.Expr | None:
    value = argument.meta.get("val") if isinstance(argument, torch.fx.Node) else argument
    if isinstance(value, torch.SymInt):
        expression: sympy.Expr = value.node.expr
        return expression
    return sympy.Integer(value) if isinstance(value, int) else None
