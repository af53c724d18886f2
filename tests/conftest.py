"""What tests of several parts share: exported presets, made once for the whole run of a process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path

import onnx_ir as ir
import pytest
from hypothesis import HealthCheck, settings
from torch.onnx._internal.exporter import _registration

from ffn_export.core import onnx_file, strict
from ffn_export.errors import for_the_shell
from ffn_export.exporter.export import export_source
from ffn_export.exporter.source import Source, resolve
from ffn_export.fusion.costs import costs
from ffn_export.fusion.pipeline import fuse
from ffn_export.latency.host import Lost
from tests.fusion.graphs import whole
from tests.tuning.planted import Clock

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

# Each worker of pytest-xdist keeps to one processor: its threads would wait for those of the others.
_WORKER = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
if _WORKER and hasattr(os, "sched_setaffinity"):
    processors = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {processors[int(_WORKER) % len(processors)]})

settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "usual"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Trace what the quick tests cover: tracing makes slow ones up to twice as slow and adds little."""
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker("no_cover")


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
def costs_of_one_processor() -> Iterator[None]:
    """Let the table of one processor say which forms are used by default, wherever the tests run."""
    measured = partial(costs, key=("avx512", "GenuineIntel", "6"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ffn_export.fusion.forms.choice.costs", measured)
        yield


@pytest.fixture(autouse=True, scope="session")
def parsed_once() -> Iterator[None]:
    """Each of torch's exports parses the source of its whole operator library; here once is enough."""
    original = _registration.ONNXRegistry.from_torchlib
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_registration.ONNXRegistry, "from_torchlib", staticmethod(cache(original)))
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
