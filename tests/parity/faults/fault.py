"""What a planted fault is, and what caught it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import onnx_ir as ir
from torch import nn

from ffn_export.exporter.export import export_source
from ffn_export.fusion.pipeline import fuse
from ffn_export.parity.judging import verdict
from ffn_export.parity.judging.measures import OutputMetrics
from ffn_export.parity.judging.result import CaseResult, ParityResult
from ffn_export.parity.judging.tolerances import Tolerances
from tests.parity.faults.bases import OPSET, TARGET, Base

InGraph = Callable[[ir.Model], None]
InModule = Callable[[nn.Module], None]

Detector = Literal["check", "weights", "bound", "non-finite", "shape", "failure", "property", "unavailable"]

DETECTORS: Mapping[Detector, str] = {
    "check": "a check of the whole graph, which the brackets name: `ffn_export/parity/checks/`",
    "weights": "initializers against the parameters that they are traced to",
    "bound": "error of an output against the oracle, over what PyTorch's own error allows",
    "non-finite": "NaN or infinity where neither the oracle nor PyTorch has it, or the other way",
    "shape": "an output that is missing, or has another shape or dtype",
    "failure": "the runtime raises",
    "property": "a property of position-wise networks, or the same bits twice, tested on the runtime alone",
    "unavailable": "a runtime that was asked for by name cannot prove that it runs there: exit status 3",
}


@dataclass(frozen=True)
class Catch:
    """One detector, and on which cases it spoke.

    Attributes:
        detector: Which.
        values: Kind of the values, where it matters; of a check or a property, which.
        sizes: Sizes of axes, where they matter.
    """

    detector: Detector
    values: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict)

    def covers(self, found: Catch) -> bool:
        """Whether what was found is one of these."""
        return (
            self.detector == found.detector
            and self.values in ("", found.values)
            and self.sizes.items() <= found.sizes.items()
        )

    def __str__(self) -> str:
        where = [self.values, *(f"{axis}={size}" for axis, size in self.sizes.items())]
        named = ", ".join(filter(None, where))
        return f"{self.detector} ({named})" if named else self.detector


@dataclass(frozen=True)
class Fault:
    """A mistake that somebody could make, planted on purpose.

    Attributes:
        name: Unique.
        what: What is wrong, for the table.
        on: Names of the bases that it is planted into.
        caught_by: What must catch it; other detectors may speak too.
        graph: Plants it into the ONNX model.
        module: Plants it into the module before that is exported.
        shown: Whether outputs of the sweep show it; else it is in what the graph says of itself, or waits for inputs
            that no sweep draws.
        missed: Why the verifier does not catch it yet.
    """

    name: str
    what: str
    on: tuple[str, ...]
    caught_by: tuple[Catch, ...]
    graph: InGraph | None = None
    module: InModule | None = None
    shown: bool = True
    missed: str | None = None

    @property
    def place(self) -> str:
        """Where it is planted, in words."""
        return "graph" if self.graph is not None else "module"

    def plant(self, base: Base) -> ir.Model:
        """Return the graph of a base with the fault in it."""
        if self.module is not None:
            source = base.source()
            self.module(source.module)
            return fuse(export_source(source, OPSET), TARGET)[0]
        model = base.graph()
        assert self.graph is not None
        self.graph(model)
        return model


def check(name: str) -> Catch:
    """A check that failed, by its name in reports."""
    return Catch("check", name)


def interface() -> Catch:
    return check("interface")


def weights() -> Catch:
    return Catch("weights")


def bound(values: str = "", **sizes: int) -> Catch:
    return Catch("bound", values, sizes)


def non_finite(values: str = "", **sizes: int) -> Catch:
    return Catch("non-finite", values, sizes)


def shape() -> Catch:
    return Catch("shape")


def kept(which: str = "") -> Catch:
    """A property that is not kept."""
    return Catch("property", which)


def failure(values: str = "", **sizes: int) -> Catch:
    return Catch("failure", values, sizes)


def catches(result: ParityResult) -> list[Catch]:
    """Return everything that spoke against a model."""
    allowed = result.tolerances
    found = [check(each.name) for each in result.checks if each.faults]
    found += [Catch("weights") for weight in result.weights if verdict.weight_failure(weight, allowed) is not None]
    found += [Catch("property", each.property) for each in result.properties if verdict.property_failure(each, allowed)]
    for case in result.cases:
        if case.status(allowed) == "failed":
            found += [Catch(detector, case.values, case.sizes) for detector in _of_case(case, allowed)]
    return found


def _of_case(case: CaseResult, allowed: Tolerances) -> list[Detector]:
    if case.error is not None:
        return ["failure"]
    return [_of_output(output) for output in case.outputs if case.output_failure(output, allowed)]


def _of_output(output: OutputMetrics) -> Detector:
    if output.problem is not None:
        return "shape"
    return "non-finite" if output.unexpected or output.dropped else "bound"
