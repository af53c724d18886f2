"""Bounds for integer inputs: below the smallest table that each one indexes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch

from ffn_export.exporter.dispatch import OperatorMode
from ffn_export.exporter.drawing import trace_sizes
from ffn_export.exporter.module_state import evaluation_mode
from ffn_export.exporter.signature import CallSignature
from ffn_export.exporter.tensor_spec import TensorSpec

_ATEN = torch.ops.aten
# A copy holds the same indices; a view shares its storage and needs no entry here.
_COPIES = frozenset({_ATEN._to_copy.default, _ATEN.clone.default, _ATEN.lift_fresh_copy.default})
_ALONG_AXIS = frozenset(
    {_ATEN.index_select.default, _ATEN.gather.default, _ATEN.scatter.value, _ATEN.scatter.src, _ATEN.scatter_.value}
)


def with_ranges(module: torch.nn.Module, specs: tuple[TensorSpec, ...], call: CallSignature) -> tuple[TensorSpec, ...]:
    """Give each integer input without a range one: {0, 1} for masks, else what its tables allow.

    Which tables an input indexes is seen by running the module once on zeros, a valid index
    everywhere. An input that reaches no table unchanged gets the bound of the smallest embedding.
    """
    open_specs = [s for s in specs if not (s.is_floating or s.is_mask) and s.value_range is None]
    if not open_specs:
        return specs
    watch = _watch(module, specs, call)
    embeddings = [m.num_embeddings for m in module.modules() if isinstance(m, torch.nn.Embedding)]
    smallest = min([*embeddings, *watch.embeddings], default=2)

    def bound(spec: TensorSpec) -> TensorSpec:
        if spec not in open_specs:
            return spec
        is_mask = spec.dtype == "bool" or "mask" in spec.name.lower()
        rows = watch.rows.get(spec.name, 2 if is_mask else smallest)
        largest = 1 if spec.dtype == "bool" else torch.iinfo(getattr(torch, spec.dtype)).max
        return replace(spec, value_range=(0, min(max(rows - 1, 0), largest)))

    return tuple(map(bound, specs))


class _TableWatch(OperatorMode):  # type: ignore[no-untyped-call]  # torch leaves its base untyped
    """Notes which input indexes which table, through views and casts.

    Attributes:
        rows: Input name -> rows of the smallest table that it indexes.
        embeddings: Rows of every embedding table, whatever indexes it.
    """

    def __init__(self, inputs: Mapping[str, torch.Tensor]) -> None:
        super().__init__()
        self.rows: dict[str, int] = {}
        self.embeddings: list[int] = []
        self._owner = {_storage(tensor): name for name, tensor in inputs.items()}
        # Held, so that no later tensor gets the storage of one that is known here.
        self._held = list(inputs.values())

    def run(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Note what it looks up."""
        result = func(*args, **kwargs)
        if func in _COPIES and (name := self._owner.get(_storage(args[0]))) is not None:
            self._owner[_storage(result)] = name
            self._held.append(result)
        if func is _ATEN.embedding.default:
            self.embeddings.append(args[0].shape[0])
        for rows, index in _lookups(func, args):
            name = self._owner.get(_storage(index))
            if name is not None:
                self.rows[name] = min(rows, self.rows.get(name, rows))
        return result


def _lookups(func: Callable[..., Any], args: tuple[Any, ...]) -> Iterator[tuple[int, torch.Tensor]]:
    """Yield ``(rows, index)`` for each table lookup that the call of an operator makes."""
    if func is _ATEN.embedding.default or func is _ATEN._embedding_bag.default:
        yield args[0].shape[0], args[1]
    elif func in _ALONG_AXIS and args[0].ndim:
        yield args[0].shape[args[1]], args[2]
    elif func is _ATEN.index.Tensor:
        for axis, index in enumerate(args[1]):
            if index is not None and index.dtype is not torch.bool:
                yield args[0].shape[axis], index


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _watch(module: torch.nn.Module, specs: tuple[TensorSpec, ...], call: CallSignature) -> _TableWatch:
    sizes = trace_sizes(specs)
    zeros = {s.name: torch.zeros(s.shape(sizes), dtype=getattr(torch, s.dtype)) for s in specs}
    watch = _TableWatch(zeros)
    args, kwargs = call.arguments(zeros)
    try:
        with evaluation_mode(module), torch.no_grad():
            watch.watch(lambda: module(*args, **kwargs))
    except Exception:  # noqa: BLE001 - a module that fails here fails again, with its message, in capture
        watch.rows.clear()
    return watch
