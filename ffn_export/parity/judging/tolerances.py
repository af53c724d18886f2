"""How large an error may be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from ffn_export.errors import UsageError


@dataclass(frozen=True)
class Closeness:
    """The classic test of one output: ``difference <= atol + rtol * |oracle|`` for every element."""

    atol: float = 0.0
    rtol: float = 0.0

    def factor(self, frontier: tuple[tuple[float, float], ...]) -> float:
        """Return the largest difference as a multiple of what is allowed for its element; 0 without elements."""
        return max((_ratio(error, self.atol + self.rtol * size) for error, size in frontier), default=0.0)


@dataclass(frozen=True)
class Tolerances:
    """What a runtime's error is allowed to be, in units of the last place of the output's own scale.

    A runtime adds in another order than PyTorch, so it may be some times worse or better; below the
    floor the difference says nothing. The floor is under every fault worth finding: on ``bert-ffn``
    the wrong kind of GELU is off by 367 units and one weight wrong by 1 % by 13, while PyTorch's own
    float32 error is 1.3 (``docs/parity.md``).

    On ill-conditioned rows the conditioning counts too: how far one rounding of the inputs moves the
    truth. PyTorch may be exact there by luck, so that its own error says nothing: the mean of a constant
    row comes out right or one unit wrong, and the norm multiplies that unit by 1 / sqrt(epsilon).

    What a caller declares takes the place of these bounds: a budget for a model that is meant to differ
    (quantised), or the classic ``atol`` and ``rtol``.

    Attributes:
        baseline_factor: Times PyTorch's own error in the same dtype.
        floor_ulps: Always allowed.
        conditioning_factor: Times the conditioning. A sum and its mean are rounded once each.
        imprecise_factor: Times what is allowed, for an operator that is known to be less accurate: one sum of several
            is rounded worse. Up to 1.16 times was met (``scripts/false_alarms.py``, ``transformer-big`` for ``ort``).
        explained_factor: Times the conditioning that it still explains, for an operator that is known to
            be less accurate: one that adds n elements in turn is off by about sqrt(n) roundings (Higham and
            Mary 2019, "A new approach to probabilistic rounding error analysis"), and rows have up to 4,096.
        in_order_factor: Times what is allowed, for a runtime that adds the products of a row one after the other. A
            vector unit of 16 lanes adds 16 rows of a sixteenth, whose roundings are sqrt(16) times smaller together.
        relative_l2: Declared budget: the largest relative L2 error of any output and of any traced initialiser.
        closeness: Output name -> its classic test; the name ``*`` stands for every other output.
    """

    baseline_factor: float = 4.0
    floor_ulps: float = 8.0
    conditioning_factor: float = 2.0
    imprecise_factor: float = 2.0
    explained_factor: float = 64.0
    in_order_factor: float = 4.0
    relative_l2: float | None = None
    closeness: Mapping[str, Closeness] = field(default_factory=dict)

    def closeness_of(self, output: str) -> Closeness | None:
        """Return the classic test that is declared for an output, or None."""
        return self.closeness.get(output, self.closeness.get("*"))

    def declares(self, output: str) -> bool:
        """Whether something declared takes the place of the bound in units of the last place."""
        return self.relative_l2 is not None or self.closeness_of(output) is not None

    def declared_words(self) -> str:
        """Return what is declared, in a few words; empty where nothing is."""
        words = [f"{output} atol {test.atol:g}, rtol {test.rtol:g}" for output, test in self.closeness.items()]
        if self.relative_l2 is not None:
            words.append(f"a relative L2 error of {self.relative_l2:g}")
        return "; ".join(words)

    def allows_zeros(self, output: str, scale: float) -> bool:
        """Whether what is declared for an output is so much that zeros in its place would pass, too.

        Args:
            output: Its name.
            scale: Its largest magnitude. The relative L2 error of zeros is 1, whatever that is.
        """
        test = self.closeness_of(output)
        if test is not None:
            return test.rtol >= 1 or test.atol >= (1 - test.rtol) * scale
        return self.relative_l2 is not None and self.relative_l2 >= 1

    def declared(self) -> Tolerances:
        """Return the same declarations, over the bounds of this release."""
        return Tolerances(relative_l2=self.relative_l2, closeness=self.closeness)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Tolerances:
        """Read what :meth:`to_dict` wrote."""
        known = {name: value for name, value in data.items() if name in {f.name for f in fields(cls)}}
        closeness = {output: Closeness(**test) for output, test in data.get("closeness", {}).items()}
        return cls(**{**known, "closeness": closeness})


def check_budget(budget: float) -> None:
    """Refuse a budget that nothing passes or, being NaN, nothing can be held against.

    Raises:
        UsageError: If it is not a finite number above 0.
    """
    if not 0 < budget < math.inf:
        raise UsageError(f"an error budget of {budget:g} is none: take a finite number above 0")


def allowed_ulps(
    baseline_ulps: float, tolerances: Tolerances, conditioning_ulps: float = 0.0, inner_units: float = 1.0
) -> float:
    """Return the largest error allowed where PyTorch's own is ``baseline_ulps``; NaN counts as none.

    The floor is in units of the dtype that the output is computed in, one of which is ``inner_units`` of its own.
    """
    return max(
        tolerances.floor_ulps * inner_units,
        _known(tolerances.baseline_factor * baseline_ulps),
        _known(tolerances.conditioning_factor * conditioning_ulps),
    )


def explained_ulps(conditioning_ulps: float, tolerances: Tolerances) -> float:
    """Return the largest error that conditioning explains for an operator known to be less accurate."""
    return _known(tolerances.explained_factor * conditioning_ulps)


def _known(ulps: float) -> float:
    return ulps if math.isfinite(ulps) else 0.0


def _ratio(error: float, allowed: float) -> float:
    if allowed:
        return error / allowed
    return math.inf if error else 0.0
