"""Match graph inputs to the parameters of ``forward``."""

from __future__ import annotations

import contextlib
import difflib
import functools
import inspect
import keyword
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ffn_export.errors import UsageError, did_you_mean

BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (*BY_POSITION, inspect.Parameter.KEYWORD_ONLY)
_MISSPELT = 0.8  # likeness of two names that differ in one letter of three; other names are the graph's own


SLOT = object()
"""Placeholder of an input among the leaves of :attr:`CallSignature.structure`."""


@dataclass(frozen=True)
class CallSignature:
    """The mapping from named values to the arguments of ``forward``.

    Attributes:
        positional: Names of the inputs passed by position, in order.
        keywords: Keyword -> name of the input passed by it.
        extra: Those of ``keywords`` that are passed in ``**kwargs``.
        structure: For an exported program, the tree of ``(args, kwargs)`` and its leaves. A leaf is
            ``SLOT`` for the next input, else a constant of the program.
    """

    positional: tuple[str, ...] = ()
    keywords: Mapping[str, str] = field(default_factory=dict)
    extra: tuple[str, ...] = ()
    structure: tuple[pytree.TreeSpec, tuple[Any, ...]] | None = None

    @property
    def input_order(self) -> tuple[str, ...]:
        """Input names in the order in which ``forward`` receives them."""
        return (*self.positional, *self.keywords.values())

    def arguments(self, values: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return ``(args, kwargs)`` for a call, from values by input name."""
        args = tuple(values[name] for name in self.positional)
        if self.structure is not None:
            inputs = iter(args)
            leaves = [next(inputs) if leaf is SLOT else leaf for leaf in self.structure[1]]
            args, kwargs = pytree.tree_unflatten(leaves, self.structure[0])
            return args, kwargs
        return args, {keyword: values[name] for keyword, name in self.keywords.items()}

    @contextlib.contextmanager
    def spelled_out(self, module: torch.nn.Module) -> Iterator[None]:
        """Give ``forward`` a named parameter for each input passed in ``**kwargs``, and restore it afterwards.

        torch.export (2.13) cannot match dynamic shapes to inputs in ``**kwargs``.
        """
        if not self.extra:
            yield
            return
        original, own = module.forward, module.__dict__.get("forward")

        @functools.wraps(original)
        def forward(*args: Any, **kwargs: Any) -> Any:
            return original(*args, **kwargs)

        signature = inspect.signature(original)
        named = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        named += [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in self.extra]
        forward.__signature__ = signature.replace(parameters=named)  # type: ignore[attr-defined]
        module.forward = forward
        try:
            yield
        finally:
            del module.forward
            if own is not None:
                module.forward = own


def check_names(names: Iterable[str], known: Iterable[str], of: str) -> None:
    """Refuse a name that is no input of a source with inputs of its own.

    Raises:
        UsageError: On the first unknown name; the message has the nearest known one.
    """
    known = list(known)
    unknown = next((name for name in names if name not in known), None)
    if unknown is not None:
        raise UsageError(f"{unknown!r} is no input of {of};{did_you_mean(unknown, known)} it takes: {', '.join(known)}")


def _check_not_misspelt(assigned: Mapping[str, str], parameters: Mapping[str, inspect.Parameter]) -> None:
    """Refuse an input name that is no parameter where others are, or that is one but for a letter."""
    renamed = [name for slot, name in assigned.items() if slot != name and parameters[slot].kind in _NAMED]
    some_match = any(slot == name for slot, name in assigned.items())
    for name in renamed:
        if some_match or difflib.get_close_matches(name.lower(), list(map(str.lower, parameters)), cutoff=_MISSPELT):
            raise UsageError(
                f"input {name!r} is no parameter of forward;{did_you_mean(name, parameters)} it takes: "
                f"{', '.join(parameters)}"
            )


def bind(forward: Callable[..., Any], names: Sequence[str]) -> CallSignature:
    """Match input names to the parameters of ``forward``: by name if one fits, else by position.

    Raises:
        UsageError: If a required parameter has no input, an input has no parameter, or a name cannot be passed.
    """
    parameters = inspect.signature(forward).parameters
    by_name = [name for name in names if name in parameters and parameters[name].kind in _NAMED]
    unnamed = [name for name in names if name not in by_name]
    open_slots = [p.name for p in parameters.values() if p.kind in BY_POSITION and p.name not in by_name]
    assigned = {name: name for name in by_name} | dict(zip(open_slots, unnamed, strict=False))
    left_over = unnamed[len(open_slots) :]

    variadic = next((p.name for p in parameters.values() if p.kind is inspect.Parameter.VAR_POSITIONAL), None)
    extra = next((p.name for p in parameters.values() if p.kind is inspect.Parameter.VAR_KEYWORD), None)
    missing = [
        p.name
        for p in parameters.values()
        if p.kind in _NAMED and p.default is inspect.Parameter.empty and p.name not in assigned
    ]
    if missing:
        raise UsageError(
            f"forward needs {', '.join(map(repr, missing))}: add --input '{missing[0]}:DTYPE[DIM,...]' "
            f"(given: {', '.join(names) or 'no input'})"
        )
    if left_over and variadic is None and extra is None:
        takes = ", ".join(parameters) or "no parameter"
        raise UsageError(f"input {left_over[0]!r} fits no parameter of forward, which takes: {takes}")
    _check_not_misspelt(assigned, parameters)

    if variadic is None:
        _check_keywords(left_over, extra)
    _check_no_gap(parameters.values(), assigned)

    # Inputs reach *args only if all parameters before it are passed by position.
    to_variadic = variadic is not None and bool(left_over)
    kinds = BY_POSITION if to_variadic else (inspect.Parameter.POSITIONAL_ONLY,)
    positional = [assigned[p.name] for p in parameters.values() if p.kind in kinds and p.name in assigned]
    keywords = {p.name: assigned[p.name] for p in parameters.values() if p.kind not in kinds and p.name in assigned}
    if to_variadic:
        return CallSignature((*positional, *left_over), keywords)
    return CallSignature(tuple(positional), {**keywords, **{name: name for name in left_over}}, tuple(left_over))


def _check_keywords(names: Sequence[str], extra: str | None) -> None:
    for name in names:
        if not name.isidentifier() or keyword.iskeyword(name):
            raise UsageError(f"input {name!r} cannot be passed in **{extra}: write a name that is a Python identifier")


def _check_no_gap(parameters: Iterable[inspect.Parameter], assigned: Mapping[str, str]) -> None:
    """Check that every parameter before an assigned positional-only one is assigned too."""
    gap = None
    for parameter in parameters:
        if parameter.kind is not inspect.Parameter.POSITIONAL_ONLY:
            return
        if parameter.name not in assigned:
            gap = gap or parameter.name
        elif gap is not None:
            raise UsageError(
                f"forward takes {parameter.name!r} by position only, after {gap!r}: add an --input for {gap!r} too"
            )
