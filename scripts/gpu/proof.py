"""What is judged on a GPU, and what came of it. Plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

RUNTIME = "ort-cuda"
TORCH = "torch on CUDA"
STATUSES = ("passed", "warned", "refused", "failed", "broken", "not judged")
_FAILURES = ("failed", "broken", "not judged")


@dataclass(frozen=True)
class Group:
    """What shares one export: a preset in one precision, fused for each target.

    Attributes:
        preset: What is exported.
        dtype: In which precision.
        targets: What it is fused for.
        folder: Where its graphs and its results go.
        threads: For PyTorch's own runs on the CPU.
    """

    preset: str
    dtype: str
    targets: tuple[str, ...]
    folder: Path
    threads: int

    @property
    def name(self) -> str:
        """What progress lines and files call it."""
        return f"{self.preset}-{self.dtype}"

    def graph(self, target: str) -> Path:
        """Where the graph for a target is."""
        return self.folder / f"{self.name}-{target}.onnx"

    @property
    def results(self) -> Path:
        """Where its process writes what it finds, one JSON object a line."""
        return self.folder / f"{self.name}.jsonl"


@dataclass(frozen=True)
class Proof:
    """What came of one graph.

    Attributes:
        preset: The preset.
        dtype: Its precision.
        target: What it was fused for.
        status: ``passed``, ``warned`` or ``failed`` parity; ``refused`` where a node that reads data is not on CUDA;
            ``not judged`` where the time was up; ``broken`` otherwise.
        reason: Why it is not ``passed``, in one line.
        nodes: The operators as written, in order.
        assigned: Execution provider -> operators that it runs, or would run in a graph that is refused.
        cases: Verdict -> number of cases.
        worst_ulps: Largest error in units of the last place, beside what it was allowed; likewise the next two.
        allowed_ulps: What that error was allowed to be.
        torch_ulps: PyTorch's own error in that case.
    """

    preset: str
    dtype: str
    target: str
    status: str
    reason: str | None = None
    nodes: tuple[str, ...] = ()
    assigned: Mapping[str, Sequence[str]] = field(default_factory=dict)
    cases: Mapping[str, int] = field(default_factory=dict)
    worst_ulps: float = 0.0
    allowed_ulps: float = 0.0
    torch_ulps: float = 0.0

    @property
    def is_failure(self) -> bool:
        """CUDA need not take a graph that was fused for something else."""
        return self.status in _FAILURES or (self.status == "refused" and self.target == RUNTIME)
