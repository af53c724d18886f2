"""Trace the operators of a module in one run: their numbers, the kinds of GELU, and tensors derived from parameters.

A wrong number or kind of GELU may change the outputs by less than a rounding and is still an error of the graph. A
module may also multiply by tensors that it rounds or scales from its parameters, and a graph must hold these.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

from ffn_export.core.types import Array
from ffn_export.exporter.dispatch import OperatorMode
from ffn_export.exporter.source import Source
from ffn_export.exporter.torch_inputs import to_torch
from ffn_export.parity.reference.sensitive_arithmetic import Arithmetic

GeluKind = Literal["erf", "tanh"]

_MOST_BYTES = 2**30  # of recorded weights

_aten = torch.ops.aten
# Operators of a decomposed GELU. ``x * sigmoid(2 * u)`` equals the kind with a tanh of ``u``, which needs a cubic term.
_PIECES: Mapping[Any, GeluKind] = {
    _aten.erf: "erf",
    _aten.erfc: "erf",
    _aten.special_ndtr: "erf",
    _aten._transformer_encoder_layer_fwd: "erf",  # the fast path of nn.TransformerEncoderLayer
    _aten.tanh: "tanh",
    _aten.sigmoid: "tanh",
    _aten.silu: "tanh",
}
_ROOTS = (_aten.sqrt, _aten.sqrt_, _aten.rsqrt, _aten.rsqrt_)
_GUARDS = (_aten.add, _aten.add_, _aten.clamp, _aten.clamp_, _aten.clamp_min, _aten.clamp_min_, _aten.maximum)
# Operators that take a root of a mean of squares themselves, without a number that guards it.
_BARE = (_aten.std, _aten.std_mean)
_POWERS = (_aten.pow, _aten.pow_, _aten.float_power, _aten.float_power_)
_SUBTRACTS = (_aten.sub, _aten.sub_)
_CUBIC = 0.044715
_CUBICS = (_CUBIC, 1 / _CUBIC, math.sqrt(2 / math.pi) * _CUBIC, 2 * math.sqrt(2 / math.pi) * _CUBIC)
_ROUNDING = 0.01  # of a coefficient that is written with two digits, or rounded to bfloat16


@dataclass
class Watched:
    """The trace of one run.

    Attributes:
        numbers: Every number that an operator was given, including tensors of one element.
        terms: The same numbers as they are added: the negative of one that is subtracted, and both of one that a value
            is subtracted from.
        gelus: Kinds of GELU that the operators compute, or may compute as a decomposed operator.
        calls_gelu: Whether the module calls a GELU operator.
        weights: Name -> tensor, for tensors computed only from parameters and buffers.
        with_rounded: Names of those of ``weights`` that are computed with a number that their dtype rounds. PyTorch
            computes with the number, a graph with what its dtype holds.
        read: Names of the parameters and buffers that an operator was given.
        dtypes: Floating-point dtypes of the tensors that operators were given and returned.
        arithmetic: Kind of arithmetic and whether it is computed in half precision -> how often
            (:mod:`~ffn_export.parity.reference.sensitive_arithmetic`).
        takes_bare_roots: Whether the module takes a root of a computed value to which no number or weight was added and
            which none limits, or has a norm whose epsilon is 0.
    """

    numbers: set[float] = field(default_factory=set)
    terms: set[float] = field(default_factory=set)
    gelus: set[GeluKind] = field(default_factory=set)
    calls_gelu: bool = False
    weights: dict[str, torch.Tensor] = field(default_factory=dict)
    with_rounded: set[str] = field(default_factory=set)
    read: set[str] = field(default_factory=set)
    dtypes: set[torch.dtype] = field(default_factory=set)
    arithmetic: Counter[tuple[str, bool]] = field(default_factory=Counter)
    takes_bare_roots: bool = False


class _Watch(OperatorMode):  # type: ignore[no-untyped-call]  # torch leaves its base untyped
    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.seen = Watched()
        self.arithmetic = Arithmetic()
        self._pieces: set[GeluKind] = set()
        self._bytes = 0
        self._guarded: MutableMapping[torch.Tensor, bool] = WeakIdKeyDictionary()  # sums with a number, limited values
        # Id -> tensor and name. The tensor is kept alive so that its id is not reused.
        self._own = {
            id(tensor): (tensor, name) for name, tensor in (*module.named_parameters(), *module.named_buffers())
        }
        self._parameters = {name for _, name in self._own.values()}

    def run(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run an operator, and record its kind, its numbers, and its result if it reads only weights."""
        packet = getattr(func, "overloadpacket", func)
        if packet is _aten.gelu:
            self.seen.calls_gelu = True
            self.seen.gelus.add("tanh" if "tanh" in (*args[1:], *kwargs.values()) else "erf")
        elif packet in _PIECES:
            self._pieces.add(_PIECES[packet])
        for leaf in tree_leaves((args, kwargs, _defaults(func, len(args)))):
            is_single = isinstance(leaf, torch.Tensor) and leaf.numel() == 1 and leaf.is_floating_point()
            is_factor = type(leaf) is int and packet in (_aten.mul, _aten.div)
            if isinstance(leaf, float) or is_single or is_factor:
                self.seen.numbers.add(float(leaf))
                self.seen.terms.add(-float(leaf) if packet in _SUBTRACTS and leaf is args[1] else float(leaf))
                if packet is _aten.rsub:
                    self.seen.terms.add(-float(leaf))
        self.seen.takes_bare_roots |= self._is_bare(packet, args, kwargs)
        result = func(*args, **kwargs)
        if self._is_guarded(packet, args):
            self._guarded[result] = True
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        self.arithmetic.note(packet, given, result)
        made = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        self.seen.dtypes |= {tensor.dtype for tensor in (*given, *made) if tensor.is_floating_point()}
        self._note_weight(packet, given, result, [leaf for leaf in tree_leaves((args, kwargs)) if type(leaf) is float])
        return result

    def trace(self) -> Watched:
        """Return the trace. A tanh or a sigmoid without a cubic coefficient is no piece of a GELU."""
        is_cubic = any(abs(abs(number) - each) <= _ROUNDING * each for number in self.seen.numbers for each in _CUBICS)
        self.seen.arithmetic = self.arithmetic.counted
        self.seen.gelus |= self._pieces if is_cubic else self._pieces - {"tanh"}
        return self.seen

    def _is_bare(self, packet: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        """Whether an operator takes a root of a value that nothing keeps from 0."""
        if packet in _BARE or ("norm" in packet.__name__ and any(map(_is_zero, (*args, *kwargs.values())))):
            return True
        is_power = packet in _POWERS and _number(args[1]) in (0.5, -0.5)
        if not (is_power or packet in _ROOTS) or args[0] in self._guarded:
            return False
        return args[0].ndim > 0 and id(args[0]) not in self._own  # a scale by the root of a number is no norm's

    def _is_guarded(self, packet: Any, args: tuple[Any, ...]) -> bool:
        """Whether a result is a sum with a number or a weight other than 0, is limited by one, or is cast from such."""
        if packet is _aten._to_copy:
            return args[0] in self._guarded
        if packet not in _GUARDS or any(map(_is_zero, args)):
            return False
        return any(_number(value) is not None or id(value) in self._own for value in args[:2])

    def _note_weight(self, packet: Any, given: list[torch.Tensor], result: Any, numbers: list[float]) -> None:
        names = [self._own[id(tensor)][1] for tensor in given if id(tensor) in self._own]
        self.seen.read.update(self._parameters.intersection(names))
        if not given or len(names) < len(given) or not all(map(_is_plain, (*given, result))) or id(result) in self._own:
            return
        name = f"{packet.__name__}({', '.join(names)})"
        is_view = any(result.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr() for tensor in given)
        size = 0 if is_view else result.nbytes
        if self._bytes + size > _MOST_BYTES:
            return
        self._bytes += size
        self._own[id(result)] = result, name
        if any(float(result.new_tensor(number)) != number for number in numbers) or self.seen.with_rounded & {*names}:
            self.seen.with_rounded.add(name)
        if not is_view:
            self.seen.weights[name] = result


def _defaults(func: Callable[..., Any], given: int) -> list[Any]:
    """Return the defaults of arguments that are not given, since torch hides arguments that equal their default."""
    schema = getattr(func, "_schema", None)
    return [] if schema is None else [argument.default_value for argument in schema.arguments[given:]]


def _is_zero(value: object) -> bool:
    """Whether a value is the number 0, or a tensor of it alone."""
    return _number(value) == 0


def _number(value: object) -> float | None:
    """Return a number, or that of a tensor of one element; None for any other value."""
    if isinstance(value, torch.Tensor):
        return float(value) if value.numel() == 1 and not value.is_complex() else None
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _is_plain(tensor: object) -> bool:
    """Whether an object is a dense tensor, of no subclass other than ``Parameter``."""
    return type(tensor) in (torch.Tensor, torch.nn.Parameter) and getattr(tensor, "layout", None) is torch.strided


def watch(source: Source, feeds: Mapping[str, Array]) -> Watched:
    """Run a module once, and return the trace of its operators."""
    args, kwargs = source.call.arguments(to_torch(feeds))
    mode = _Watch(source.module)

    def call() -> Any:
        mode.arithmetic = Arithmetic()  # a call that met torch's compiler is repeated
        with mode.arithmetic:
            return source.module(*args, **kwargs)

    with torch.no_grad():
        mode.watch(call)
    return mode.trace()
