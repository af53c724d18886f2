"""Dataclasses that are stored as JSON: to plain data and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Self


class PlainData:
    """Base of a frozen dataclass that is stored as JSON.

    A class that adds derived values to its data overrides :meth:`to_dict`; :meth:`from_dict` ignores them. What one
    field cannot say, such as a number above 0, ``__post_init__`` checks with a ``ValueError``.

    Example:
        >>> @dataclass(frozen=True)
        ... class Error(PlainData):
        ...     ulps: float
        ...     index: tuple[int, ...] = ()
        >>> Error.from_dict({"ulps": "NaN", "index": [0, 2]})
        Error(ulps=nan, index=(0, 2))
    """

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for :func:`~ffn_export.core.json_text.json_text`."""
        data: dict[str, Any] = asdict(self, dict_factory=_with_lists)  # type: ignore[call-overload]  # a subclass is one
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read plain data, with the types that the fields declare.

        Raises:
            ValueError: If a field is missing or has another type; the message has its path.
        """
        import msgspec  # the application that only runs a bundle reads no results

        try:
            # Not strict: JSON has no NaN and no infinity, so a number may be their name.
            return msgspec.convert(data, cls, strict=False)
        except msgspec.ValidationError as error:
            raise ValueError(str(error)) from error


def _with_lists(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return fields as a dictionary; a set becomes a sorted list, since JSON has none."""
    return {name: sorted(value) if isinstance(value, frozenset) else value for name, value in fields}
