"""Time blocks and whole models with and without native kernels: python scripts/native_benchmark.py.

The contenders run in turn, in one process, on one thread unless ``--threads`` says otherwise. A contender runs just
before it is timed, so that its weights are in the caches again; on several threads for some milliseconds, so that these
are awake. With ``--weights cold`` other memory is written then, so that they are in none. The columns are the median
time, and the median of the ratio in each turn to ONNX Runtime: for a block its best form, the model fused for
``ort-cpu``; for a whole model what a user has otherwise, the export in a session with all optimisations. Native kernels
run the model fused for ``ort-native``. The quartiles are those of the same ratios. The error is that of the first
output against the module in float64, relative L2 on drawn inputs.

``--write`` stores the results in ``docs/native.json``, one run for each processor with its kernels, number of threads
and state of weights, and writes the tables of ``docs/native.md`` from them; ``--only-page`` writes the tables from what
is stored.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime

import ffn_export as fx
from ffn_export.calibration.node_smoothing import smoothed
from ffn_export.calibration.statistics import drawn_inputs
from ffn_export.core.drawing import draw_all
from ffn_export.core.processor import family, processor_name
from ffn_export.exporter.export import export_source
from ffn_export.exporter.source import Source, resolve
from ffn_export.latency.interleaving import settle
from ffn_export.latency.sizes import token_sizes
from ffn_export.parity.reference.references import TorchReference
from ffn_export.runtimes.ort_native import FLOAT32, provider_problem
from ffn_export.runtimes.session_options import ORT_DEFAULT, SessionSettings
from peers.whole_models import BERT_BASE, MINILM, WHOLE_MODELS, directory, lengths

Call = Callable[[], Any]
Feeds = Mapping[str, Any]
# Takes inputs; returns a call that runs on them in place, and the first output.
Contender = Callable[[Feeds], tuple[Call, Any]]

DOCS = Path(__file__).parents[1] / "docs"
STORED, PAGE = DOCS / "native.json", DOCS / "native.md"
BEGIN, END = "<!-- written by scripts/native_benchmark.py -->\n", "<!-- end -->"
BASE = "ONNX Runtime"
PRECISIONS = ("f32", "bf16", "int8")
WARM, COLD = "warm", "cold"
_IN_WORDS = {WARM: "weights in the caches", COLD: "weights out of the caches"}
_MORE_THAN_CACHES = 2**28  # bytes
_AWAKE = 0.005  # seconds in which all threads of a session begin to work


def session(
    model: bytes, threads: int, precision: str | None, settings: SessionSettings
) -> onnxruntime.InferenceSession:
    """Make a session with the provider in a precision, or without it."""
    options = settings.session_options(threads)
    if precision is None:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    import onnxruntime_ep_ffn

    options.add_provider_for_devices(onnxruntime_ep_ffn.devices(), {"precision": precision})
    return onnxruntime.InferenceSession(model, options, enable_fallback=0)


def bound(made: onnxruntime.InferenceSession, feeds: Feeds) -> tuple[Call, Any]:
    """Return a call with inputs and outputs in place, and its first output."""
    binding = made.io_binding()
    for name, array in feeds.items():
        binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(array))
    for output in made.get_outputs():
        binding.bind_output(output.name, "cpu")
    made.run_with_iobinding(binding)
    return lambda: made.run_with_iobinding(binding), binding.copy_outputs_to_cpu()[0]


def openvino(model: bytes, threads: int, precision: str) -> Contender:
    """Compile for OpenVINO with a precision hint."""
    import openvino as ov

    core = ov.Core()
    hints = {"INFERENCE_PRECISION_HINT": precision, "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"}
    compiled = core.compile_model(core.read_model(model), "CPU", hints)

    def ready(feeds: Feeds) -> tuple[Call, Any]:
        request = compiled.create_infer_request()
        for name, array in feeds.items():
            request.set_tensor(name, ov.Tensor(array, shared_memory=True))
        request.infer()
        return request.infer, np.array(request.get_output_tensor(0).data)

    return ready


def in_turn(
    calls: dict[str, Call],
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
    weights: str = WARM,
    warm_up: float = 0,
) -> dict[str, list[float]]:
    """Return the times of each call; the calls take turns, so that a busy moment meets them all.

    With warm weights a call runs once before it is timed, and again until ``warm_up`` seconds have passed.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    others = np.zeros(_MORE_THAN_CACHES if weights == COLD else 0, np.uint8)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[next(iter(calls))]) < 7:
        for name, call in calls.items():
            settle()  # threads of the one before spin for a while
            if weights == COLD:
                others += 1
            else:
                warm = clock() + warm_up
                call()
                while clock() < warm:
                    call()
            start = clock()
            call()
            times[name].append(clock() - start)
    return times


def compared(
    contenders: Mapping[str, Contender],
    feeds: Feeds,
    wanted: Any,
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
    weights: str = WARM,
    warm_up: float = 0,
) -> Iterator[dict[str, Any]]:
    """Time contenders in turn on inputs, and yield a row for each; ``wanted`` is the first output in float64."""
    ready = {name: contender(feeds) for name, contender in contenders.items()}
    times = in_turn({name: call for name, (call, _) in ready.items()}, seconds, clock, weights, warm_up)
    for name, (_, y) in ready.items():
        # Of each turn, since a processor that slows down during the run then slows both sides of a ratio.
        low, ratio, high = np.quantile(np.divide(times[name], times[BASE]), (0.25, 0.5, 0.75))
        yield {
            "contender": name,
            "milliseconds": float(np.median(times[name])) * 1e3,
            "ratio": float(ratio),
            "quartiles": [float(low), float(high)],
            "error": float(np.linalg.norm(y - wanted) / np.linalg.norm(wanted)),
        }


def in_integers(source: Source, native: ir.Model, threads: int) -> ir.Model:
    """Return a model in nodes as a build without samples smooths it for 8-bit integers: on drawn inputs."""
    return smoothed(native, drawn_inputs(source.inputs), threads)


def load(name: str, scratch: Path) -> Source:
    """Return a preset or a whole model."""
    return resolve(f"hf:{directory(name, scratch)}" if name in WHOLE_MODELS else name)


def measured(
    name: str, tokens: Sequence[int], threads: int, weights: str, seconds: float, scratch: Path
) -> Iterator[dict[str, Any]]:
    """Measure one module at some numbers of tokens, and yield a row for each contender."""
    import onnxruntime_ep_ffn

    source = load(name, scratch)
    exported = export_source(source)
    best, native = (fx.fuse(exported, target=target)[0] for target in ("ort-cpu", "ort-native"))
    plain, best, native, integers = (
        ir.to_proto(each).SerializeToString() for each in (exported, best, native, in_integers(source, native, threads))
    )
    settings = SessionSettings()
    base = (plain, threads, None, ORT_DEFAULT) if name in WHOLE_MODELS else (best, threads, None, settings)
    made = {BASE: session(*base)}
    for precision in PRECISIONS:
        if precision in onnxruntime_ep_ffn.devices()[0].ep_metadata:
            model = integers if precision == "int8" else native
            made[f"native {precision}"] = session(model, threads, precision, settings)
    contenders: dict[str, Contender] = {contender: partial(bound, each) for contender, each in made.items()}
    with contextlib.suppress(ImportError):
        contenders |= {f"OpenVINO {precision}": openvino(plain, threads, precision) for precision in ("f32", "bf16")}
    for count, size in lengths(name, tokens).items():
        feeds = draw_all(source.inputs, token_sizes(source.inputs, size), 0)
        wanted = next(iter(TorchReference(source, threads).evaluate(feeds).values()))[0]
        warm_up = _AWAKE if threads > 1 else 0
        for row in compared(contenders, feeds, wanted, seconds, weights=weights, warm_up=warm_up):
            yield {"module": name, "tokens": count, **row}


def environment(threads: int) -> dict[str, Any]:
    """Return the machine, its load before the run, and the versions."""
    versions = {"onnxruntime": onnxruntime.__version__}
    with contextlib.suppress(PackageNotFoundError):
        versions["OpenVINO"] = version("openvino")
    # Virtual machines hide the model: generations of AMD's have one name.
    processor = f"{processor_name()}, family {family()}" if family() else processor_name()
    return {"processor": processor, "threads": threads, "load": os.getloadavg()[0], "versions": versions}


def table(results: Mapping[str, Any]) -> str:
    """Write the results as Markdown, a row for each contender and number of tokens."""
    lines = [_heading(results), "", "| module | tokens | | median, ms | ratio | quartiles | error |", f"|{'---|' * 7}"]
    for row in results["rows"]:
        low, high = row["quartiles"]
        lines.append(
            f"| {row['module']} | {row['tokens']} | {row['contender']} | {row['milliseconds']:.3f} "
            f"| {row['ratio']:.2f} | {low:.2f} to {high:.2f} | {row['error']:.1e} |"
        )
    return "\n".join(lines) + "\n"


def summary(results: Mapping[str, Any]) -> str:
    """Write the results as Markdown, a row for each contender: its ratios, and the times of ONNX Runtime."""
    tokens = sorted({row["tokens"] for row in results["rows"]})
    lines = [_heading(results), "", f"| module | | {' | '.join(f'{n} tokens' for n in tokens)} | error |"]
    lines.append(f"|---|---|{'---:|' * (len(tokens) + 1)}")
    for module, contender in dict.fromkeys((row["module"], row["contender"]) for row in results["rows"]):
        rows = [row for row in results["rows"] if (row["module"], row["contender"]) == (module, contender)]
        cells = {row["tokens"]: f"{row['ratio']:.2f}" for row in rows}
        if contender == BASE:
            cells = {row["tokens"]: f"{row['milliseconds']:.2f} ms" for row in rows}
        shown = " | ".join(cells.get(n, "") for n in tokens)
        lines.append(f"| {module} | {contender} | {shown} | {max(row['error'] for row in rows):.1e} |")
    return "\n".join(lines) + "\n"


def _heading(results: Mapping[str, Any]) -> str:
    on = results["environment"]
    parts = [on["processor"], f"{on['threads']} thread{'' if on['threads'] == 1 else 's'}"]
    parts += [_IN_WORDS[on["weights"]]] if "weights" in on else []
    parts += [f"{name} {number}" for name, number in on["versions"].items()]
    kernels = f" Kernels: {', '.join(on['kernels'])}." if "kernels" in on else ""
    return f"{', '.join(parts)}.\nLoad before the run: {on['load']:.1f}.{kernels}"


def with_run(stored: Sequence[dict[str, Any]], new: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the stored runs with a new one, which replaces that of its processor, kernels, threads and weights."""
    known = [_conditions(run) for run in stored]
    if _conditions(new) not in known:
        return [*stored, new]
    place = known.index(_conditions(new))
    return [*stored[:place], new, *stored[place + 1 :]]


def _conditions(run: Mapping[str, Any]) -> Sequence[Any]:
    # Intel's Xeons have one name, with AMX and without.
    return [run["environment"][key] for key in ("processor", "kernels", "threads", "weights")]


def write_page(runs: Sequence[dict[str, Any]], page: Path = PAGE) -> None:
    """Replace the tables in the page."""
    before, _, rest = page.read_text().partition(BEGIN)
    tables = "\n".join(map(summary, runs))
    page.write_text(f"{before}{BEGIN}\n{tables}\n{END}{rest.partition(END)[2]}")


def main() -> None:
    """Measure, print the table, and store it if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    usual = ["bert-ffn", "llama-ffn", MINILM, BERT_BASE]
    parser.add_argument("modules", nargs="*", default=usual, help=f"presets, {', '.join(WHOLE_MODELS)}")
    parser.add_argument("--tokens", type=int, nargs="+", default=[16, 128, 512])
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--weights", nargs="+", choices=list(_IN_WORDS), default=[WARM], help="[warm]")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each module and number of tokens")
    parser.add_argument("--write", action="store_true", help="store the results, and write the table of the page")
    parser.add_argument("--only-page", action="store_true", help="write the table from the stored results")
    given = parser.parse_args()
    if given.only_page:
        write_page(json.loads(STORED.read_text()))
        return
    problem = provider_problem(FLOAT32.precision)
    if problem is not None:
        raise SystemExit(problem)
    import onnxruntime_ep_ffn

    offered = onnxruntime_ep_ffn.devices()[0].ep_metadata
    kernels = [offered[precision] for precision in PRECISIONS if precision in offered]
    for threads, weights in product(given.threads, given.weights):
        here = {**environment(threads), "kernels": kernels, "weights": weights}
        rows: list[dict[str, Any]] = []
        with tempfile.TemporaryDirectory(prefix="ffn-native-") as scratch:
            for name in given.modules:
                rows += measured(name, given.tokens, threads, weights, given.seconds, Path(scratch) / name)
        results = {"environment": here, "rows": rows}
        print(table(results))
        if given.write:
            runs = with_run(json.loads(STORED.read_text()), results)
            STORED.write_text(json.dumps(runs, indent=1) + "\n")
            write_page(runs)


if __name__ == "__main__":
    main()
