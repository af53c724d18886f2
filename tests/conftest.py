"""What tests of several parts share: exported presets, made once for the whole run of a process."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import onnx_ir as ir
import pytest
import torch
from hypothesis import HealthCheck, settings
from torch._export import utils as _export_utils
from torch.onnx._internal.exporter import _registration

from ffn_export.core import onnx_file, strict
from ffn_export.errors import for_the_shell
from ffn_export.exporter import export
from ffn_export.exporter.export import export_source
from ffn_export.exporter.source import Source, resolve
from ffn_export.fusion.costs import costs
from ffn_export.fusion.pipeline import fuse
from ffn_export.latency import ceilings, measure
from ffn_export.latency.host import Lost
from ffn_export.latency.interleaving import interleave
from ffn_export.runtimes import threads
from tests.exports import remembered
from tests.fusion.graphs import whole
from tests.model_matrix.here import Here
from tests.tuning.planted import Clock
from tests.untraced import untraced

# Property tests: the same examples in every usual run, 2,000 others each night (`make nightly`).
_SLOW_MACHINES = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile(
    "usual", max_examples=100, deadline=None, derandomize=True, database=None, suppress_health_check=_SLOW_MACHINES
)
settings.register_profile(
    "nightly", max_examples=2000, deadline=None, print_blob=True, suppress_health_check=_SLOW_MACHINES
)
# What production turns into a refusal is raised, here and in the processes that tests start.
os.environ[strict.VARIABLE] = "1"

_WORKER = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "usual"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Trace what the quick tests cover: tracing makes slow ones up to twice as slow, and most add little."""
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("traced"):
            item.add_marker("no_cover")


def pytest_collection_finish() -> None:
    """Look for garbage less often, and not among modules and tests: it took a fifth of the time of an export."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000)


def pytest_runtest_logfinish() -> None:
    """Do so again after the first export, for which PyTorch imports and lists most of what stays."""
    if "torch.onnx._internal.exporter._core" in sys.modules:
        _settle()


@cache
def _settle() -> None:
    gc.collect()
    gc.freeze()


@pytest.fixture
def as_in_production(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turn strict mode off, for tests of what a user sees of a fault."""
    monkeypatch.delenv(strict.VARIABLE)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that shows what candidates were planted to take, and no other time."""
    planted = Clock()
    monkeypatch.setattr("ffn_export.latency.interleaving.time", planted)
    monkeypatch.setattr("ffn_export.latency.host.Host.lost", lambda *_: Lost())  # a clock of its own waits for nobody
    return planted


@pytest.fixture(autouse=True, scope="session")
def processors_shared() -> Iterator[None]:
    """Give each worker its part of the processors: threads of two workers on one wait for each other."""
    share = max(1, threads.available_threads() // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))
    torch.set_num_threads(share)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads, "available_threads", lambda: share)
        yield


@pytest.fixture(autouse=True, scope="session")
def costs_of_one_processor() -> Iterator[None]:
    """Let the table of one processor say which forms are used by default, wherever the tests run."""
    measured = partial(costs, key=("avx512", "GenuineIntel", "6"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ffn_export.fusion.forms.choice.costs", measured)
        yield


@pytest.fixture(autouse=True, scope="session")
def registered_briefly() -> Iterator[None]:
    """Each export registers 10,000 kernels in Python; half of that time went to the annotations of a local function."""
    original = torch._ops.OperatorBase.py_impl

    def py_impl(operator: Any, key: Any) -> Callable[..., Any]:
        if type(key) is not torch._C.DispatchKey or key == torch._C.DispatchKey.Python or key in operator.py_kernels:
            return original(operator, key)

        def register(kernel: Callable[..., Any]) -> Callable[..., Any]:
            operator.py_kernels[key] = kernel
            operator._dispatch_cache.clear()
            return kernel

        return register

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch._ops.OperatorBase, "py_impl", py_impl)
        yield


@pytest.fixture(autouse=True, scope="session")
def parsed_once() -> Iterator[None]:
    """Each of torch's exports parses its whole operator library, and lists it twice; here once is enough."""
    original, listed = _registration.ONNXRegistry.from_torchlib, "_collect_all_valid_cia_ops_for_namespace"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_registration.ONNXRegistry, "from_torchlib", staticmethod(cache(original)))
        patch.setattr(_export_utils, listed, cache(getattr(_export_utils, listed)))
        yield


@pytest.fixture(autouse=True, scope="session")
def exported_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A module is exported once in a run: hundreds of tests begin with the same presets."""
    own = tmp_path_factory.getbasetemp()
    shared = (own.parent if _WORKER else own) / "exports"
    shared.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export, "_exported", remembered(export._exported, shared))
        yield


@pytest.fixture
def exported_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Export each time, for tests of the export itself."""
    monkeypatch.setattr(export, "_exported", export._exported.__wrapped__)  # type: ignore[attr-defined]


@pytest.fixture(autouse=True, scope="session")
def limits_measured_once() -> Iterator[None]:
    """The limits of the machine take half a second at every build, or many where a planted clock stands still."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ceilings, "_SQUARE", 256)
        patch.setattr(ceilings, "_INNER", 256 + 16)
        patch.setattr(ceilings, "_seconds", cache(ceilings._seconds))
        yield


@pytest.fixture(autouse=True, scope="session")
def matrix_in_this_process() -> Iterator[None]:
    """A matrix starts a process for each of its groups, which takes seconds to load PyTorch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ffn_export.model_matrix.run.Processes", Here)
        yield


# What takes long and calls no code of this package, but for modules that are traced for an export.
_UNTRACED: dict[Any, tuple[str, ...]] = {
    torch.export: ("export",),
    torch.export.ExportedProgram: ("run_decompositions",),
    torch.onnx: ("export",),
    ir: ("from_proto",),
    ir.Model: ("clone",),
}


@pytest.fixture(autouse=True, scope="session")
def libraries_untraced() -> Iterator[None]:
    """Trace the coverage of this package, not each call within libraries: that took most of the tracer's time."""
    with pytest.MonkeyPatch.context() as patch:
        for owner, names in _UNTRACED.items():
            for name in names:
                patch.setattr(owner, name, untraced(getattr(owner, name)))
        yield


@pytest.fixture(autouse=True, scope="session")
def idle_at_once() -> Iterator[None]:
    """Look for less time whether other threads run before a timed run: times of tests need not be exact."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ffn_export.latency.interleaving._LOOK", 0.001)
        yield


@pytest.fixture(autouse=True, scope="session")
def briefly_timed() -> Iterator[None]:
    """Time for a few rounds only: how steady a time is, the tests of latency ask."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measure, "interleave", lambda calls, budget: interleave(calls, min(budget, 0.001)))
        yield


@cache
def _exported(spec: str, opset: int) -> ir.Model:
    return export_source(resolve(spec), opset)


@cache
def _source(spec: str) -> Source:
    return resolve(spec)


@pytest.fixture(scope="session")
def source() -> Callable[[str], Source]:
    """A preset's source."""
    return _source


@pytest.fixture
def shell_words() -> Iterator[None]:
    """Let messages name options, as they do for the command line."""
    with for_the_shell():
        yield


@pytest.fixture
def fused_file(tmp_path: Path) -> Callable[..., Path]:
    """Write a preset, exported and fused, and return its path."""

    def write(spec: str, target: str = "ort-cpu", opset: int = 20) -> Path:
        path = tmp_path / f"{spec}-{target}-{opset}.onnx"
        onnx_file.save(fuse(_exported(spec, opset), target, forms=whole(target))[0], path)
        return path

    return write
