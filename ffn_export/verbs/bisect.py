"""``bisect``: finds the first node at which a model differs from its reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from ffn_export.bundle import reduced
from ffn_export.core import onnx_file
from ffn_export.core.source_options import SourceOptions
from ffn_export.core.types import Progress, silent
from ffn_export.exporter.examples import Inputs
from ffn_export.parity.bisection.failing_cases import to_try
from ffn_export.parity.bisection.reference_model import reference_model
from ffn_export.parity.bisection.result import Bisection
from ffn_export.parity.bisection.search import Search, suspect_of
from ffn_export.parity.cases.case import Case, given_cases
from ffn_export.parity.cases.chosen import chosen_cases
from ffn_export.parity.judging.result import ParityResult
from ffn_export.parity.judging.tolerances import Tolerances
from ffn_export.runtimes.threads import chosen_threads
from ffn_export.verbs.compared import reference_of
from ffn_export.verbs.open_model import Model, opened
from ffn_export.verbs.source_spec import Subject, evaluating, named_source
from ffn_export.verbs.verify import verify


def bisect(
    model: Model,
    against: Subject | Path | None = None,
    *,
    inputs: Inputs | None = None,
    samples: Mapping[str, Any] | None = None,
    runtime: str | None = None,
    tolerances: Tolerances | None = None,
    threads: int | None = None,
    result: ParityResult | None = None,
    reduce_to: Path | str | None = None,
    progress: Progress = silent,
    **source: Unpack[SourceOptions],
) -> Bisection:
    """Find the first node at which a model differs from its reference.

    Each node, or fused site, runs alone on values from the reference's unfused graph. This separates the node's error
    from the error that it inherits.

    Args:
        model: As for :func:`verify`.
        against: As for :func:`verify`, but test vectors are not enough: they hold no intermediate values.
        inputs: As for :func:`verify`.
        samples: As for :func:`verify`.
        runtime: The runtime to bisect on; None means the first one with a failed case, or ``ort-cpu``.
        tolerances: Allowed error of a single node; None means the tolerances of the result.
        threads: As for :func:`verify`.
        result: Result of :func:`verify` with the same arguments, whose failed cases are bisected. None verifies first.
        reduce_to: Directory for the smallest part that fails: ``model.onnx``, ``reference.onnx``, test vectors.
        progress: Called with a line for each case.
        source: As for :func:`verify`.

    Raises:
        UsageError: If a named thing does not exist or does not parse, or the directory holds other files.
        ExportError: If the source cannot be exported again.
        RuntimeUnavailableError: If a runtime requested by name cannot run here.

    Examples:
        >>> found = fx.bisect("model.onnx", against="d2l-ffn", runtime="ort-cpu")
        >>> found.part is None  # the model agrees with its reference
        True
    """
    asked = named_source(bisect, against, inputs, source)
    threads = chosen_threads(threads)
    if reduce_to is not None:
        reduced.check_destination(Path(reduce_to))
    if result is None:
        result = verify(
            model,
            against,
            inputs=inputs,
            samples=samples,
            runtimes=None if runtime is None else [runtime],
            tolerances=tolerances,
            threads=threads,
            progress=progress,
            **source,
        )
    with opened(model) as file:
        reference = reference_of(file, asked, threads)
        suspect = suspect_of(file.path, file.settings, result, runtime)

        def cases(seed: int) -> Sequence[Case]:
            chosen = chosen_cases(
                onnx_file.load(file.path),
                reference,
                further=given_cases(samples, reference.inputs),
                threads=threads,
                seed=seed,
                has_budget=result.tolerances.relative_l2 is not None,
            )
            return chosen.cases

        with evaluating(reference.source):
            search = Search(
                suspect,
                reference,
                reference_model(reference, onnx_file.load(file.path)),
                tolerances or result.tolerances,
                threads,
                reduce=reduce_to is not None,
            )
            to_bisect = to_try(result, suspect.runtime.name, reference.inputs, cases, source.get("seed") or 0)
            found, part = search.over(to_bisect, progress)
        if part is not None and reduce_to is not None:
            reduced.write(part, Path(reduce_to))  # before the temporary file that holds large weights is removed
    return found
