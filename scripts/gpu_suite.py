"""Prove on a GPU that every preset, in each form and precision, runs on CUDA alone and computes what PyTorch does.

Each preset is exported and fused, its graph judged by the runtime ort-cuda against float64, and then timed beside
PyTorch on the same GPU. Processes of their own do the work: what ends one of them costs its own results alone.
Exit status: 0 every graph that CUDA takes passed, and it takes all that were fused for it; 1 one did not; 2 bad usage;
3 ort-cuda is not available here.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import multiprocessing
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ffn_export import api, subjects
from ffn_export.errors import FfnExportError, RuntimeUnavailableError
from ffn_export.exporter import onnx_file
from ffn_export.exporter.capture import DEFAULT_OPSET
from ffn_export.exporter.drawing import Array, draw_all, fit_sizes
from ffn_export.exporter.export import export_source
from ffn_export.exporter.one_line import first_line
from ffn_export.exporter.source import Source
from ffn_export.exporter.tensor_spec import merge_dims
from ffn_export.exporter.torch_inputs import to_torch
from ffn_export.fusion.targets import TARGETS
from ffn_export.latency.measure import interleave
from ffn_export.latency.statistics import paired_ratio, summarise
from ffn_export.modules.presets import PRESETS
from ffn_export.parity import verdict
from ffn_export.parity.references import TorchReference
from ffn_export.parity.result import ParityResult
from ffn_export.parity.verify import verify
from ffn_export.reports.json_report import write_json
from ffn_export.reports.markdown_table import markdown_table
from ffn_export.reports.text_file import write_text
from ffn_export.runtimes import environment, ort_cuda
from ffn_export.runtimes.base import Artifact
from ffn_export.runtimes.registry import get_runtime
from ffn_export.runtimes.threads import available_threads

RUNTIME = "ort-cuda"
TORCH = "torch on CUDA"
DTYPES = ("float32", "float16", "bfloat16")
STATUSES = ("passed", "warned", "refused", "failed", "broken")
SIZES = ((1, 1), (8, 128), (32, 512))  # the first symbolic axis, and every other one
JUDGING = 0.6  # the largest part of the time that may go by before the timing starts
BUDGET = 0.004  # seconds of timed runs for each competitor and set of sizes: a few dozen


@dataclass(frozen=True)
class Group:
    """What shares one export: a preset in one precision, fused for each target.

    Attributes:
        preset: What is exported.
        dtype: In which precision.
        targets: What it is fused for.
        folder: Where its graphs and its results go.
        threads: For PyTorch's own runs on the CPU.
    """

    preset: str
    dtype: str
    targets: tuple[str, ...]
    folder: Path
    threads: int

    @property
    def name(self) -> str:
        """What progress lines and files call it."""
        return f"{self.preset}-{self.dtype}"

    def graph(self, target: str) -> Path:
        """Where the graph for a target is."""
        return self.folder / f"{self.name}-{target}.onnx"

    @property
    def results(self) -> Path:
        """Where its process writes what it finds, one JSON object a line."""
        return self.folder / f"{self.name}.jsonl"


@dataclass(frozen=True)
class Proof:
    """What came of one graph.

    Attributes:
        preset: The preset.
        dtype: Its precision.
        target: What it was fused for.
        status: ``passed``, ``warned`` or ``failed`` parity; ``refused`` where a node that reads data is not on CUDA;
            ``broken`` otherwise.
        reason: Why it is not ``passed``, in one line.
        nodes: The operators as written, in order.
        assigned: Execution provider -> operators that it runs, or would run in a graph that is refused.
        cases: Verdict -> number of cases.
        worst_ulps: Largest error in units of the last place, beside what it was allowed; likewise the next two.
        allowed_ulps: What that error was allowed to be.
        torch_ulps: PyTorch's own error in that case.
    """

    preset: str
    dtype: str
    target: str
    status: str
    reason: str | None = None
    nodes: tuple[str, ...] = ()
    assigned: Mapping[str, Sequence[str]] = field(default_factory=dict)
    cases: Mapping[str, int] = field(default_factory=dict)
    worst_ulps: float = 0.0
    allowed_ulps: float = 0.0
    torch_ulps: float = 0.0

    @property
    def is_failure(self) -> bool:
        """CUDA need not take a graph that was fused for something else."""
        return self.status in ("failed", "broken") or (self.status == "refused" and self.target == RUNTIME)


class RememberingReference(TorchReference):
    """Evaluates the same inputs once: the graphs of one export are judged on the same cases."""

    def __init__(self, source: Source, threads: int) -> None:
        super().__init__(source, threads)
        self._known: dict[str, dict[str, tuple[Array, Array]]] = {}

    def evaluate(self, feeds: Mapping[str, Array]) -> dict[str, tuple[Array, Array]]:
        """Run the module twice, or return what that gave before."""
        digest = hashlib.sha256()
        for name, array in sorted(feeds.items()):
            digest.update(f"{name} {array.dtype} {array.shape} ".encode() + array.tobytes())
        key = digest.hexdigest()
        if key not in self._known:
            self._known[key] = super().evaluate(feeds)
        return self._known[key]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    started = time.monotonic()
    reason = get_runtime(RUNTIME).unavailable(Artifact(Path("any.onnx")))
    if reason is not None:
        print(f"gpu_suite: runtime {RUNTIME!r} is not available here: {reason}", file=sys.stderr)
        return RuntimeUnavailableError.exit_status
    threads = max(1, available_threads() // options.jobs)
    with tempfile.TemporaryDirectory(prefix="ffn-export-") as scratch:
        groups = [
            Group(preset, dtype, tuple(options.target), Path(scratch), threads)
            for preset, dtype in itertools.product(options.only, options.dtype)
        ]
        deadline = started + options.seconds
        proofs = _prove_all(groups, options.jobs, deadline if options.no_bench else started + JUDGING * options.seconds)
        _say(f"{len(proofs)} graphs judged after {time.monotonic() - started:.0f} s")
        times = [] if options.no_bench else _time_all(groups, proofs, Path(scratch) / "times.jsonl", deadline)
    where = _environment(threads)
    try:
        if options.json is not None:
            data = {"environment": where, "proofs": [asdict(proof) for proof in proofs], "times": times}
            write_json({"schema": "ffn-export-gpu-suite/1", **data}, options.json)
        write_text(_markdown(where, proofs, times), options.markdown)
    except FfnExportError as error:
        print(f"gpu_suite: {error}", file=sys.stderr)
        return error.exit_status
    failed = [proof for proof in proofs if proof.is_failure]
    counts = ", ".join(f"{sum(p.status == s for p in proofs)} {s}" for s in STATUSES)
    _say(f"{counts} in {time.monotonic() - started:.0f} s")
    return 1 if failed or not proofs else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Example: python scripts/gpu_suite.py --json gpu.json --markdown docs/results-gpu.md",
    )
    for option, known, default, what in (
        ("--only", PRESETS, list(PRESETS), "presets"),
        ("--target", TARGETS, [RUNTIME, "portable", "ort"], "what graphs are fused for"),
        ("--dtype", DTYPES, list(DTYPES), "precisions"),
    ):
        parser.add_argument(
            option,
            nargs="+",
            choices=list(known),
            default=default,
            metavar="NAME",
            help=f"{what} [{' '.join(default)}]",
        )
    parser.add_argument("--jobs", type=int, default=8, metavar="N", help="processes that judge at once [8]")
    parser.add_argument(
        "--seconds", type=float, default=300, metavar="S", help="what is not done then is left out [300]"
    )
    parser.add_argument("--no-bench", action="store_true", help="leave the timing out")
    parser.add_argument("--json", metavar="FILE", help="every result")
    parser.add_argument("--markdown", metavar="FILE", default="-", help="where the page goes [standard output]")
    return parser


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _in_a_process(target: Callable[..., None], arguments: Sequence[Any], deadline: float) -> str | None:
    """Run a function in a fresh process and return what ended it before its time, or None."""
    process = multiprocessing.get_context("spawn").Process(target=target, args=tuple(arguments))
    process.start()
    process.join(max(0.0, deadline - time.monotonic()))
    if process.is_alive():
        process.kill()
        process.join()
        return "the time was up"
    return f"its process ended with status {process.exitcode}" if process.exitcode else None


def _read(path: Path) -> list[dict[str, Any]]:
    """Read the lines that a process wrote; the last one may be cut where it was killed."""
    records = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            records.append(json.loads(line))
        except ValueError:
            continue
    return records


def _write(path: Path, record: Mapping[str, Any]) -> None:
    with path.open("a") as file:
        file.write(json.dumps(record) + "\n")


def _prove_all(groups: Sequence[Group], jobs: int, deadline: float) -> list[Proof]:
    proofs: list[Proof] = []
    with ThreadPoolExecutor(jobs) as pool:
        done = {pool.submit(_in_a_process, _prove, (group,), deadline): group for group in groups}
        for number, future in enumerate(as_completed(done), 1):
            group, ended = done[future], future.result()
            found = {proof.target: proof for proof in (Proof(**record) for record in _read(group.results))}
            for target in group.targets:
                missing = Proof(group.preset, group.dtype, target, "broken", ended or "there is no result")
                proofs.append(found.get(target, missing))
            summary = "; ".join(f"{p.target} {_summary(p)}" for p in proofs[-len(group.targets) :])
            _say(f"[{number}/{len(groups)}] {group.name}: {summary}")
    order = {(group.preset, group.dtype): index for index, group in enumerate(groups)}
    return sorted(proofs, key=lambda p: (order[p.preset, p.dtype], groups[0].targets.index(p.target)))


def _summary(proof: Proof) -> str:
    error = f" {proof.worst_ulps:.2f} of {proof.allowed_ulps:.2f} ulp" if proof.cases else ""
    return f"{proof.status}{error}" + (f" ({proof.reason})" if proof.reason else "")


def _prove(group: Group) -> None:
    """Export once, and judge the graph of each target; each result is written as soon as it is there."""
    try:
        source = subjects.as_source(group.preset, dtype=group.dtype)
        exported = export_source(source, DEFAULT_OPSET)
        reference = RememberingReference(source, group.threads)
    except Exception as error:  # noqa: BLE001 - what keeps one from being exported must not stop the others
        reason = f"not exported: {first_line(error)}"
        for target in group.targets:
            _write(group.results, asdict(Proof(group.preset, group.dtype, target, "broken", reason)))
        return
    for target in group.targets:
        said: dict[str, Any] = {"status": "broken"}
        try:
            fused, _ = api.fuse(exported, target, check=False)
            onnx_file.save(fused, group.graph(target))
            said["nodes"] = tuple(n.op_type for n in fused.graph.all_nodes() if n.op_type != "Constant")
            said |= _judge(group, target, reference)
        except Exception as error:  # noqa: BLE001 - likewise
            said["reason"] = first_line(error).replace(f"{group.folder}/", "")
        _write(group.results, asdict(Proof(group.preset, group.dtype, target, **said)))


def _judge(group: Group, target: str, reference: TorchReference) -> dict[str, Any]:
    artifact = Artifact(group.graph(target))
    assigned: dict[str, list[str]] = {}
    try:
        assigned = ort_cuda.OrtCuda().assignment(artifact, group.threads)
        result = verify(group.graph(target), reference, runtimes=[RUNTIME], threads=group.threads)
    except RuntimeUnavailableError as error:
        return {"status": "refused", "reason": str(error), "assigned": assigned}
    status = "failed" if result.failures else "warned" if result.warnings else "passed"
    reason = next(iter((*result.failures, *result.warnings)), None)
    return {"status": status, "reason": reason, "assigned": assigned, **_worst(result)}


def _worst(result: ParityResult) -> dict[str, Any]:
    """Return how many cases came out how, and the error that is the largest part of what it was allowed."""
    verdicts = [case.status(result.tolerances) for case in result.cases]
    cases = {verdict: verdicts.count(verdict) for verdict in dict.fromkeys(verdicts)}
    outputs = [output for case in result.cases for output in case.outputs]
    if not outputs:
        return {"cases": cases}
    worst = max((verdict.worst(output, result.tolerances) for output in outputs), key=lambda error: error.factor)
    errors = {"worst_ulps": worst.ulps, "torch_ulps": worst.baseline_ulps}
    return {"cases": cases, "allowed_ulps": worst.allowed, **errors}


def _time_all(groups: Sequence[Group], proofs: Sequence[Proof], path: Path, deadline: float) -> list[dict[str, Any]]:
    """Time the graphs that passed, alone on the GPU, in one process; where a group ends it, another one goes on."""
    passed = {(p.preset, p.dtype, p.target) for p in proofs if p.status in ("passed", "warned")}
    waiting = [
        (group, able)
        for group in groups
        if (able := [t for t in group.targets if (group.preset, group.dtype, t) in passed])
    ]
    while waiting and time.monotonic() < deadline:
        ended = _in_a_process(_time_groups, (waiting, path), deadline)
        finished = sum("finished" in record for record in _read(path))
        waiting = [(g, t) for g, t in waiting if not any(r.get("finished") == g.name for r in _read(path))]
        if ended is None or not waiting:
            break
        _say(f"{waiting[0][0].name} is not timed: {ended} ({finished} groups are)")
        waiting = waiting[1:]
    return [record for record in _read(path) if "finished" not in record]


def _time_groups(waiting: Sequence[tuple[Group, Sequence[str]]], path: Path) -> None:
    for number, (group, targets) in enumerate(waiting, 1):
        _say(f"[{number}/{len(waiting)}] timing {group.name}")
        try:
            for record in _times(group, targets):
                _write(path, record)
        except Exception as error:  # noqa: BLE001 - one that cannot be timed must not stop the others
            _say(f"{group.name} is not timed: {first_line(error)}")
        _write(path, {"finished": group.name})


def _times(group: Group, targets: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Time the graphs of one export and the module itself, in turn, with inputs and outputs on the GPU."""
    source = subjects.as_source(group.preset, dtype=group.dtype)
    runners = {t: get_runtime(RUNTIME).load(Artifact(group.graph(t)), group.threads) for t in targets}
    dims = list(merge_dims(source.inputs).values())
    known: list[dict[str, int]] = []
    for first, others in SIZES:
        sizes = fit_sizes(dims, {dim.name: others if index else first for index, dim in enumerate(dims)})
        if sizes in known:
            continue
        known.append(sizes)
        feeds = draw_all(source.inputs, sizes, seed=0)
        calls = {**_torch_on_cuda(source, feeds), **{t: runner.prepare(feeds) for t, runner in runners.items()}}
        seconds = interleave(calls, BUDGET)
        base = seconds.get(TORCH)
        yield {
            "preset": group.preset,
            "dtype": group.dtype,
            "sizes": sizes,
            "timings": [asdict(summarise(name, found)) for name, found in seconds.items()],
            "ratios": [asdict(paired_ratio(t, seconds[t], TORCH, base)) for t in targets] if base else [],
        }


def _torch_on_cuda(source: Source, feeds: Mapping[str, Array]) -> dict[str, Callable[[], Any]]:
    """Return a call of the module on the GPU, eager and without TF32; nothing where PyTorch has no CUDA."""
    import torch

    if not torch.cuda.is_available():
        return {}
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    module = source.module.to("cuda")
    args, kwargs = source.call.arguments({name: tensor.to("cuda") for name, tensor in to_torch(feeds).items()})

    def call() -> None:
        with torch.inference_mode():
            module(*args, **kwargs)
        torch.cuda.synchronize()

    return {TORCH: call}


def _environment(threads: int) -> dict[str, Any]:
    import onnxruntime
    import torch

    described = environment.current(threads).to_dict()
    cudnn = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    query = ("nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader")
    try:
        gpu = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as error:
        gpu = f"unknown: {first_line(error)}"
    return {
        **described,
        "gpu": gpu,
        "onnxruntime": f"{onnxruntime.__version__}, built with CUDA {onnxruntime.cuda_version}",
        "torch": f"{torch.__version__}, CUDA {torch.version.cuda}, cuDNN {cudnn}",
        "provider options": dict(ort_cuda.CUDA.options),
    }


def _markdown(where: Mapping[str, Any], proofs: Sequence[Proof], times: Sequence[Mapping[str, Any]]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in where["versions"].items())
    options = ", ".join(f"`{name}={value}`" for name, value in where["provider options"].items())
    lines = [
        "# Results on a GPU",
        "",
        "Written by `scripts/gpu_suite.py`.",
        "",
        f"- GPU (name, memory, driver): {where['gpu']}",
        f"- onnxruntime {where['onnxruntime']}; options of its CUDA provider: {options}",
        f"- PyTorch {where['torch']}",
        f"- {where['processor']}, {where['system']}; {versions}",
        "",
        "## Parity",
        "",
        "Errors are in units of the last place (ulp) of the output's own scale, against the module in float64.",
        "The worst case is shown, with what it was allowed, and PyTorch's own error on the CPU in that case.",
        "`refused`: a node that reads data has no kernel on CUDA, so nothing was run. What computes with sizes",
        "alone may be on the CPU, where ONNX Runtime keeps it.",
        "",
    ]
    parity = markdown_table(
        (
            "preset",
            "dtype",
            "target",
            "verdict",
            "nodes",
            "on CUDA",
            "error (ulp)",
            "allowed",
            "PyTorch's",
            "operators",
        ),
        [_parity_row(proof) for proof in proofs],
        numbers=("nodes", "on CUDA", "error (ulp)", "allowed", "PyTorch's"),
    )
    reasons = [f"- {p.preset}, {p.dtype}, {p.target}: {p.status}: {p.reason}\n" for p in proofs if p.reason]
    targets = list(dict.fromkeys(proof.target for proof in proofs))
    medians = [f"{target} (µs)" for target in (TORCH, *targets)]
    ratios = [f"{target} / torch" for target in targets]
    latency = markdown_table(
        ("preset", "dtype", "sizes", *medians, *ratios),
        [_latency_row(record, targets) for record in times],
        numbers=(*medians, *ratios),
    )
    told = [
        "\n".join(lines) + "\n", parity,
        "\n## What did not pass\n\n", *(reasons or ["Nothing.\n"]),
        "\n## Latency\n\nMedians, inputs and outputs on the GPU, no TF32, in turn in one process. PyTorch is eager.\n",
        "\n", latency,
    ]  # fmt: skip
    return "".join(told)


def _parity_row(proof: Proof) -> tuple[str, ...]:
    judged = [f"{number:.2f}" for number in (proof.worst_ulps, proof.allowed_ulps, proof.torch_ulps)]
    on_cuda = f"{len(proof.assigned.get(ort_cuda.CUDA.name, ()))} of {sum(map(len, proof.assigned.values()))}"
    return (
        proof.preset, proof.dtype, proof.target, proof.status, str(len(proof.nodes)),
        on_cuda if proof.assigned else "", *(judged if proof.cases else ("", "", "")), " ".join(proof.nodes),
    )  # fmt: skip


def _latency_row(record: Mapping[str, Any], targets: Sequence[str]) -> tuple[str, ...]:
    median = {timing["runtime"]: f"{timing['median'] * 1e6:.1f}" for timing in record["timings"]}
    ratio = {r["runtime"]: f"{r['value']:.3f} ({r['low']:.3f} to {r['high']:.3f})" for r in record["ratios"]}
    sizes = ",".join(f"{name}={size}" for name, size in record["sizes"].items())
    cells = [median.get(name, "") for name in (TORCH, *targets)] + [ratio.get(target, "") for target in targets]
    return (record["preset"], record["dtype"], sizes, *cells)


if __name__ == "__main__":
    sys.exit(main())
