"""Progress of work in steps: each line says which step it belongs to, and the first of a step what is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ffn_export.core.types import Progress


def steps(names: Sequence[str], progress: Progress) -> Callable[[str], Progress]:
    """Return a function that starts a step: it takes one of the names, which are in order, and returns its progress.

    Example:
        >>> start = steps(["fuse", "verify", "time"], print)
        >>> start("fuse")("fusing for ort-cpu")
        [1/3] fusing for ort-cpu, then verify, time
    """

    def start(name: str) -> Progress:
        place = names.index(name) + 1
        left = names[place:]
        behind = [f", then {', '.join(left)}" if left else ""]

        def tell(line: str) -> None:
            progress(f"[{place}/{len(names)}] {line}{behind.pop() if behind else ''}")

        return tell

    return start
