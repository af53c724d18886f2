"""``verify``: compares a model with its reference over a sweep of sizes and values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from ffn_export.core.checked_numbers import check_seed
from ffn_export.core.source_options import SourceOptions
from ffn_export.core.types import Progress, silent
from ffn_export.errors import UsageError
from ffn_export.exporter.examples import Inputs
from ffn_export.parity.cases.case import Case, as_feeds, given_cases
from ffn_export.parity.judging.arguments import check_arguments
from ffn_export.parity.judging.evidence import AllOutputs, FailingInputs, Keeper
from ffn_export.parity.judging.result import ParityResult
from ffn_export.parity.judging.run_cases import run_cases
from ffn_export.parity.judging.tolerances import Tolerances
from ffn_export.parity.reference.references import Reference, VectorReference
from ffn_export.runtimes.threads import chosen_threads
from ffn_export.verbs.compared import reference_of
from ffn_export.verbs.open_model import Model, OpenModel, opened
from ffn_export.verbs.source_spec import Subject, evaluating, named_source


def verify(
    model: Model,
    against: Subject | Path | None = None,
    *,
    inputs: Inputs | None = None,
    samples: Mapping[str, Any] | None = None,
    runtimes: Sequence[str] | None = None,
    tolerances: Tolerances | None = None,
    threads: int | None = None,
    jobs: int = 1,
    input_seed: int | None = None,
    sweep: bool = True,
    fast: bool = False,
    failures: Path | str | None = None,
    save_outputs: Path | str | None = None,
    progress: Progress = silent,
    **source: Unpack[SourceOptions],
) -> ParityResult:
    """Verify that a model computes the same outputs as its reference, over a sweep of sizes and values.

    Args:
        model: An ONNX model in memory, an ``.onnx`` file, or a bundle.
        against: A module, a SPEC, or another ``.onnx`` file. None is for a bundle: the preset that it was built from,
            with ``trust`` the source named in its manifest, otherwise its test vectors.
        inputs: Inputs of the module; None means the inputs of the SPEC or of the graph.
        samples: Input name -> array, verified in addition to the drawn inputs.
        runtimes: Names of required runtimes; None means every runtime that can run the model here.
        tolerances: Allowed error; None means the defaults, with the declared tolerances of a bundle.
        threads: Intra-op threads; None means the number of processors available to this process.
        jobs: Number of cases that run at the same time, in threads of this process.
        input_seed: Seed of the drawn inputs; None means the seed of the weights, otherwise 0.
        sweep: Whether to draw inputs; False verifies on ``samples`` alone.
        fast: Whether to draw a few cases only, for an edit loop. The result says so.
        failures: Directory for the inputs of failing cases, as ONNX test vectors; None keeps none.
        save_outputs: Directory for the inputs, oracle and outputs of every case; None keeps none.
        progress: Called with a line for each case.
        source: How ``against`` is loaded (:class:`~ffn_export.core.source_options.SourceOptions`). A bundle's own
            source uses the precision and seed of the manifest.

    Raises:
        UsageError: If a named thing does not exist or does not parse, or an argument has another type.
        IntegrityError: If the files of a bundle differ from its manifest.
        RuntimeUnavailableError: If a runtime requested by name cannot run here.

    Examples:
        >>> result = fx.verify("model.onnx", against="d2l-ffn", runtimes=["ort-cpu"])
        >>> result.passed
        True
        >>> result.failures
        ()
    """
    asked = named_source(verify, against, inputs, source)
    check_arguments(
        {"runtimes": runtimes, "tolerances": tolerances, "failures": failures, "save_outputs": save_outputs}
    )
    if input_seed is not None:
        check_seed(input_seed, "input_seed")
    threads = chosen_threads(threads)
    with opened(model) as file:
        by_bundle = False
        if tolerances is None and file.manifest is not None:
            tolerances = Tolerances.from_dict(file.manifest.tolerances).declared()
            by_bundle = bool(tolerances.declared_words())
        reference = reference_of(file, asked, threads)
        drawn_with = source.get("seed") if input_seed is None else input_seed
        kept = None if failures is None else FailingInputs(Path(failures), tolerances or Tolerances())
        keepers: list[Keeper] = [] if kept is None else [kept]
        if save_outputs is not None:
            keepers.append(AllOutputs(Path(save_outputs)))
        with evaluating(reference.source):
            result = judged(
                file,
                reference,
                samples,
                sweep=sweep,
                runtimes=runtimes,
                fast=fast,
                tolerances=tolerances,
                seed=drawn_with or 0,
                threads=threads,
                jobs=jobs,
                keepers=keepers,
                progress=progress,
            )
    result = replace(result, declared_by_bundle=by_bundle)
    if isinstance(reference, VectorReference) and reference.why_alone is not None:
        result = replace(result, notes=(*result.notes, f"judged by the recorded case alone: {reference.why_alone}"))
    if kept is not None and kept.problem is not None:
        result = replace(result, notes=(*result.notes, f"failing inputs are not kept: {kept.problem}"))
    return result


def judged(
    file: OpenModel,
    reference: Reference,
    samples: Mapping[str, Any] | None = None,
    *,
    sweep: bool = True,
    **options: Any,
) -> ParityResult:
    """Run a model on the caller's samples and, in a sweep, on drawn cases; the options are those of ``run_cases``."""
    own, further = _cases_of(reference, samples, sweep=sweep)
    return run_cases(file.path, reference, settings=file.settings, cases=own, further=further, **options)


def _cases_of(
    reference: Reference, samples: Mapping[str, Any] | None, *, sweep: bool
) -> tuple[list[Case] | None, list[Case]]:
    """Return the cases, None to draw them, and the caller's case. Test vectors as reference have one fixed case."""
    if isinstance(reference, VectorReference):
        if samples is not None and not reference.knows(as_feeds(samples)):
            raise UsageError(
                f"{reference.name} say nothing of other inputs: name the PyTorch source with --against, or "
                "let the one in the manifest be imported with --trust"
            )
        return [reference.case], []
    if samples is None and not sweep:
        raise UsageError("without a sweep there is nothing to verify on: give samples")
    return None if sweep else [], given_cases(samples, reference.inputs)
