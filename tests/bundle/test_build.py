"""A bundle is whole or absent, says what it holds, and runs as it was verified."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

import ffn_export as fx
from executed import executed_kernels
from ffn_export.bundle.describe import provider
from ffn_export.bundle.manifest import read_manifest
from ffn_export.errors import GateError, IntegrityError, RuntimeUnavailableError, UsageError
from ffn_export.runtimes import ort_native
from ffn_export.runtimes.base import Artifact
from ffn_export.runtimes.ort_cuda import CUDA
from ffn_export.runtimes.ort_session import CPU
from ffn_export.runtimes.registry import get_runtime
from tests.bundle import killed_builds
from tests.embed.bundles import with_manifest


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fx.build("d2l-ffn-addnorm", directory=tmp_path_factory.mktemp("exported"), bench_budget=0.001).directory


@pytest.mark.slow
def test_bundle_holds_model_manifest_vectors_and_reports(bundle: Path) -> None:
    files = {path.relative_to(bundle).as_posix() for path in bundle.rglob("*") if path.is_file()}
    vectors = {"test_data_set_0/input_0.pb", "test_data_set_0/output_0.pb"}
    results = {"fusion.json", "parity.json", "latency.json", "sites.json", "report.html"}
    assert files == {"manifest.json", "model.onnx"} | results | vectors
    manifest = read_manifest(bundle)
    assert set(manifest.files) == files - {"manifest.json"}
    assert manifest.source["spec"] == "d2l-ffn-addnorm"
    assert manifest.inputs[0] == {"name": "x", "dtype": "float32", "shape": ["batch", "seq", 4]}
    assert manifest.parity["passed"] is True
    assert manifest.operators_outside_standard == ()
    assert manifest.environment is not None
    assert not [name for name in os.listdir(bundle.parent) if name.startswith(".")]


@pytest.mark.slow
def test_the_models_reports_read_back_as_results(bundle: Path) -> None:
    parity = fx.ParityResult.from_dict(json.loads((bundle / "parity.json").read_text()))
    assert parity.passed
    assert not parity.rejudged(fx.Tolerances(baseline_factor=0, floor_ulps=0)).passed
    fusion = fx.FusionReport.from_dict(json.loads((bundle / "fusion.json").read_text()))
    assert fusion.count("feed_forward") == 1
    assert fx.LatencyResult.from_dict(json.loads((bundle / "latency.json").read_text())).baseline == "torch"


@pytest.mark.slow
def test_loaded_session_runs_the_vectors_under_the_recorded_options(bundle: Path) -> None:
    session = fx.load(bundle)
    assert session.providers == ["CPUExecutionProvider"]
    x, y = (_vector(bundle, kind) for kind in ("input", "output"))
    assert np.abs(session.run({"x": x})["y"] - y).max() < 1e-6
    kernels = executed_kernels(bundle / "model.onnx", session.manifest.session_options, {"x": x})
    assert [k.operator for k in kernels] == [
        "MatMul",
        "Add",
        "Relu",
        "MatMul",
        "Add",
        "Add",
        "LayerNormalization",
    ]


@pytest.mark.slow
def test_the_provider_is_that_of_the_target_where_it_judged(bundle: Path) -> None:
    """There is no GPU here, so the case that it judged has its name alone."""
    parity = fx.ParityResult.from_dict(json.loads((bundle / "parity.json").read_text()))
    on_gpu = replace(parity, cases=tuple(replace(case, runtime="ort-cuda") for case in parity.cases))
    assert (provider("ort-cuda", on_gpu).name, provider("ort-cuda", on_gpu).options["use_tf32"]) == (CUDA.name, "0")
    assert provider("ort-cuda", parity) == provider("ort-cpu", on_gpu) == CPU
    assert read_manifest(bundle).provider_options == CPU.options == {}
    native = replace(parity, cases=tuple(replace(case, runtime="ort-native-bf16") for case in parity.cases))
    assert provider("ort-native", native, ort_native.BFLOAT16) == ort_native.BFLOAT16.provider
    assert provider("ort-native", parity, ort_native.BFLOAT16) == provider("ort-cpu", native) == CPU


def test_a_bundle_runs_on_its_own_provider_or_not_at_all(bundle: Path, tmp_path: Path) -> None:
    for name, error in (("CUDAExecutionProvider", RuntimeUnavailableError), ("AnotherProvider", UsageError)):
        copied = with_manifest(bundle, tmp_path / name, provider=name)
        has_gpu = get_runtime("ort-cuda").unavailable(Artifact(bundle / "model.onnx")) is None
        if has_gpu and error is RuntimeUnavailableError:
            assert fx.load(copied).providers[0] == name
            continue
        with pytest.raises(error):
            fx.load(copied)


def test_session_names_what_it_takes(bundle: Path) -> None:
    session = fx.load(bundle)
    with pytest.raises(UsageError, match="the model takes x; got z"):
        session.run({"z": np.zeros((1, 1, 4), np.float32)})
    for shape in ((1, 1, 5), (1, 4)):
        with pytest.raises(UsageError, match=r"the shape \[.*\], the model takes \[batch,seq,4\]"):
            session.run({"x": np.zeros(shape, np.float32)})
    with pytest.raises(UsageError, match="float64, the model takes float32"):
        session.run({"x": np.zeros((1, 1, 4))})


@pytest.mark.slow
def test_loading_a_bundle_needs_no_torch(bundle: Path) -> None:
    code = f"import sys, ffn_export as fx; fx.load({str(bundle)!r}); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def _vector(bundle: Path, kind: str) -> np.ndarray:
    proto = onnx.load_tensor(bundle / "test_data_set_0" / f"{kind}_0.pb")
    return onnx.numpy_helper.to_array(proto)


def _copy(bundle: Path, to: Path) -> Path:
    subprocess.run(["cp", "-r", str(bundle), str(to)], check=True)
    return to


def test_a_changed_model_is_refused(bundle: Path, tmp_path: Path) -> None:
    copy = _copy(bundle, tmp_path / "copy")
    data = bytearray((copy / "model.onnx").read_bytes())
    data[-40] ^= 1
    (copy / "model.onnx").write_bytes(bytes(data))
    with pytest.raises(IntegrityError, match=r"model\.onnx is not the file that was verified"):
        fx.load(copy)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("{", "is no JSON"),
        ("[]", "does not follow the manifest schema"),
        ('{"schema_version": 4}', "does not follow the manifest schema"),
        ('{"schema_version": 3}', "has manifest version 3, this release reads 4: build it again"),
        ('{"schema_version": 5}', "read it with a newer ffn-export"),
    ],
)
def test_a_broken_manifest_is_refused(bundle: Path, tmp_path: Path, text: str, word: str) -> None:
    copy = _copy(bundle, tmp_path / "copy")
    (copy / "manifest.json").write_text(text)
    with pytest.raises(IntegrityError, match=word) as caught:
        fx.load(copy)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("location", ["../outside.bin", "/etc/hostname", "unlisted.bin"])
def test_external_data_outside_the_bundle_or_its_manifest_is_refused(
    bundle: Path, tmp_path: Path, location: str
) -> None:
    copy = _copy(bundle, tmp_path / "copy")
    for name in ("unlisted.bin", "../outside.bin"):
        (copy / name).write_bytes(bytes(1024))
    model = onnx.load(copy / "model.onnx")
    weight = next(t for t in model.graph.initializer if list(t.dims) == [4, 8])
    weight.ClearField("raw_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value=location)
    (copy / "model.onnx").write_bytes(model.SerializeToString())
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["files"]["model.onnx"] = hashlib.sha256((copy / "model.onnx").read_bytes()).hexdigest()
    (copy / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(IntegrityError, match=r"outside the bundle|does not list"):
        fx.load(copy)


@pytest.mark.slow
def test_a_failed_gate_leaves_the_old_bundle(bundle: Path, tmp_path: Path) -> None:
    copy = _copy(bundle, tmp_path / "d2l-ffn-addnorm")
    before = (copy / "manifest.json").read_bytes()
    with pytest.raises(GateError, match=r"1 of 1 feed_forward sites are in the target's form, 2 required") as caught:
        fx.build("d2l-ffn-addnorm", directory=tmp_path, require_fusion={"feed_forward": 2})
    assert isinstance(caught.value.result, fx.Build)
    with pytest.raises(GateError, match=r"takes .* x torch|was not measured"):
        fx.build("d2l-ffn-addnorm", directory=tmp_path, max_ratio=1e-6, bench_budget=0.001)
    assert (copy / "manifest.json").read_bytes() == before
    assert os.listdir(tmp_path) == ["d2l-ffn-addnorm"]


def test_what_is_no_bundle_is_never_replaced(tmp_path: Path) -> None:
    mine = tmp_path / "d2l-ffn"
    mine.mkdir()
    (mine / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match="is no bundle and is not replaced"):
        fx.build("d2l-ffn", directory=tmp_path)
    assert (mine / "thesis.tex").read_text() == "years of work"
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="in the way"):
        fx.build("d2l-ffn", directory=tmp_path, name="file")


def test_a_place_that_cannot_be_written_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write to"):
        fx.build("d2l-ffn", directory=tmp_path / "file" / "exported")


@pytest.fixture(scope="module")
def changes(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> int:
    """Number of changes of files in a build that takes the place of another."""
    directory = tmp_path_factory.mktemp("whole")
    _copy(bundle, directory / "d2l-ffn-addnorm")
    return killed_builds.build("d2l-ffn-addnorm", directory) or 0


@pytest.mark.integration
@pytest.mark.parametrize("moments", [3, pytest.param(30, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize(
    "old", [pytest.param(False, id="none before", marks=pytest.mark.exhaustive), pytest.param(True, id="one before")]
)
def test_killed_at_any_point_it_leaves_the_old_bundle_or_none(
    bundle: Path, tmp_path: Path, old: bool, moments: int, changes: int
) -> None:
    """Kill real builds at moments spread over all that they write and move, and look at what is there."""
    destination = tmp_path / "d2l-ffn-addnorm"
    if old:
        _copy(bundle, destination)
    assert changes > 20
    for moment in range(moments):
        kill_at = changes - 1 - moment * changes // moments
        assert killed_builds.build("d2l-ffn-addnorm", tmp_path, kill_at) is None
        if destination.exists():
            session = fx.load(destination)  # checks every hash of what it loads
            assert session.run({"x": np.zeros((1, 1, 4), np.float32)})["y"].shape == (1, 1, 4)
    killed_builds.build("d2l-ffn-addnorm", tmp_path)
    fx.load(destination)
    assert sorted(os.listdir(tmp_path)) == ["d2l-ffn-addnorm"], "leftovers of killed builds are cleared"


@pytest.mark.slow
def test_pytorch_has_its_threads_back(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    fx.build("d2l-ffn", directory=tmp_path, threads=before + 1, bench_budget=0, runtimes=["ort-cpu"])
    assert torch.get_num_threads() == before
