"""Time feed-forwards with and without the execution provider of ``native/``: python scripts/native_benchmark.py.

The contenders run in turn, in one process, on one thread unless ``--threads`` says otherwise. The columns are medians
and their ratio to ONNX Runtime's best form: the model fused for ``ort-cpu``, on its CPU provider. The quartiles are
those of the ratio in each turn. The error is that against the module in float64, relative L2 on normal inputs.

``--write`` stores the results in ``docs/native.json`` and writes the table of ``docs/native.md`` from them;
``--only-page`` writes the table from what is stored.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
import torch

import ffn_export as fx
from ffn_export.core.processor import processor_name
from ffn_export.runtimes.session_options import SessionSettings

Call = Callable[[], Any]

DOCS = Path(__file__).parents[1] / "docs"
STORED, PAGE = DOCS / "native.json", DOCS / "native.md"
BEGIN, END = "<!-- written by scripts/native_benchmark.py -->\n", "<!-- end -->"
BASE = "ONNX Runtime"


def sessions(model: bytes, threads: int, precision: str | None) -> onnxruntime.InferenceSession:
    """Make a session with the options of a bundle, with the provider in a precision or without it."""
    import onnxruntime_ep_ffn

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


def in_turn(calls: dict[str, Call], seconds: float) -> dict[str, list[float]]:
    """Return the times of each call; the calls take turns, so that a busy moment meets them all."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[next(iter(calls))]) < 7:
        for name, call in calls.items():
            call()  # with its own weights in the caches again
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return times


def measured(preset: str, tokens: int, threads: int, seconds: float) -> Iterator[dict[str, Any]]:
    """Measure one module at one number of tokens, and yield a row for each contender."""
    import onnxruntime_ep_ffn

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

    made = {BASE: bound(sessions(without, threads, None), x)}
    for name in ("f32", "bf16"):
        try:
            made[f"OpenVINO {name}"] = openvino(without, threads, name, x)
        except ImportError:
            break
    for name in ("f32", "bf16", "int8"):
        if name in onnxruntime_ep_ffn.devices()[0].ep_metadata:
            made[f"native {name}"] = bound(sessions(with_nodes, threads, name), x)
    times = in_turn({name: call for name, (call, _) in made.items()}, seconds)
    for name, (_, y) in made.items():
        low, high = np.quantile(np.divide(times[name], times[BASE]), (0.25, 0.75))
        yield {
            "module": preset, "tokens": tokens, "contender": name, "milliseconds": float(np.median(times[name])) * 1e3,
            "ratio": float(np.median(times[name]) / np.median(times[BASE])), "quartiles": [float(low), float(high)],
            "error": float(np.linalg.norm(y - wanted) / np.linalg.norm(wanted)),
        }  # fmt: skip


def environment(threads: int) -> dict[str, Any]:
    """Return the machine, its load before the run, and the versions."""
    versions = {"onnxruntime": onnxruntime.__version__}
    with contextlib.suppress(PackageNotFoundError):
        versions["OpenVINO"] = version("openvino")
    return {"processor": processor_name(), "threads": threads, "load": os.getloadavg()[0], "versions": versions}


def table(results: dict[str, Any]) -> str:
    """Write the results as Markdown."""
    on = results["environment"]
    packages = ", ".join(f"{name} {number}" for name, number in on["versions"].items())
    lines = [
        f"{on['processor']}, {on['threads']} thread{'' if on['threads'] == 1 else 's'}, {packages}. "
        f"Load before the run: {on['load']:.1f}.",
        "",
        "| module | tokens | | median, ms | ratio | quartiles | error |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in results["rows"]:
        low, high = row["quartiles"]
        lines.append(
            f"| {row['module']} | {row['tokens']} | {row['contender']} | {row['milliseconds']:.3f} "
            f"| {row['ratio']:.2f} | {low:.2f} to {high:.2f} | {row['error']:.1e} |"
        )
    return "\n".join(lines) + "\n"


def write_page(results: dict[str, Any], page: Path = PAGE) -> None:
    """Replace the table in the page."""
    before, _, rest = page.read_text().partition(BEGIN)
    page.write_text(f"{before}{BEGIN}\n{table(results)}\n{END}{rest.partition(END)[2]}")


def main() -> None:
    """Measure, print the table, and store it if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("presets", nargs="*", default=["bert-ffn", "llama-ffn"])
    parser.add_argument("--tokens", type=int, nargs="+", default=[16, 128, 512])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10.0, help="for each module and number of tokens")
    parser.add_argument("--write", action="store_true", help="store the results, and write the table of the page")
    parser.add_argument("--only-page", action="store_true", help="write the table from the stored results")
    given = parser.parse_args()
    if given.only_page:
        write_page(json.loads(STORED.read_text()))
        return
    import onnxruntime_ep_ffn

    reason = onnxruntime_ep_ffn.register()
    if reason is not None:
        raise SystemExit(reason)
    results: dict[str, Any] = {"environment": environment(given.threads), "rows": []}
    for preset in given.presets:
        for tokens in given.tokens:
            results["rows"] += measured(preset, tokens, given.threads, given.seconds)
    print(table(results))
    if given.write:
        STORED.write_text(json.dumps(results, indent=1) + "\n")
        write_page(results)


if __name__ == "__main__":
    main()
