"""``index.json`` of a folder of bundles, which describes each bundle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ffn_export.bundle import results, stored
from ffn_export.bundle.build import Build
from ffn_export.bundle.describe import verdicts
from ffn_export.bundle.manifest import MANIFEST, read_manifest
from ffn_export.core import plain_file
from ffn_export.core.plain_data import PlainData
from ffn_export.errors import UsageError
from ffn_export.fusion.report import FusionReport

INDEX = "index.json"


@dataclass(frozen=True)
class IndexEntry(PlainData):
    """One bundle of the index, or one that could not be built.

    Attributes:
        name: Name of the bundle.
        preset: Preset that it was built from.
        target: Fusion target.
        dtype: Precision.
        path: Directory, relative to the index; None if it was not built.
        error: Reason why it was not built, in one line.
        parity: Runtime -> verdict (passed, warned or failed), the error nearest to its bound, that bound, the number
            of warned cases and their largest factor.
        unavailable: Runtime -> reason why it is unavailable.
        warnings: Findings that fail no quality gate: sites that were not fused, parity warnings, slower runtimes.
        nodes: Number of nodes.
        operators_outside_standard: Vendor operators, as ``domain::Operator``.
        bytes: Size of the directory.
        ratio: Runtime, with or without copies -> sizes -> median time over PyTorch's.
    """

    name: str
    preset: str
    target: str
    dtype: str
    path: str | None = None
    error: str | None = None
    parity: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    unavailable: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    nodes: int | None = None
    operators_outside_standard: tuple[str, ...] = ()
    bytes: int | None = None
    ratio: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


def read_build(directory: Path) -> Build:
    """Return the result of the build that wrote a bundle.

    Raises:
        FfnExportError: If a file is missing, damaged, or of another version.
    """
    parts, parity = results.read(directory), stored.read(directory).parity
    fusion = parts.fusion or FusionReport(read_manifest(directory).target, ())
    return Build(directory, fusion, parity, parts.latency, tuning=parts.tuning, manifest=read_manifest(directory))


def index_entry(
    name: str, preset: str, target: str, dtype: str, build: Build | None, error: str | None = None
) -> IndexEntry:
    """Return the index entry of a build, complete or failed."""
    if build is None:
        return IndexEntry(name, preset, target, dtype, error=error)
    built = build.manifest is not None
    return IndexEntry(
        name=name,
        preset=preset,
        target=target,
        dtype=dtype,
        path=build.directory.name if built else None,
        error=error,
        parity={} if build.parity is None else verdicts(build.parity),
        unavailable={} if build.parity is None else dict(build.parity.unavailable),
        warnings=_warnings(build),
        nodes=build.fusion.nodes.get("after"),
        operators_outside_standard=build.manifest.operators_outside_standard if build.manifest else (),
        bytes=sum(p.stat().st_size for p in build.directory.rglob("*") if p.is_file()) if built else None,
        ratio=_ratios(build),
    )


def index(entries: Iterable[IndexEntry], path: Path) -> dict[str, Any]:
    """Return an index of these entries, merged with the entries of an existing index for other bundles."""
    listed = {entry["name"]: entry for entry in _listed(path)} | {entry.name: entry.to_dict() for entry in entries}
    return {"bundles": [listed[name] for name in sorted(listed)]}


def _listed(path: Path) -> list[dict[str, Any]]:
    """Return the entries of an index whose bundles still exist."""
    try:
        entries = plain_file.read_json(path)["bundles"]
        return [entry for entry in entries if entry["path"] and (path.parent / entry["path"] / MANIFEST).is_file()]
    except (UsageError, OSError, KeyError, TypeError):
        return []


def _warnings(build: Build) -> tuple[str, ...]:
    sites = [
        f"{site.id} {site.status}: {site.reason}"
        for site in build.fusion.sites
        if site.status in ("refused", "rolled back")
    ]
    slower = [
        f"{ratio.runtime} takes {ratio.value:.2f} x {ratio.baseline} at {measurement.label}"
        for measurement in (build.latency.measurements if build.latency else ())
        for ratio in measurement.ratios
        if ratio.verdict == "slower" and not ratio.copies
    ]
    return (*sites, *(build.parity.warnings if build.parity else ()), *slower)


def _ratios(build: Build) -> dict[str, dict[str, float]]:
    ratios: dict[str, dict[str, float]] = {}
    for measurement in build.latency.measurements if build.latency else ():
        for ratio in (each for each in measurement.ratios if each.verdict != "inconclusive"):
            ratios.setdefault(ratio.label, {})[measurement.label] = ratio.value
    return ratios
