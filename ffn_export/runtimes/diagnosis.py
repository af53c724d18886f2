"""What works here, found out by trying."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from typing import Literal

from ffn_export.runtimes.environment import installed, processor_name
from ffn_export.runtimes.ort_accelerator import provider_problem
from ffn_export.runtimes.ort_cuda import CUDA
from ffn_export.runtimes.threads import available_threads

Verdict = Literal["ok", "note", "problem"]
_LOWEST_PYTHON = (3, 11)


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    subject: str
    verdict: Verdict
    detail: str


def diagnose() -> list[Finding]:
    """Look at the interpreter, the packages, the runtimes and the GPU's libraries."""
    return [*_python(), *_packages(), *_onnxruntime_wheels(), *_runtimes(), *_gpu()]


def _python() -> Iterator[Finding]:
    fits = sys.version_info[:2] >= _LOWEST_PYTHON
    yield Finding("python", "ok" if fits else "problem", f"{platform.python_version()}, 3.11 or newer is needed")
    yield Finding("processor", "ok", f"{processor_name()}, {available_threads()} threads for this process")


def _packages() -> Iterator[Finding]:
    """Compare what is installed with what the package asks for."""
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
    """Both wheels install the same import package over each other; which one is there is then chance."""
    wheels = installed(("onnxruntime", "onnxruntime-gpu"))
    if len(wheels) == 2:
        yield Finding(
            "onnxruntime wheels", "problem",
            "onnxruntime and onnxruntime-gpu are both installed and overwrite each other: uninstall both, "
            "then install one",
        )  # fmt: skip
    elif wheels:
        yield Finding("onnxruntime wheels", "ok", f"one: {next(iter(wheels))}")


def _runtimes() -> Iterator[Finding]:
    """Run a one-node model on ONNX Runtime, and a sum in torch."""
    try:
        import numpy as np
        import onnxruntime
        from onnx import parser

        model = parser.parse_model(
            '<ir_version: 10, opset_import: ["": 20]> g (float[2] x) => (float[2] y) {y = Add(x, x)}'
        )
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        (result,) = session.run(None, {"x": np.ones(2, np.float32)})
        works = bool((result == 2).all())
        yield Finding("ort-cpu", "ok" if works else "problem", "ran a model" if works else f"computed {result}")
    except Exception as error:  # noqa: BLE001 - whatever breaks here is the finding
        yield Finding("ort-cpu", "problem", f"{type(error).__name__}: {error}")
    try:
        import torch

        works = float(torch.ones(2).sum()) == 2.0
        yield Finding("torch", "ok" if works else "problem", "ran a sum" if works else "computed a wrong sum")
    except Exception as error:  # noqa: BLE001 - as above
        yield Finding("torch", "problem", f"{type(error).__name__}: {error}")


def _gpu() -> Iterator[Finding]:
    """Start the CUDA provider: the wheel lists it without any driver."""
    try:
        import onnxruntime  # noqa: F401
    except ImportError:
        return
    problem = provider_problem(CUDA)
    yield Finding("cuda", "note" if problem else "ok", problem or "ran a node, and on the GPU alone")
