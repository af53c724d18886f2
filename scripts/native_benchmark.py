"""Time feed-forwards with and without the execution provider of ``native/``: python scripts/native_benchmark.py.

The contenders run in turn, in one process, on one thread unless ``--threads`` says otherwise. The columns are medians
and their ratio to ONNX Runtime's best form: the model fused for ``ort-cpu``, on its CPU provider. The error is that
against the module in float64, relative L2 on normal inputs.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
import onnxruntime_ep_ffn
import torch

import ffn_export as fx
from ffn_export.core.processor import processor_name
from ffn_export.runtimes.session_options import SessionSettings

Call = Callable[[], Any]


def sessions(model: bytes, threads: int, precision: str | None) -> onnxruntime.InferenceSession:
    """Make a session with the options of a bundle, with the provider in a precision or without it."""
    options = SessionSettings().session_options(threads)
    if precision is None:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    options.add_provider_for_devices(onnxruntime_ep_ffn.devices(), {"precision": precision})
    return onnxruntime.InferenceSession(model, options, enable_fallback=0)


def bound(session: onnxruntime.InferenceSession, x: Any) -> tuple[Call, Any]:
    """Return a call with inputs and outputs in place, and its output."""
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", onnxruntime.OrtValue.ortvalue_from_numpy(x))
    binding.bind_output(session.get_outputs()[0].name, "cpu")
    session.run_with_iobinding(binding)
    return lambda: session.run_with_iobinding(binding), binding.copy_outputs_to_cpu()[0]


def openvino(model: bytes, threads: int, precision: str, x: Any) -> tuple[Call, Any]:
    """Compile for OpenVINO with a precision hint."""
    import openvino as ov

    core = ov.Core()
    read = core.read_model(model)
    hints = {"INFERENCE_PRECISION_HINT": precision, "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"}
    request = core.compile_model(read, "CPU", hints).create_infer_request()
    request.set_input_tensor(ov.Tensor(x, shared_memory=True))
    request.infer()
    return request.infer, np.array(request.get_output_tensor().data)


def in_turn(calls: dict[str, Call], seconds: float) -> dict[str, float]:
    """Return the median of each call; the calls take turns, so that a busy moment meets them all."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[next(iter(calls))]) < 7:
        for name, call in calls.items():
            call()  # with its own weights in the caches again
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(each) for name, each in times.items()}


def rows(preset: str, tokens: int, threads: int, seconds: float) -> Iterator[str]:
    """Write the rows of one module at one number of tokens."""
    module = fx.create(preset)
    inputs = fx.PRESETS[preset].inputs
    exported = fx.export(module, inputs)
    plain, _ = fx.fuse(exported, target="ort-cpu")
    outlined, _ = fx.fuse(exported, target="ort-cpu", outline=True, forms=())
    without, with_nodes = (ir.to_proto(each).SerializeToString() for each in (plain, outlined))
    width = int(inputs["x"].rstrip("]").rpartition(",")[2])
    x = np.random.default_rng(0).standard_normal((1, tokens, width)).astype(np.float32)
    with torch.no_grad():
        wanted = module.double()(torch.from_numpy(x).double()).numpy()

    made = {"ONNX Runtime": bound(sessions(without, threads, None), x)}
    for name in ("f32", "bf16"):
        try:
            made[f"OpenVINO {name}"] = openvino(without, threads, name, x)
        except ImportError:
            break
    for name in ("f32", "bf16", "int8"):
        if name in onnxruntime_ep_ffn.devices()[0].ep_metadata:
            made[f"native {name}"] = bound(sessions(with_nodes, threads, name), x)
    medians = in_turn({name: call for name, (call, _) in made.items()}, seconds)
    for name, (_, y) in made.items():
        error = np.linalg.norm(y - wanted) / np.linalg.norm(wanted)
        ratio = medians[name] / medians["ONNX Runtime"]
        yield f"| {preset} | {tokens} | {name} | {medians[name] * 1e3:.3f} | {ratio:.2f} | {error:.1e} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("presets", nargs="*", default=["bert-ffn", "llama-ffn"])
    parser.add_argument("--tokens", type=int, nargs="+", default=[16, 128, 512])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10.0, help="for each module and number of tokens")
    given = parser.parse_args()
    reason = onnxruntime_ep_ffn.register()
    if reason is not None:
        raise SystemExit(reason)
    print(f"{processor_name()}, onnxruntime {onnxruntime.__version__}, Python {platform.python_version()}")
    print(f"{given.threads} thread(s), load {os.getloadavg()[0]:.1f} at the start", end="\n\n")
    print("| module | tokens | | median, ms | ratio | error |\n|---|---|---|---|---|---|")
    for preset in given.presets:
        for tokens in given.tokens:
            for row in rows(preset, tokens, given.threads, given.seconds):
                print(row, flush=True)


if __name__ == "__main__":
    main()
