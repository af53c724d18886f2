"""The environment of a measurement: versions, processor, threads."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata

from ffn_export.core.plain_data import PlainData
from ffn_export.core.processor import processor_name

# Fields that a timing depends on, besides the versions.
PLACE = ("processor", "system", "threads")
_PACKAGES = (
    "torch",
    "onnx",
    "onnx-ir",
    "onnxscript",
    "onnxruntime",
    "onnxruntime-gpu",
    "onnxruntime-ep-ffn",
    "openvino",
    "tract",
    "numpy",
)


@dataclass(frozen=True)
class Environment(PlainData):
    """The environment of a measurement.

    Attributes:
        versions: Installed package -> version, and ``python``.
        processor: Name of the processor.
        system: Operating system and architecture.
        threads: Intra-op threads of every competitor.
    """

    versions: Mapping[str, str]
    processor: str
    system: str
    threads: int


def current(threads: int) -> Environment:
    """Describe this machine."""
    return Environment(
        versions={"python": platform.python_version(), **installed(_PACKAGES)},
        processor=processor_name(),
        system=f"{platform.system()} {platform.machine()}",
        threads=threads,
    )


def changes(old: Environment | None, new: Environment | None) -> tuple[str, ...]:
    """Return the differences of two environments, one line each."""
    if old is None or new is None:
        return ()
    found = [
        f"{name} {getattr(old, name)} -> {getattr(new, name)}"
        for name in PLACE
        if getattr(old, name) != getattr(new, name)
    ]
    packages = dict.fromkeys([*old.versions, *new.versions])
    found += [
        f"{package} {old.versions.get(package, 'none')} -> {new.versions.get(package, 'none')}"
        for package in packages
        if old.versions.get(package) != new.versions.get(package)
    ]
    return tuple(found)


def installed(packages: tuple[str, ...]) -> dict[str, str]:
    """Return installed package -> version, without importing any."""
    return {package: version for package in packages if (version := _version(package)) is not None}


@cache  # a process that imported a package has the version that it found then
def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
