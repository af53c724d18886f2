"""Progress of work in steps: each line says which step it belongs to, and the first of a step what is left."""

from __future__ import annotations

from collections.abc import Sequence

from ffn_export.core.types import Progress


class Steps:
    """Steps of a longer work.

    Args:
        names: Names of the steps, in order.
        progress: Called with each line.

    Example:
        >>> steps = Steps(["fuse", "verify", "time"], print)
        >>> steps.start("fuse")("fusing for ort-cpu")
        [1/3] fusing for ort-cpu, then verify, time
    """

    def __init__(self, names: Sequence[str], progress: Progress) -> None:
        self._names, self._progress = names, progress

    def start(self, name: str) -> Progress:
        """Return the progress of a step."""
        place = self._names.index(name) + 1
        left = self._names[place:]
        behind = [f", then {', '.join(left)}" if left else ""]

        def tell(line: str) -> None:
            self._progress(f"[{place}/{len(self._names)}] {line}{behind.pop() if behind else ''}")

        return tell
