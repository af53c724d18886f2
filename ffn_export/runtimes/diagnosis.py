"""Diagnose the installation: interpreter, packages, and a trial run of every runtime."""

from __future__ import annotations

import platform
import re
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Literal, NamedTuple

from ffn_export.core.one_line import first_line
from ffn_export.core.processor import processor_name
from ffn_export.core.strict import expose_own
from ffn_export.errors import RuntimeUnavailableError
from ffn_export.runtimes.environment import installed
from ffn_export.runtimes.threads import available_threads

Verdict = Literal["ok", "note", "problem"]
_LOWEST_PYTHON = (3, 11)
_NEEDED = frozenset({"ort-cpu", "reference", "torch"})  # installed with the package, and able to run everywhere


class Finding(NamedTuple):
    """One checked item, with its verdict."""

    subject: str
    verdict: Verdict
    detail: str


def diagnose() -> list[Finding]:
    """Check the interpreter, the packages, and every runtime."""
    return [*_python(), *_packages(), *_onnxruntime_wheels(), *_runtimes()]


def _python() -> Iterator[Finding]:
    fits = sys.version_info[:2] >= _LOWEST_PYTHON
    yield Finding("python", "ok" if fits else "problem", f"{platform.python_version()}, 3.11 or newer is needed")
    yield Finding("processor", "ok", f"{processor_name()}, {available_threads()} threads for this process")


def _packages() -> Iterator[Finding]:
    """Compare the installed packages with the requirements of this one."""
    from packaging.requirements import Requirement

    try:
        requirements = metadata.requires("ffn-export") or []
    except metadata.PackageNotFoundError:
        yield Finding("ffn-export", "problem", "is not installed: run `pip install .` in its checkout")
        return
    for requirement in map(Requirement, requirements):
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        version = installed((requirement.name,)).get(requirement.name)
        if version is None:
            yield Finding(requirement.name, "problem", f"is not installed: run `pip install '{requirement}'`")
        elif not requirement.specifier.contains(re.sub(r"\+.*", "", version), prereleases=True):
            yield Finding(requirement.name, "problem", f"{version} does not fit {requirement.specifier}")
        else:
            yield Finding(requirement.name, "ok", version)


def _onnxruntime_wheels() -> Iterator[Finding]:
    """Check that one wheel is installed: both write the same import package and overwrite each other."""
    wheels = installed(("onnxruntime", "onnxruntime-gpu"))
    if len(wheels) == 2:
        yield Finding(
            "onnxruntime wheels",
            "problem",
            "onnxruntime and onnxruntime-gpu are both installed and overwrite each other: uninstall both, "
            "then install one",
        )
    elif wheels:
        yield Finding("onnxruntime wheels", "ok", f"one: {next(iter(wheels))}")


def _runtimes() -> Iterator[Finding]:
    """Run a linear layer on each runtime; only those in ``_NEEDED`` must be available."""
    try:
        from ffn_export.runtimes.probe_model import Trial
        from ffn_export.runtimes.registry import RUNTIMES
    except Exception as error:  # noqa: BLE001 - whatever breaks here is the finding
        expose_own(error)
        yield Finding("runtimes", "problem", first_line(error))
        return
    with tempfile.TemporaryDirectory() as directory:
        trial = Trial(Path(directory))
        for name, runtime in RUNTIMES.items():
            try:
                yield Finding(name, "ok", trial.run(runtime))
            except RuntimeUnavailableError as error:
                yield Finding(name, "problem" if name in _NEEDED else "note", str(error))
            except Exception as error:  # noqa: BLE001 - as above
                expose_own(error)
                yield Finding(name, "problem", first_line(error))
