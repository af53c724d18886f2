"""Times the graphs that passed beside PyTorch on the same GPU, without copies and with them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from command_line import say
from ffn_export.core.drawing import draw_all, fit_sizes
from ffn_export.core.one_line import first_line
from ffn_export.core.tensor_spec import TensorSpec, merge_dims
from ffn_export.errors import RuntimeUnavailableError
from ffn_export.exporter.source import Source
from ffn_export.latency.competitors import Competitor, prepare
from ffn_export.latency.interleaving import Pace, interleave
from ffn_export.latency.statistics import ratios, summarise
from ffn_export.runtimes.base import Artifact, Runner
from ffn_export.runtimes.registry import get_runtime
from ffn_export.verbs.source_spec import SourceSpec
from gpu.processes import in_a_process, read, write
from gpu.proof import RUNTIME, TORCH, Group, Proof

SIZES = ((1, 1), (8, 128), (32, 512))  # the first symbolic axis, and every other one
BUDGET = 0.004  # seconds of timed runs for each competitor and set of sizes, in which short ones run some dozen times
PACE = Pace(rounds=8)  # whatever that takes: an interval of fewer says less than its 95 %


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
    """Time the graphs of one export and the module itself, in turn, each without copies and with them."""
    source = SourceSpec(group.preset, dtype=group.dtype).source()
    runners: dict[str, Sequence[Runner]] = {}
    try:
        runners[TORCH] = [get_runtime("torch-cuda").load(Artifact(source=source), group.threads)]
    except RuntimeUnavailableError as error:
        say(f"{group.name} is timed without {TORCH}: {error}")
    runners |= {t: [get_runtime(RUNTIME).load(Artifact(group.graph(t)), group.threads)] for t in targets}
    for record in timed(source, runners, SIZES):
        yield {"preset": group.preset, "dtype": group.dtype, **record}


def timed(
    source: Source, runners: Mapping[str, Sequence[Runner]], sizes: Sequence[tuple[int, int]]
) -> Iterator[dict[str, Any]]:
    """Time sessions in turn at each size of the first symbolic axis and of every other one."""
    known: list[dict[str, int]] = []
    for first, others in sizes:
        fitted = sizes_of(source.inputs, first, others)
        if fitted in known:
            continue
        known.append(fitted)
        feeds = draw_all(source.inputs, fitted, seed=0)
        runs = interleave(prepare({Competitor(name): each for name, each in runners.items()}, feeds), BUDGET, PACE)
        yield {
            "sizes": fitted,
            "timings": [asdict(summarise(who, times, accelerated=True)) for who, times in runs.items()],
            "ratios": [asdict(ratio) for ratio in ratios(runs, TORCH)],
        }


def sizes_of(inputs: Sequence[TensorSpec], first: int, others: int) -> dict[str, int]:
    """Return the sizes of the symbolic axes, moved into their bounds."""
    dims = list(merge_dims(inputs).values())
    return fit_sizes(dims, {dim.name: others if index else first for index, dim in enumerate(dims)})
