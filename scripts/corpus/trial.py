"""One architecture from the module to its scores."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch

from corpus import checks
from corpus.checks import ALLOWED, Case
from corpus.entry import Architecture
from corpus.export import export
from corpus.peers import PEERS, silent
from corpus.result import Optimised, Result
from corpus.scorer import Expected, expected_sites, score
from ffn_export.core import onnx_file
from ffn_export.core.one_line import first_line
from ffn_export.fusion.pipeline import fuse
from ffn_export.fusion.report import FusionReport

TARGET = "ort"


def run(entry: Architecture, with_peers: bool, graphs: Path | None = None) -> Result:
    """Export, fuse, check and score an architecture.

    Args:
        entry: The architecture.
        with_peers: Whether the other optimisers get the graph too.
        graphs: A folder where exported graphs are kept and found again; None keeps none.
    """
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="ffn-corpus-") as scratch, silent():
        path = (graphs or Path(scratch)) / f"{entry.name}.onnx"
        try:
            module = entry.module()
            if not path.is_file():
                export(entry, module, path)
            cases = checks.cases(entry, module)
            exported_error = checks.worst_error(path, cases)
        except Exception as error:  # noqa: BLE001 - what the exporter cannot do is a result
            return Result(entry.name, failure=f"{type(error).__name__}: {first_line(error)}")
        del module
        return _tried(entry, path, cases, exported_error, Path(scratch), with_peers)


def _tried(
    entry: Architecture, path: Path, cases: list[Case], exported_error: float, scratch: Path, with_peers: bool
) -> Result:
    allowed = ALLOWED[entry.dtype]
    if exported_error > allowed:
        return Result(entry.name, failure=f"the exported graph is wrong: {exported_error:.1e}")
    expected = expected_sites(path)
    reports: list[FusionReport] = []

    def ours(destination: Path) -> None:
        fused, report = fuse(onnx_file.load(path), TARGET)
        reports.append(report)
        onnx_file.save(fused, destination)

    made = _optimised(ours, path, scratch / "ours.onnx", expected, cases, allowed)
    peers = {}
    if with_peers:
        for number, (name, optimise) in enumerate(PEERS.items()):
            destination = scratch / f"peer-{number}.onnx"

            def theirs(destination: Path, optimise: Callable[[Architecture, Path, Path], None] = optimise) -> None:
                optimise(entry, path, destination)

            peers[name] = _optimised(theirs, path, destination, expected, cases, allowed)
    reasons = Counter(
        f"{site.kind}: {site.reason}" for report in reports for site in report.sites if not site.is_in_target_form
    )
    return Result(entry.name, None, exported_error, made, dict(sorted(reasons.items())), peers)


def _optimised(
    optimise: Callable[[Path], None],
    source: Path,
    destination: Path,
    expected: Expected,
    cases: list[Case],
    allowed: float,
) -> Optimised:
    started = time.perf_counter()
    try:
        optimise(destination)
    except Exception as raised:  # noqa: BLE001 - a crash is a result
        return Optimised(f"crashed: {type(raised).__name__}: {first_line(raised)}")
    seconds = time.perf_counter() - started
    verdict, error = checks.verdict(destination, cases, allowed)
    if verdict == "right":
        verdict = _kept_interface(source, destination)
    try:
        sites = score(expected, destination)
    except Exception as raised:  # noqa: BLE001 - a file that cannot be read is a result
        return Optimised(f"cannot be read: {first_line(raised)}", None, error, seconds)
    return Optimised(verdict, sites, error, seconds)


def _kept_interface(source: Path, destination: Path) -> str:
    if checks.axes(source) != checks.axes(destination):
        return "axes changed"
    if checks.is_valid(source) and not checks.is_valid(destination):
        return "the checker refuses it"
    return "right"
