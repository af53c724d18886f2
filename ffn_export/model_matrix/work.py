"""The work of a step, in the process that does it: export once, then build, verify, time or tune for a target."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ffn_export.bundle.build import Build, build_bundle
from ffn_export.bundle.describe import verdicts
from ffn_export.bundle.manifest import read_manifest
from ffn_export.core import onnx_file
from ffn_export.core.arrays_file import read_arrays
from ffn_export.core.matrix_cell import STATUS, Cell, Verdict
from ffn_export.core.one_line import first_line
from ffn_export.core.processor import processor_name
from ffn_export.core.strict import expose, expose_own
from ffn_export.errors import FfnExportError, RuntimeUnavailableError, UsageError
from ffn_export.exporter.export import export_source
from ffn_export.exporter.source import Source
from ffn_export.fusion.pipeline import fusion_failures
from ffn_export.fusion_check.check import fuse_checked
from ffn_export.latency.gate import latency_failures, not_timed
from ffn_export.latency.result import LatencyResult
from ffn_export.model_matrix.entries import Entry
from ffn_export.model_matrix.fingerprint import made, source_key
from ffn_export.model_matrix.plan import DEFAULT, JOIN, Step
from ffn_export.parity.judging.result import ParityResult
from ffn_export.parity.judging.tolerances import Tolerances
from ffn_export.parity.reference.cached_reference import RememberingReference
from ffn_export.reports.json_report import write_json
from ffn_export.verbs.bench import bench
from ffn_export.verbs.compared import source_of
from ffn_export.verbs.join import join
from ffn_export.verbs.open_model import opened
from ffn_export.verbs.source_spec import SourceSpec
from ffn_export.verbs.tune import tune, tune_bundle
from ffn_export.verbs.verify import verify

RESULTS = "results"
"""Directory of the verifications of the action ``verify``, one JSON file each."""


@dataclass(frozen=True)
class Outcome:
    """What a step gave.

    Attributes:
        parity: The verification, if there was one.
        latency: The timing, if there was one.
        failures: Reasons of failed gates.
        path: What was written.
        figures: Further numbers.
    """

    parity: ParityResult | None = None
    latency: LatencyResult | None = None
    failures: tuple[str, ...] = ()
    path: Path | None = None
    figures: Mapping[str, float] = field(default_factory=dict)


class Prepared:
    """A source with its export and its oracle, which the steps of a group share; also the error, if there is one."""

    def __init__(self, entry: Entry, dtype: str | None, threads: int) -> None:
        self.error: Exception | None = None
        try:
            self.source = _source(entry, dtype)
            self.exported = export_source(self.source, entry.opset)
            self.reference = RememberingReference(self.source, threads)
        except Exception as error:  # noqa: BLE001 - raised for each step, by `_prepared`
            expose_own(error)
            self.error = error


def _source(entry: Entry, dtype: str | None) -> Source:
    """Return the source; that of a bundle is the one that its manifest names."""
    if not entry.is_bundle:
        asked = SourceSpec(entry.spec, entry.given_inputs, entry.seed, dtype, entry.keep_io, entry.task, entry.trust)
        return asked.source(_arrays(entry))
    with opened(entry.spec) as file:
        source = source_of(file, SourceSpec(trust=entry.trust))
    if source is None:
        raise UsageError(f"{entry.spec} was built from a module that only its program has")
    return source


_LAST: list[tuple[str, Prepared]] = []


def _prepared(step: Step, threads: int) -> Prepared:
    key = source_key(step.entry, step.dtype)
    if not _LAST or _LAST[0][0] != key:
        _LAST[:] = [(key, Prepared(step.entry, step.dtype, threads))]
    ready = _LAST[0][1]
    if ready.error is not None:
        raise ready.error
    return ready


def run_step(step: Step, directory: Path, threads: int) -> tuple[Cell, ...]:
    """Do a step, and return its cells; whatever goes wrong is told by them."""
    started = time.monotonic()
    absent: list[Cell] = []

    def seconds() -> float:
        return round(time.monotonic() - started, 3)

    while step.keys:
        try:
            outcome = _ACTIONS["verify" if step.is_made else step.action](step, directory, threads)
            return (*absent, *_cells(step, outcome, directory, seconds()))
        except RuntimeUnavailableError as error:  # one of the runtimes: the others go on
            names = {error.runtime} & set(step.runtimes or ())
            absent += (step.only(names) if names else step).cells("unavailable", str(error), seconds())
            step = step.only({name for name, _ in step.keys} - names if names else ())
        except FfnExportError as error:
            verdict: Verdict = next(v for v in ("failed", "error") if STATUS[v] == error.exit_status)
            return (*absent, *step.cells(verdict, str(error), seconds()))
        except MemoryError as error:
            return (*absent, *step.cells("error", f"there is not the memory for this: {error}", seconds()))
        except Exception as error:  # noqa: BLE001 - what keeps one cell from being done must not stop the others
            with suppress(Exception):
                expose(error)
            return (*absent, *step.cells("error", f"unexpected {first_line(error)}", seconds()))
    return tuple(absent)


def _build(step: Step, directory: Path, threads: int) -> Outcome:
    """Build a bundle, tuned or not; of a file, a fused file."""
    entry = step.entry
    if entry.is_file:
        return _fused_file(step, directory / f"{step.name}.onnx", threads)
    if entry.is_bundle and entry.tune_options is not None:
        built = tune_bundle(
            Path(entry.spec), entry.tune_options, destination=directory / step.name, threads=threads, trust=entry.trust
        )
    else:
        built = _bundle(step, entry, directory / step.name, threads)
    figures: dict[str, float] = {"nodes": built.fusion.nodes.get("after", 0)}
    if built.passed:
        figures["bytes"] = _bytes(built.directory)
    return Outcome(built.parity, built.latency, built.failures, built.directory if built.passed else None, figures)


def _join(step: Step, directory: Path, threads: int) -> Outcome:
    """Join the bundles of several kinds of processor."""
    entry, bundle = step.entry, directory / step.name
    verified = join(
        [directory / part for part in step.parts],
        bundle,
        runtimes=entry.runtimes or None,
        threads=threads,
        fast=entry.fast,
        trust=entry.trust,
    )
    worst = max(verified.values(), key=lambda parity: len(parity.warnings))
    return Outcome(worst, path=bundle, figures={"graphs": len(verified), "bytes": _bytes(bundle)})


def _bytes(bundle: Path) -> int:
    return sum(path.stat().st_size for path in bundle.rglob("*") if path.is_file())


def _bundle(step: Step, entry: Entry, destination: Path, threads: int) -> Build:
    ready = _prepared(step, threads)
    options = entry.build_options(step.target, step.runtimes, threads)
    return build_bundle(ready.source, destination, options, exported=ready.exported, reference=ready.reference)


def _fused_file(step: Step, path: Path, threads: int) -> Outcome:
    """Fuse a file, tuned or not, and write it if it agrees with what it was, or with what it is declared to be."""
    entry = step.entry
    if entry.tune_options is not None:
        tuned = tune(entry.spec, step.target, entry.tune_options, threads=threads)
        model, fusion = tuned.model, tuned.fusion
    else:
        options = entry.build_options(step.target, step.runtimes, threads)
        model, fusion = fuse_checked(
            onnx_file.load(entry.spec),
            step.target,
            entry.check,
            portable_functions=entry.portable_functions,
            forms=options.forms,
            threads=threads,
        )
    against = entry.against or Path(entry.spec)
    budget = None if entry.budget is None else Tolerances(relative_l2=entry.budget)
    parity = verify(
        model,
        against,
        inputs=entry.given_inputs,
        samples=_arrays(entry),
        runtimes=step.runtimes,
        tolerances=budget,
        threads=threads,
        fast=entry.fast,
        trust=entry.trust,
    )
    failures = (*fusion_failures(fusion, entry.require_fusion), *parity.failures)
    if not failures:
        onnx_file.save(model, path)
    return Outcome(parity, None, failures, None if failures else path, {"nodes": fusion.nodes.get("after", 0)})


def _verify(step: Step, directory: Path, threads: int) -> Outcome:
    """Verify a bundle as it is, and anything else as its build would be; keep the verification."""
    entry = step.entry
    with TemporaryDirectory(prefix="ffn-export-") as scratch:
        if step.is_made or entry.is_bundle:
            model = directory / step.name if step.is_made else Path(entry.spec)
            parity = verify(model, runtimes=step.runtimes, threads=threads, fast=entry.fast, trust=entry.trust)
            outcome = Outcome(parity, None, parity.failures, model if step.is_made else None)
        elif entry.is_file:
            outcome = _fused_file(step, Path(scratch) / step.name, threads)
        else:
            built = _bundle(step, replace(entry, bench_budget=0, max_ratio=None), Path(scratch) / step.name, threads)
            outcome = Outcome(built.parity, None, built.failures)
    if step.is_made or outcome.parity is None:
        return outcome
    path = directory / RESULTS / f"{step.name}.json"
    write_json(outcome.parity.to_dict(), path)
    return replace(outcome, path=path)


def _bench(step: Step, directory: Path, threads: int) -> Outcome:
    """Time a bundle as it is, and anything else as its build would be."""
    entry = step.entry
    options: dict[str, Any] = {"tokens": entry.tokens or None, "runtimes": step.runtimes, "threads": threads}
    with TemporaryDirectory(prefix="ffn-export-") as scratch:
        brief, path = replace(entry, fast=True, max_ratio=None, bench_budget=0), Path(scratch) / step.name
        if entry.is_bundle:
            latency = bench(Path(entry.spec), trust=entry.trust, **options)
        elif entry.is_file:
            made = _fused_file(replace(step, entry=brief), path.with_suffix(".onnx"), threads)
            if made.path is None:
                return made
            against = None if (entry.against or "").endswith(".onnx") else entry.against
            latency = bench(made.path, against, trust=entry.trust, **options)
        else:
            built = _bundle(step, brief, path, threads)
            if not built.passed:
                return Outcome(built.parity, None, built.failures)
            latency = bench(
                path,
                entry.spec,
                inputs=entry.given_inputs,
                seed=entry.seed,
                dtype=step.dtype,
                keep_io=entry.keep_io,
                task=entry.task,
                trust=entry.trust,
                **options,
            )
    return Outcome(None, latency, latency_failures(latency, entry.max_ratio))


_ACTIONS: Mapping[str, Callable[[Step, Path, int], Outcome]] = {
    "build": _build,
    "tune": _build,
    "verify": _verify,
    "bench": _bench,
    JOIN: _join,
}


def _cells(step: Step, outcome: Outcome, directory: Path, seconds: float) -> tuple[Cell, ...]:
    """Return a cell for each runtime of a step, in place of the default one for each that judged or was timed."""
    judged = {} if outcome.parity is None else verdicts(outcome.parity)
    times = {} if outcome.latency is None else _times(outcome.latency)
    path = outcome.path
    facts: dict[str, Any] = {"dtype": _dtype(step, directory), "machine": processor_name()}
    if path is not None:
        facts |= {"path": path.relative_to(directory).as_posix(), "sha256": made(path)}
    cells = []
    for (asked, _), plain in zip(step.keys, step.cells("passed", "", seconds), strict=True):
        for runtime in (asked,) if asked is not None else tuple(judged or times) or (DEFAULT,):
            verdict, message = _verdict(outcome, runtime, judged.get(runtime), None if asked is None else times)
            numbers = {name: each for name, each in judged.get(runtime, {}).items() if isinstance(each, int | float)}
            figures = {**numbers, **outcome.figures, **times.get(runtime, {})}
            cells.append(replace(plain, runtime=runtime, verdict=verdict, message=message, figures=figures, **facts))
    return tuple(cells)


def _verdict(
    outcome: Outcome, runtime: str, judged: Mapping[str, Any] | None, timed: Mapping[str, Any] | None
) -> tuple[Verdict, str]:
    """Return the verdict on one runtime, and why.

    A failure of the graph, such as of its weights, fails every runtime; a case that one runtime fails on, that one.
    """
    mine = [line for line in outcome.failures if line.startswith((f"{runtime}, ", f"{runtime} "))]
    runtimes = () if outcome.parity is None else outcome.parity.judged
    of_others = [line for line in outcome.failures if line.startswith(tuple(f"{name}, " for name in runtimes))]
    shared = [line for line in outcome.failures if line not in of_others and line not in mine]
    if mine or shared:
        return "failed", (mine or shared)[0]
    if judged is None and outcome.parity is not None and runtime != DEFAULT:
        return "error", "it compared no case"
    if outcome.parity is None and outcome.latency is not None and timed is not None and runtime not in timed:
        return "error", not_timed(outcome.latency, [runtime]) or "it was not timed"
    verdict: Verdict = "warned" if judged is not None and judged["verdict"] == "warned" else "passed"
    return verdict, f"nothing was written: {of_others[0]}" if of_others else ""


def _dtype(step: Step, directory: Path) -> str:
    """Return the precision of what the step was about; a file has none of its own."""
    if step.dtype is not None or step.entry.is_file:
        return step.dtype or ""
    is_there = step.is_made or bool(step.parts)
    if is_there or step.entry.is_bundle:
        return str(read_manifest(directory / step.name if is_there else Path(step.entry.spec)).source["dtype"])
    return _LAST[0][1].source.dtype


def _times(latency: LatencyResult) -> dict[str, dict[str, float]]:
    """Return runtime -> its milliseconds, and its ratios over PyTorch's time, at each set of sizes."""
    found: dict[str, dict[str, float]] = {}
    for measurement in latency.measurements:
        for timing in measurement.timings:
            if not timing.default and not timing.copies and timing.runtime != latency.baseline:
                found.setdefault(timing.runtime, {})[f"ms {measurement.label}"] = timing.median * 1e3
        for ratio in measurement.ratios:
            if not ratio.copies and ratio.verdict != "inconclusive":
                found.setdefault(ratio.runtime, {})[f"ratio {measurement.label}"] = ratio.value
    return found


def _arrays(entry: Entry) -> dict[str, Any] | None:
    return None if entry.samples is None else read_arrays(Path(entry.samples))
