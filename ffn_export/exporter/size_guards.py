"""Check the guards of a trace: its assumptions about sizes.

If ``forward`` compares sizes, ``torch.export`` follows one branch and records the comparison as a guard.
A graph has no guards: at sizes that break one, it still computes the traced branch. So each guard is
checked within the requested sizes:

- An axis whose only possible size is the traced one is refused as specialised.
- A guard that only bounds one axis is refused, with the bound to write.
- Any other guard is tried at sizes that break it: the module must refuse them, or agree with the trace.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, product
from typing import Any

import torch

from ffn_export.core.quiet import quiet
from ffn_export.core.strict import expose_own
from ffn_export.core.tensor_spec import Dim, merge_dims
from ffn_export.exporter.checks import TracedSizeError, out_of_bounds, specialised
from ffn_export.exporter.module_state import evaluation_mode
from ffn_export.exporter.outputs import tensors_of
from ffn_export.exporter.position_tables import position_limits
from ffn_export.exporter.source import Source
from ffn_export.exporter.traced import spec_at

_SIZE = re.compile(r"L((?:\['\w+'\]|\[\d+\])+)\.size\(\)\[(\d+)\]")
_FUNCTIONS = {"__builtins__": {}, "min": min, "max": max, "abs": abs, "int": int, "math": math}
_LARGEST = 2**31 - 1
_MOST_SAMPLES = 20_000

Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Guard:
    """A condition on sizes.

    Attributes:
        text: The condition, with the names of the axes.
        dims: Names of the axes.
        holds: Function that evaluates it at given sizes.
    """

    text: str
    dims: tuple[str, ...]
    holds: Callable[[Sizes], bool]


def check_sizes(program: torch.export.ExportedProgram, source: Source) -> None:
    """Check that the graph equals the module at every requested size, also at sizes that break a guard.

    Raises:
        ExportError: If not, with the bounds to write, or the sizes at which the module takes another branch.
    """
    dims, traced = merge_dims(source.inputs), source.traced_sizes()
    guards = [*_noted(program, source), *_positions(program, source)]
    for spec in source.inputs:
        for dim in spec.symbolic.values():
            if not _is_free(dim, guards, traced):
                raise specialised(dim.name, spec.name, traced[dim.name])
    trial = _Trial(source, program)
    for guard in guards:
        bounds = _bounds(guard, dims, traced)
        if bounds is None:
            continue
        # Sizes 0 and 1 are left to the trial below: most guards on them are about memory layout, as are some on the
        # size of a chunk of an axis.
        is_from_below = bounds.minimum > max(2, dims[bounds.name].minimum)
        if _is_capped(bounds, dims) or (
            is_from_below and not all(trial.agree(each, refused=False) for each in _violations(guard, dims, traced))
        ):
            raise out_of_bounds(bounds)
    for guard in guards:
        for sizes in _violations(guard, dims, traced):
            if not trial.agree(sizes):
                bounds = _bounds(guard, dims, traced)
                if bounds is not None:
                    raise out_of_bounds(bounds)
                where = ", ".join(f"{name}={sizes[name]}" for name in guard.dims)
                raise TracedSizeError(
                    f"forward takes another branch at {where} than the graph, which holds only where {guard.text}: "
                    f"{_way_out(source.module)}"
                )


def _way_out(module: torch.nn.Module) -> str:
    if any(getattr(each, "use_nested_tensor", False) for each in module.modules()):
        return (
            "nn.TransformerEncoder drops padded tokens where it is given a mask: make it with "
            "enable_nested_tensor=False, which gives them numbers of their own instead of zeros"
        )
    return "write one function for all sizes, or bounds in --input that keep to one branch"


def _is_free(dim: Dim, guards: Sequence[Guard], traced: Sizes) -> bool:
    """Whether the guards of an axis hold for another size, judged by a sample of sizes."""
    about = [guard for guard in guards if dim.name in guard.dims]
    size = traced[dim.name]
    near = {*range(size - 8, size + 65), *(size * factor for factor in range(2, 9))}
    others = [other for other in near if other != size and other == dim.clamp(other)]
    if not about or not others or not all(guard.holds(traced) for guard in about):
        return True
    return any(all(guard.holds({**traced, dim.name: other}) for guard in about) for other in others)


def _is_capped(bounds: Dim, dims: Mapping[str, Dim]) -> bool:
    return bounds.maximum is not None and bounds.maximum != dims[bounds.name].maximum


def _noted(program: torch.export.ExportedProgram, source: Source) -> Iterator[Guard]:
    """Yield the guards that torch.export recorded, such as ``L['x'].size()[1] > 2``."""
    for code in dict.fromkeys(getattr(program, "_guards_code", ())):
        names: list[str] = []

        def variable(match: re.Match[str], names: list[str] = names) -> str:
            dim = spec_at(source, match[1]).dims[int(match[2])]
            if isinstance(dim, int):
                return str(dim)
            terms = (dim.name,) if isinstance(dim, Dim) else dim.terms
            names.extend(term for term in terms if term not in names)
            numbered = " + ".join(f"_{names.index(term)}" for term in terms)
            return numbered if len(terms) == 1 else f"({numbered})"

        expression = _SIZE.sub(variable, code)
        # Skip guards on strides, types or constants: they do not depend on the requested sizes.
        if "L[" in expression or not names:
            continue
        text = re.sub(r"\b_(\d+)\b", lambda m, names=names: names[int(m[1])], expression)  # type: ignore[misc]
        yield Guard(text, tuple(names), _evaluator(expression, tuple(names)))


def _evaluator(expression: str, names: tuple[str, ...]) -> Callable[[Sizes], bool]:
    code = compile(expression, "<guard>", "eval")

    def evaluate(sizes: Sizes) -> bool:
        try:
            values = {f"_{i}": sizes[name] for i, name in enumerate(names)}
            holds = bool(eval(code, dict(_FUNCTIONS), values))
        except (NameError, ArithmeticError):  # an unknown function, or a division by a size of 0
            return True
        return holds

    return evaluate


def _positions(program: torch.export.ExportedProgram, source: Source) -> Iterator[Guard]:
    for name, largest_position, rows in position_limits(program, source.inputs):

        def holds(sizes: Sizes, name: str = name, largest: Any = largest_position, rows: int = rows) -> bool:
            return bool(largest(sizes[name]) < rows)

        yield Guard(f"positions over {name} stay below {rows}", (name,), holds)


def _bounds(guard: Guard, dims: Mapping[str, Dim], traced: Sizes) -> Dim | None:
    """Return the axis with its bounds, if the guard only bounds one axis, or None."""
    if len(guard.dims) != 1:
        return None
    dim = dims[guard.dims[0]]
    start, limit = traced[dim.name], _LARGEST if dim.maximum is None else dim.maximum

    def holds(size: int) -> bool:
        return guard.holds({dim.name: size})

    if not holds(start):
        return None
    low = start
    while low > dim.minimum and holds(low - 1):
        low -= 1
    high = _last(holds, start, limit)
    beyond = (*range(dim.minimum, low), *range(high + 1, min(high + 16, limit + 1)), limit)
    if any(holds(size) for size in beyond if not low <= size <= high):
        return None
    bounds = Dim(dim.name, low, dim.maximum if high == limit else high)
    # If the bounds are the requested ones, only sizes in between can break the guard, which is no bound.
    return None if bounds == dim else bounds


def _last(holds: Callable[[int], bool], start: int, limit: int) -> int:
    """Return the last size up to which the condition holds, found by doubling and then bisection."""
    good, step = start, 1
    while good < limit and holds(min(good + step, limit)):
        good, step = min(good + step, limit), step * 2
    bad = min(good + step, limit + 1)
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if holds(middle) else (good, middle)
    return good


def _violations(guard: Guard, dims: Mapping[str, Dim], traced: Sizes) -> list[Sizes]:
    """Return the smallest sizes that break the guard: with all sizes at least 2, at least 1, and at least 0."""
    near = {n + d for n in map(int, re.findall(r"\b\d{1,4}\b", guard.text)) for d in (-1, 0, 1)} | set(range(9))
    choices = [sorted(size for size in near if size == dims[name].clamp(size)) or [traced[name]] for name in guard.dims]
    samples = [{**traced, **dict(zip(guard.dims, s, strict=True))} for s in islice(product(*choices), _MOST_SAMPLES)]
    broken = [s for s in sorted(samples, key=lambda s: math.prod(s.values())) if not guard.holds(s)]
    found: list[Sizes] = []
    for least in (2, 1, 0):
        sizes = next((s for s in broken if all(s[name] >= least for name in guard.dims)), None)
        if sizes is not None and sizes not in found:
            found.append(sizes)
    return found


class _Trial:
    """Runs a module and its trace side by side."""

    def __init__(self, source: Source, program: torch.export.ExportedProgram) -> None:
        self._source = source
        self._program = program

    @cached_property
    def _without_guards(self) -> torch.nn.Module:
        module: torch.nn.Module = self._program.module(check_guards=False)
        module._forward_pre_hooks.clear()  # they check the ranges of the sizes
        return module

    def agree(self, sizes: Sizes, refused: bool = True) -> bool:
        """Whether module and trace agree at these sizes; ``refused`` if the module refuses them."""
        with evaluation_mode(self._source.module), torch.no_grad(), quiet():
            try:
                args, kwargs = self._source.arguments(sizes)
                expected = tensors_of(self._source.module(*args, **kwargs))
            except Exception as error:  # noqa: BLE001 - whatever it raises, it does not accept these sizes
                expose_own(error)
                return refused
            try:
                args, kwargs = self._source.arguments(sizes)
                actual = tensors_of(self._without_guards(*args, **kwargs))
            except Exception as error:  # noqa: BLE001 - the module runs and the trace does not
                expose_own(error)
                return False
        pairs = zip(expected, actual, strict=False)
        return len(expected) == len(actual) and all(_close(*pair, self._epsilon) for pair in pairs)

    @cached_property
    def _epsilon(self) -> float:
        """Largest epsilon of a parameter's dtype: a float16 convolution in a float32 module rounds in float16."""
        tensors = (*self._source.module.parameters(), *self._source.module.buffers())
        return max((torch.finfo(each.dtype).eps for each in tensors if each.is_floating_point()), default=0.0)


def _close(expected: torch.Tensor, actual: torch.Tensor, epsilon: float = 0.0) -> bool:
    if expected.shape != actual.shape or expected.dtype != actual.dtype:
        return False
    # 7e-5 for float32. A convolution that became a matrix product rounds differently; a wrong branch differs by more.
    is_exact = not expected.is_floating_point()
    tolerance = 0.0 if is_exact else max(torch.finfo(expected.dtype).eps, epsilon) ** 0.6
    # Skip elements that are NaN in the module: torch's fused attention gives NaN for rows that see no key, which occur
    # in drawn masks.
    said = ~expected.isnan()
    return torch.allclose(actual[said].double(), expected[said].double(), rtol=tolerance, atol=tolerance)
