"""The page of results on a GPU, its appendix with all tables, and the machine that they are of."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from textwrap import fill
from typing import Any

import dot_chart
from ffn_export.core.one_line import first_line
from ffn_export.core.words import size_label
from ffn_export.reports.markdown_table import markdown_table
from ffn_export.reports.text_file import write_text
from ffn_export.runtimes import environment, ort_cuda
from gpu.proof import RUNTIME, STATUSES, TORCH, Proof

CHART = "summary.svg"
_MEANINGS = {
    "refused": "a node that reads data has no kernel on CUDA; `ort` is a target for the CPU",
    "broken": "the file did not load",
    "not judged": "the time was up",
}


_OF_MODELS = (
    "Medians in ms, without copies, at sizes of the batch and the sequence. `default` is ONNX Runtime's default "
    "session on the export. Weights and inputs are drawn; the error is that of the first output against the module in "
    "float64, relative L2."
)


@dataclass(frozen=True)
class Results:
    """What was judged and timed on a GPU.

    Attributes:
        environment: The machine and the versions, as :func:`machine` describes them.
        proofs: One a graph.
        times: One a preset, precision and sizes.
        models: One a whole model, precision and sizes.
        notes: What a reader has to know of this run, as Markdown.
    """

    environment: Mapping[str, Any]
    proofs: Sequence[Proof]
    times: Sequence[Mapping[str, Any]]
    models: Sequence[Mapping[str, Any]] = ()
    notes: Sequence[str] = ()


def read(data: Mapping[str, Any]) -> Results:
    """Read what the JSON file holds."""
    proofs = [Proof(**proof) for proof in data["proofs"]]
    return Results(data["environment"], proofs, data["times"], data["models"], data.get("notes", ()))


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


def write(results: Results, markdown: Path) -> None:
    """Write the page, its appendix beside it, and the chart into a directory of the page's name.

    Raises:
        UsageError: If one cannot be written.
    """
    appendix = markdown.with_name(f"{markdown.stem}-tables.md")
    ratios = _ratios(results)
    if ratios:
        label = f"time of {RUNTIME} over that of eager PyTorch: left of 1 is faster"
        write_text(dot_chart.svg(ratios, label), markdown.with_suffix("") / CHART)
    write_text(page(results, markdown.stem), markdown)
    write_text(tables(results, markdown.name), appendix)


def page(results: Results, name: str) -> str:
    """Return the page; ``name`` is that of its file, without the suffix."""
    return "".join(_parts(results, name))


def _parts(results: Results, name: str) -> Iterator[str]:
    yield f"# {_gpu(results)}\n\n{fill(' '.join(_sentences(results)), 118)}\n\n"
    if _ratios(results):
        yield f"![Time of {RUNTIME} over that of PyTorch]({name}/{CHART})\n\n"
        yield "A dot is the geometric mean over the presets, a line reaches from the smallest ratio to the largest.\n"
    yield f"[All tables]({name}-tables.md) has each graph and each time. `scripts/gpu_suite.py` makes both pages.\n"
    yield "\n## Graphs by verdict\n\n" + _verdicts(results.proofs)
    present = {proof.status for proof in results.proofs}
    if meanings := " ".join(f"`{s}`: {said}." for s, said in _MEANINGS.items() if s in present):
        yield f"\n{fill(meanings, 118)}\n"
    if results.models:
        yield "\n## Whole models\n\n" + fill(_OF_MODELS, 118) + "\n\n" + _models(results.models)
    if results.notes:
        yield "\n## Notes on this run\n\n" + "".join(f"{_bullet(note)}\n" for note in results.notes)


def _models(records: Sequence[Mapping[str, Any]]) -> str:
    sizes = list(dict.fromkeys(_short(record["sizes"]) for record in records))
    times: dict[tuple[str, str, str], dict[str, str]] = {}
    errors: dict[tuple[str, str, str], str] = {}
    for record in records:
        for timing in record["timings"]:
            row = (record["model"], record["dtype"], timing["runtime"])
            if not timing["copies"]:
                times.setdefault(row, {})[_short(record["sizes"])] = f"{timing['median'] * 1e3:.2f}"
                errors[row] = f"{record['errors'][timing['runtime']]:.1e}"
    headers = ("model", "dtype", "form", *sizes, "error")
    rows = [(*row, *(found.get(each, "") for each in sizes), errors[row]) for row, found in times.items()]
    return markdown_table(headers, rows, numbers=headers[3:])


def _short(sizes: Mapping[str, int]) -> str:
    return " × ".join(map(str, sizes.values()))


def _bullet(note: str) -> str:
    return fill(note, 118, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)


def _sentences(results: Results) -> Iterator[str]:
    asked = [proof for proof in results.proofs if proof.target == RUNTIME]
    ours = [proof for proof in asked if proof.status != "not judged"]
    passed = sum(proof.status in ("passed", "warned") for proof in ours)
    yield f"On one {_gpu(results)}, {passed} of {len(ours)} graphs fused for `{RUNTIME}` stayed within the bound, with"
    yield "all their data on the GPU."
    if len(ours) < len(asked):
        yield f"{len(asked) - len(ours)} more were not judged."
    means = [f"{geometric_mean(values):.2f} at {sizes}" for sizes, values in _by_sizes(results).items()]
    if means:
        timed = len({(record["preset"], record["dtype"]) for record in results.times})
        who = "They" if timed >= passed else f"The {timed} that were timed"
        yield f"{who} take these parts of eager PyTorch's time: {', '.join(means)} (geometric means)."
    by_sizes = list(_by_sizes(results).items())
    if by_sizes:
        sizes, values = by_sizes[-1]
        yield f"At {sizes} {sum(value > 1 for value in values)} of {len(values)} of them are slower than PyTorch."


def _gpu(results: Results) -> str:
    return str(results.environment["gpu"]).split(",")[0]


def _by_sizes(results: Results) -> dict[str, list[float]]:
    """Return sizes of two axes -> ratios over PyTorch of the graphs fused for CUDA."""
    found: dict[str, list[float]] = {}
    for record in results.times:
        if len(record["sizes"]) > 1:
            found.setdefault(size_label(record["sizes"]), []).extend(_ratio_of(record))
    return {sizes: values for sizes, values in found.items() if values}


def _ratios(results: Results) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for record in sorted(results.times, key=lambda record: list(record["sizes"].values())):
        if len(record["sizes"]) > 1:
            row = f"{size_label(record['sizes'])}, {record['dtype']}"
            found.setdefault(row, []).extend(_ratio_of(record))
    return {row: values for row, values in found.items() if values}


def _ratio_of(record: Mapping[str, Any]) -> list[float]:
    return [ratio["value"] for ratio in record["ratios"] if ratio["runtime"] == RUNTIME and not ratio["copies"]]


def _verdicts(proofs: Sequence[Proof]) -> str:
    dtypes = list(dict.fromkeys(proof.dtype for proof in proofs))
    rows = []
    for target in dict.fromkeys(proof.target for proof in proofs):
        counts = []
        for dtype in dtypes:
            of_cell = [proof.status for proof in proofs if (proof.target, proof.dtype) == (target, dtype)]
            counts.append(", ".join(f"{of_cell.count(s)} {s}" for s in STATUSES if s in of_cell))
        rows.append((target, *counts))
    return markdown_table(("target", *dtypes), rows)


def tables(results: Results, markdown: str) -> str:
    """Return the appendix of the page of that name."""
    where, proofs, times = results.environment, results.proofs, results.times
    versions = ", ".join(f"{name} {version}" for name, version in where["versions"].items())
    options = ", ".join(f"`{name}={value}`" for name, value in where["provider options"].items())
    lines = [
        f"# All tables: {_gpu(results)}",
        "",
        f"Written by `scripts/gpu_suite.py`; do not edit. [The summary]({markdown}) says what came of it.",
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
        "\n".join(lines) + "\n",
        parity,
        "\n## What did not pass\n\n",
        *(reasons or ["Nothing.\n"]),
        "\n## Latency\n\nMedians, inputs and outputs on the GPU, no TF32, in turn in one process. PyTorch is eager.\n",
        "\n",
        latency,
        *(
            ("\n## Latency with copies\n\nThe same from host memory to host memory, PyTorch too.\n\n", with_copies)
            if any(one["copies"] for record in times for one in record["timings"])
            else ()
        ),
    ]
    return "".join(told)


def _parity_row(proof: Proof) -> tuple[str, ...]:
    numbers = (proof.worst_ulps, proof.allowed_ulps, proof.torch_ulps or None)  # 0 where it was not kept
    judged = ["" if number is None else f"{number:.2f}" for number in numbers]
    on_cuda = f"{len(proof.assigned.get(ort_cuda.CUDA.name, ()))} of {sum(map(len, proof.assigned.values()))}"
    return (
        proof.preset,
        proof.dtype,
        proof.target,
        proof.status,
        str(len(proof.nodes)),
        on_cuda if proof.assigned else "",
        *(judged if proof.allowed_ulps else ("", "", "")),
        " ".join(proof.nodes),
    )


def _latency_row(record: Mapping[str, Any], targets: Sequence[str], *, copies: bool) -> tuple[str, ...]:
    timings, ratios = ([one for one in record[what] if one["copies"] == copies] for what in ("timings", "ratios"))
    median = {timing["runtime"]: f"{timing['median'] * 1e6:.1f}" for timing in timings}
    ratio = {r["runtime"]: f"{r['value']:.3f} ({r['low']:.3f} to {r['high']:.3f})" for r in ratios}
    cells = [median.get(name, "") for name in (TORCH, *targets)] + [ratio.get(target, "") for target in targets]
    return (record["preset"], record["dtype"], size_label(record["sizes"]), *cells)
