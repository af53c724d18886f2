"""Sizes as polynomials of symbols, such as ``12*batch*seq``.

A symbol is an unknown size, 0 or more. Two sizes with the same polynomial are equal for all sizes of their symbols. Two
with different polynomials may be equal or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

_MOST_TERMS = 12
_HIGHEST_DEGREE = 8
_LARGEST = 2**62

Monomial = tuple[str, ...]
"""The symbols of a term in order, each repeated by its power; empty for the constant term."""


class TooLargeError(ValueError):
    """A polynomial has too many terms, or too high a degree or coefficient."""


@dataclass(frozen=True)
class Size:
    """An integer polynomial of symbols that are 0 or more.

    Attributes:
        terms: Monomials with their coefficients, which are not 0, sorted with the highest degree first.
    """

    terms: tuple[tuple[Monomial, int], ...]

    @classmethod
    def of(cls, size: int | str) -> Size:
        """Return a constant, or a symbol."""
        if isinstance(size, str):
            return cls((((size,), 1),))
        return cls((((), size),)) if size else cls(())

    @property
    def constant(self) -> int | None:
        """The number, or None if the size has symbols."""
        if not self.terms:
            return 0
        return self.terms[0][1] if not self.terms[0][0] else None

    @property
    def lower_bound(self) -> int | None:
        """A lower bound, or None if a symbol has a negative coefficient."""
        if any(coefficient < 0 for monomial, coefficient in self.terms if monomial):
            return None
        return next((coefficient for monomial, coefficient in self.terms if not monomial), 0)

    def is_at_least(self, least: int) -> bool:
        """Whether the size is proven to be ``least`` or more."""
        bound = self.lower_bound
        return bound is not None and bound >= least

    def __add__(self, other: Size) -> Size:
        found = Counter(dict(self.terms))
        for monomial, coefficient in other.terms:
            found[monomial] += coefficient
        return _size(found)

    def __neg__(self) -> Size:
        return _size({monomial: -coefficient for monomial, coefficient in self.terms})

    def __sub__(self, other: Size) -> Size:
        return self + -other

    def __mul__(self, other: Size) -> Size:
        if len(self.terms) * len(other.terms) > _MOST_TERMS**2:
            raise TooLargeError
        found = Counter[Monomial]()
        for one, a in self.terms:
            for two, b in other.terms:
                found[tuple(sorted(one + two))] += a * b
        return _size(found)

    def over(self, other: Size) -> Size | None:
        """Return the polynomial ``q`` with ``self == q * other``, or None if none exists."""
        if not other.terms:
            return None
        quotient, rest = Size(()), self
        leading, by = other.terms[0]
        for _ in range(_MOST_TERMS):
            if not rest.terms:
                return quotient
            monomial, coefficient = rest.terms[0]
            left = Counter(monomial)
            left.subtract(leading)
            if coefficient % by or any(power < 0 for power in left.values()):
                return None
            step = _size({tuple(sorted(left.elements())): coefficient // by})
            quotient, rest = quotient + step, rest - step * other
        return None

    def divided(self, by: int) -> tuple[Size, Size]:
        """Return ``q`` and ``r`` with ``self == q * by + r``; coefficients of ``r`` are from 0 to ``by - 1``."""
        quotient = _size({monomial: coefficient // by for monomial, coefficient in self.terms})
        return quotient, _size({monomial: coefficient % by for monomial, coefficient in self.terms})

    def symbol_and_constant(self) -> tuple[str, int]:
        """Return ``s`` and ``c`` of ``s + c``; ``s`` is empty for any other polynomial."""
        (monomial, coefficient), *others = self.terms or (((), 0),)
        is_sum = len(monomial) == coefficient == 1 and not any(symbols for symbols, _ in others)
        return (monomial[0] if is_sum else "", sum(number for _, number in others))

    def __str__(self) -> str:
        return (
            " + ".join(
                "*".join([*([str(coefficient)] if coefficient != 1 or not monomial else []), *monomial])
                for monomial, coefficient in self.terms
            )
            or "0"
        )


def _size(terms: Mapping[Monomial, int]) -> Size:
    kept = {monomial: coefficient for monomial, coefficient in terms.items() if coefficient}
    if len(kept) > _MOST_TERMS or any(len(m) > _HIGHEST_DEGREE or abs(c) > _LARGEST for m, c in kept.items()):
        raise TooLargeError
    return Size(tuple(sorted(kept.items(), key=lambda term: (-len(term[0]), term[0]))))


ZERO, ONE = Size.of(0), Size.of(1)
