"""How long an export takes beside torch's own, each in a fresh process, in turn."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TypeVar

import torch

from ffn_export.core.quiet import silent
from ffn_export.core.tensor_spec import merge_dims
from ffn_export.exporter.capture import DEFAULT_OPSET
from ffn_export.exporter.export import export_source
from ffn_export.exporter.source import resolve
from ffn_export.fusion_check.check import fuse_checked
from peers.result import ExportTimes
from peers.whole_models import directory

T = TypeVar("T")


def export_times(model: str, runs: int, threads: int, progress: Callable[[str], None]) -> ExportTimes:
    """Time the export of a whole model.

    Args:
        model: A key of ``WHOLE_MODELS``.
        runs: Processes of each.
        threads: Of PyTorch, and of ONNX Runtime in the check after fusing.
        progress: Called with a line for each process.
    """
    torches: list[float] = []
    ours: list[tuple[float, float, float]] = []
    with tempfile.TemporaryDirectory(prefix="ffn-benchmark-") as scratch:
        spec = f"hf:{directory(model, Path(scratch))}"
        for number in range(runs):
            torches.append(_in_a_process(_with_torch, spec, threads))
            ours.append(_in_a_process(_with_ours, spec, threads))
            progress(
                f"exporting {model}, {number + 1} of {runs}: torch {torches[-1]:.1f} s, ours {sum(ours[-1][:2]):.1f} s"
            )
    export, fusing, checked = zip(*ours, strict=True)
    return ExportTimes(model, tuple(torches), export, fusing, checked)


def _in_a_process(timed: Callable[[str, int], T], spec: str, threads: int) -> T:
    # Spawned: what one export has loaded and remembered is not there for the next.
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(timed, spec, threads).result()


def _with_torch(spec: str, threads: int) -> float:
    """Export as its manual says, with the axes, the example and the opset of ours."""
    torch.set_num_threads(threads)
    source = resolve(spec)
    hints = dict.fromkeys(merge_dims(source.inputs), torch.export.Dim.DYNAMIC)
    axes = {each.name: {axis: hints[dim.name] for axis, dim in each.symbolic.items()} for each in source.inputs}
    args, kwargs = source.arguments(source.traced_sizes())
    shapes = source.by_parameter(axes)
    started = time.perf_counter()
    with silent(), torch.no_grad():
        torch.onnx.export(
            source.module,
            args,
            kwargs=kwargs,
            dynamo=True,
            dynamic_shapes=shapes,
            opset_version=DEFAULT_OPSET,
            verbose=False,
        )
    return time.perf_counter() - started


def _with_ours(spec: str, threads: int) -> tuple[float, float, float]:
    torch.set_num_threads(threads)
    source = resolve(spec)
    started = time.perf_counter()
    model = export_source(source)
    exported = time.perf_counter()
    fuse_checked(model, "ort-cpu", check=False, threads=threads)
    fused = time.perf_counter()
    fuse_checked(model, "ort-cpu", threads=threads)
    return exported - started, fused - exported, time.perf_counter() - fused
