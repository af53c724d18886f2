"""Read the kernels that ONNX Runtime executes from the profile of a session."""

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
        operator: Operator type.
        provider: Execution provider.
        node: Name of the node in the profile.
        seconds: Duration.
    """

    operator: str
    provider: str
    node: str
    seconds: float

    @property
    def holds_others(self) -> bool:
        """Whether its time includes kernels of a subgraph, which are recorded as well."""
        return self.operator in _HOLDING_OTHERS


def executed_kernels(path: Path, settings: SessionSettings, feeds: Mapping[str, Array]) -> tuple[Kernel, ...]:
    """Run a model once under the profiler and return the kernels that ran, in order.

    These are the kernels after the runtime's graph optimisations and function inlining.
    """
    with tempfile.TemporaryDirectory() as scratch:
        session = make_session(path, settings, threads=1, profile_prefix=str(Path(scratch) / "profile"))
        OrtRunner(session).run(feeds)
        return end_profile(session)


def end_profile(session: onnxruntime.InferenceSession) -> tuple[Kernel, ...]:
    """End the profile of a session and return the kernels of all its runs."""
    events = json.loads(Path(session.end_profiling()).read_text())
    return tuple(
        Kernel(event["args"]["op_name"], event["args"]["provider"], event["name"], event["dur"] * _MICROSECOND)
        for event in of_kernels(events)
    )


def of_kernels(events: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield the events of a profile that are kernel runs, in order."""
    return (event for event in events if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"))
