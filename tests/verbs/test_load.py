"""Bundles under another onnxruntime than that of the verification."""

from __future__ import annotations

import json
from pathlib import Path

import onnxruntime
import pytest

import ffn_export as fx
from ffn_export.errors import RuntimeUnavailableError
from ffn_export.runtimes.ort_session import OLDEST
from tests.exporter.helpers import refusal
from tests.packaging.test_distribution import PROJECT

pytestmark = pytest.mark.slow  # a bundle is built


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fx.build("d2l-ffn", directory=tmp_path_factory.mktemp("exported"), bench_budget=0).directory


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
