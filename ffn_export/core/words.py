"""Names, numbers and sizes in words."""

from __future__ import annotations

from collections.abc import Mapping


def words(text: str) -> frozenset[str]:
    """Return the words of a text as a set: one text reads and formats better than a list of strings.

    Example:
        >>> sorted(words("Add Mul"))
        ['Add', 'Mul']
    """
    return frozenset(text.split())


def counted(number: int, thing: str) -> str:
    """Return a number of things, whose plural ends in s.

    Example:
        >>> counted(1, "case"), counted(2, "case")
        ('1 case', '2 cases')
    """
    return f"{number} {thing}{'' if number == 1 else 's'}"


def size_label(sizes: Mapping[str, int]) -> str:
    """Return a label of stored results such as ``batch=1,seq=128``, or ``static`` if no axis is symbolic."""
    return ",".join(f"{name}={size}" for name, size in sizes.items()) or "static"
