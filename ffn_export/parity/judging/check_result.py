"""The result of one check of a whole graph. Plain data: it can be stored and read again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ffn_export.core.plain_data import PlainData

CheckVerdict = Literal["passed", "warned", "failed", "not checked"]


@dataclass(frozen=True)
class CheckResult(PlainData):
    """The findings of one check.

    Attributes:
        name: Name of the check, such as ``interface``.
        verdict: ``failed`` if a finding is a fault.
        words: Result in a few words, shown in tables.
        findings: One line for each fault.
        notes: Further information for the reader, one line each.
    """

    name: str
    verdict: CheckVerdict
    words: str
    findings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def faults(self) -> tuple[str, ...]:
        """One line for each reason of failure: the findings, or the words of a failed check that lists none."""
        return self.findings or ((self.words,) if self.verdict == "failed" else ())

    @classmethod
    def of(cls, name: str, holds: str, findings: tuple[str, ...], notes: tuple[str, ...] = ()) -> CheckResult:
        """Return the result of a check that passes unless it finds something.

        Args:
            name: Name of the check.
            holds: Result in a few words if nothing is found.
            findings: One line for each fault.
            notes: See the class.
        """
        if not findings:
            return cls(name, "passed", holds, notes=notes)
        more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        return cls(name, "failed", f"{findings[0]}{more}", findings, notes)
