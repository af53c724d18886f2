"""Manifest entries derived from a source and its results."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from ffn_export.core.tensor_spec import TensorSpec
from ffn_export.exporter.source import Source
from ffn_export.fusion.report import KINDS, SITE_STATUSES, FusionReport
from ffn_export.latency.result import LatencyResult, Ratio
from ffn_export.parity.judging import verdict
from ffn_export.parity.judging.result import ParityResult
from ffn_export.quantization.result import QuantizationReport
from ffn_export.runtimes.ort_cuda import CUDA, OrtCuda
from ffn_export.runtimes.ort_native import OrtNative
from ffn_export.runtimes.ort_session import CPU, Provider
from ffn_export.tuning.result import TuningResult


def describe_source(source: Source) -> dict[str, Any]:
    """Return the manifest entry that recreates the module."""
    return {
        "spec": source.spec,
        "kind": source.kind,
        "seed": source.seed,
        "reference": source.reference,
        "inputs": {spec.name: _as_given(spec, source) for spec in source.inputs},
        "dtype": source.dtype,
        "keep_io": source.keep_io,
        **({"task": source.task} if source.task is not None else {}),
        **({"files": sorted(source.companions)} if source.companions else {}),
    }


def _as_given(spec: TensorSpec, source: Source) -> str:
    """Return an input specification as it was before the source was converted to another precision."""
    return str(replace(spec, dtype="float32") if spec.dtype == source.dtype else spec)


def summarise_fusion(report: FusionReport) -> dict[str, Any]:
    """Return sites by kind and status, rules, node counts, and the result of the check."""
    sites = {kind: {s: n for s in SITE_STATUSES if (n := report.count(kind, s))} for kind in KINDS}
    check = {"status": report.check.status, "reason": report.check.reason}
    return {"sites": sites, "rules": dict(report.rules), "nodes": dict(report.nodes), "check": check}


def summarise_parity(result: ParityResult) -> dict[str, Any]:
    """Return the verdict, and for each runtime the error nearest to its bound and its warned cases."""
    runtimes = {}
    for name in result.judged:
        cases = [case for case in result.cases if case.runtime == name and case.skipped is None]
        warned = [case for case in cases if case.warning(result.tolerances) is not None]
        factors = [factor for case in warned if (factor := case.factor(result.tolerances)) > 1]
        outputs = [output for case in cases for output in case.outputs]
        own = result.tolerances.for_runtime(name)
        worst = max(outputs, key=lambda output: verdict.factor(output, own), default=None)
        decisive = verdict.worst(worst, own) if worst else None
        runtimes[name] = {
            "cases": len(cases),
            "worst_ulps": _finite(decisive.ulps if decisive else None),
            "allowed_ulps": _finite(decisive.allowed if decisive else None),
            "baseline_ulps": _finite(decisive.baseline_ulps if decisive else None),
            "warned": len(warned),
            "warned_factor": _finite(max(factors, default=None)),
        }
    return {"passed": result.passed, "fast": result.fast, "runtimes": runtimes, "weights_traced": len(result.weights)}


def verdicts(parity: ParityResult) -> dict[str, dict[str, Any]]:
    """Return runtime -> its verdict, the error nearest to its bound, that bound, and its numbers of cases."""
    summary = summarise_parity(parity)["runtimes"]
    failed = {case.runtime for case in parity.cases if case.status(parity.tolerances) == "failed"}
    return {
        name: {"verdict": "failed" if name in failed else "warned" if found["warned"] else "passed", **found}
        for name, found in summary.items()
    }


def _finite(number: float | None) -> float | None:
    """Replace NaN and infinity by None, since JSON has neither."""
    return number if number is not None and math.isfinite(number) else None


def provider(target: str, result: ParityResult, native: OrtNative | None = None) -> Provider:
    """Return the execution provider of a bundle, with the options that it was verified and timed with.

    It is CUDA's if the bundle was fused for CUDA and verified on it; that of native kernels if the bundle was built for
    them and verified with them; otherwise the CPU's.
    """
    if target == "ort-cuda" and OrtCuda.name in result.judged:
        return CUDA.lenient
    return native.provider if native is not None and native.name in result.judged else CPU


def summarise_quantization(report: QuantizationReport) -> dict[str, Any]:
    """Return the storage of weights and the number of quantised matrices."""
    if report.int8:
        return {"int8": True, "matrices": len(report.weights)}
    how = {"bits": report.bits, "block": report.block, "accuracy_level": report.accuracy_level}
    return {**how, "matrices": len(report.weights)}


def summarise_tuning(result: TuningResult) -> dict[str, Any]:
    """Return the choice of the tuning, its reason, and the tokens and threads that it was timed with."""
    return {
        "forms": sorted(result.chosen.forms),
        **({} if result.chosen.precision is None else {"precision": result.chosen.precision}),
        **({"raised": list(result.chosen.raised)} if result.chosen.raised else {}),
        "reason": result.reason,
        "left_default": result.leaves_default,
        "tokens": list(result.tokens),
        "threads": result.environment.threads if result.environment else None,
    }


def _ratio(ratio: Ratio) -> dict[str, Any]:
    if ratio.verdict == "inconclusive":
        return {"verdict": ratio.verdict, "reason": ratio.doubt}
    return {"value": ratio.value, "low": ratio.low, "high": ratio.high, "verdict": ratio.verdict}


def summarise_latency(result: LatencyResult) -> dict[str, Any]:
    """Return median milliseconds and ratios for each set of sizes.

    Labels say whether copies are included, and whether it is ONNX Runtime's default session on the plain export.

    An inconclusive ratio has a reason in place of a number.
    """
    return {
        "baseline": result.baseline,
        "measurements": [
            {
                "sizes": dict(m.sizes),
                "median_ms": {t.label: t.median * 1e3 for t in m.timings},
                "ratio": {r.label: _ratio(r) for r in m.ratios},
                "ratio_over_default": {r.label: _ratio(r) for r in m.over_default},
            }
            for m in result.measurements
        ],
    }
