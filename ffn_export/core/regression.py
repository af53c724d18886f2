"""What got worse since a baseline. Plain data, whatever was compared: errors or times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

Kind = Literal["failure", "error", "missing", "latency"]


@dataclass(frozen=True)
class Regression:
    """One thing that is worse than it was.

    Attributes:
        kind: ``failure``: it passed and fails now; ``error``: its error grew; ``missing``: it was judged and no
            longer is; ``latency``: it takes longer.
        where: What it is, such as ``ort-cpu, batch=3,seq=5 normal``.
        reason: What was found before and now, in one line.
    """

    kind: Kind
    where: str
    reason: str

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


@dataclass(frozen=True)
class Comparison:
    """A result beside the one that it is held against.

    Attributes:
        compared: How many pairs of numbers or verdicts were held against each other.
        regressions: What is worse, worst kind of thing first within each part.
        notes: What is different and no regression: versions, other machines, things that are new or were not asked.
    """

    compared: int
    regressions: tuple[Regression, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def failures(self) -> tuple[str, ...]:
        """Every reason to fail, one line each; a gate that compared nothing has not been passed."""
        if not self.compared and not self.regressions:
            return (f"nothing of the baseline could be compared ({'; '.join(self.notes) or 'it is empty'})",)
        return tuple(map(str, self.regressions))

    @property
    def passed(self) -> bool:
        """Whether something was compared and nothing is worse."""
        return not self.failures

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, with the verdict."""
        return {**asdict(self), "passed": self.passed, "failures": list(self.failures)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Comparison:
        """Read what :meth:`to_dict` wrote; the verdict is derived again."""
        return cls(data["compared"], tuple(Regression(**each) for each in data["regressions"]), tuple(data["notes"]))


def together(parts: Iterable[Comparison]) -> Comparison:
    """Return several comparisons as one, such as that of errors and that of times."""
    found = list(parts)
    return Comparison(
        sum(part.compared for part in found),
        tuple(regression for part in found for regression in part.regressions),
        tuple(dict.fromkeys(note for part in found for note in part.notes)),
    )
