"""The cases that a model is verified on: sizes of the symbolic axes, and kinds of values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ffn_export.core.drawing import draw_all, fit_sizes
from ffn_export.core.size_label import size_label
from ffn_export.core.tensor_spec import TensorSpec, merge_dims
from ffn_export.core.types import Array
from ffn_export.exporter.samples import as_array, check_samples
from ffn_export.parity.cases import masks
from ffn_export.parity.cases.values import VALUES

# Odd and prime sizes break vector loops; 0 and 1 are what exporters specialise.
_ODD = (3, 5, 7, 11, 13)
# What stands beside a large axis.
_FEW = (2, 3, 5, 7)
# Primes. The large size is one above the example's, so that nothing fitted to that is large enough.
_LARGE = (257, 521, 1031, 2053, 4099, 8209)
# An axis that ends is tried at its end, unless that alone would take minutes.
_LARGEST_END = 4096


@dataclass(frozen=True)
class Case:
    """One set of inputs.

    Attributes:
        name: What reports call it.
        sizes: Size of each symbolic dimension.
        values: A key of :data:`~ffn_export.parity.cases.values.VALUES` or :data:`~ffn_export.parity.cases.masks.MASKS`,
            or ``given`` for the user's own arrays.
        seed: Seed that draws them.
        given: The user's arrays, where they are not drawn.
    """

    name: str
    sizes: Mapping[str, int]
    values: str
    seed: int
    given: Mapping[str, Array] | None = field(default=None, repr=False)

    def feeds(self, specs: Sequence[TensorSpec]) -> dict[str, Array]:
        """Return input name -> array."""
        if self.given is not None:
            return dict(self.given)
        drawn = draw_all(specs, self.sizes, self.seed)
        if self.values in masks.MASKS:
            drawn |= {s.name: masks.draw(s, drawn[s.name], self.values, self.seed) for s in specs if masks.is_mask(s)}
            return drawn
        make = VALUES[self.values].make
        return {s.name: make(drawn[s.name], s) if s.is_floating else drawn[s.name] for s in specs}

    def judged(self, specs: Sequence[TensorSpec], output: Array) -> Array:
        """Return what of an output is judged, with zeros elsewhere."""
        return masks.with_keys(specs, self.sizes, output) if self.values == masks.WITHOUT_KEYS else output

    @property
    def ill_conditioned(self) -> bool:
        """Whether its values are of a kind whose bound includes their conditioning."""
        return self.values in VALUES and VALUES[self.values].ill_conditioned


def sweep(specs: Sequence[TensorSpec], example: Mapping[str, int] | None = None, seed: int = 0) -> list[Case]:
    """Return the core of the default cases for a model's inputs.

    Sizes: an odd base; then each symbolic axis at 0 and 1 with the others at their base, and at a size above the
    example's with the others at 2 or 3; all at 1; the example's sizes where they are known; each bounded axis at its
    end with the others at 1. Values: normal on all of them, every other kind and every kind of masks on the base.
    Every size is moved into its axis' bounds, and what becomes equal is run once.
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
    sizes = [fit_sizes(dims, w) for w in wanted]
    unique = [s for index, s in enumerate(sizes) if s not in sizes[:index]]
    cases = [sized(s, "normal", seed + index) for index, s in enumerate(unique)]
    if any(spec.is_floating for spec in specs):
        cases += [sized(unique[0], values, seed) for values in VALUES if values != "normal"]
    return cases + [sized(unique[0], kind, seed) for kind in masks.kinds(specs)]


def given(samples: Mapping[str, object], specs: Sequence[TensorSpec]) -> Case:
    """Return the case of the user's own arrays.

    Raises:
        UsageError: If they are not one for each input, as it takes them.
    """
    arrays = as_feeds(samples)
    check_samples(specs, arrays)
    sizes = {dim.name: int(arrays[spec.name].shape[axis]) for spec in specs for axis, dim in spec.symbolic.items()}
    return Case("given inputs", sizes, "given", 0, given=arrays)


def whole(
    specs: Sequence[TensorSpec],
    example: Mapping[str, int] | None = None,
    samples: Mapping[str, object] | None = None,
    seed: int = 0,
) -> list[Case]:
    """Return the default cases, and that of the user's samples where there are some.

    Raises:
        UsageError: If the samples are not one array for each input, as it takes them.
    """
    return [*sweep(specs, example, seed), *([] if samples is None else [given(samples, specs)])]


def sized(sizes: Mapping[str, int], values: str, seed: int) -> Case:
    """Return the case of these sizes, named for them and for the kind of its values."""
    return Case(f"{size_label(sizes)} {values}", dict(sizes), values, seed)


def _above(example: int) -> int:
    return next((size for size in _LARGE if size > example), _LARGE[0])


def _cycle(sizes: Sequence[int]) -> Iterator[int]:
    """Yield the sizes, then ever larger odd ones, so that no two axes share a size."""
    yield from sizes
    yield from iter(range(sizes[-1] + 4, 2**31, 4))


def as_feeds(arrays: Mapping[str, object]) -> dict[str, Array]:
    """Return arrays of an ``.npz`` or the user's mapping as NumPy arrays."""
    return {name: as_array(array) for name, array in arrays.items()}
