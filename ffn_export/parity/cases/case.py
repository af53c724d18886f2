"""Cases, and the default sweep: sizes of the symbolic axes, and kinds of values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ffn_export.core.drawing import draw_all, fit_sizes
from ffn_export.core.tensor_spec import Axis, Dim, TensorSpec, merge_dims
from ffn_export.core.types import Array
from ffn_export.core.words import size_label
from ffn_export.errors import UsageError
from ffn_export.exporter.samples import as_array, check_samples
from ffn_export.parity.cases import masks
from ffn_export.parity.cases.extreme_values import THRESHOLD
from ffn_export.parity.cases.resampling import resampled
from ffn_export.parity.cases.values import HALFWAY, VALUES

# Odd and prime sizes break vector loops. Exporters specialise on 0 and 1.
_ODD = (3, 5, 7, 11, 13)
# Sizes of the other axes beside a large one.
_FEW = (2, 3, 5, 7)
# Primes. The large size is the first above the example's, so that no buffer fitted to the example is large enough.
_LARGE = (257, 521, 1031, 2053, 4099, 8209)
# Kinds of values that one floating-point input has while the others are normal. Where all inputs hold NaN, the NaN of
# one hides that a graph drops the NaN of another. Infinity is none: in a query alone it leaves rows of -inf, of which
# PyTorch's own kernels of attention make different things.
_ALONE = ("zeros", "nan in parts")
_MOST_ALONE = 4  # groups of inputs; a decoder with a cache has dozens
# Bounded axes are tested at their maximum up to this size; larger ones alone would take minutes.
_LARGEST_END = 4096


@dataclass(frozen=True)
class Case:
    """One set of inputs.

    Attributes:
        name: Name in reports.
        sizes: Size of each symbolic dimension.
        values: A key of :data:`~ffn_export.parity.cases.values.VALUES` or :data:`~ffn_export.parity.cases.masks.MASKS`,
            or ``given`` for arrays of the user.
        seed: Seed of the drawn arrays.
        given: Arrays of the user, or None if they are drawn.
        like: Arrays of the user that floats are drawn from; None if they are standard normal.
        only: Names of the inputs with this kind of values, the others being normal; empty if every input has it.
    """

    name: str
    sizes: Mapping[str, int]
    values: str
    seed: int
    given: Mapping[str, Array] | None = field(default=None, repr=False)
    like: Mapping[str, Array] | None = field(default=None, repr=False)
    only: tuple[str, ...] = ()

    def feeds(self, specs: Sequence[TensorSpec]) -> dict[str, Array]:
        """Return input name -> array."""
        if self.given is not None:
            return dict(self.given)
        drawn = draw_all(specs, self.sizes, self.seed)
        if self.like is not None:
            drawn = resampled(specs, drawn, self.like, self.seed)
        if self.values in masks.MASKS:
            drawn |= {s.name: masks.draw(s, drawn[s.name], self.values, self.seed) for s in specs if masks.is_mask(s)}
            return drawn
        kind = VALUES[self.values]
        changed = (s for s in specs if (not self.only or s.name in self.only) and kind.applies(s))
        # NumPy gives a number, which no runtime takes, for a product of an array without axes.
        return drawn | {s.name: np.asarray(kind.make(drawn[s.name], s)) for s in changed}

    def judged(self, specs: Sequence[TensorSpec], output: Array) -> Array:
        """Return an output with zeros in the rows that are not judged."""
        return masks.with_keys(specs, self.sizes, output) if self.values == masks.WITHOUT_KEYS else output

    @property
    def ill_conditioned(self) -> bool:
        """Whether the bound for this kind of values includes the conditioning.

        Values at a threshold are far from a module's usual ones, and may lose digits in any implementation.
        """
        return self.values == THRESHOLD or (self.values in VALUES and VALUES[self.values].ill_conditioned)


def sweep(specs: Sequence[TensorSpec], example: Mapping[str, int] | None = None, seed: int = 0) -> list[Case]:
    """Return the core of the default cases for a model's inputs.

    Sizes:

    1. An odd base size for each symbolic axis.
    2. Each symbolic axis at 0 and at 1, with the others at their base.
    3. Each symbolic axis at a size above the example's, with the others at small sizes from 2.
    4. All axes at 1.
    5. Each bounded axis at its maximum, with the others at 1.
    6. The example's sizes, if known.

    Values: normal at all sizes; every other kind of values and of masks at the base; of several floating-point inputs,
    also one at a time.

    Every size is clamped to the bounds of its axis, and sizes that become equal are run once.
    """
    dims = list(merge_dims(specs).values())
    base = {dim.name: odd for dim, odd in zip(dims, _cycle(_ODD), strict=False)}
    wanted: list[dict[str, int]] = [base]
    example = {name: size for name, size in (example or {}).items() if name in base}
    beside = {dim.name: few for dim, few in zip(dims, _cycle(_FEW), strict=False)}
    for dim in dims:
        wanted += [{**base, dim.name: 0}, {**base, dim.name: 1}, {**beside, dim.name: _above(example.get(dim.name, 0))}]
    wanted.append(dict.fromkeys(base, 1))
    ends = [(dim.name, dim.maximum) for dim in dims if dim.maximum is not None and dim.maximum <= _LARGEST_END]
    wanted += [{**dict.fromkeys(base, 1), name: end} for name, end in ends]
    if example:
        wanted.append({**base, **example})
    cases = _normal(dims, wanted, seed)
    at_base = cases[0].sizes
    kinds = (
        kind for kind, values in VALUES.items() if kind not in ("normal", HALFWAY) and any(map(values.applies, specs))
    )
    cases += [sized(at_base, kind, seed) for kind in kinds]
    cases += one_at_a_time(specs, at_base, seed)
    return cases + [sized(at_base, kind, seed) for kind in masks.kinds(specs)]


def one_at_a_time(specs: Sequence[TensorSpec], sizes: Mapping[str, int], seed: int) -> list[Case]:
    """Return cases in which one floating-point input of several, or a group of many, has a kind of values."""
    names = [spec.name for spec in specs if spec.is_floating]
    groups = [tuple(names[start::_MOST_ALONE]) for start in range(min(len(names), _MOST_ALONE))]
    return [
        replace(case, name=f"{case.name} in {', '.join(group)} alone", only=group)
        for group in (groups if len(groups) > 1 else ())
        for case in (sized(sizes, kind, seed) for kind in _ALONE)
    ]


def few(specs: Sequence[TensorSpec], example: Mapping[str, int] | None, seed: int) -> list[Case]:
    """Return the cases of an edit loop: normal values at odd sizes, at sizes of 1, and at the example's if known."""
    dims = list(merge_dims(specs).values())
    base = {dim.name: odd for dim, odd in zip(dims, _cycle(_ODD), strict=False)}
    known = [{**base, **{name: size for name, size in example.items() if name in base}}] if example else []
    return _normal(dims, (base, dict.fromkeys(base, 1), *known), seed)


def _normal(dims: Sequence[Dim], wanted: Iterable[Mapping[str, int]], seed: int) -> list[Case]:
    """Return cases of normal values at sizes within the bounds of the axes, each size once."""
    sizes = [fit_sizes(dims, each) for each in wanted]
    unique = [each for index, each in enumerate(sizes) if each not in sizes[:index]]
    return [sized(each, "normal", seed + index) for index, each in enumerate(unique)]


def given(samples: Mapping[str, object], specs: Sequence[TensorSpec]) -> Case:
    """Return a case with the user's arrays.

    Raises:
        UsageError: If the arrays do not match the inputs one to one.
    """
    arrays = as_feeds(samples)
    check_samples(specs, arrays)
    sizes = {dim.name: int(arrays[spec.name].shape[axis]) for spec in specs for axis, dim in spec.symbolic.items()}
    return Case("given inputs", sizes, "given", 0, given=arrays)


def given_cases(samples: Mapping[str, object] | None, specs: Sequence[TensorSpec]) -> list[Case]:
    """Return the cases of the user's samples; none without samples.

    Samples are one case. If the first axes of all inputs are fixed, each has that size, or one of several samples.

    Raises:
        UsageError: If the samples do not match the inputs one to one.
    """
    if samples is None:
        return []
    arrays = as_feeds(samples)
    firsts = {spec.name: spec.dims[0] if spec.dims else None for spec in specs}
    count = next((_times(arrays[name], first) for name, first in firsts.items() if name in arrays), 1)
    if count < 2 or any(name not in firsts or _times(array, firsts[name]) != count for name, array in arrays.items()):
        return [given(arrays, specs)]
    split = {name: np.split(array, count) for name, array in arrays.items()}
    parts = [given({name: each[place] for name, each in split.items()}, specs) for place in range(count)]
    return [replace(part, name=f"{part.name} {place + 1}") for place, part in enumerate(parts)]


def samples_of(cases: Sequence[Case]) -> Mapping[str, Array] | None:
    """Return the user's samples in cases, one after another; None without any."""
    parts = [case.given for case in cases if case.given is not None]
    if len(parts) < 2:
        return parts[0] if parts else None
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def sized(sizes: Mapping[str, int], values: str, seed: int) -> Case:
    """Return a case of these sizes, named after the sizes and the kind of values."""
    return Case(f"{size_label(sizes)} {values}", dict(sizes), values, seed)


def _times(array: Array, first: Axis | None) -> int:
    """Return how many times an array has the size of a first axis; 0 if that is not fixed, or does not divide it."""
    length = array.shape[0] if array.ndim else 0
    return length // first if isinstance(first, int) and first and length % first == 0 else 0


def _above(example: int) -> int:
    return next((size for size in _LARGE if size > example), _LARGE[0])


def _cycle(sizes: Sequence[int]) -> Iterator[int]:
    """Yield the sizes, then ever larger odd ones, so that no two axes share a size."""
    yield from sizes
    yield from iter(range(sizes[-1] + 4, 2**31, 4))


def as_feeds(arrays: Mapping[str, object]) -> dict[str, Array]:
    """Return the arrays of an ``.npz`` file or of a mapping as NumPy arrays.

    Raises:
        UsageError: If it is no mapping, such as the path of a file.
    """
    if not isinstance(arrays, Mapping):
        raise UsageError(f"samples are a mapping of input names to arrays, got {type(arrays).__name__}")
    return {name: as_array(array) for name, array in arrays.items()}
