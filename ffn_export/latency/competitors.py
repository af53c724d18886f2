"""Competitors of a timing: runtimes, each without and, on a device with its own memory, with copies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ffn_export.core.types import Array
from ffn_export.latency.result import label
from ffn_export.runtimes.base import CopyingRunner, Runner

Call = Callable[[], Any]


@dataclass(frozen=True)
class Competitor:
    """A runtime that is timed, with or without copies.

    Attributes:
        runtime: Name of the runtime.
        copies: Whether its runs copy inputs and outputs between host and device.
    """

    runtime: str
    copies: bool = False

    @property
    def label(self) -> str:
        """Its name in reports."""
        return label(self.runtime, copies=self.copies)


def prepare(runners: Mapping[str, Sequence[Runner]], feeds: Mapping[str, Array]) -> dict[Competitor, list[Call]]:
    """Return the calls to time, one for each session of a competitor.

    A runtime whose runners copy is two competitors: without copies, and with them.

    Args:
        runners: Runtime -> its sessions.
        feeds: The inputs, in host memory.
    """
    calls: dict[Competitor, list[Call]] = {}
    for name, sessions in runners.items():
        calls[Competitor(name)] = [runner.prepare(feeds) for runner in sessions]
        copying = [runner for runner in sessions if isinstance(runner, CopyingRunner)]
        if copying:
            calls[Competitor(name, copies=True)] = [runner.prepare_with_copies(feeds) for runner in copying]
    return calls
