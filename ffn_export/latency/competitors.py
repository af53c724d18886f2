"""Competitors of a timing: PyTorch, the model on each runtime, and the runtime's default session on the plain export.

On a device with its own memory each is two competitors: without copies and with them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ffn_export.core.types import Array
from ffn_export.latency.result import label
from ffn_export.runtimes.base import CopyingRunner, Runner

Call = Callable[[], Any]


@dataclass(frozen=True)
class Competitor:
    """A runtime that is timed on one model, with or without copies.

    Attributes:
        runtime: Name of the runtime.
        copies: Whether its runs copy inputs and outputs between host and device.
        default: Whether it is the runtime's default session on the model as it was exported.
    """

    runtime: str
    copies: bool = False
    default: bool = False

    @property
    def label(self) -> str:
        """Its name in reports."""
        return label(self.runtime, copies=self.copies, default=self.default)


def prepare(runners: Mapping[Competitor, Sequence[Runner]], feeds: Mapping[str, Array]) -> dict[Competitor, list[Call]]:
    """Return the calls to time, one for each session of a competitor. The inputs are in host memory.

    ``runners`` has competitors without copies. A runtime whose runners copy is two: without copies, and with them.
    """
    calls: dict[Competitor, list[Call]] = {}
    for who, sessions in runners.items():
        calls[who] = [runner.prepare(feeds) for runner in sessions]
        copying = [runner for runner in sessions if isinstance(runner, CopyingRunner)]
        if copying:
            calls[replace(who, copies=True)] = [runner.prepare_with_copies(feeds) for runner in copying]
    return calls
