"""Judges the graphs of every preset on CUDA, against float64."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from typing import Any

import torch

import ffn_export as fx
from command_line import say
from ffn_export.core import onnx_file
from ffn_export.core.one_line import first_line
from ffn_export.errors import RuntimeUnavailableError
from ffn_export.exporter.capture import DEFAULT_OPSET
from ffn_export.exporter.export import export_source
from ffn_export.parity.judging import verdict
from ffn_export.parity.judging.result import ParityResult
from ffn_export.parity.judging.run_cases import run_cases
from ffn_export.parity.reference.cached_reference import RememberingReference
from ffn_export.parity.reference.references import TorchReference
from ffn_export.runtimes import ort_cuda
from ffn_export.runtimes.base import Artifact
from ffn_export.verbs.source_spec import SourceSpec
from gpu.processes import TIME_WAS_UP, in_a_process, read, write
from gpu.proof import RUNTIME, Group, Proof


def prove_all(groups: Sequence[Group], jobs: int, deadline: float) -> list[Proof]:
    proofs: list[Proof] = []
    with ThreadPoolExecutor(jobs) as pool:
        done = {pool.submit(in_a_process, _prove, (group,), deadline): group for group in groups}
        for number, future in enumerate(as_completed(done), 1):
            group, ended = done[future], future.result()
            found = {proof.target: proof for proof in (Proof(**record) for record in read(group.results))}
            for target in group.targets:
                status = "not judged" if ended == TIME_WAS_UP else "broken"
                missing = Proof(group.preset, group.dtype, target, status, ended or "there is no result")
                proofs.append(found.get(target, missing))
            summary = "; ".join(f"{p.target} {_summary(p)}" for p in proofs[-len(group.targets) :])
            say(f"[{number}/{len(groups)}] {group.name}: {summary}")
    order = {(group.preset, group.dtype): index for index, group in enumerate(groups)}
    return sorted(proofs, key=lambda p: (order[p.preset, p.dtype], groups[0].targets.index(p.target)))


def _summary(proof: Proof) -> str:
    error = f" {proof.worst_ulps:.2f} of {proof.allowed_ulps:.2f} ulp" if proof.cases else ""
    return f"{proof.status}{error}" + (f" ({proof.reason})" if proof.reason else "")


def _prove(group: Group) -> None:
    """Export once, and judge the graph of each target; each result is written as soon as it is there."""
    torch.set_num_threads(group.threads)
    try:
        source = SourceSpec(group.preset, dtype=group.dtype).source()
        exported = export_source(source, DEFAULT_OPSET)
        reference = RememberingReference(source, group.threads)
    except Exception as error:  # noqa: BLE001 - what keeps one from being exported must not stop the others
        reason = f"not exported: {first_line(error)}"
        for target in group.targets:
            write(group.results, asdict(Proof(group.preset, group.dtype, target, "broken", reason)))
        return
    for target in group.targets:
        said: dict[str, Any] = {"status": "broken"}
        try:
            fused, _ = fx.fuse(exported, target, check=False)
            onnx_file.save(fused, group.graph(target))
            said["nodes"] = tuple(n.op_type for n in fused.graph.all_nodes() if n.op_type != "Constant")
            said |= _judge(group, target, reference)
        except Exception as error:  # noqa: BLE001 - likewise
            said["reason"] = first_line(error).replace(f"{group.folder}/", "")
        write(group.results, asdict(Proof(group.preset, group.dtype, target, **said)))


def _judge(group: Group, target: str, reference: TorchReference) -> dict[str, Any]:
    artifact = Artifact(group.graph(target))
    assigned: dict[str, list[str]] = {}
    try:
        assigned = ort_cuda.OrtCuda().assignment(artifact, group.threads)
        result = run_cases(group.graph(target), reference, runtimes=[RUNTIME], threads=group.threads)
    except RuntimeUnavailableError as error:
        return {"status": "refused", "reason": str(error), "assigned": assigned}
    status = "failed" if result.failures else "warned" if result.warnings else "passed"
    reason = next(iter((*result.failures, *result.warnings)), None)
    return {"status": status, "reason": reason, "assigned": assigned, **worst_of(result)}


def worst_of(result: ParityResult) -> dict[str, Any]:
    """Return how many cases came out how, and the error that is the largest part of what it was allowed."""
    verdicts = [case.status(result.tolerances) for case in result.cases]
    cases = {verdict: verdicts.count(verdict) for verdict in dict.fromkeys(verdicts)}
    outputs = [output for case in result.cases for output in case.outputs]
    if not outputs:
        return {"cases": cases}
    worst = max((verdict.worst(output, result.tolerances) for output in outputs), key=lambda error: error.factor)
    errors = {"worst_ulps": worst.ulps, "torch_ulps": worst.baseline_ulps}
    return {"cases": cases, "allowed_ulps": worst.allowed, **errors}
