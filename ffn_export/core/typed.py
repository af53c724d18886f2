"""Check that data read from a file has the types declared by its dataclass, since Python does not check them."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints


def check(value: Any, kind: Any, where: str = "it") -> None:
    """Check a value and its elements against a type.

    Args:
        value: The value; dataclasses are checked field by field.
        kind: A class, or a type of ``typing`` or ``collections.abc``, as in an annotation.
        where: Name of the value in the message.

    Raises:
        ValueError: If a value has another type; the message has its name and the value.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return
    if origin in (Union, types.UnionType):
        _check_union(value, inner, where)
    elif origin is Literal:
        _require(value in inner and isinstance(value, tuple({type(each) for each in inner})), value, where)
    elif origin is tuple:
        _require(isinstance(value, tuple), value, where)
        one_kind = len(inner) == 2 and inner[1] is Ellipsis
        _require(one_kind or len(value) == len(inner), value, where)
        for index, each in enumerate(value):
            check(each, inner[0] if one_kind else inner[index], f"{where}[{index}]")
    elif isinstance(origin, type) and issubclass(origin, Mapping):
        _require(isinstance(value, Mapping), value, where)
        for key, each in value.items():
            check(key, inner[0], f"a key of {where}")
            check(each, inner[1], f"{where}[{key!r}]")
    elif isinstance(origin, type):  # frozenset and the like
        _require(isinstance(value, origin), value, where)
        for each in value:
            check(each, inner[0], f"an element of {where}")
    else:
        _check_plain(value, kind, where)


def _check_union(value: Any, kinds: tuple[Any, ...], where: str) -> None:
    problems = []
    for kind in kinds:
        try:
            check(value, kind, where)
        except ValueError as error:
            if kind is not type(None):
                problems.append(error)
        else:
            return
    raise problems[0]


def _check_plain(value: Any, kind: type, where: str) -> None:
    if kind is float:
        _require(isinstance(value, int | float) and not isinstance(value, bool), value, where)
    elif kind is int:
        _require(isinstance(value, int) and not isinstance(value, bool), value, where)
    else:
        _require(isinstance(value, kind), value, where)
    if is_dataclass(value):
        hints = _hints(kind)
        for field in fields(value):
            check(
                getattr(value, field.name), hints[field.name], field.name if where == "it" else f"{where}.{field.name}"
            )


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _require(holds: bool, value: Any, where: str) -> None:
    if not holds:
        text = repr(value)
        raise ValueError(f"{where} cannot be {text if len(text) <= 40 else f'{text[:40]}…'}")
