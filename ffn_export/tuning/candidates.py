"""Candidates of the tuning: model files made from choices."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import onnx_ir as ir

from ffn_export.calibration.calibrated import quantize_by_samples
from ffn_export.calibration.precise_nodes import Kept, in_precision, keep_budget
from ffn_export.core import onnx_file
from ffn_export.core.types import Array, Progress
from ffn_export.fusion.pipeline import fuse
from ffn_export.fusion.provenance import rules_of
from ffn_export.fusion_check.check import fuse_checked
from ffn_export.runtimes.base import Artifact
from ffn_export.runtimes.ort_native import of_lower_precision
from ffn_export.tuning.choice import Choice


@dataclass(frozen=True)
class Candidate:
    """A choice and its model file.

    Attributes:
        choice: The choice.
        path: Path of the model file.
        weight_bytes: Size of the weights.
        fingerprint: Text that is equal for candidates that a runtime cannot tell apart.
    """

    choice: Choice
    path: Path
    weight_bytes: int
    fingerprint: str

    @property
    def artifact(self) -> Artifact:
        """The model file with its session options."""
        return Artifact(self.path, None, self.choice.settings)

    def discard(self) -> None:
        """Remove the model file, so that a large model is not stored once for each trial."""
        for path in self.path.parent.glob(f"{self.path.name}*"):
            path.unlink()


@dataclass
class Candidates:
    """Makes candidates of one model.

    Attributes:
        model: The model as exported; it is not modified.
        target: Fusion target.
        directory: Directory of the model files.
        samples: Real inputs; None without any.
        drawn: Inputs that 8-bit activations are smoothed by, and nodes measured on, without samples.
        threads: Intra-op threads.
    """

    model: ir.Model
    target: str
    directory: Path
    samples: Mapping[str, Array] | None = None
    drawn: Mapping[str, Array] | None = None
    threads: int = 1
    _count: int = 0

    def make(self, choice: Choice) -> Candidate:
        """Fuse the model, quantise it if the choice says so, and write the file.

        Raises:
            UsageError: If nothing can be quantised.
        """
        return self._written(choice, self._made(choice))

    def raised(self, choice: Choice, budget: float, progress: Progress) -> tuple[Candidate, Kept] | None:
        """Return the candidate of a choice over its budget, some of whose nodes compute in a higher precision.

        None if no such candidate keeps the budget.
        """
        runtime = of_lower_precision(choice.precision)
        if runtime is None:
            return None
        kept = keep_budget(self._made(choice), runtime, self._feeds, budget, self.threads, progress)
        if kept is None:
            return None
        return self._written(replace(choice, raised=kept.raised), kept.model), kept

    @property
    def _feeds(self) -> Mapping[str, Array]:
        return self.samples or self.drawn or {}

    def _made(self, choice: Choice) -> ir.Model:
        model, _ = fuse(self.model, self.target, forms=choice.forms)
        model = self._quantized(model, choice)
        return in_precision(model, choice.precision, choice.raised, self._feeds, self.threads)

    def _written(self, choice: Choice, model: ir.Model) -> Candidate:
        path = self.directory / f"candidate-{self._count}.onnx"
        self._count += 1
        onnx_file.save(model, path)
        return Candidate(choice, path, onnx_file.weight_bytes(model), _fingerprint(model, choice))

    def undone(self, candidate: Candidate) -> str | None:
        """Fuse the candidate again with the check on; return the reason why the check undoes a rewrite, or None.

        Candidates are timed without the check, since most are dropped. The chosen one must be correct.
        """
        forms = candidate.choice.forms
        model, report = fuse_checked(self.model, self.target, forms=forms)
        model = self._quantized(model, candidate.choice)
        if _fingerprint(model, candidate.choice) == candidate.fingerprint:
            return None
        return next((site.reason for site in report.sites if site.status == "rolled back"), None) or report.check.reason

    def _quantized(self, model: ir.Model, choice: Choice) -> ir.Model:
        if choice.quantization is None:
            return model
        return quantize_by_samples(model, choice.quantization, self.samples, self.threads, self.drawn)[0]


def _fingerprint(model: ir.Model, choice: Choice) -> str:
    """Return the operators in their order, and the properties of a choice that the operators do not show."""
    nodes = list(model.graph.all_nodes())
    told: dict[str, Any] = {
        "operators": [f"{node.domain}::{node.op_type}" for node in nodes],
        "rules": sorted({rule for node in nodes for rule in rules_of(node)}),
        "session_options": choice.settings.to_dict(),
        "precision": choice.precision,
        "raised": list(choice.raised),
    }
    return json.dumps(told, sort_keys=True)
