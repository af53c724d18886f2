"""A wrong model is caught: through the command line, with default options, exit status 1."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from ffn_export.cli.main import run
from ffn_export.core import onnx_file
from ffn_export.core.tensor_spec import TensorSpec
from ffn_export.core.types import Array
from ffn_export.errors import FfnExportError
from ffn_export.exporter.source import Source, resolve
from ffn_export.fusion.targets import TARGETS
from ffn_export.parity.cases.case import sweep
from ffn_export.parity.judging.result import ParityResult
from ffn_export.parity.judging.run_cases import run_cases
from ffn_export.parity.reference.cached_reference import RememberingReference
from ffn_export.parity.reference.references import TorchReference
from ffn_export.runtimes.base import Artifact, Runner
from ffn_export.runtimes.ended_run import DidNotEndError
from ffn_export.runtimes.ort_cpu import OrtCpu
from tests.parity.faults import FAULTS, page
from tests.parity.faults.bases import BASES, SMALL, Base
from tests.parity.faults.fault import Fault, catches
from tests.parity.faults.harmless import HARMLESS

HealthyFile = Callable[[Base], Path]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in a directory of the test's own: verify keeps failing inputs in the current one."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True, scope="module")
def evaluated_once() -> Iterator[None]:
    """Each base's module is drawn from its seed, so what it computes need not be computed for every fault again."""

    @cache
    def remembering(spec: str, inputs: tuple[TensorSpec, ...], threads: int) -> RememberingReference:
        return RememberingReference(resolve(spec, inputs), threads)

    def reference(source: Source, threads: int) -> TorchReference:
        return remembering(source.spec, tuple(source.inputs), threads)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ffn_export.verbs.compared.TorchReference", reference)
        yield


@pytest.fixture(scope="module")
def healthy_file(tmp_path_factory: pytest.TempPathFactory) -> HealthyFile:
    """A base without a fault, written once."""
    folder = tmp_path_factory.mktemp("healthy")

    @cache
    def file(base: Base) -> Path:
        return written(base.graph(), folder / f"{len(list(folder.iterdir()))}.onnx")

    return file


def _cases() -> Iterator[object]:
    met: set[tuple[str, str]] = set()
    for fault in FAULTS:
        # `make test` plants the first fault of each catch on each base, and those that are missed; where a fault is
        # planted into several bases, it takes the first.
        kinds = {(str(catch), fault.on[0]) for catch in fault.caught_by}
        is_usual = fault.missed is not None or not kinds <= met
        met |= kinds
        for index, name in enumerate(fault.on):
            marks = [] if is_usual and not index else [pytest.mark.slow, pytest.mark.exhaustive]
            yield pytest.param(fault, BASES[name], id=f"{fault.name}-{name}", marks=marks)


@pytest.mark.slow
@pytest.mark.no_cover  # many, and they run what other tests do
@pytest.mark.parametrize(("fault", "base"), [*_cases()])
def test_a_fault_is_caught(
    fault: Fault, base: Base, healthy_file: HealthyFile, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    healthy = healthy_file(base)
    faulty = written(fault.plant(base), tmp_path / "faulty.onnx")
    assert faulty.read_bytes() != healthy.read_bytes()
    assert differs(healthy, faulty, base) is fault.shown

    status = run(["verify", str(faulty), *base.arguments, "--json", str(tmp_path / "result.json")])
    if fault.missed is not None:
        assert status == 0, f"{fault.name} is caught now: say by what instead of why it is missed"
        pytest.xfail(fault.missed)
    assert status == 1
    assert "parity failed" in capfd.readouterr().err
    found = catches(ParityResult.from_dict(json.loads((tmp_path / "result.json").read_text())))
    for catch in fault.caught_by:
        assert any(catch.covers(each) for each in found), f"no {catch} among {sorted(set(map(str, found)))}"


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_the_same_command_passes_without_a_fault(name: str, healthy_file: HealthyFile) -> None:
    assert run(["verify", str(healthy_file(BASES[name])), *BASES[name].arguments, "--quiet"]) == 0


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", SMALL)
def test_no_target_and_no_seed_raises_a_false_alarm(name: str, target: str, tmp_path: Path) -> None:
    base = BASES[name]
    healthy = written(base.graph(target), tmp_path / "healthy.onnx")
    source = base.source()
    for seed in range(5):
        cases = sweep(source.inputs, source.example, seed)
        result = run_cases(healthy, TorchReference(source, 2), cases=cases, seed=seed, threads=2)
        assert result.failures == (), f"seed {seed}"


@pytest.mark.slow
@pytest.mark.parametrize(("what", "name", "change"), HARMLESS, ids=[what for what, *_ in HARMLESS])
def test_another_spelling_of_the_same_function_passes(
    what: str, name: str, change: Callable[[ir.Model], None], healthy_file: HealthyFile, tmp_path: Path
) -> None:
    base = BASES[name]
    model = base.graph()
    change(model)
    other = written(model, tmp_path / "other.onnx")
    assert other.read_bytes() != healthy_file(base).read_bytes(), what
    assert run(["verify", str(other), *base.arguments]) == 0, what


@pytest.mark.integration
@pytest.mark.parametrize("device", ["ort-cuda"])
def test_a_runtime_on_another_device_is_not_taken_for_the_one_that_was_named(device: str, tmp_path: Path) -> None:
    # ONNX Runtime would run the model on the CPU and say nothing.
    finished = _in_a_process(tmp_path, "relu", "--runtime", device, CUDA_VISIBLE_DEVICES="-1")
    assert finished.returncode == 3, finished.stderr
    assert f"runtime {device!r} is not available here" in finished.stderr


@pytest.mark.integration
def test_a_fault_is_caught_in_a_process_of_its_own(tmp_path: Path) -> None:
    fault = next(fault for fault in FAULTS if fault.name == "relu6")
    finished = _in_a_process(tmp_path, "relu", plant=fault.graph)
    assert finished.returncode == 1, finished.stderr
    assert "parity failed: ort-cpu, batch=3,seq=5 large" in finished.stderr


def test_names_are_unique_and_every_fault_says_what_catches_it() -> None:
    names = [fault.name for fault in FAULTS]
    assert len(set(names)) == len(names)
    assert len(names) >= 50
    for fault in FAULTS:
        assert fault.caught_by, fault.name
        assert (fault.graph is None) != (fault.module is None), fault.name


def test_the_table_is_what_the_faults_say() -> None:
    text = page.PAGE.read_text()
    assert text == page.current(text), "run `python -m tests.parity.faults.page`"


def written(model: ir.Model, path: Path) -> Path:
    onnx_file.save(model, path)
    return path


def differs(healthy: Path, faulty: Path, base: Base) -> bool:
    """Whether any output differs in any bit on the cases of the sweep, and does so in other sessions too."""
    specs = base.specs
    one, other = OrtCpu().load(Artifact(healthy), 1), _runner(faulty)
    probes = [case.feeds(specs) for case in sweep(specs)]
    found = [_outcome(one, feeds) for feeds in probes]
    assert not all(isinstance(each, str) for each in found), f"the base runs on no case: {found}"
    suspects = (feeds for feeds, own in zip(probes, found, strict=True) if _outcome(other, feeds) != own)
    return any(_outcome(_runner(faulty), feeds) != _outcome(_runner(healthy), feeds) for feeds in suspects)


def _runner(path: Path) -> Runner | None:
    try:
        return OrtCpu().load(Artifact(path), 1)
    except FfnExportError:
        return None


def _outcome(runner: Runner | None, feeds: Mapping[str, Array]) -> object:
    """What a run gives, bit by bit, or that it raises."""
    if runner is None:
        return "not loaded"
    try:
        outputs = runner.run(feeds)
    except DidNotEndError:
        raise  # a machine that is too busy shows no fault
    except Exception:  # noqa: BLE001 - onnxruntime's own exceptions derive from Exception alone
        return "raised"
    return [(name, array.dtype, array.shape, _bits(array)) for name, array in outputs.items()]


def _bits(array: Array) -> bytes:
    """The bits of an array; those of a NaN may differ from run to run."""
    same = array if array.dtype.kind != "f" else np.where(np.isnan(array), np.array(np.nan, array.dtype), array)
    return same.tobytes()


def _in_a_process(
    folder: Path, name: str, *options: str, plant: Callable[[ir.Model], None] | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    model = BASES[name].graph()
    if plant is not None:
        plant(model)
    path = written(model, folder / "model.onnx")
    command = [sys.executable, "-m", "ffn_export.cli.main", "verify", str(path), *BASES[name].arguments, *options]
    root = Path(__file__).parents[2]  # the SPEC names a module of these tests
    return subprocess.run(
        command, cwd=root, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
