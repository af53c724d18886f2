"""Find the inputs of a module from example tensors: their names, and the axes that may have another size.

1. Names are those of the parameters of ``forward``.
2. One trace leaves all axes open. ``torch.export`` says which of them the module fixes, and which it ties together. An
   axis of size 1 may be there to be broadcast, so if the trace fails such axes are fixed, first all but the batch.
3. An open axis of size 1 is traced again with another size.
4. Guards on sizes, such as the length of a table of positions, become bounds.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeGuard

import numpy as np
import torch

from ffn_export.core.quiet import quiet
from ffn_export.core.tensor_spec import Axis, Dim, InputSpecs, TensorSpec
from ffn_export.core.types import Array
from ffn_export.errors import ExportError, UsageError
from ffn_export.exporter.capture import trace
from ffn_export.exporter.checks import TracedSizeError, check_ranges
from ffn_export.exporter.integer_ranges import is_mask
from ffn_export.exporter.module_state import evaluation_mode
from ffn_export.exporter.samples import as_array, specs_of
from ffn_export.exporter.signature import BY_POSITION
from ffn_export.exporter.size_guards import check_sizes
from ffn_export.exporter.source import Source, from_module, with_samples
from ffn_export.exporter.traced import user_inputs

Example = torch.Tensor | Array
Examples = Example | Sequence[Example | None] | Mapping[str, Example]
"""Arguments of ``forward``: one tensor, tensors by position with None for a parameter's default, or by name."""

Inputs = InputSpecs | Examples

_MOST_BOUNDS = 32


def are_examples(inputs: Inputs | None) -> TypeGuard[Examples]:
    """Whether inputs are example tensors, and not input specifications."""
    if isinstance(inputs, Mapping):
        inputs = tuple(inputs.values())
    return _is_tensor(inputs) or (isinstance(inputs, tuple | list) and any(map(_is_tensor, inputs)))


def find_inputs(module: torch.nn.Module, examples: Examples) -> tuple[TensorSpec, ...]:
    """Return the specifications of the inputs that examples stand for.

    Raises:
        UsageError: If an example is no tensor, is empty, or has no parameter of ``forward``.
    """
    return _find(module, {name: as_array(example) for name, example in _named(module, examples).items()})


def _find(module: torch.nn.Module, arrays: Mapping[str, Array]) -> tuple[TensorSpec, ...]:
    specs = specs_of(arrays)
    source = with_samples(from_module(module, specs), arrays)
    with evaluation_mode(module), quiet(), torch.no_grad():
        program = _traced(source)
        if program is None:
            return source.inputs  # with every size fixed: the export then says what is wrong
        shapes = {spec.name: value.shape for spec, value in zip(source.inputs, user_inputs(program), strict=True)}
        open_axes = _with_axes(source.inputs, shapes)
        larger = _without_ones(open_axes, arrays)
        if larger is not None:
            return _find(module, larger)
        return tuple(_as_mask(spec, arrays[spec.name]) for spec in _bounded(replace(source, inputs=open_axes), program))


def _is_tensor(value: object) -> bool:
    return isinstance(value, torch.Tensor | np.ndarray)


def _named(module: torch.nn.Module, examples: Examples) -> dict[str, Example]:
    """Return parameter of ``forward`` -> example."""
    if isinstance(examples, Mapping):
        named = dict(examples)
    else:
        given: Sequence[Any] = [examples] if isinstance(examples, torch.Tensor | np.ndarray) else examples
        named = {name: each for name, each in zip(_names(module, len(given)), given, strict=True) if each is not None}
    for name, example in named.items():
        if not _is_tensor(example):
            raise UsageError(f"the example of {name!r} is {type(example).__name__}, an input is a tensor")
        if 0 in example.shape:
            raise UsageError(f"the example of {name!r} is empty: give one with at least one element")
    return named


def _names(module: torch.nn.Module, count: int) -> list[str]:
    parameters = inspect.signature(module.forward).parameters.values()
    names = [parameter.name for parameter in parameters if parameter.kind in BY_POSITION]
    rest = [parameter.name for parameter in parameters if parameter.kind is inspect.Parameter.VAR_POSITIONAL]
    names += [f"{name}_{index}" for name in rest for index in range(count - len(names))]
    if count > len(names):
        raise UsageError(f"{count} examples are given, forward takes {', '.join(names) or 'none by position'}")
    return names[:count]


def _traced(source: Source) -> torch.export.ExportedProgram | None:
    """Trace with as many open axes as the module takes."""
    for fixed_at_one in (lambda axis: False, lambda axis: axis > 0, lambda axis: True):
        axes = {
            spec.name: {
                axis: torch.export.Dim.STATIC if size == 1 and fixed_at_one(axis) else torch.export.Dim.AUTO
                for axis, size in enumerate(spec.dims)
            }
            for spec in source.inputs
        }
        try:
            return trace(source, axes)
        except ExportError:
            continue
    return None


def _without_ones(specs: Iterable[TensorSpec], arrays: Mapping[str, Array]) -> dict[str, Array] | None:
    """Return the examples with open axes of size 1 doubled, as a size of 1 hides conditions; None if none is open."""
    larger = dict(arrays)
    for spec in specs:
        for axis in spec.symbolic:
            if arrays[spec.name].shape[axis] == 1:
                larger[spec.name] = larger[spec.name].repeat(2, axis)
    return None if all(larger[name] is array for name, array in arrays.items()) else larger


def _with_axes(specs: Iterable[TensorSpec], shapes: Mapping[str, Sequence[Any]]) -> tuple[TensorSpec, ...]:
    """Name the axes that the trace left open; axes that it ties have one name."""
    names: dict[str, str] = {}

    def dim(spec: TensorSpec, axis: int, size: Any) -> int | Dim:
        if isinstance(size, int):
            return size
        symbol, usual = str(size.node.expr), _usual_name(spec, axis)
        if symbol not in names:
            names[symbol] = f"{spec.name}_{axis}" if usual in (None, *names.values()) else str(usual)
        return Dim(names[symbol])

    return tuple(replace(s, dims=tuple(dim(s, axis, size) for axis, size in enumerate(shapes[s.name]))) for s in specs)


def _usual_name(spec: TensorSpec, axis: int) -> str | None:
    """Return ``batch`` for the first axis, and ``seq`` for the second unless it holds the features of a row."""
    if axis == 0:
        return "batch"
    return "seq" if axis == 1 and not (spec.is_floating and len(spec.dims) == 2) else None


def _bounded(source: Source, program: torch.export.ExportedProgram) -> tuple[TensorSpec, ...]:
    """Return the inputs with the bounds, or the one size, that the guards of the trace demand."""
    for _ in range(_MOST_BOUNDS):
        try:
            check_ranges(program, source.inputs)
            check_sizes(program, source)
        except TracedSizeError as error:
            if error.axis is None or error.takes is None:
                break
            source = replace(source, inputs=_taking(source.inputs, error.axis, error.takes))
            continue
        except ExportError:  # the export says it, too
            break
        return source.inputs
    return source.inputs


def _taking(specs: Iterable[TensorSpec], axis: str, takes: int | Dim) -> tuple[TensorSpec, ...]:
    def changed(dim: Axis) -> Axis:
        return takes if isinstance(dim, Dim) and dim.name == axis else dim

    return tuple(replace(spec, dims=tuple(map(changed, spec.dims))) for spec in specs)


def _as_mask(spec: TensorSpec, example: Array) -> TensorSpec:
    """Draw an input as a padding mask if it has such a name or dtype, and its example is one."""
    is_one = is_mask(spec) and not spec.is_floating and bool(spec.dims)
    if is_one and np.isin(example, (0, 1)).all() and example.astype(bool).any(axis=-1).all():
        return replace(spec, is_mask=True, value_range=None)
    return spec
