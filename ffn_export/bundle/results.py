"""Result files of a bundle, and the HTML page that shows them all."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ffn_export.bundle.describe import describe_source
from ffn_export.bundle.manifest import MANIFEST, read_manifest
from ffn_export.bundle.stored import LATENCY, PARITY, Result, parsed
from ffn_export.core import plain_file
from ffn_export.core.json_text import json_text
from ffn_export.core.plain_data import PlainData
from ffn_export.exporter.source import Source
from ffn_export.fusion.report import FusionReport
from ffn_export.inspection.site_graph import SiteGraph
from ffn_export.latency.result import LatencyResult
from ffn_export.parity.judging.result import ParityResult
from ffn_export.reports.html import Verification, write_html
from ffn_export.tuning.result import TuningResult

FUSION, SITES, TUNING, PAGE = "fusion.json", "sites.json", "tuning.json", "report.html"


@dataclass(frozen=True)
class Companions:
    """Results of a bundle other than parity; a missing one is None or empty.

    Attributes:
        latency: The timing.
        fusion: Status of each site.
        sites: Nodes of the fused sites, before and after.
        tuning: Trials and choice of the tuning.
        weights_bytes: Size of the model's weights.
    """

    latency: LatencyResult | None = None
    fusion: FusionReport | None = None
    sites: tuple[SiteGraph, ...] = ()
    tuning: TuningResult | None = None
    weights_bytes: int | None = None


def write(directory: Path, parity: ParityResult, beside: Companions, commands: Sequence[str]) -> None:
    """Write each result as JSON, and all of them as ``report.html``.

    Args:
        directory: Directory to write to.
        parity: The verification.
        beside: The other results.
        commands: Shell commands that build and verify the bundle again.
    """
    data = {PARITY: parity.to_dict(), SITES: {"sites": [site.to_dict() for site in beside.sites]}}
    if beside.fusion is not None:
        data[FUSION] = beside.fusion.to_dict()
    if beside.latency is not None:
        data[LATENCY] = beside.latency.to_dict()
    if beside.tuning is not None:
        data[TUNING] = beside.tuning.to_dict()
    for name, values in data.items():
        (directory / name).write_text(json_text(values))
    told = Verification(
        parity,
        commands,
        latency=beside.latency,
        fusion=beside.fusion,
        sites=beside.sites,
        tuning=beside.tuning,
        weights_bytes=beside.weights_bytes,
    )
    write_html(told, directory / PAGE)


def read(directory: Path) -> Companions:
    """Read the results of a bundle other than parity; bundles of earlier versions have fewer.

    Raises:
        UsageError: If a file is damaged or has a format that this version cannot read.
    """
    sites = _read(directory / SITES, _Sites)
    return Companions(
        _read(directory / LATENCY, LatencyResult),
        _read(directory / FUSION, FusionReport),
        () if sites is None else sites.sites,
        _read(directory / TUNING, TuningResult),
        read_manifest(directory).weights_bytes if (directory / MANIFEST).exists() else None,
    )


def commands(
    source: Source, name: str, command: str, target: str, opset: int, options: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the shell command that builds a bundle again, if its source is a SPEC, and the one that verifies it."""
    if source.kind == "module":
        return (shlex.join(["ffn-export", "verify", name]),)
    words = ["ffn-export", command, source.spec, "--name", name, "--target", target, "--opset", str(opset)]
    if source.kind == "factory":
        words += [word for given in _inputs(source) for word in ("--input", given)]
    if source.task is not None:
        words += ["--task", source.task]
    if source.dtype != "float32":
        words += ["--dtype", source.dtype, *(["--keep-io"] if source.keep_io else [])]
    return shlex.join([*words, *options]), shlex.join(["ffn-export", "verify", f"exported/{name}"])


def _inputs(source: Source) -> list[str]:
    return [f"{name}:{spec}" for name, spec in describe_source(source)["inputs"].items()]


@dataclass(frozen=True)
class _Sites(PlainData):
    sites: tuple[SiteGraph, ...]


def _read(path: Path, kind: type[Result]) -> Result | None:
    return parsed(path, plain_file.read_json(path), kind) if path.exists() else None
