"""Draw inputs for a graph of unknown origin: sizes of its axes, and values of its dtypes."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, count

import ml_dtypes
import numpy as np
import onnx_ir as ir

from ffn_export.core.types import Array
from ffn_export.fusion_check.indices import value_range

Sizes = Mapping[str, int]

# Powers of two, for axes that are split or folded by a number that the graph does not state.
_EQUAL_SIZES = (8, 1, 16, 32, 64)
_IN_TURN = (1, 2, 3, 4, 5, 17)
_LARGEST_GUESS = 1024
_LARGEST_INPUT = 2**26

SCALES: Mapping[str, float] = {"normal": 1.0, "small": 1e-3, "large": 30.0}
"""Small: below every usual epsilon of a norm, so that a wrong epsilon shows. Large: the tails of an activation."""


@dataclass(frozen=True)
class Case:
    """One set of inputs on which graphs are compared, and the model's results for them."""

    sizes: Sizes
    feeds: Mapping[str, Array] = field(repr=False)
    expected: Mapping[str, Array] = field(repr=False)


@dataclass(frozen=True)
class Input:
    """One input. Each of its axes is a size, or an expression of symbolic axes."""

    name: str
    dtype: np.dtype[np.generic]
    dims: tuple[int | str, ...]
    value_range: tuple[int, int]

    @property
    def is_floating(self) -> bool:
        """Whether it is drawn from the normal distribution."""
        return bool(np.issubdtype(self.dtype, np.floating)) or self.dtype == ml_dtypes.bfloat16

    def draw(self, sizes: Sizes, scale: float, rng: np.random.Generator) -> Array:
        """Draw the input."""
        shape = [dim if isinstance(dim, int) else size_of(dim, sizes) for dim in self.dims]
        if np.prod(shape, dtype=np.float64) > _LARGEST_INPUT:
            raise ValueError(f"input {self.name!r} would have the shape {shape}")
        if self.is_floating:
            return (scale * rng.standard_normal(shape)).astype(self.dtype)
        return rng.integers(*self.value_range, shape, endpoint=True).astype(self.dtype)


def inputs_of(model: ir.Model) -> tuple[Input, ...]:
    """Return the inputs that a run needs; inputs with a default keep it.

    Raises:
        ValueError: If an input is no tensor of numbers with a known rank.
    """
    unnamed = count()
    found = []
    for value in model.graph.inputs:
        if value.is_initializer():
            continue
        if value.type is not None and not isinstance(value.type, ir.TensorType):
            raise ValueError(f"input {value.name!r} is no tensor")
        if value.dtype is None or value.shape is None:
            raise ValueError(f"input {value.name!r} has no known {'dtype' if value.dtype is None else 'rank'}")
        if not _is_number(value.dtype):
            raise ValueError(f"input {value.name!r} is of {value.dtype.name.lower()}, which is not drawn")
        dims = tuple(d if isinstance(d, int) else str(d.value or f"unnamed_{next(unnamed)}") for d in value.shape)
        found.append(Input(str(value.name), value.dtype.numpy(), dims, value_range(value)))
    return tuple(found)


def draw(inputs: tuple[Input, ...], sizes: Sizes, scale: str = "normal") -> dict[str, Array]:
    """Draw all inputs, always with the same seed."""
    rng = np.random.default_rng(0)
    return {each.name: each.draw(sizes, SCALES[scale], rng) for each in inputs}


def base_sizes(inputs: tuple[Input, ...]) -> Iterator[Sizes]:
    """Yield sizes of the symbolic axes with which the model may run, the most revealing first."""
    names = _names(inputs)
    yield distinct(names)
    if not names:
        return
    static = sorted({d for each in inputs for d in each.dims if isinstance(d, int) and 1 < d <= _LARGEST_GUESS})
    for size in dict.fromkeys((*_EQUAL_SIZES, *static[:4])):
        yield dict.fromkeys(names, size)
    for size in _EQUAL_SIZES[2:]:
        yield {**dict.fromkeys(names, size), names[0]: 1}


def further_sizes(inputs: tuple[Input, ...], base: Sizes) -> Iterator[Sizes]:
    """Yield further sizes for comparison, if the model runs with them.

    They are: all axes at 1, the first axis alone at 1, larger sizes, and each axis alone at every small size and a
    larger one. A graph that is wrong only for an empty slice or two equal axes is right at most sizes.
    """
    names = _names(inputs)
    ones = dict.fromkeys(names, 1)
    first_one = {**base, **dict.fromkeys(names[:1], 1)}
    others = {name: size + 4 for name, size in base.items()}
    in_turn = ({**base, name: size} for name in names for size in _IN_TURN)
    seen = [dict(base)]
    for sizes in (ones, first_one, others, *in_turn):
        if sizes not in seen:
            seen.append(sizes)
            yield sizes


def distinct(names: list[str]) -> Sizes:
    """Return a different size, 2 or larger, for each axis, so that no axis can be mistaken for another."""
    primes = chain((2, 3, 5, 7, 11, 13), range(17, 2**31, 2))
    return dict(zip(names, primes, strict=False))


def size_of(dim: str, sizes: Sizes) -> int:
    """Return the size of a named axis, or the value of an expression such as ``past + seq``."""
    if dim in sizes:
        return sizes[dim]
    tree = ast.parse(dim, mode="eval").body
    size = _evaluate(tree, sizes)
    if size < 0:
        raise ValueError(f"an axis of size {dim} would be {size}")
    return size


def _names(inputs: tuple[Input, ...]) -> list[str]:
    """Return the axes whose sizes are chosen; expressions follow from them."""
    symbolic = list(dict.fromkeys(d for each in inputs for d in each.dims if isinstance(d, str)))
    names = [dim for dim in symbolic if dim.isidentifier()]
    for dim in symbolic:
        if dim not in names:
            names += [name for name in _free_in(dim) if name not in names]
    return names


def _free_in(dim: str) -> list[str]:
    """Return the names in an expression; the text itself if it is no expression."""
    try:
        tree = ast.parse(dim, mode="eval").body
        names = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
        _evaluate(tree, dict.fromkeys(names, 1))
    except (SyntaxError, ValueError, ZeroDivisionError):
        return [dim]
    return names


def _evaluate(tree: ast.expr, sizes: Sizes) -> int:
    if isinstance(tree, ast.Constant) and isinstance(tree.value, int):
        return tree.value
    if isinstance(tree, ast.Name):
        return sizes[tree.id]
    if isinstance(tree, ast.BinOp):
        left, right = _evaluate(tree.left, sizes), _evaluate(tree.right, sizes)
        if isinstance(tree.op, ast.Add):
            return left + right
        if isinstance(tree.op, ast.Sub):
            return left - right
        if isinstance(tree.op, ast.Mult):
            return left * right
        if isinstance(tree.op, ast.Div | ast.FloorDiv):
            return left // right
    raise ValueError(f"not an expression of sizes: {ast.unparse(tree)}")


def _is_number(dtype: ir.DataType) -> bool:
    if dtype.is_integer():
        return dtype.bitwidth >= 8  # NumPy has no narrower ones
    return dtype == ir.DataType.BOOL or dtype in _FLOATS


_FLOATS = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.BFLOAT16})
