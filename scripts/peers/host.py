"""Waits while the host of a virtual machine gives its processors to others."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from ffn_export.latency.host import STOLEN, Host

_LOOK, _PAUSE = 0.3, 5.0  # seconds of work to look by, and between two looks


@dataclass
class PatientHost(Host):
    """The host, and how long it may still be waited for.

    Attributes:
        patience: Seconds, in all.
    """

    patience: float = 0.0

    def wait(self, progress: Callable[[str], None] = lambda line: None) -> None:
        """Wait while the host is busy with others, as long as patience lasts."""
        told = False
        while self.patience > 0:
            began, since = time.monotonic(), self.ticks()
            while time.monotonic() - began < _LOOK:
                pass
            if (self.stolen(since) or 0.0) <= STOLEN:
                return
            if not told:
                progress(f"the host is busy with others: waiting, {self.patience:.0f} s at the most")
                told = True
            time.sleep(min(_PAUSE, self.patience))
            self.patience -= time.monotonic() - began
