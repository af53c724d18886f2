"""The page of results, and the machine that they are of."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from ffn_export.core.one_line import first_line
from ffn_export.core.size_label import size_label
from ffn_export.reports.markdown_table import markdown_table
from ffn_export.runtimes import environment, ort_cuda
from gpu.proof import TORCH, Proof


def machine(threads: int) -> dict[str, Any]:
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


def markdown(where: Mapping[str, Any], proofs: Sequence[Proof], times: Sequence[Mapping[str, Any]]) -> str:
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
    latency, with_copies = (
        markdown_table(
            ("preset", "dtype", "sizes", *medians, *ratios),
            [_latency_row(record, targets, copies=copies) for record in times],
            numbers=(*medians, *ratios),
        )
        for copies in (False, True)
    )
    told = [
        "\n".join(lines) + "\n", parity,
        "\n## What did not pass\n\n", *(reasons or ["Nothing.\n"]),
        "\n## Latency\n\nMedians, inputs and outputs on the GPU, no TF32, in turn in one process. PyTorch is eager.\n",
        "\n", latency,
        "\n## Latency with copies\n\nThe same from host memory to host memory, PyTorch too.\n",
        "\n", with_copies,
    ]  # fmt: skip
    return "".join(told)


def _parity_row(proof: Proof) -> tuple[str, ...]:
    judged = [f"{number:.2f}" for number in (proof.worst_ulps, proof.allowed_ulps, proof.torch_ulps)]
    on_cuda = f"{len(proof.assigned.get(ort_cuda.CUDA.name, ()))} of {sum(map(len, proof.assigned.values()))}"
    return (
        proof.preset, proof.dtype, proof.target, proof.status, str(len(proof.nodes)),
        on_cuda if proof.assigned else "", *(judged if proof.cases else ("", "", "")), " ".join(proof.nodes),
    )  # fmt: skip


def _latency_row(record: Mapping[str, Any], targets: Sequence[str], *, copies: bool) -> tuple[str, ...]:
    timings, ratios = ([one for one in record[what] if one["copies"] == copies] for what in ("timings", "ratios"))
    median = {timing["runtime"]: f"{timing['median'] * 1e6:.1f}" for timing in timings}
    ratio = {r["runtime"]: f"{r['value']:.3f} ({r['low']:.3f} to {r['high']:.3f})" for r in ratios}
    cells = [median.get(name, "") for name in (TORCH, *targets)] + [ratio.get(target, "") for target in targets]
    return (record["preset"], record["dtype"], size_label(record["sizes"]), *cells)
