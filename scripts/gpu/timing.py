"""Times the graphs that passed beside PyTorch on the same GPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ffn_export import subjects
from ffn_export.exporter.drawing import Array, draw_all, fit_sizes
from ffn_export.exporter.one_line import first_line
from ffn_export.exporter.source import Source
from ffn_export.exporter.tensor_spec import merge_dims
from ffn_export.exporter.torch_inputs import to_torch
from ffn_export.latency.measure import interleave
from ffn_export.latency.statistics import paired_ratio, summarise
from ffn_export.runtimes.base import Artifact
from ffn_export.runtimes.registry import get_runtime
from gpu.processes import in_a_process, read, say, write
from gpu.proof import RUNTIME, TORCH, Group, Proof

SIZES = ((1, 1), (8, 128), (32, 512))  # the first symbolic axis, and every other one
BUDGET = 0.004  # seconds of timed runs for each competitor and set of sizes: a few dozen


def time_all(groups: Sequence[Group], proofs: Sequence[Proof], path: Path, deadline: float) -> list[dict[str, Any]]:
    """Time the graphs that passed, alone on the GPU, in one process; where a group ends it, another one goes on."""
    passed = {(p.preset, p.dtype, p.target) for p in proofs if p.status in ("passed", "warned")}
    waiting = [
        (group, able)
        for group in groups
        if (able := [t for t in group.targets if (group.preset, group.dtype, t) in passed])
    ]
    while waiting and time.monotonic() < deadline:
        ended = in_a_process(_time_groups, (waiting, path), deadline)
        finished = sum("finished" in record for record in read(path))
        waiting = [(g, t) for g, t in waiting if not any(r.get("finished") == g.name for r in read(path))]
        if ended is None or not waiting:
            break
        say(f"{waiting[0][0].name} is not timed: {ended} ({finished} groups are)")
        waiting = waiting[1:]
    return [record for record in read(path) if "finished" not in record]


def _time_groups(waiting: Sequence[tuple[Group, Sequence[str]]], path: Path) -> None:
    for number, (group, targets) in enumerate(waiting, 1):
        say(f"[{number}/{len(waiting)}] timing {group.name}")
        try:
            for record in _times(group, targets):
                write(path, record)
        except Exception as error:  # noqa: BLE001 - one that cannot be timed must not stop the others
            say(f"{group.name} is not timed: {first_line(error)}")
        write(path, {"finished": group.name})


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
        seconds = interleave({name: [call] for name, call in calls.items()}, BUDGET)
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
