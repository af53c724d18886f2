"""A set of names as one text, which reads and formats better than a list of strings."""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """Return the words of a text as a set.

    Example:
        >>> sorted(words("Add Mul"))
        ['Add', 'Mul']
    """
    return frozenset(text.split())
