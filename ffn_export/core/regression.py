"""Regressions of errors or times against a stored baseline, as plain data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from ffn_export.core.plain_data import PlainData

Kind = Literal["failure", "error", "missing", "latency"]


@dataclass(frozen=True)
class Regression:
    """A result that is worse than in the baseline.

    Attributes:
        kind: ``failure``: it passed and now fails; ``error``: its error grew; ``missing``: it was judged and no
            longer is; ``latency``: it takes longer.
        where: Name of the result, such as ``ort-cpu, batch=3,seq=5 normal``.
        reason: The result before and now, in one line.
    """

    kind: Kind
    where: str
    reason: str

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


@dataclass(frozen=True)
class Comparison(PlainData):
    """Comparison of a result with a baseline.

    Attributes:
        compared: Number of compared pairs of numbers or verdicts.
        regressions: Regressions, the worst kind first within each part.
        notes: Differences that are no regressions: versions, other machines, results that are new or not requested.
    """

    compared: int
    regressions: tuple[Regression, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def failures(self) -> tuple[str, ...]:
        """Every reason to fail, one line each. A comparison of nothing fails."""
        if not self.compared and not self.regressions:
            return (f"nothing of the baseline could be compared ({'; '.join(self.notes) or 'it is empty'})",)
        return tuple(map(str, self.regressions))

    @property
    def passed(self) -> bool:
        """Whether something was compared and nothing got worse."""
        return not self.failures

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, with the verdict."""
        return {**super().to_dict(), "passed": self.passed, "failures": list(self.failures)}


def together(parts: Iterable[Comparison]) -> Comparison:
    """Merge several comparisons, such as those of errors and of times."""
    found = list(parts)
    return Comparison(
        sum(part.compared for part in found),
        tuple(regression for part in found for regression in part.regressions),
        tuple(dict.fromkeys(note for part in found for note in part.notes)),
    )
