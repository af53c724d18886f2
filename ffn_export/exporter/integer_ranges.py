"""Value ranges of integer inputs, from the smallest table that each indexes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch

from ffn_export.core.drawing import trace_sizes
from ffn_export.core.strict import expose_own
from ffn_export.core.tensor_spec import TensorSpec
from ffn_export.exporter.dispatch import OperatorMode
from ffn_export.exporter.module_state import evaluation_mode
from ffn_export.exporter.signature import CallSignature

_ATEN = torch.ops.aten
# Words in the names of inputs that are 0 or 1.
_OF_MASKS = ("mask", "pad", "valid")
# Tried in turn for an input that indexes no table: the first exceeds the traced sizes, the second is smaller.
_COUNTS = (17, 5)
_BYTES = ("int8", "uint8")
# A copy holds the same indices. A view shares storage, so views need no entry here.
_COPIES = frozenset({_ATEN._to_copy.default, _ATEN.clone.default, _ATEN.lift_fresh_copy.default})
_ALONG_AXIS = frozenset(
    {_ATEN.index_select.default, _ATEN.gather.default, _ATEN.scatter.value, _ATEN.scatter.src, _ATEN.scatter_.value}
)


def with_ranges(module: torch.nn.Module, specs: tuple[TensorSpec, ...], call: CallSignature) -> tuple[TensorSpec, ...]:
    """Give a range to each integer input that has none.

    The range is 0 to n - 1, where n is the first of these that exists:

    1. the rows of the smallest table that the input indexes, found by running the module once on zeros, which are
       always a valid index,
    2. 2 for a mask,
    3. the rows of the smallest embedding of the module,
    4. the largest of a few numbers with which the module runs, for inputs such as lengths, positions and features.

    An 8-bit input without the first three holds bytes, such as those of an image: it has the range of its dtype, if the
    module runs with both ends.

    The ranges by 3 and 4 are marked as guessed: the module may accept other integers, and so it may by 1 if it changes
    a copy of the input in place.
    """
    open_specs = [s for s in specs if not (s.is_floating or s.is_mask) and s.value_range is None]
    if not open_specs:
        return specs
    watch = _watch(module, specs, call)
    embeddings = [m.num_embeddings for m in module.modules() if isinstance(m, torch.nn.Embedding)]
    smallest = min([*embeddings, *watch.embeddings], default=None)

    def bound(spec: TensorSpec) -> TensorSpec:
        if spec not in open_specs:
            return spec
        indexed = watch.rows.get(spec.name) or (2 if is_mask(spec) else None)
        rows = indexed or smallest
        if not rows and spec.dtype in _BYTES:
            ends = torch.iinfo(getattr(torch, spec.dtype))
            if all(_takes(module, specs, call, spec, end) for end in (ends.min, ends.max)):
                return replace(spec, value_range=(ends.min, ends.max))
        rows = rows or _taken(module, specs, call, spec)
        largest = 1 if spec.dtype == "bool" else torch.iinfo(getattr(torch, spec.dtype)).max
        value_range = (0, min(max(rows - 1, 0), largest))
        return replace(spec, value_range=value_range, range_is_guessed=not indexed or spec.name in watch.changed)

    return tuple(map(bound, specs))


def is_mask(spec: TensorSpec) -> bool:
    """Whether the dtype or the name of an input is that of a mask."""
    return spec.dtype == "bool" or any(word in spec.name.lower() for word in _OF_MASKS)


def _taken(module: torch.nn.Module, specs: tuple[TensorSpec, ...], call: CallSignature, spec: TensorSpec) -> int:
    """Return the largest tried number of integers from 0 on whose last one the module accepts."""
    taken = (count for count in _COUNTS if _takes(module, specs, call, spec, count - 1))
    return next(taken, 2)


def _takes(
    module: torch.nn.Module, specs: tuple[TensorSpec, ...], call: CallSignature, spec: TensorSpec, number: int
) -> bool:
    """Whether the module runs with this number everywhere in an input."""
    inputs = _zeros(specs)
    inputs[spec.name].fill_(number)
    try:
        _run(module, call, inputs)
    except Exception as error:  # noqa: BLE001 - a user's module may raise anything
        expose_own(error)
        return False
    return True


class _TableWatch(OperatorMode):  # type: ignore[no-untyped-call]  # torch leaves its base untyped
    """Records which input indexes which table, through views and casts.

    Attributes:
        rows: Input name -> rows of the smallest table that it indexes.
        embeddings: Rows of every embedding table, whatever indexes it.
        changed: Names of the inputs of which a copy is changed in place.
    """

    def __init__(self, inputs: Mapping[str, torch.Tensor]) -> None:
        super().__init__()
        self.rows: dict[str, int] = {}
        self.embeddings: list[int] = []
        self.changed: set[str] = set()
        self._owner = {_storage(tensor): name for name, tensor in inputs.items()}
        # Kept alive, so that no later tensor reuses a known storage.
        self._held = list(inputs.values())

    def run(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run an operator and record its table lookups."""
        result = func(*args, **kwargs)
        if func in _COPIES and (name := self._owner.get(_storage(args[0]))) is not None:
            self._owner[_storage(result)] = name
            self._held.append(result)
        if _is_in_place(func) and isinstance(args[0], torch.Tensor) and _storage(args[0]) in self._owner:
            self.changed.add(self._owner[_storage(args[0])])
        if func is _ATEN.embedding.default:
            self.embeddings.append(args[0].shape[0])
        for rows, index in _lookups(func, args):
            name = self._owner.get(_storage(index))
            if name is not None:
                self.rows[name] = min(rows, self.rows.get(name, rows))
        return result


def _lookups(func: Callable[..., Any], args: tuple[Any, ...]) -> Iterator[tuple[int, torch.Tensor]]:
    """Yield ``(rows, index)`` for each table lookup of an operator call."""
    if func is _ATEN.embedding.default or func is _ATEN._embedding_bag.default:
        yield args[0].shape[0], args[1]
    elif func in _ALONG_AXIS and args[0].ndim:
        yield args[0].shape[args[1]], args[2]
    elif func is _ATEN.index.Tensor:
        for axis, index in enumerate(args[1]):
            if index is not None and index.dtype is not torch.bool:
                yield args[0].shape[axis], index


def _is_in_place(func: Callable[..., Any]) -> bool:
    return isinstance(func, torch._ops.OpOverload) and func._schema.is_mutable


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _watch(module: torch.nn.Module, specs: tuple[TensorSpec, ...], call: CallSignature) -> _TableWatch:
    zeros = _zeros(specs)
    watch = _TableWatch(zeros)
    try:
        watch.watch(lambda: _run(module, call, zeros))
    except Exception as error:  # noqa: BLE001 - a module that fails here fails again, with its message, in capture
        expose_own(error)
        watch.rows.clear()
    return watch


def _zeros(specs: tuple[TensorSpec, ...]) -> dict[str, torch.Tensor]:
    sizes = trace_sizes(specs)
    return {s.name: torch.zeros(s.shape(sizes), dtype=getattr(torch, s.dtype)) for s in specs}


def _run(module: torch.nn.Module, call: CallSignature, inputs: Mapping[str, torch.Tensor]) -> object:
    args, kwargs = call.arguments(inputs)
    with evaluation_mode(module), torch.no_grad():
        return module(*args, **kwargs)
