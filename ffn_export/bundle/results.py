"""Result files of a bundle, and the HTML page that shows them all."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ffn_export.bundle.build_options import BuildOptions
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
from ffn_export.reports.formats import Companions, Verification
from ffn_export.reports.html.page import html_page
from ffn_export.reports.text_file import write_text
from ffn_export.runtimes.ort_native import FLOAT32
from ffn_export.tuning.result import TuningResult

FUSION, SITES, TUNING, PAGE = "fusion.json", "sites.json", "tuning.json", "report.html"


def write(directory: Path, told: Verification) -> None:
    """Write each result as JSON, and all of them as ``report.html``, with the commands that make them again."""
    parts: dict[str, PlainData | None] = {
        PARITY: told.result,
        SITES: _Sites(tuple(told.sites)),
        FUSION: told.fusion,
        LATENCY: told.latency,
        TUNING: told.tuning,
    }
    for name, part in parts.items():
        if part is not None:
            (directory / name).write_text(json_text(part.to_dict()))
    write_text(html_page(told), directory / PAGE)


def read(directory: Path) -> Companions:
    """Read the results of a bundle other than parity; bundles of earlier versions have fewer.

    Raises:
        UsageError: If a file is damaged or has a format that this version cannot read.
    """
    sites = _read(directory / SITES, _Sites)
    return Companions(
        latency=_read(directory / LATENCY, LatencyResult),
        fusion=_read(directory / FUSION, FusionReport),
        sites=() if sites is None else sites.sites,
        tuning=_read(directory / TUNING, TuningResult),
        weights_bytes=read_manifest(directory).weights_bytes if (directory / MANIFEST).exists() else None,
    )


def commands(source: Source, name: str, options: BuildOptions) -> tuple[str, ...]:
    """Return the shell command that builds a bundle again, if its source is a SPEC, and the one that verifies it."""
    if source.kind == "module":
        return (shlex.join(["ffn-export", "verify", name]),)
    command = "build" if options.tuning is None else "tune"
    words = ["ffn-export", command, source.spec, "--name", name]
    words += ["--target", options.target, "--opset", str(options.opset)]
    if source.kind == "factory":
        for input_name, spec in describe_source(source)["inputs"].items():
            words += ["--input", f"{input_name}:{spec}"]
    if source.task is not None:
        words += ["--task", source.task]
    if source.dtype != "float32":
        words += ["--dtype", source.dtype, *(["--keep-io"] if source.keep_io else [])]
    if options.seed:
        words += ["--seed", str(options.seed)]
    words += _of_build(options) if options.tuning is None else options.tuning.command_line()
    return shlex.join(words), shlex.join(["ffn-export", "verify", f"exported/{name}"])


def _of_build(options: BuildOptions) -> Iterator[str]:
    """Yield the options that ``build`` has and ``tune`` has not."""
    if options.quantization is not None:
        yield from options.quantization.command_line()
    if options.native not in (None, FLOAT32):
        yield from ("--precision", str(options.precision))
    if options.budget is not None:
        yield from ("--budget", f"{options.budget:g}")
    flags = {
        "--portable-functions": options.portable_functions,
        "--no-check": not options.check,
        "--share-weights": options.share_weights,
        "--fast": options.fast,
    }
    yield from (flag for flag, is_on in flags.items() if is_on)


@dataclass(frozen=True)
class _Sites(PlainData):
    sites: tuple[SiteGraph, ...]


def _read(path: Path, kind: type[Result]) -> Result | None:
    return parsed(path, plain_file.read_json(path), kind) if path.exists() else None
