"""What ONNX Runtime really executes: the kernels of a run, read from the profile of its session."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ffn_export.core.types import Array
from ffn_export.runtimes.ort_session import OrtRunner, make_session
from ffn_export.runtimes.session_options import SessionSettings

if TYPE_CHECKING:
    import onnxruntime

_MICROSECOND = 1e-6
_HOLDING_OTHERS = frozenset({"If", "Loop", "Scan"})


@dataclass(frozen=True)
class Kernel:
    """One kernel that ran.

    Attributes:
        operator: Its operator.
        provider: Its execution provider.
        node: The name of its node in the profile.
        seconds: How long it ran.
    """

    operator: str
    provider: str
    node: str
    seconds: float

    @property
    def holds_others(self) -> bool:
        """Whether its time is that of kernels inside of it, which ran too."""
        return self.operator in _HOLDING_OTHERS


def executed_kernels(path: Path, settings: SessionSettings, feeds: Mapping[str, Array]) -> tuple[Kernel, ...]:
    """Run a model once under the profiler and return the kernels that ran, in order.

    This is what the runtime really executes, after its own rewriting and with functions inlined.
    """
    with tempfile.TemporaryDirectory() as scratch:
        session = make_session(path, settings, threads=1, profile_prefix=str(Path(scratch) / "profile"))
        OrtRunner(session).run(feeds)
        return end_profile(session)


def end_profile(session: onnxruntime.InferenceSession) -> tuple[Kernel, ...]:
    """Return the kernels of all runs of a session that was made with a profile, and end that."""
    events = json.loads(Path(session.end_profiling()).read_text())
    return tuple(
        Kernel(event["args"]["op_name"], event["args"]["provider"], event["name"], event["dur"] * _MICROSECOND)
        for event in of_kernels(events)
    )


def of_kernels(events: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield those events of a profile that are runs of a kernel, in order."""
    return (event for event in events if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"))
