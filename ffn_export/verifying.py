"""Verifies what a caller hands in, and bisects it: a module or a SPEC, a model in memory, a file, a bundle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ffn_export.bundle import reduced
from ffn_export.errors import UsageError
from ffn_export.exporter import onnx_file
from ffn_export.exporter.tensor_spec import InputSpecs
from ffn_export.parity.bisection.bisect import bisect as _bisect
from ffn_export.parity.bisection.bisect import suspect_of
from ffn_export.parity.bisection.cases import to_try
from ffn_export.parity.bisection.reference_model import reference_model
from ffn_export.parity.bisection.result import Bisection
from ffn_export.parity.cases import Case, as_feeds, given
from ffn_export.parity.evidence import AllOutputs, FailingInputs, Keeper
from ffn_export.parity.references import Reference, VectorReference
from ffn_export.parity.result import ParityResult
from ffn_export.parity.tolerances import Tolerances
from ffn_export.parity.verify import verify as _verify
from ffn_export.runtimes.threads import chosen_threads
from ffn_export.subjects import Against, Model, Subject, evaluating, opened, reference_of

Progress = Callable[[str], None]


def verify(
    model: Model,
    against: Subject | Path | None = None,
    *,
    inputs: InputSpecs | None = None,
    samples: Mapping[str, Any] | None = None,
    runtimes: Sequence[str] | None = None,
    tolerances: Tolerances | None = None,
    dtype: str = "float32",
    keep_io: bool = False,
    seed: int | None = None,
    task: str | None = None,
    trust: bool = False,
    threads: int | None = None,
    jobs: int = 1,
    input_seed: int | None = None,
    sweep: bool = True,
    failures: Path | str | None = None,
    save_outputs: Path | str | None = None,
    progress: Progress = lambda line: None,
) -> ParityResult:
    """Verify that a model computes what its reference does, over a sweep of sizes and values.

    Args:
        model: An ONNX model in memory, an ``.onnx`` file, or a bundle.
        against: A module, a SPEC, or another ``.onnx`` file; None for a bundle means the preset that it
            was built from, or with ``trust`` the source that its manifest names; else its own test vectors.
        inputs: Inputs of the module; None means those of the graph, or what the SPEC knows itself.
        samples: Arrays by input name, verified besides what is drawn.
        runtimes: Names of runtimes that must judge it; None means every one that can run it here.
        tolerances: What is allowed; None means the defaults, and the budget that a bundle was built with.
        dtype: The precision that the model was exported in, as for :func:`export`; a bundle knows its own.
        keep_io: As for :func:`export`.
        seed: Seed of the weights of a SPEC; a bundle has that of its own.
        task: As for :func:`export`.
        trust: Whether to import the source that a bundle names, or to open a ``.pt2`` file; both run code.
        threads: Intra-op threads; None means the processors that this process may run on.
        input_seed: Seed of the drawn inputs; None means ``seed``, else 0.
        jobs: Cases that run at the same time, in threads of this process.
        sweep: Whether inputs are drawn; False verifies on ``samples`` alone.
        failures: Directory in which the inputs of failing cases are kept, as ONNX test vectors; None keeps none.
        save_outputs: Directory in which every case's inputs, oracle and outputs are kept; None keeps none.
        progress: Called with a line for each case.

    Raises:
        UsageError: If something named does not exist or does not parse.
        IntegrityError: If a bundle's files are not those of its manifest.
        RuntimeUnavailableError: If a runtime that was asked for by name cannot run here.
    """
    threads = chosen_threads(threads)
    with opened(model) as file:
        by_bundle = False
        if tolerances is None and file.manifest is not None:
            tolerances = Tolerances.from_dict(file.manifest.tolerances).declared()
            by_bundle = bool(tolerances.declared_words())
        reference = reference_of(file, Against(against, inputs, seed, dtype, keep_io, task, trust), threads)
        drawn_with = seed if input_seed is None else input_seed
        own, further = _cases(reference, samples, sweep=sweep)
        kept = None if failures is None else FailingInputs(Path(failures), tolerances or Tolerances())
        keepers: list[Keeper] = [] if kept is None else [kept]
        if save_outputs is not None:
            keepers.append(AllOutputs(Path(save_outputs)))
        with evaluating(reference.source):
            result = _verify(
                file.path,
                reference,
                runtimes=runtimes,
                settings=file.settings,
                cases=own,
                further=further,
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


def _cases(
    reference: Reference, samples: Mapping[str, Any] | None, *, sweep: bool
) -> tuple[list[Case] | None, list[Case]]:
    """Return the cases, None where they are to be drawn, and the caller's; a bundle's test vectors are all there is."""
    if isinstance(reference, VectorReference):
        if samples is not None and not reference.knows(as_feeds(samples)):
            raise UsageError(f"{reference.name} say nothing of other inputs: name the PyTorch source with --against")
        return [reference.case], []
    if samples is None and not sweep:
        raise UsageError("without a sweep there is nothing to verify on: give samples")
    return None if sweep else [], [] if samples is None else [given(samples, reference.inputs)]


def bisect(
    model: Model,
    against: Subject | Path | None = None,
    *,
    inputs: InputSpecs | None = None,
    samples: Mapping[str, Any] | None = None,
    runtime: str | None = None,
    tolerances: Tolerances | None = None,
    dtype: str = "float32",
    keep_io: bool = False,
    seed: int | None = None,
    task: str | None = None,
    trust: bool = False,
    threads: int | None = None,
    result: ParityResult | None = None,
    reduce_to: Path | str | None = None,
    progress: Progress = lambda line: None,
) -> Bisection:
    """Find the node with which a model first differs from its reference.

    Each node, or fused site, runs alone on the numbers of the reference's unfused graph, so its own error is told
    from what it inherits.

    Args:
        model: As for :func:`verify`.
        against: As for :func:`verify`; test vectors alone do not tell what is inside.
        inputs: As for :func:`verify`.
        samples: As for :func:`verify`.
        runtime: The runtime to ask about; None means the first on which a case failed, or ``ort-cpu``.
        tolerances: What a node's own error is allowed to be; None means what the result was judged by.
        dtype: As for :func:`verify`.
        keep_io: As for :func:`verify`.
        seed: As for :func:`verify`.
        task: As for :func:`verify`.
        trust: As for :func:`verify`.
        threads: As for :func:`verify`.
        result: What :func:`verify` found, with the same arguments: the cases that failed are those to look at. None
            verifies first.
        reduce_to: Directory for the smallest part that fails: ``model.onnx``, ``reference.onnx``, test vectors.
        progress: Called with a line for each case.

    Raises:
        UsageError: If something named does not exist or does not parse, or the directory holds other files.
        ExportError: If the source cannot be exported again.
        RuntimeUnavailableError: If a runtime that was asked for by name cannot run here.
    """
    threads = chosen_threads(threads)
    if reduce_to is not None:
        reduced.check_destination(Path(reduce_to))
    if result is None:
        result = verify(
            model, against, inputs=inputs, samples=samples, runtimes=None if runtime is None else [runtime],
            tolerances=tolerances, dtype=dtype, keep_io=keep_io, seed=seed, task=task, threads=threads,
            trust=trust, progress=progress,
        )  # fmt: skip
    with opened(model) as file:
        reference = reference_of(file, Against(against, inputs, seed, dtype, keep_io, task, trust), threads)
        suspect = suspect_of(file.path, file.settings, result, runtime)
        arrays = None if samples is None else as_feeds(samples)
        with evaluating(reference.source):
            found, part = _bisect(
                suspect,
                reference,
                reference_model(reference, onnx_file.load(file.path)),
                to_try(result, suspect.runtime.name, reference.inputs, arrays, seed or 0),
                tolerances=tolerances or result.tolerances,
                threads=threads,
                reduce=reduce_to is not None,
                progress=progress,
            )
        if part is not None and reduce_to is not None:
            reduced.write(part, Path(reduce_to))  # while the file is there that large weights lie in
    return found
