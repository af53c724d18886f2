"""``bench``: a model timed in turn with its PyTorch module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Unpack

from ffn_export.core import onnx_file
from ffn_export.core.source_options import SourceOptions
from ffn_export.core.tensor_spec import InputSpecs
from ffn_export.core.types import Progress, silent
from ffn_export.latency.measure import measure
from ffn_export.latency.result import LatencyResult
from ffn_export.latency.sizes import asked_sizes
from ffn_export.parity.reference.references import graph_inputs
from ffn_export.runtimes.base import Artifact
from ffn_export.runtimes.threads import chosen_threads
from ffn_export.verbs.compared import known_source
from ffn_export.verbs.open_model import Model, opened
from ffn_export.verbs.source_spec import SourceSpec, Subject, evaluating


def bench(
    model: Model,
    against: Subject | None = None,
    *,
    inputs: InputSpecs | None = None,
    sizes: Sequence[Mapping[str, int]] | None = None,
    tokens: Sequence[int] | None = None,
    runtimes: Sequence[str] | None = None,
    threads: int | None = None,
    progress: Progress = silent,
    **source: Unpack[SourceOptions],
) -> LatencyResult:
    """Time a model on runtimes, in turn with its PyTorch module where there is one.

    Args:
        model: An ONNX model in memory, an ``.onnx`` file, or a bundle.
        against: The module or SPEC that it comes from; None for a bundle means its preset, or with ``trust``
            the source that its manifest names.
        inputs: Inputs of the module; None means those of the graph, or what the SPEC knows itself.
        sizes: Sizes of the symbolic axes, one mapping a measurement; None means three typical ones.
        tokens: In place of sizes, lengths of the one sequence to time, moved into the bounds of its axis; one a
            measurement.
        runtimes: Names of runtimes to time; None means every one that can run it here.
        threads: Intra-op threads of every competitor.
        progress: Called with a line for each set of sizes.
        source: How ``against`` is loaded (:class:`~ffn_export.core.source_options.SourceOptions`).

    Raises:
        UsageError: If something named does not exist or does not parse, sizes and tokens are both given, or there
            is no axis for tokens.
        RuntimeUnavailableError: If a runtime that was asked for by name cannot run here.
    """
    asked = SourceSpec(against, inputs, **source)
    with opened(model) as file:
        known, why = known_source(file, asked)
        specs = known.inputs if known else graph_inputs(onnx_file.load(file.path))
        with evaluating(known):
            result = measure(
                Artifact(file.path, known, file.settings),
                specs,
                asked_sizes(specs, sizes, tokens, known.example if known else None),
                runtimes=runtimes,
                threads=chosen_threads(threads),
                progress=progress,
            )
    return result if why is None else replace(result, unavailable={**result.unavailable, "torch": why})
