"""Who is compared: each with the runtime that runs it, the file that it gets, and how far its output may be off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from corpus.peers import optimize_for_ort, optimize_with_transformers, silent
from ffn_export.core.one_line import first_line
from ffn_export.errors import FfnExportError, UsageError, did_you_mean
from ffn_export.latency.sessions import add_sessions
from ffn_export.runtimes.base import Artifact, Runner
from ffn_export.runtimes.registry import get_runtime
from ffn_export.runtimes.session_options import SessionSettings
from peers import ours
from peers.bare import bare
from peers.ours import Made, Maker
from peers.result import OTHER_PRECISIONS, OURS, TORCH
from peers.subject import Subject

ALL_OPTIMISATIONS = SessionSettings("all", {})
_FLOAT32 = 1e-5  # relative L2 distance from PyTorch's output; right ones are at 1e-6
# What is computed in fewer bits is timed unless it is plainly wrong; its distance is shown beside the times.
_FEWER_BITS = 0.05
# Integers of activations are further off, and whole models more than blocks.
_INTEGERS = 0.5
_ORT = "ort-cpu"


@dataclass(frozen=True)
class Competitor:
    """One that is timed.

    Attributes:
        runtime: What runs it, a name of the registry.
        make: Makes the file that it gets.
        allowed: Largest relative L2 distance of its output from PyTorch's; None where it computes something else.
    """

    runtime: str
    make: Maker
    allowed: float | None = _FLOAT32


def _allowed(name: str) -> float:
    if name.endswith("-int8"):
        return _INTEGERS
    return _FEWER_BITS if name in OTHER_PRECISIONS else _FLOAT32


def _as_exported(subject: Subject, threads: int) -> Made:
    del threads
    return subject.path, ALL_OPTIMISATIONS


def _onnxscript(subject: Subject, threads: int) -> Made:
    del threads
    with silent():
        return subject.file("onnxscript", partial(optimize_for_ort, subject.path)), ALL_OPTIMISATIONS


def _ort_transformers(subject: Subject, threads: int) -> Made:
    del threads

    def make(path: Path) -> None:
        optimize_with_transformers(subject.path, path, subject.peer_type, subject.heads)

    with silent():
        return subject.file("ort-transformers", make), ALL_OPTIMISATIONS


def _quantize_dynamic(subject: Subject, threads: int) -> Made:
    """ONNX Runtime's dynamic quantisation of all products, with a scale for each column of a weight."""
    del threads

    def make(path: Path) -> None:
        from onnxruntime.quantization import QuantType, quantize_dynamic

        only = {"MatMulConstBOnly": True}
        quantize_dynamic(subject.path, path, per_channel=True, weight_type=QuantType.QInt8, extra_options=only)

    with silent():
        return subject.file("quantize-dynamic", make), ALL_OPTIMISATIONS


COMPETITORS: Mapping[str, Competitor] = {
    TORCH: Competitor("torch", _as_exported),
    "torch.compile": Competitor("torch-compile", _as_exported),
    "ort": Competitor(_ORT, _as_exported),
    "onnxscript": Competitor(_ORT, _onnxscript),
    "ort-transformers": Competitor(_ORT, _ort_transformers),
    "openvino": Competitor("openvino", _as_exported),
    "openvino-bf16": Competitor("openvino-bf16", _as_exported, _FEWER_BITS),
    "quantize-dynamic": Competitor(_ORT, _quantize_dynamic, _INTEGERS),
    **{name: Competitor(runtime, make, _allowed(name)) for name, (runtime, make) in ours.FORMS.items()},
    "bare": Competitor(_ORT, bare, None),
}


def chosen(names: Sequence[str]) -> list[str]:
    """Return the competitors of these names, in the order of the table, with those that all are compared with.

    Raises:
        UsageError: If there is none of a name.
    """
    for name in names:
        if name not in COMPETITORS:
            raise UsageError(
                f"unknown competitor {name!r};{did_you_mean(name, COMPETITORS)} known: {', '.join(COMPETITORS)}"
            )
    return [name for name in COMPETITORS if name in {TORCH, OURS, *names}]


class Loaded:
    """Competitors that are ready to run a subject with a number of threads.

    Attributes:
        runners: Competitor -> its sessions.
        refused: Competitor -> why it cannot run it.
    """

    def __init__(self, subject: Subject, names: Sequence[str], threads: int) -> None:
        self.subject = subject
        self.threads = threads
        self.refused: dict[str, str] = {}
        self.artifacts: dict[str, Artifact] = {}
        self.runners: dict[str, list[Runner]] = {}
        for name in names:
            competitor = COMPETITORS[name]
            try:
                path, settings = competitor.make(subject, threads)
                self.artifacts[name] = Artifact(path, subject.source, settings)
                self.runners[name] = [self._load(name)]
            except FfnExportError as error:
                self.refused[name] = str(error)
            except Exception as error:  # noqa: BLE001 - whatever an optimiser or a runtime raises is a result
                self.refused[name] = first_line(error)

        files = [name for name in self.runners if not get_runtime(COMPETITORS[name].runtime).runs_module]
        add_sessions(self.runners, self._load, files, subject.weight_bytes)

    def _load(self, name: str) -> Runner:
        return get_runtime(COMPETITORS[name].runtime).load(self.artifacts[name], self.threads)

    @property
    def names(self) -> list[str]:
        """Those that were loaded."""
        return list(self.runners)
