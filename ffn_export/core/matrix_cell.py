"""A cell of a matrix of models, with its verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from ffn_export.core.plain_data import PlainData

Verdict = Literal["passed", "warned", "unavailable", "error", "failed"]

STATUS: Mapping[Verdict, int] = {"passed": 0, "warned": 0, "unavailable": 3, "error": 2, "failed": 1}
"""Exit status of each verdict, the worst verdict last: a failed gate counts more than a runtime that is missing."""


@dataclass(frozen=True)
class Cell(PlainData):
    """One model for one target in one precision on one runtime.

    Attributes:
        model: Name of the model.
        target: Fusion target.
        runtime: Name of the runtime; ``default`` if none was named and none came so far as to judge.
        verdict: ``passed``, ``warned``, ``failed`` (a gate), ``error`` (bad input) or ``unavailable``.
        dtype: Precision.
        action: What was done.
        seconds: Time of the work, which the runtimes of one model and target share.
        message: Why it did not pass, or what was noticed; mostly empty.
        figures: Numbers, such as ``worst_ulps``, or ``ratio seq=128`` over PyTorch's time.
        path: What was written, relative to the directory of the results.
        sha256: Hash of the written manifest or file; a cell is done as long as it holds.
        machine: Processor that it ran on.
        processor: Kind of node of a cluster that it was meant for; empty for any.
        key: Hash of everything that decides the cell.
    """

    model: str
    target: str
    runtime: str
    verdict: Verdict
    dtype: str
    action: str
    seconds: float = 0.0
    message: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)
    path: str | None = None
    sha256: str | None = None
    machine: str = ""
    processor: str = ""
    key: str = ""

    @property
    def status(self) -> int:
        """Exit status."""
        return STATUS[self.verdict]

    @property
    def title(self) -> str:
        """Its place in the matrix, in words."""
        return " ".join(filter(None, (self.model, self.target, self.dtype, self.runtime, self.processor)))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, with the status."""
        data = super().to_dict()
        return {
            **{name: data.pop(name) for name in ("model", "target", "runtime", "verdict")},
            "status": self.status,
            **data,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Restore from the data of :meth:`to_dict`."""
        return super().from_dict({key: value for key, value in data.items() if key != "status"})


def exit_status(cells: Iterable[Cell]) -> int:
    """Return the exit status of the worst cell."""
    order = list(STATUS)
    return STATUS[max((cell.verdict for cell in cells), key=order.index, default="passed")]
