"""The verification as one call: interface, weights, then every case on every runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx_ir as ir

from ffn_export.errors import FfnExportError, RuntimeUnavailableError
from ffn_export.exporter import onnx_file
from ffn_export.exporter.one_line import first_line
from ffn_export.parity import conditioning, interface, weights
from ffn_export.parity.cases import Case, sweep
from ffn_export.parity.imprecise_operators import imprecise_operators
from ffn_export.parity.metrics import compare
from ffn_export.parity.references import Reference
from ffn_export.parity.result import CaseResult, ParityResult
from ffn_export.parity.tolerances import Tolerances
from ffn_export.runtimes import environment
from ffn_export.runtimes.base import Artifact, Runner, Runtime
from ffn_export.runtimes.registry import RUNTIMES, get_runtime
from ffn_export.runtimes.session_options import SessionSettings

Progress = Callable[[str], None]


def verify(
    path: Path,
    reference: Reference,
    *,
    runtimes: Sequence[str] | None = None,
    settings: SessionSettings | None = None,
    cases: Sequence[Case] | None = None,
    tolerances: Tolerances | None = None,
    seed: int = 0,
    threads: int = 1,
    progress: Progress = lambda line: None,
) -> ParityResult:
    """Verify an ONNX file against its reference.

    Args:
        path: The ONNX file.
        reference: What it should compute.
        runtimes: Names of runtimes that must judge it; None means every one that judges by default and can run
            it here, and where there is none, those of last resort.
        settings: Session options to run under.
        cases: Inputs; None means the default sweep.
        tolerances: What is allowed.
        seed: Seed of the drawn inputs.
        threads: Intra-op threads of every runtime.
        progress: Called with a line for each case.

    Raises:
        RuntimeUnavailableError: If a runtime that was asked for by name cannot run here.
        UsageError: If a runtime's name is unknown or the file is no ONNX model.
    """
    model = onnx_file.load(path)
    artifact = Artifact(path, reference.source, settings or SessionSettings())
    loaded, broken, unavailable = _load(artifact, runtimes, threads)
    outputs = reference.source.outputs if reference.source else None
    mismatches = interface.differences(model, reference.inputs, outputs)
    results = list(broken)
    cases = cases if cases is not None else sweep(reference.inputs, reference.example, seed)
    for index, case in enumerate(cases):
        progress(f"verifying {case.name} ({index + 1} of {len(cases)})")
        results.extend(_judge(case, reference, loaded, model))
    return ParityResult(
        model=path.name,
        against=reference.name,
        tolerances=tolerances or Tolerances(),
        cases=tuple(results),
        unavailable=unavailable,
        interface=mismatches,
        weights=weights.compare_weights(model, reference.source.module) if reference.source else (),
        placement={name: runner.placement() for name, runner in loaded.items()},
        precision={name: runner.precision() for name, runner in loaded.items()},
        environment=environment.current(threads),
    )


def _load(
    artifact: Artifact, names: Sequence[str] | None, threads: int
) -> tuple[dict[str, Runner], list[CaseResult], dict[str, str]]:
    """Load each runtime: those that run, those that fail on this model, those that cannot run it here."""
    if names is not None:
        return *_load_named(artifact, names, threads), {}
    loaded, unavailable = _load_able(artifact, [r for r in RUNTIMES.values() if r.by_default], threads)
    if not loaded:  # a slow judge is better than none
        loaded, also = _load_able(artifact, [r for r in RUNTIMES.values() if r.last_resort], threads)
        unavailable |= also
    return loaded, [], unavailable


def _load_named(artifact: Artifact, names: Sequence[str], threads: int) -> tuple[dict[str, Runner], list[CaseResult]]:
    """Load what was asked for: a model that one of them refuses has failed, and one that is not here is an error."""
    loaded: dict[str, Runner] = {}
    broken: list[CaseResult] = []
    for runtime in map(get_runtime, names):
        try:
            loaded[runtime.name] = runtime.load(artifact, threads)
        except RuntimeUnavailableError as error:
            raise RuntimeUnavailableError(f"runtime {runtime.name!r} is not available here: {error}") from error
        except FfnExportError as error:
            broken.append(CaseResult(runtime.name, "loading the model", {}, "none", 0, error=str(error)))
    return loaded, broken


def _load_able(
    artifact: Artifact, runtimes: Sequence[Runtime], threads: int
) -> tuple[dict[str, Runner], dict[str, str]]:
    """Load those that can run the model here, and note why the others cannot."""
    loaded: dict[str, Runner] = {}
    unavailable: dict[str, str] = {}
    for runtime in runtimes:
        try:
            loaded[runtime.name] = runtime.load(artifact, threads)
        except FfnExportError as error:
            unavailable[runtime.name] = str(error)
    return loaded, unavailable


def _judge(case: Case, reference: Reference, loaded: Mapping[str, Runner], model: ir.Model) -> list[CaseResult]:
    """Run one case on the reference and on every runtime."""

    def result(runtime: str, **outcome: Any) -> CaseResult:
        return CaseResult(runtime, case.name, case.sizes, case.values, case.seed, **outcome)

    feeds = case.feeds(reference.inputs)
    try:
        expected = reference.evaluate(feeds)
        truths = {name: truth for name, (truth, _) in expected.items()}
        moved = conditioning.movement(reference, feeds, truths, case.seed) if case.ill_conditioned else {}
    except Exception as error:  # noqa: BLE001 - whatever a user's module raises on a size that it refuses
        reason = f"{reference.name} itself refuses these inputs: {first_line(error)}"
        return [result(name, skipped=reason) for name in loaded]
    results = []
    for name, runner in loaded.items():
        try:
            actual = runner.run(feeds)
        except Exception as error:  # noqa: BLE001 - onnxruntime's own exceptions derive from Exception alone
            results.append(result(name, error=f"the runtime failed: {first_line(error)}"))
            continue
        outputs = tuple(
            compare(o, actual.get(o), truth, own, moved.get(o, 0.0)) for o, (truth, own) in expected.items()
        )
        imprecise = imprecise_operators(model, name) if case.ill_conditioned else ()
        results.append(result(name, outputs=outputs, imprecise_operators=imprecise))
    return results
