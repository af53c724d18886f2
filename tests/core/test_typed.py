"""Types of data that comes from a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from ffn_export.core.typed import check


@dataclass(frozen=True)
class Inner:
    kind: Literal["a", "b"] = "a"
    sizes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Outer:
    number: float = 1.0
    name: str | None = None
    pair: tuple[int, str] = (1, "x")
    inner: tuple[Inner, ...] = ()
    names: frozenset[str] = frozenset()
    anything: Any = None


@pytest.mark.parametrize(
    "value",
    [Outer(), Outer(1, "n", (2, "y"), (Inner("b", {"n": 1}),), frozenset({"z"}), object()), Outer(float("nan"))],
)
def test_right_types_pass(value: Outer) -> None:
    check(value, Outer)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (Outer(number="1"), "number cannot be '1'"),  # type: ignore[arg-type]
        (Outer(number=True), "number cannot be True"),
        (Outer(name=3), "name cannot be 3"),  # type: ignore[arg-type]
        (Outer(pair=(1, 2)), r"pair\[1\] cannot be 2"),  # type: ignore[arg-type]
        (Outer(pair=(1,)), r"pair cannot be \(1,\)"),  # type: ignore[arg-type]
        (Outer(inner=[]), r"inner cannot be \[\]"),  # type: ignore[arg-type]
        (Outer(inner=(Inner(kind="c"),)), r"inner\[0\]\.kind cannot be 'c'"),  # type: ignore[arg-type]
        (Outer(inner=(Inner(kind=["a"]),)), r"inner\[0\]\.kind cannot be"),  # type: ignore[arg-type]
        (Outer(inner=(Inner(sizes={"n": 1.5}),)), r"inner\[0\]\.sizes\['n'\] cannot be 1\.5"),  # type: ignore[dict-item]
        (Outer(inner=(Inner(sizes={1: 1}),)), r"a key of inner\[0\]\.sizes cannot be 1"),  # type: ignore[dict-item]
        (Outer(names=frozenset({1})), "an element of names cannot be 1"),  # type: ignore[arg-type]
        ("text", "it cannot be 'text'"),
    ],
)
def test_wrong_types_are_named_by_their_place(value: object, says: str) -> None:
    with pytest.raises(ValueError, match=f"^{says}"):
        check(value, Outer)
