"""``bench``: times a model in turn with its PyTorch module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Unpack

import onnx_ir as ir

from ffn_export.core import onnx_file
from ffn_export.core.source_options import SourceOptions
from ffn_export.core.types import Progress, silent
from ffn_export.errors import FfnExportError
from ffn_export.exporter.capture import DEFAULT_OPSET
from ffn_export.exporter.examples import Inputs
from ffn_export.exporter.export import export_source
from ffn_export.exporter.source import Source
from ffn_export.latency.measure import measure
from ffn_export.latency.result import LatencyResult
from ffn_export.latency.sizes import asked_sizes
from ffn_export.parity.reference.references import graph_inputs
from ffn_export.runtimes.base import Artifact
from ffn_export.runtimes.threads import chosen_threads
from ffn_export.verbs.compared import known_source
from ffn_export.verbs.open_model import Model, opened
from ffn_export.verbs.source_spec import Subject, evaluating, named_source


def bench(
    model: Model,
    against: Subject | None = None,
    *,
    inputs: Inputs | None = None,
    sizes: Sequence[Mapping[str, int]] | None = None,
    tokens: Sequence[int] | None = None,
    runtimes: Sequence[str] | None = None,
    threads: int | None = None,
    progress: Progress = silent,
    **source: Unpack[SourceOptions],
) -> LatencyResult:
    """Time a model on runtimes, in turn with its PyTorch module if the module is known.

    Where ONNX Runtime is timed, the module is exported too, and its default session on the export is timed as well:
    what a user would have without this package.

    Args:
        model: An ONNX model in memory, an ``.onnx`` file, or a bundle.
        against: The module or SPEC that the model comes from. None for a bundle means its preset, or with ``trust``
            the source named in its manifest.
        inputs: Inputs of the module; None means the inputs of the SPEC or of the graph.
        sizes: Sizes of the symbolic axes, one mapping per measurement; None means three typical ones.
        tokens: Sequence lengths in place of sizes, clamped to the bounds of the axis; one per measurement, with a
            single sequence.
        runtimes: Names of runtimes to time; None means every runtime that can run the model here.
        threads: Intra-op threads of every competitor; None means the number of processors available to this process.
        progress: Called with a line for each set of sizes.
        source: How ``against`` is loaded (:class:`~ffn_export.core.source_options.SourceOptions`).

    Raises:
        UsageError: If a named thing does not exist or does not parse, sizes and tokens are both given, or no axis is
            symbolic and tokens are given.
        RuntimeUnavailableError: If a runtime requested by name cannot run here.

    Examples:
        >>> result = fx.bench("model.onnx", against="d2l-ffn", tokens=[16], runtimes=["ort-cpu"], threads=1)
        >>> len(result.measurements)
        1
    """
    asked = named_source(bench, against, inputs, source)
    with opened(model) as file:
        known, why = known_source(file, asked)
        declared = file.manifest.declared if file.manifest else None
        specs = known.inputs if known else graph_inputs(onnx_file.load(file.path), declared)
        with evaluating(known):
            result = measure(
                Artifact(file.path, known, file.settings),
                specs,
                asked_sizes(specs, sizes, tokens, known.example if known else None),
                runtimes=runtimes,
                threads=chosen_threads(threads),
                exported=None if known is None else partial(_exported, known, progress),
                progress=progress,
            )
    return result if why is None else replace(result, unavailable={**result.unavailable, "torch": why})


def _exported(source: Source, progress: Progress) -> ir.Model | None:
    """Export the source; None if that fails, since the model under test may come from another exporter."""
    progress(f"exporting {source.spec} for the default session")
    try:
        return export_source(source, DEFAULT_OPSET)
    except FfnExportError:
        return None
