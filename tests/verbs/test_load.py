"""Bundles under another onnxruntime than that of the verification."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import ffn_export as fx
from ffn_export.errors import RuntimeUnavailableError, UsageError
from ffn_export.runtimes.ort_session import OLDEST
from tests.exporter.helpers import refusal
from tests.packaging.test_distribution import PROJECT

pytestmark = pytest.mark.slow  # a bundle is built


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fx.build("d2l-ffn", directory=tmp_path_factory.mktemp("exported"), bench_budget=0).directory


def test_names_that_are_no_text_are_told_too(built: Path) -> None:
    with pytest.raises(fx.UsageError, match="the model takes x; got 1, x"):
        fx.load(built).run({1: 0, "x": 0})  # type: ignore[dict-item]


def test_another_version_is_warned_of(built: Path) -> None:
    manifest = json.loads((built / "manifest.json").read_text())
    for name in ("onnxruntime", "onnxruntime-gpu"):
        manifest["environment"]["versions"][name] = "9.9.9"
    (built / "manifest.json").write_text(json.dumps(manifest))
    with pytest.warns(UserWarning, match=rf"verified on onnxruntime 9\.9\.9 .* oldest that works is {OLDEST}"):
        fx.load(built)


def test_one_that_is_too_old_is_refused(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnxruntime, "InferenceSession", object)
    monkeypatch.setattr("ffn_export.verbs.load._check_version", lambda *_: None)
    assert f"is too old: install {OLDEST} or newer" in refusal(RuntimeUnavailableError, fx.load, built)


def test_the_oldest_is_the_declared_one() -> None:
    assert any(dependency.startswith(f"onnxruntime>={OLDEST};") for dependency in PROJECT["dependencies"])


def test_sizes_are_within_the_bounds_of_their_axes(tmp_path: Path) -> None:
    session = fx.load(fx.build("d2l-ffn", {"x": "float32[batch>=1,seq<=6,4]"}, directory=tmp_path, fast=True).directory)
    assert session.run({"x": np.zeros((1, 6, 4), np.float32)})["y"].shape == (1, 6, 4)
    for shape, line in (
        ((1, 7, 4), "axis 'seq' is 7 in input 'x', the bundle declares seq<=6"),
        ((0, 6, 4), "axis 'batch' is 0 in input 'x', the bundle declares 1<=batch"),
    ):
        assert line in refusal(UsageError, session.run, {"x": np.zeros(shape, np.float32)})


def test_axes_of_one_name_have_one_size(tmp_path: Path) -> None:
    session = fx.load(fx.build("d2l-addnorm", directory=tmp_path, fast=True).directory)
    x, y = np.zeros((2, 3, 4), np.float32), np.zeros((5, 3, 4), np.float32)
    first, second = (tensor["name"] for tensor in session.manifest.inputs)
    with pytest.raises(UsageError, match=rf"axis 'batch' is 2 in input '{first}' and 5 in '{second}': give one size"):
        session.run({first: x, second: y})
    with pytest.raises(UsageError, match="inputs are a mapping of names to arrays, got list"):
        session.run([x, y])  # type: ignore[arg-type]
